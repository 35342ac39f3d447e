//! Faults of a whole node. They are methods of `Server`, and listed here with the other faults.

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
    "the node serves no client until it is resumed; requests queue up",
);

/// `Server::evict`.
pub(super) const EVICT: FaultSpec = fault("evict", "evicts a key, as if memory had run short");

/// `Server::lazy_expiry`.
pub(super) const LAZY_EXPIRY: FaultSpec = fault(
    "lazy_expiry",
    "expired keys are removed only when a request reads them",
);

/// `Server::flush_scripts`.
pub(super) const FLUSH_SCRIPTS: FaultSpec = fault(
    "flush_scripts",
    "empties the script cache: EVALSHA answers NOSCRIPT",
);
