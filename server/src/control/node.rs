//! REDOUBLE.NODE.

use super::words::ControlArgs;
use super::{Answer, Caller, Control, Family, error};
use crate::disk::Loss;
use crate::fault::Ruled as _;
use crate::node_handle::NodeHandle;
use crate::resp::{ErrorReply, Reply};
use crate::topology::{Lag, Network};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(super) const FAMILY: Family = Family {
    name: "NODE",
    suits_proxies: false,
    run,
    help: &[
        (
            "LIST",
            "The nodes: the name of each, its port, its role, and how it is.",
        ),
        (
            "PAUSE <node> | RESUME <node>",
            "The node serves nobody until it is resumed; input queues. It still takes these commands.",
        ),
        (
            "CRASH <node> [EVERYTHING | NOTHING | LAST <writes>] [RESTART <ms>]",
            "Kills the node as kill -9 does; what it loses is a matter of its persistence unless said.",
        ),
        (
            "RESTART <node> [<ms>]",
            "Starts a node again that has crashed, at once or later.",
        ),
        (
            "PROMOTE <node>",
            "Makes a replica a master with what it holds; its master is not told.",
        ),
        (
            "FOLLOW <node> <master>",
            "Makes a node the replica of another.",
        ),
        (
            "FAILOVER <node>",
            "Makes a replica the master, whom the others of its master and that master itself follow.",
        ),
        (
            "LAG <node> <ms> | LAG <node> UNITS <n>",
            "What was written reaches the replica later, or all but the latest n writes do.",
        ),
        (
            "CUT <node> | HEAL <node>",
            "Cuts the link between a replica and its master, or lets it work again.",
        ),
        (
            "SPLIT <node> [<node> ...]",
            "These nodes and all others do not hear each other; clients reach all of them.",
        ),
        (
            "HEALALL",
            "Ends every split, every link that is cut and every fault rule, on all nodes.",
        ),
        (
            "EVICT <node> <key> [DB <n>]",
            "A key is gone, as if memory had run short; 0 when it is not there.",
        ),
        (
            "FLUSHSCRIPTS <node>",
            "The node forgets all scripts: NOSCRIPT.",
        ),
        (
            "LAZYEXPIRY <node> ON | OFF",
            "Keys past their deadline go only when somebody looks at them, or by themselves again.",
        ),
        ("HELP", "This."),
    ],
};

/// Splits that may stand at once.
const SPLITS_MAX: usize = 100;

type Run = fn(&Control, Caller<'_>, usize, &mut ControlArgs<'_>) -> Answer;

/// What is done to one node.
const SUBCOMMANDS: &[(&str, Run)] = &[
    ("PAUSE", pause),
    ("RESUME", resume),
    ("CRASH", crash),
    ("RESTART", restart),
    ("PROMOTE", promote),
    ("FOLLOW", follow),
    ("FAILOVER", fail_over),
    ("LAG", lag),
    ("CUT", cut),
    ("HEAL", heal),
    ("EVICT", evict),
    ("FLUSHSCRIPTS", flush_scripts),
    ("LAZYEXPIRY", lazy_expiry),
];

fn run(control: &Control, caller: Caller<'_>, words: &mut ControlArgs<'_>) -> Answer {
    if words.has("LIST") {
        words.end()?;
        let places = 0..control.nodes.len();
        return Ok(Reply::Array(
            places.map(|at| describe(control, at)).collect(),
        ));
    }
    if words.has("SPLIT") {
        return split(control, words);
    }
    if words.has("HEALALL") {
        return heal_all(control, words);
    }
    for (name, run) in SUBCOMMANDS {
        if words.has(name) {
            let place = control.place(words.take("the name of a node")?)?;
            return run(control, caller, place, words);
        }
    }
    Err(words.unknown())
}

