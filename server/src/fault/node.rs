//! Faults of a node: methods of `Server`, listed here with the others.

use super::{FaultSpec, Placement};

const fn fault(name: &'static str, summary: &'static str) -> FaultSpec {
    FaultSpec {
        name,
        summary,
        placement: Placement::Node,
        arguments: "",
        parse: None,
    }
}

/// `Server::pause`.
pub(super) const PAUSE: FaultSpec = fault(
    "pause",
    "the node serves nobody until it is resumed; input queues",
);

/// `Server::evict`.
pub(super) const EVICT: FaultSpec = fault("evict", "a key is gone, as if memory had run short");

/// `Server::lazy_expiry`.
pub(super) const LAZY_EXPIRY: FaultSpec = fault(
    "lazy_expiry",
    "keys past their deadline go only when somebody looks at them",
);

/// `Server::flush_scripts`.
pub(super) const FLUSH_SCRIPTS: FaultSpec =
    fault("flush_scripts", "the node forgets all scripts: NOSCRIPT");
