//! A message that takes its time.

use super::matcher::{MessageFault, Rule};
use super::{FaultSpec, Verdict};
use std::time::Duration;

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: "delay",
    summary: "a request or a reply comes later; what follows it waits behind it",
};

/// Delays a message; later ones of its connection and direction wait behind it.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    duration: Duration,
    reply: bool,
}

impl Delay {
    /// The request reaches the server `duration` later.
    pub fn request(duration: Duration) -> Rule<Self> {
        Rule::new(Self {
            duration,
            reply: false,
        })
    }

    /// The request is executed at once; its reply reaches the client `duration` later.
    pub fn reply(duration: Duration) -> Rule<Self> {
        Rule::new(Self {
            duration,
            reply: true,
        })
    }
}

impl MessageFault for Delay {
    fn on_request(&self) -> Verdict {
        if self.reply {
            Verdict::Pass
        } else {
            Verdict::Delay(self.duration)
        }
    }

    fn on_reply(&self) -> Verdict {
        if self.reply {
            Verdict::Delay(self.duration)
        } else {
            Verdict::Pass
        }
    }
}
