//! Operations with their outcomes, derived from a history.

use super::{Actor, CANCELLED, Call, History, Moment, OpId, Refusal, What};
use crate::scenario::Lost;

/// Outcome of an operation, as its caller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operation happened.
    Ok,
    /// The operation did not happen.
    Fail(Refusal),
    /// The operation may have happened.
    Unknown,
    /// The caller dropped the call's future.
    Cancelled,
    /// The caller died, or the history ends.
    Open,
}

/// An operation from its call to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Id of the operation.
    pub op: OpId,
    /// The calling client.
    pub actor: Actor,
    /// The call.
    pub call: Call,
    /// Start of the call.
    pub asked: Moment,
    /// End of the call, or the death of its caller.
    pub ended: Moment,
    /// Outcome of the call.
    pub outcome: Outcome,
    /// True if a connection of the process broke during the call while a request was still in flight.
    pub left_behind: bool,
}

impl Operation {
    /// Time by which all requests of the operation have had their effect. [`Moment::NEVER`] if a request may arrive at
    /// any time: the operation has no definite outcome, or left a request in flight.
    #[must_use]
    pub fn landed(&self) -> Moment {
        match self.outcome {
            Outcome::Ok | Outcome::Fail(_) if !self.left_behind => self.ended,
            Outcome::Ok
            | Outcome::Fail(_)
            | Outcome::Unknown
            | Outcome::Cancelled
            | Outcome::Open => Moment::NEVER,
        }
    }

    /// True if both operations were in progress at some moment.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.asked <= other.ended && other.asked <= self.ended
    }
}

impl History {
    /// All operations, in the order of their calls.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        let mut operations: Vec<Operation> = Vec::new();
        // Indices of the operations that have not ended: only a few at a time.
        let mut open: Vec<usize> = Vec::new();
        for (at, what) in self.iter() {
            let (op, outcome) = match *what {
                What::Invoke { op, actor, call } => {
                    open.push(operations.len());
                    operations.push(Operation {
                        op,
                        actor,
                        call,
                        asked: at,
                        ended: Moment::NEVER,
                        outcome: Outcome::Open,
                        left_behind: false,
                    });
                    continue;
                }
                What::Ok { op, .. } => (op, Outcome::Ok),
                What::Fail { op, why } => (op, Outcome::Fail(why)),
                What::Info { op, ref error } if error == CANCELLED => (op, Outcome::Cancelled),
                What::Info { op, .. } => (op, Outcome::Unknown),
                What::Crash { host } | What::Panic { host, .. } => {
                    open.retain(|&index| {
                        let operation = &mut operations[index];
                        let is_dead = operation.actor.host == host;
                        if is_dead {
                            operation.ended = at;
                        }
                        !is_dead
                    });
                    continue;
                }
                What::Cut {
                    host,
                    lost: Lost::Late,
                    ..
                } => {
                    for &index in &open {
                        operations[index].left_behind |= operations[index].actor.host == host;
                    }
                    continue;
                }
                What::Attempt { .. }
                | What::Deadline { .. }
                | What::Lost { .. }
                | What::Pause { .. }
                | What::Resume { .. }
                | What::Restart { .. }
                | What::Cut { .. }
                | What::Strikes { .. }
                | What::Heals { .. }
                | What::Promoted { .. }
                | What::Server { .. }
                | What::Queue { .. }
                | What::Reserved { .. }
                | What::Remains { .. }
                | What::Resource { .. } => continue,
            };
            if let Some(place) = open.iter().rposition(|&index| operations[index].op == op) {
                let index = open.swap_remove(place);
                (operations[index].ended, operations[index].outcome) = (at, outcome);
            }
        }
        operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;

    #[test]
    fn operations_end_as_they_were_told_or_with_their_caller() {
        let cancelled = What::Info {
            op: 2,
            error: CANCELLED.to_owned(),
        };
        let history = history(vec![
            (0, tries(1, 0)),
            (0, tries(2, 1)),
            (1, refused(1)),
            (2, cancelled),
            (3, tries(3, 1)),
            (4, What::Crash { host: 1 }),
        ]);
        let told: Vec<_> = history.operations();
        let told: Vec<_> = told.iter().map(|it| (it.ended.at, it.outcome)).collect();
        let expected = [
            (s(1), Outcome::Fail(Refusal::Contended)),
            (s(2), Outcome::Cancelled),
            (s(4), Outcome::Open),
        ];
        assert_eq!(told, expected);
    }
}
