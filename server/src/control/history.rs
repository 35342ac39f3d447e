//! REDOUBLE.HISTORY.

use super::words::ControlArgs;
use super::{Answer, Caller, Control, Family};
use crate::history::Entry;
use crate::resp::{Protocol, Reply, encode};

pub(super) const FAMILY: Family = Family {
    name: "HISTORY",
    suits_proxies: false,
    run,
    help: &[
        (
            "[ON <node>] [<n>]",
            "The latest n commands, or all that are kept, oldest first: time in microseconds, client, command, and the reply as RESP2 writes it (nil while it waits).",
        ),
        ("HELP", "This."),
    ],
};

fn run(control: &Control, caller: Caller<'_>, words: &mut ControlArgs<'_>) -> Answer {
    let handle = control.meant(caller, words)?;
    let wanted = if words.is_empty() {
        usize::MAX
    } else {
        words.number("a number of commands")?
    };
    words.end()?;
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
