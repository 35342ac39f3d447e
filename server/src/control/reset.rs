//! The command REDOUBLE.RESET.

use super::args::ControlArgs;
use super::{Caller, Control, ControlCommand, ControlResult, error};
use crate::resp::Reply;

pub(super) const COMMAND: ControlCommand = ControlCommand {
    name: "RESET",
    works_on_proxies: true,
    run,
    help: &[
        (
            "(no arguments)",
            "Resets every node to its state at the start: no data, scripts, faults, splits, lags or history; clocks without offset and drift; the original parameters, slots, masters and sentinels; no pause and no crash. Connections stay open.",
        ),
        ("HELP", "Prints this."),
    ],
};

fn run(control: &Control, caller: Caller<'_>, args: &mut ControlArgs<'_>) -> ControlResult {
    args.end()?;
    if control.proxy.is_some() {
        control.rules_owner(caller, args)?.plan().clear();
        return Ok(Reply::Ok);
    }
    let handles = control.handles();
    if handles.len() < control.nodes.len() {
        return Err(error("a node was shut down and cannot be started again"));
    }
    let is_in_script = |handle: &std::sync::Arc<crate::node_handle::NodeHandle>| {
        let node = handle.shared.node();
        node.engine.is_busy()
    };
    if handles.iter().any(is_in_script) {
        return Err(error(
            "a script was interrupted and not killed: use SCRIPT KILL first",
        ));
    }
    if let Some(network) = &control.network {
        // Messages that are on their way now must not arrive after the reset.
        control.settle();
        network.reset();
    }
    for (index, handle) in handles.iter().enumerate() {
        let mut node = handle.shared.node();
        node.reset(&handle.shared, handle.now());
        if let Some(network) = &control.network {
            network.restore_role(index, &mut node.engine);
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
