//! The fault rules as they apply to the messages of one connection.

use super::ReleaseCondition;
use crate::engine::UnixMicros;
use crate::fault::{Decision, Direction, Fate, Plan, Sender};
use crate::resp::{ErrorReply, Reply, Request};
use std::task::Waker;

/// Looks at a connection again when a postponed message of it may go on.
pub(crate) trait Postponer {
    /// Notes that a message of this client is postponed until a time, or by gates. Called before the gates are
    /// entered, so that no gate opens unnoticed.
    fn note(&self, client_id: u64, until: Option<UnixMicros>, has_gates: bool);
    /// The waker that a gate calls when it opens.
    fn gate_waker(&self) -> &Waker;
}

/// One connection as the rules see it, at one instant.
pub(crate) struct RuledConnection<'a, P> {
    pub(crate) plan: &'a Plan,
    pub(crate) sender: Sender<'a>,
    pub(crate) now: UnixMicros,
    pub(crate) postponer: &'a P,
}

/// Rest of a message after the rules.
#[derive(Debug, Default)]
pub(crate) struct Ruling {
    /// The condition under which the message goes on.
    pub(crate) wait: Option<ReleaseCondition>,
    /// The error in the place of the message.
    pub(crate) instead: Option<ErrorReply>,
    pub(crate) fate: Fate,
}

impl<P: Postponer> RuledConnection<'_, P> {
    /// Asks the rules about a request.
    pub(crate) fn on_request(&self, request: Request<'_>) -> Ruling {
        self.ruling(self.plan.on_request(self.sender, request))
    }

    /// Asks the rules about the reply to a request.
    pub(crate) fn on_reply(&self, request: Request<'_>, reply: &Reply) -> Ruling {
        self.ruling(self.plan.on_reply(self.sender, request, reply))
    }

    /// Asks the rules about a frame that answers no request.
    pub(crate) fn on_push(&self, frame: &Reply) -> Ruling {
        self.ruling(self.plan.on_push(self.sender, frame))
    }

    /// Asks the rules about the end of one direction, which they can only postpone.
    pub(crate) fn on_end(&self, of: Direction) -> Option<ReleaseCondition> {
        if self.plan.is_empty() {
            return None;
        }
        self.ruling(self.plan.on_end(self.sender, of)).wait
    }

    fn ruling(&self, decision: Decision) -> Ruling {
        let Decision {
            delay,
            gates,
            instead,
            fate,
        } = decision;
        let until = (!delay.is_zero()).then(|| self.now.plus(delay));
        let mut wait = None;
        if until.is_some() || !gates.is_empty() {
            let client_id = self.sender.client_id;
            self.postponer.note(client_id, until, !gates.is_empty());
            let waker = self.postponer.gate_waker();
            let gates = gates.iter().map(|gate| gate.enter(waker)).collect();
            wait = Some(ReleaseCondition { until, gates });
        }
        Ruling {
            wait: wait.filter(|wait| !wait.is_over(self.now)),
            instead,
            fate,
        }
    }
}
