//! The command REDOUBLE.NODE.

use super::args::ControlArgs;
use super::{Caller, Control, ControlCommand, ControlResult, error};
use crate::disk::Loss;
use crate::fault::Ruled as _;
use crate::node_handle::NodeHandle;
use crate::resp::{ErrorReply, Reply};
use crate::topology::{Lag, Network};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(super) const COMMAND: ControlCommand = ControlCommand {
    name: "NODE",
    works_on_proxies: false,
    run,
    help: &[
        (
            "LIST",
            "The nodes, each with its name, port, role and state.",
        ),
        (
            "PAUSE <node> | RESUME <node>",
            "The node serves no client until it is resumed; requests queue up. REDOUBLE.* still works.",
        ),
        (
            "CRASH <node> [EVERYTHING | NOTHING | LAST <writes>] [RESTART <ms>]",
            "Kills the node as kill -9 does. The second argument says which data it loses; by default --persistence decides.",
        ),
        (
            "RESTART <node> [<ms>]",
            "Starts a crashed node again, at once or after a time.",
        ),
        (
            "PROMOTE <node>",
            "Makes a replica a master with the data it has. Its former master goes on as before.",
        ),
        (
            "FOLLOW <node> <master>",
            "Makes a node the replica of another.",
        ),
        (
            "FAILOVER <node>",
            "Makes a replica the master. Its former master and the other replicas follow it.",
        ),
        (
            "LAG <node> <ms> | LAG <node> UNITS <n>",
            "Writes reach the replica after a time, or all but the latest n writes reach it.",
        ),
        (
            "CUT <node> | HEAL <node>",
            "Cuts the replication link of a replica, or restores it.",
        ),
        (
            "SPLIT <node> [<node> ...]",
            "Splits these nodes from all others. Clients reach all nodes.",
        ),
        (
            "HEALALL",
            "Ends every split, every cut link and every fault rule, on all nodes.",
        ),
        (
            "EVICT <node> <key> [DB <n>]",
            "Evicts a key, as if memory had run short. Returns 0 if there is no such key.",
        ),
        (
            "FLUSHSCRIPTS <node>",
            "Empties the script cache: EVALSHA answers NOSCRIPT.",
        ),
        (
            "LAZYEXPIRY <node> ON | OFF",
            "ON: expired keys are removed only when a request reads them. OFF: they are removed by themselves.",
        ),
        ("HELP", "Prints this."),
    ],
};

/// Limit of splits at the same time.
const SPLITS_MAX: usize = 100;

/// A request about one node.
struct NodeRequest<'a, 'b> {
    control: &'a Control,
    caller: Caller<'a>,
    /// The index of the node.
    index: usize,
    args: &'a mut ControlArgs<'b>,
}

type Run = fn(NodeRequest<'_, '_>) -> ControlResult;

/// The subcommands that concern one node.
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

fn run(control: &Control, caller: Caller<'_>, args: &mut ControlArgs<'_>) -> ControlResult {
    if args.has("LIST") {
        args.end()?;
        let indexes = 0..control.nodes.len();
        return Ok(Reply::Array(
            indexes.map(|at| describe(control, at)).collect(),
        ));
    }
    if args.has("SPLIT") {
        return split(control, args);
    }
    if args.has("HEALALL") {
        return heal_all(control, args);
    }
    for (name, run) in SUBCOMMANDS {
        if args.has(name) {
            let index = control.index(args.take("the name of a node")?)?;
            return run(NodeRequest {
                control,
                caller,
                index,
                args,
            });
        }
    }
    Err(args.unknown())
}

fn describe(control: &Control, index: usize) -> Reply {
    let mut pairs = Vec::new();
    let mut field = |name: &'static str, value| pairs.push((Reply::bulk(name), value));
    field("name", Reply::bulk(&control.nodes[index].name));
    let Ok(handle) = control.handle(index) else {
        field("state", Reply::bulk("down"));
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
        let engine = &node.engine;
        (state, engine.config().port, engine.is_replica())
    };
    field("state", Reply::bulk(state));
    field("port", Reply::Int(port.into()));
    field(
        "role",
        Reply::bulk(if is_replica { "replica" } else { "master" }),
    );
    let Some(network) = &control.network else {
        return Reply::Map(pairs);
    };
    let masters = network.masters();
    if let Some((_, master)) = masters.iter().find(|(of, _)| *of == index) {
        field("follows", Reply::bulk(&control.nodes[*master].name));
        field("cut", Reply::Int(network.is_cut(index).into()));
        match network.lag(index) {
            Lag::Time(lag) => field("lag_ms", Reply::Int(lag.as_millis() as i64)),
            Lag::Units(units) => field("lag_units", Reply::Int(units as i64)),
        }
        field("in_flight", Reply::Int(network.in_flight(index) as i64));
    }
    Reply::Map(pairs)
}

/// A node that has not crashed.
fn running(control: &Control, index: usize) -> Result<Arc<NodeHandle>, ErrorReply> {
    let handle = control.handle(index)?;
    if handle.shared.node().is_crashed() {
        let name = &control.nodes[index].name;
        return Err(error(format!("{name} has crashed: RESTART it first")));
    }
    Ok(handle)
}

fn pause(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    args.end()?;
    let _ended_by_resume = running(control, index)?.shared.node().pause();
    Ok(Reply::Ok)
}

fn resume(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    args.end()?;
    running(control, index)?.resume();
    Ok(Reply::Ok)
}

