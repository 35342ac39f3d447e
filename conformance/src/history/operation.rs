//! Operations with their ends: read off a history.

use super::{Actor, CANCELLED, Call, History, Moment, OpId, Refusal, What};
use crate::scenario::Lost;

/// How an operation ended, as far as its caller knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened.
    Ok,
    /// It did not happen.
    Fail(Refusal),
    /// It may have happened.
    Unknown,
    /// The caller dropped it.
    Cancelled,
    /// The caller died, or the history ends.
    Open,
}

/// An operation from its call to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its id.
    pub op: OpId,
    /// Who called.
    pub actor: Actor,
    /// What was asked for.
    pub call: Call,
    /// When it was called.
    pub asked: Moment,
    /// When it ended, or its caller died.
    pub ended: Moment,
    /// How it ended.
    pub outcome: Outcome,
    /// A connection broke meanwhile whose request was still under way.
    pub left_behind: bool,
}

impl Operation {
    /// By when its requests have had their effect: they may land at any time if it was not heard out, or left one behind.
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

    /// Whether both were under way at some moment.
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
        // Places in the list of the operations that have not ended; a few at a time.
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