fn describe(control: &Control, place: usize) -> Reply {
    let mut pairs = Vec::new();
    let mut tell = |name: &'static str, value| pairs.push((Reply::bulk(name), value));
    tell("name", Reply::bulk(&control.nodes[place].name));
    let Ok(handle) = control.handle(place) else {
        tell("state", Reply::bulk("down"));
        return Reply::Map(pairs);
    };
    let (state, port, is_replica) = {
        let node = handle.shared.node();
        let state = if node.is_crashed() {
            "crashed"
        } else if node.is_paused() {
            "paused"
        } else {
            "up"
        };
        let engine = node.engine.state();
        (state, engine.config.port, engine.replication.is_replica())
    };
    tell("state", Reply::bulk(state));
    tell("port", Reply::Int(port.into()));
    tell(
        "role",
        Reply::bulk(if is_replica { "replica" } else { "master" }),
    );
    let Some(network) = &control.network else {
        return Reply::Map(pairs);
    };
    let masters = network.masters();
    if let Some((_, master)) = masters.iter().find(|(of, _)| *of == place) {
        tell("follows", Reply::bulk(&control.nodes[*master].name));
        tell("cut", Reply::Int(network.is_cut(place).into()));
        match network.lag(place) {
            Lag::Time(lag) => tell("lag_ms", Reply::Int(lag.as_millis() as i64)),
            Lag::Units(units) => tell("lag_units", Reply::Int(units as i64)),
        }
        tell("in_flight", Reply::Int(network.in_flight(place) as i64));
    }
    Reply::Map(pairs)
}

/// A node that runs.
fn running(control: &Control, place: usize) -> Result<Arc<NodeHandle>, ErrorReply> {
    let handle = control.handle(place)?;
    if handle.shared.node().is_crashed() {
        let name = &control.nodes[place].name;
        return Err(error(format!("{name} has crashed: RESTART it first")));
    }
    Ok(handle)
}

fn pause(control: &Control, _: Caller<'_>, place: usize, words: &mut ControlArgs<'_>) -> Answer {
    words.end()?;
    running(control, place)?.shared.node().pause();
    Ok(Reply::Ok)
}

fn resume(control: &Control, _: Caller<'_>, place: usize, words: &mut ControlArgs<'_>) -> Answer {
    words.end()?;
    running(control, place)?.resume();
    Ok(Reply::Ok)
}

fn crash(
    control: &Control,
    caller: Caller<'_>,
    place: usize,
    words: &mut ControlArgs<'_>,
) -> Answer {
    let handle = running(control, place)?;
    let loss = if words.has("EVERYTHING") {
        Loss::Everything
    } else if words.has("NOTHING") {
        Loss::Nothing
    } else if words.has("LAST") {
        Loss::Last(words.number("a number of writes")?)
    } else {
        Loss::AsConfigured
    };
    let restart = words.has("RESTART").then(|| words.millis()).transpose()?;
    words.end()?;
    if matches!(loss, Loss::Last(_)) && !handle.shared.node().has_disk() {
        return Err(error(
            "a server without persistence cannot lose but the latest writes: start it with --persistence",
        ));
    }
    if restart.is_none() && !can_be_asked_after(control, caller, &handle) {
        return Err(error(
            "nobody could be asked to restart it: say RESTART <ms>, or start the server with --control-port",
        ));
    }
    if std::ptr::eq(&raw const *handle, caller.handle) {
        handle.shared.spare(caller.link);
    }
    handle.crash(loss);
    if let Some(delay) = restart {
        handle.restart_in(delay);
    }
    Ok(Reply::Ok)
}

/// Whether somebody takes orders when this node has crashed.
fn can_be_asked_after(control: &Control, caller: Caller<'_>, handle: &Arc<NodeHandle>) -> bool {
    caller.handle.shared.orders.are_alone()
        || control
            .handles()
            .iter()
            .any(|other| !Arc::ptr_eq(other, handle) && !other.shared.node().is_crashed())
}

fn restart(control: &Control, _: Caller<'_>, place: usize, words: &mut ControlArgs<'_>) -> Answer {
    let delay = if words.is_empty() {
        Duration::ZERO
    } else {
        words.millis()?
    };
    words.end()?;
    control.handle(place)?.restart_in(delay);
    Ok(Reply::Ok)
}

fn network(control: &Control) -> Result<&Network, ErrorReply> {
    let network = control.network.as_ref();
    network.ok_or_else(|| error("this server stands alone: there are no others"))
}

fn promote(control: &Control, _: Caller<'_>, place: usize, words: &mut ControlArgs<'_>) -> Answer {
    words.end()?;
    network(control)?.follow(place, None);
    control.settle();
    Ok(Reply::Ok)
}

