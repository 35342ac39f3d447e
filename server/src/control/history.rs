//! The command REDOUBLE.HISTORY.

use super::args::ControlArgs;
use super::{Caller, Control, ControlCommand, ControlResult};
use crate::history::Entry;
use crate::resp::{Protocol, Reply, encode};

pub(super) const COMMAND: ControlCommand = ControlCommand {
    name: "HISTORY",
    works_on_proxies: false,
    run,
    help: &[
        (
            "[ON <node>] [<n>]",
            "The latest n commands, or all that are kept, oldest first: time in microseconds, client, command, and the reply in RESP2 (nil while the client is blocked).",
        ),
        ("HELP", "Prints this."),
    ],
};

fn run(control: &Control, caller: Caller<'_>, args: &mut ControlArgs<'_>) -> ControlResult {
    let handle = control.target(caller, args)?;
    let wanted = if args.is_empty() {
        usize::MAX
    } else {
        args.number("a number of commands")?
    };
    args.end()?;
    let history = handle.shared.history();
    let entries = history.entries();
    let skipped = entries.len().saturating_sub(wanted);
    Ok(Reply::Array(entries.skip(skipped).map(describe).collect()))
}

fn describe(entry: &Entry) -> Reply {
    let request = entry.request.as_request();
    let args = request.iter().flat_map(|request| request.iter());
    let reply = entry.reply.as_ref().map_or(Reply::Nil, |reply| {
        let mut bytes = Vec::new();
        encode(reply, Protocol::Resp2, &mut bytes);
        Reply::bulk(bytes)
    });
    Reply::Array(vec![
        Reply::Int(entry.at.0),
        Reply::Int(i64::try_from(entry.client_id).unwrap_or(i64::MAX)),
        Reply::Array(args.map(Reply::bulk).collect()),
        reply,
    ])
}
