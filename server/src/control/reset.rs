//! REDOUBLE.RESET.

use super::words::ControlArgs;
use super::{Answer, Caller, Control, Family, error};
use crate::resp::Reply;

pub(super) const FAMILY: Family = Family {
    name: "RESET",
    suits_proxies: true,
    run,
    help: &[
        (
            "(no arguments)",
            "All nodes are as freshly started: no data, scripts, faults, splits, lags, history; clocks run true, parameters are what they were, slots and sentinels are where they were, replicas follow whom they followed, and nobody is paused or down. Connections stay.",
        ),
        ("HELP", "This."),
    ],
};

fn run(control: &Control, caller: Caller<'_>, words: &mut ControlArgs<'_>) -> Answer {
    words.end()?;
    if control.proxy.is_some() {
        control.ruled(caller, words)?.plan().clear();
        return Ok(Reply::Ok);
    }
    let handles = control.handles();
    if handles.len() < control.nodes.len() {
        return Err(error("a node was shut down and does not come back"));
    }
    let is_in_script = |handle: &std::sync::Arc<crate::node_handle::NodeHandle>| {
        let node = handle.shared.node();
        node.engine.state().busy.is_some()
    };
    if handles.iter().any(is_in_script) {
        return Err(error(
            "a script was given up and not killed: SCRIPT KILL first",
        ));
    }
    if let Some(network) = &control.network {
        // What is on its way now shall not arrive afterwards.
        control.settle();
        network.reset();
    }
    for (place, handle) in handles.iter().enumerate() {
        let mut node = handle.shared.node();
        node.reset(&handle.shared, handle.now());
        if let Some(network) = &control.network {
            network.remind(place, &mut node.engine);
        }
    }
    if let Some(network) = &control.network {
        for (replica, master) in &control.masters {
            network.follow(*replica, Some(*master));
        }
    }
    control.settle();
    Ok(Reply::Ok)
}