fn follow(control: &Control, _: Caller<'_>, place: usize, words: &mut ControlArgs<'_>) -> Answer {
    let network = network(control)?;
    let master = control.place(words.take("the name of its master")?)?;
    words.end()?;
    if master == place {
        return Err(error("a node cannot follow itself"));
    }
    network.follow(place, Some(master));
    control.settle();
    Ok(Reply::Ok)
}

fn fail_over(
    control: &Control,
    _: Caller<'_>,
    place: usize,
    words: &mut ControlArgs<'_>,
) -> Answer {
    words.end()?;
    network(control)?.fail_over_to(place);
    control.settle();
    Ok(Reply::Ok)
}

fn lag(control: &Control, _: Caller<'_>, place: usize, words: &mut ControlArgs<'_>) -> Answer {
    let network = network(control)?;
    let lag = if words.has("UNITS") {
        Lag::Units(words.number("a number of writes")?)
    } else {
        Lag::Time(words.millis()?)
    };
    words.end()?;
    network.set_lag(place, lag);
    control.settle();
    Ok(Reply::Ok)
}

fn cut(control: &Control, _: Caller<'_>, place: usize, words: &mut ControlArgs<'_>) -> Answer {
    set_cut(control, place, true, words)
}

fn heal(control: &Control, _: Caller<'_>, place: usize, words: &mut ControlArgs<'_>) -> Answer {
    set_cut(control, place, false, words)
}

fn set_cut(control: &Control, place: usize, is_cut: bool, words: &mut ControlArgs<'_>) -> Answer {
    words.end()?;
    let network = network(control)?;
    if !network.masters().iter().any(|(of, _)| *of == place) {
        let name = &control.nodes[place].name;
        return Err(error(format!("{name} follows nobody: it has no link")));
    }
    match is_cut {
        true if network.is_cut(place) => {}
        true => drop(network.cut(place)),
        false => network.mend(place),
    }
    control.settle();
    Ok(Reply::Ok)
}

fn split(control: &Control, words: &mut ControlArgs<'_>) -> Answer {
    let network = network(control)?;
    let mut away = BTreeSet::from([control.place(words.take("the name of a node")?)?]);
    while let Some(name) = words.next() {
        away.insert(control.place(name)?);
    }
    if away.len() == control.nodes.len() {
        return Err(error("a split needs nodes on both sides"));
    }
    if network.splits() >= SPLITS_MAX {
        return Err(error(format!("there are {SPLITS_MAX} splits already")));
    }
    network.split(away);
    control.settle();
    Ok(Reply::Ok)
}

fn heal_all(control: &Control, words: &mut ControlArgs<'_>) -> Answer {
    words.end()?;
    if let Some(network) = &control.network {
        network.heal_all();
        control.settle();
    }
    for handle in control.handles() {
        handle.plan().clear();
    }
    Ok(Reply::Ok)
}

fn evict(control: &Control, _: Caller<'_>, place: usize, words: &mut ControlArgs<'_>) -> Answer {
    let key = words.take("a key")?;
    let db: usize = if words.has("DB") {
        words.number("a database")?
    } else {
        0
    };
    words.end()?;
    let handle = running(control, place)?;
    if handle.shared.node().engine.database(db).is_none() {
        return Err(error(format!("there is no database {db}")));
    }
    let mut was_there = false;
    handle.change(|engine, now| was_there = engine.evict(db, key, now));
    Ok(Reply::Int(was_there.into()))
}

fn flush_scripts(
    control: &Control,
    _: Caller<'_>,
    place: usize,
    words: &mut ControlArgs<'_>,
) -> Answer {
    words.end()?;
    running(control, place)?.change(|engine, _| {
        engine.flush_scripts();
    });
    Ok(Reply::Ok)
}

fn lazy_expiry(
    control: &Control,
    _: Caller<'_>,
    place: usize,
    words: &mut ControlArgs<'_>,
) -> Answer {
    let is_lazy = words.has("ON");
    if !is_lazy && !words.has("OFF") {
        return Err(words.unknown());
    }
    words.end()?;
    running(control, place)?.change(|engine, _| {
        engine.expire_lazily(is_lazy);
    });
    Ok(Reply::Ok)
}
