//! REDOUBLE.FAULT.

use super::words::ControlArgs;
use super::{Answer, Caller, Control, Family, error};
use crate::fault::{MessageRule, parse};
use crate::resp::{OwnedRequest, Reply};

pub(super) const FAMILY: Family = Family {
    name: "FAULT",
    suits_proxies: true,
    run,
    help: &[
        (
            "ADD <name> [<word> ...]",
            "Installs a fault; its id. As in ADD drop_reply COMMAND SET KEY coupon:* NTH 1.",
        ),
        (
            "DEL <id> [<id> ...]",
            "Removes faults; how many there were.",
        ),
        ("CLEAR", "Removes all faults; how many there were."),
        ("FIRED <id>", "How many messages a fault has hit."),
        (
            "LIST",
            "The faults of the node: the id of each, how often it has fired, and its words.",
        ),
        (
            "ON <node> <subcommand>",
            "The same for another node. Ids count on each node.",
        ),
        ("HELP <name>", "The words that a fault takes."),
        (
            "HELP",
            "This. Faults: delay, hold, drop_request, drop_reply, cut, disconnect, error_reply, half_open, stall, partition.",
        ),
    ],
};

/// Rules that a node may have from over the wire.
const RULES_MAX: usize = 10_000;

fn run(control: &Control, caller: Caller<'_>, words: &mut ControlArgs<'_>) -> Answer {
    let owner = control.ruled(caller, words)?;
    let plan = owner.plan();
    let fired = |id: u64| {
        let all = plan.list(|of, fired, _| (of, fired));
        all.into_iter().find(|(of, _)| *of == id)
    };
    if words.has("ADD") {
        let name = words.text("the name of a fault")?;
        let rule = parse(name, words.all()).map_err(|wrong| {
            error(format!(
                "{wrong}; see REDOUBLE.FAULT HELP, and REDOUBLE.NODE HELP for faults of a node"
            ))
        })?;
        if plan.list(|_, _, _| ()).len() >= RULES_MAX {
            return Err(error(format!("there are {RULES_MAX} faults already")));
        }
        let (id, _) = plan.install(rule);
        return Ok(int(id));
    }
    if words.has("DEL") {
        let mut ids: Vec<u64> = vec![words.number("an id")?];
        while !words.is_empty() {
            ids.push(words.number("an id")?);
        }
        let gone = ids.into_iter().filter(|id| plan.remove(*id)).count();
        return Ok(int(gone as u64));
    }
    if words.has("CLEAR") {
        words.end()?;
        return Ok(int(plan.clear() as u64));
    }
    if words.has("FIRED") {
        let id: u64 = words.number("an id")?;
        words.end()?;
        let found = fired(id).ok_or_else(|| error(format!("there is no fault {id}")))?;
        return Ok(int(found.1));
    }
    if words.has("LIST") {
        words.end()?;
        return Ok(Reply::Array(plan.list(describe)));
    }
    Err(words.unknown())
}

fn int(n: u64) -> Reply {
    Reply::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

fn describe(id: u64, fired: u64, rule: &dyn MessageRule) -> Reply {
    let words = match rule.words() {
        Some(words) => OwnedRequest::new(words.iter().map(Vec::as_slice)).to_string(),
        None => format!("{rule:?}"),
    };
    Reply::Map(vec![
        (Reply::bulk("id"), int(id)),
        (Reply::bulk("fired"), int(fired)),
        (Reply::bulk("fault"), Reply::bulk(words)),
    ])
}
