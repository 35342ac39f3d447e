//! A connection that ends around the execution of a request.

use super::matcher::{MessageFault, Rule};
use super::{FaultSpec, Verdict};

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: "disconnect",
    summary: "the connection ends before or after a request is executed",
};

/// Ends the connection around a request.
#[derive(Clone, Copy, Debug)]
pub struct Disconnect {
    after: bool,
}

impl Disconnect {
    /// The request is executed, and the connection ends before its reply: a lost reply.
    pub fn after_execution() -> Rule<Self> {
        Rule::new(Self { after: true })
    }

    /// The connection ends and the request is not executed.
    pub fn before_execution() -> Rule<Self> {
        Rule::new(Self { after: false })
    }
}

impl MessageFault for Disconnect {
    fn on_request(&self) -> Verdict {
        if self.after {
            Verdict::Pass
        } else {
            Verdict::Close
        }
    }

    fn on_reply(&self) -> Verdict {
        if self.after {
            Verdict::Close
        } else {
            Verdict::Pass
        }
    }
}
