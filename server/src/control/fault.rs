//! The command REDOUBLE.FAULT.

use super::args::ControlArgs;
use super::{Caller, Control, ControlCommand, ControlResult, error};
use crate::fault::{MessageRule, parse};
use crate::resp::{OwnedRequest, Reply};

pub(super) const COMMAND: ControlCommand = ControlCommand {
    name: "FAULT",
    works_on_proxies: true,
    run,
    help: &[
        (
            "ADD <name> [<word> ...]",
            "Installs a fault and returns its id. Example: ADD drop_reply COMMAND SET KEY coupon:* NTH 1.",
        ),
        (
            "DEL <id> [<id> ...]",
            "Removes faults; returns the number removed.",
        ),
        ("CLEAR", "Removes all faults; returns the number removed."),
        ("FIRED <id>", "Number of messages that the fault has hit."),
        (
            "LIST",
            "The faults of the node, each with its id, the number of messages hit, and its words.",
        ),
        (
            "ON <node> <subcommand>",
            "Runs the subcommand on another node. Each node has ids of its own.",
        ),
        ("HELP <name>", "The arguments and conditions of a fault."),
        (
            "HELP",
            "Prints this. Faults: delay, hold, drop_request, drop_reply, cut, disconnect, answer_error, half_open, stall, partition.",
        ),
    ],
};

/// Limit of faults that are installed over the wire, per node.
const RULES_MAX: usize = 10_000;

fn run(control: &Control, caller: Caller<'_>, args: &mut ControlArgs<'_>) -> ControlResult {
    let owner = control.rules_owner(caller, args)?;
    let plan = owner.plan();
    let fired = |id: u64| {
        let all = plan.list(|of, fired, _| (of, fired));
        all.into_iter().find(|(of, _)| *of == id)
    };
    if args.has("ADD") {
        let name = args.text("the name of a fault")?;
        let rule = parse(name, args.all()).map_err(|wrong| {
            error(format!(
                "{wrong}; see REDOUBLE.FAULT HELP, and REDOUBLE.NODE HELP for faults of a node"
            ))
        })?;
        if plan.list(|_, _, _| ()).len() >= RULES_MAX {
            return Err(error(format!("{RULES_MAX} faults are the maximum")));
        }
        let (id, _) = plan.install(rule);
        return Ok(int(id));
    }
    if args.has("DEL") {
        let mut ids: Vec<u64> = vec![args.number("an id")?];
        while !args.is_empty() {
            ids.push(args.number("an id")?);
        }
        let gone = ids.into_iter().filter(|id| plan.remove(*id)).count();
        return Ok(int(gone as u64));
    }
    if args.has("CLEAR") {
        args.end()?;
        return Ok(int(plan.clear() as u64));
    }
    if args.has("FIRED") {
        let id: u64 = args.number("an id")?;
        args.end()?;
        let found = fired(id).ok_or_else(|| error(format!("there is no fault {id}")))?;
        return Ok(int(found.1));
    }
    if args.has("LIST") {
        args.end()?;
        return Ok(Reply::Array(plan.list(describe)));
    }
    Err(args.unknown())
}

fn int(n: u64) -> Reply {
    Reply::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

fn describe(id: u64, fired: u64, rule: &dyn MessageRule) -> Reply {
    let args = match rule.words() {
        Some(words) => OwnedRequest::new(words.iter().map(Vec::as_slice)).to_string(),
        None => format!("{rule:?}"),
    };
    Reply::Map(vec![
        (Reply::bulk("id"), int(id)),
        (Reply::bulk("fired"), int(fired)),
        (Reply::bulk("fault"), Reply::bulk(args)),
    ])
}