fn crash(
    NodeRequest {
        control,
        caller,
        index,
        args,
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    let handle = running(control, index)?;
    let loss = if args.has("EVERYTHING") {
        Loss::Everything
    } else if args.has("NOTHING") {
        Loss::Nothing
    } else if args.has("LAST") {
        Loss::Last(args.number("a number of writes")?)
    } else {
        Loss::AsConfigured
    };
    let restart = args.has("RESTART").then(|| args.millis()).transpose()?;
    args.end()?;
    if matches!(loss, Loss::Last(_)) && !handle.shared.node().has_disk() {
        return Err(error(
            "LAST needs a server with persistence: start it with --persistence",
        ));
    }
    if restart.is_none() && !is_controllable_without(control, caller, &handle) {
        return Err(error(
            "no other node could receive the RESTART: add RESTART <ms>, or start the server with --control-port",
        ));
    }
    if std::ptr::eq(&raw const *handle, caller.handle) {
        handle.shared.detach(caller.conn);
    }
    handle.crash(loss);
    if let Some(delay) = restart {
        handle.restart_in(delay);
    }
    Ok(Reply::Ok)
}

/// True if another node accepts control requests after this node has crashed.
fn is_controllable_without(
    control: &Control,
    caller: Caller<'_>,
    handle: &Arc<NodeHandle>,
) -> bool {
    caller.handle.shared.control_queue.is_control_port()
        || control
            .handles()
            .iter()
            .any(|other| !Arc::ptr_eq(other, handle) && !other.shared.node().is_crashed())
}

fn restart(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    let delay = if args.is_empty() {
        Duration::ZERO
    } else {
        args.millis()?
    };
    args.end()?;
    control.handle(index)?.restart_in(delay);
    Ok(Reply::Ok)
}

fn network(control: &Control) -> Result<&Network, ErrorReply> {
    let network = control.network.as_ref();
    network.ok_or_else(|| error("this server is not part of a deployment"))
}

fn promote(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    args.end()?;
    network(control)?.follow(index, None);
    control.settle();
    Ok(Reply::Ok)
}

fn follow(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    let network = network(control)?;
    let master = control.index(args.take("the name of its master")?)?;
    args.end()?;
    if master == index {
        return Err(error("a node cannot follow itself"));
    }
    network.follow(index, Some(master));
    control.settle();
    Ok(Reply::Ok)
}

fn fail_over(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    args.end()?;
    network(control)?.fail_over_to(index);
    control.settle();
    Ok(Reply::Ok)
}

fn lag(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    let network = network(control)?;
    let lag = if args.has("UNITS") {
        Lag::Units(args.number("a number of writes")?)
    } else {
        Lag::Time(args.millis()?)
    };
    args.end()?;
    network.set_lag(index, lag);
    control.settle();
    Ok(Reply::Ok)
}

fn cut(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    set_cut(control, index, true, args)
}

fn heal(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    set_cut(control, index, false, args)
}

fn set_cut(
    control: &Control,
    index: usize,
    is_cut: bool,
    args: &mut ControlArgs<'_>,
) -> ControlResult {
    args.end()?;
    let network = network(control)?;
    if !network.masters().iter().any(|(of, _)| *of == index) {
        let name = &control.nodes[index].name;
        return Err(error(format!(
            "{name} is no replica: it has no replication link"
        )));
    }
    match is_cut {
        true if network.is_cut(index) => {}
        true => drop(network.cut(index)),
        false => network.mend(index),
    }
    control.settle();
    Ok(Reply::Ok)
}

fn split(control: &Control, args: &mut ControlArgs<'_>) -> ControlResult {
    let network = network(control)?;
    let mut away = BTreeSet::from([control.index(args.take("the name of a node")?)?]);
    while let Some(name) = args.next() {
        away.insert(control.index(name)?);
    }
    if away.len() == control.nodes.len() {
        return Err(error("a split needs nodes on both sides"));
    }
    if network.splits() >= SPLITS_MAX {
        return Err(error(format!("{SPLITS_MAX} splits are the maximum")));
    }
    network.split(away);
    control.settle();
    Ok(Reply::Ok)
}

fn heal_all(control: &Control, args: &mut ControlArgs<'_>) -> ControlResult {
    args.end()?;
    if let Some(network) = &control.network {
        network.heal_all();
        control.settle();
    }
    for handle in control.handles() {
        handle.plan().clear();
    }
    Ok(Reply::Ok)
}

fn evict(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    let key = args.take("a key")?;
    let db: usize = if args.has("DB") {
        args.number("a database")?
    } else {
        0
    };
    args.end()?;
    let handle = running(control, index)?;
    if handle.shared.node().engine.database(db).is_none() {
        return Err(error(format!("there is no database {db}")));
    }
    let mut was_there = false;
    handle.change(|engine, now| was_there = engine.evict(db, key, now));
    Ok(Reply::Int(was_there.into()))
}

fn flush_scripts(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    args.end()?;
    running(control, index)?.change(|engine, _| {
        engine.flush_scripts();
    });
    Ok(Reply::Ok)
}

fn lazy_expiry(
    NodeRequest {
        control,
        index,
        args,
        ..
    }: NodeRequest<'_, '_>,
) -> ControlResult {
    let is_lazy = args.has("ON");
    if !is_lazy && !args.has("OFF") {
        return Err(args.unknown());
    }
    args.end()?;
    running(control, index)?.change(|engine, _| {
        engine.expire_lazily(is_lazy);
    });
    Ok(Reply::Ok)
}
