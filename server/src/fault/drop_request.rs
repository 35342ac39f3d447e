//! A request that never arrives.

use super::matcher::{MessageFault, Rule};
use super::{FaultSpec, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: "drop_request",
    summary: "a request is lost, and all after it on its connection",
};

/// Loses a request, and with it everything the client sends afterwards on that connection: there
/// are no request ids, so an answer to a later request would be taken for the answer to this one.
#[derive(Clone, Copy, Debug)]
pub struct DropRequest;

impl DropRequest {
    /// A request that is lost.
    pub fn new() -> Rule<Self> {
        Rule::new(Self)
    }
}

impl MessageFault for DropRequest {
    fn on_request(&self) -> Verdict {
        Verdict::Drop
    }
}
