//! Spans in which holders believe that they hold the lock, derived from a history.

use super::{Actor, Call, History, Mode, Moment, NEVER, OpId, What};
use std::time::Duration;

/// Reason why a holder's belief ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The holder invoked the release.
    Released,
    /// The holder learned of the loss.
    Lost,
    /// The holder's process died.
    Crashed,
    /// The deadline passed on the holder's own clock. For a subject without deadlines: the lease ended.
    Deadline,
    /// The history ends.
    Open,
}

/// Span in which a holder may rely on a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// The grant: id of the operation that won it.
    pub grant: OpId,
    /// The holder.
    pub actor: Actor,
    /// Mode in which the holder holds the lock.
    pub mode: Mode,
    /// Fencing token of the grant, if the lock has fencing tokens.
    pub fence: Option<u64>,
    /// Start of the acquiring operation. If the suite drives a wait as a loop of tries: start of the last try.
    pub asked: Moment,
    /// Time at which the lock reported the grant.
    pub from: Moment,
    /// End of the belief; not part of the span.
    pub to: Moment,
    /// Reason of the end.
    pub end: End,
}

impl Belief {
    /// First moment at which both beliefs hold, if there is one.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> Option<Moment> {
        let from = self.from.max(other.from);
        (from < self.to && from < other.to).then_some(from)
    }
}

type OpenCall = (OpId, Moment, Actor, Call);

/// Removes a call that has ended from the list, and returns it.
fn take_call(calls: &mut Vec<OpenCall>, op: OpId) -> Option<OpenCall> {
    let place = calls.iter().rposition(|call| call.0 == op)?;
    Some(calls.swap_remove(place))
}

impl History {
    /// End of the belief in a grant that has no deadline.
    fn undated(&self, asked: Moment) -> Duration {
        match self.terms.renews {
            true => NEVER,
            false => asked.at + self.shortest_lease(),
        }
    }

    /// Returns the belief of every definite grant, in order of grants.
    ///
    /// A belief is `[ok, min(release invoked, loss delivered, crash, deadline on the holder's clock))`. A pause does
    /// not end it. A grant without a deadline ends with its lease, counted from the start of the try that won it. If
    /// its lock extends leases in the background, the belief has no such end.
    #[must_use]
    pub fn beliefs(&self) -> Vec<Belief> {
        // Calls that have not ended: only a few at a time.
        let mut calls: Vec<OpenCall> = Vec::new();
        let mut beliefs: Vec<Belief> = Vec::new();
        // Current beliefs, only a few at a time: the grant, its index in `beliefs`, and the end of the belief.
        let mut open: Vec<(OpId, usize, Duration)> = Vec::new();
        for (moment, what) in self.iter() {
            open.retain(|&(_, index, until)| {
                let over = until <= moment.at;
                if over {
                    let belief: &mut Belief = &mut beliefs[index];
                    (belief.to, belief.end) = (Moment::at(until), End::Deadline);
                }
                !over
            });
            let ended =
                |open: &mut Vec<(OpId, usize, _)>, beliefs: &mut Vec<Belief>, grant, end| {
                    if let Some(at) = open.iter().position(|&(of, ..)| of == grant) {
                        let (_, index, _) = open.swap_remove(at);
                        let belief: &mut Belief = &mut beliefs[index];
                        (belief.to, belief.end) = (moment, end);
                    }
                };
            match *what {
                What::Invoke { op, actor, call } => {
                    calls.push((op, moment, actor, call));
                    if let Some(grant) = call.gives_back() {
                        ended(&mut open, &mut beliefs, grant, End::Released);
                    }
                }
                What::Attempt { op } => {
                    if let Some((_, asked, ..)) = calls.iter_mut().rfind(|it| it.0 == op) {
                        *asked = moment;
                    }
                }
                What::Ok {
                    op,
                    deadline,
                    fence,
                    ..
                } => match take_call(&mut calls, op) {
                    Some((_, asked, _, Call::Renew { grant })) => {
                        if let Some((.., until)) = open.iter_mut().find(|(of, ..)| *of == grant) {
                            let deadline = deadline.unwrap_or_else(|| self.undated(asked));
                            *until = deadline.max(moment.at);
                        }
                    }
                    Some((_, asked, actor, call)) => {
                        let Some(mode) = call.mode() else { continue };
                        let until = deadline.unwrap_or_else(|| self.undated(asked));
                        open.push((op, beliefs.len(), until));
                        beliefs.push(Belief {
                            grant: op,
                            actor,
                            mode,
                            fence,
                            asked,
                            from: moment,
                            to: Moment::NEVER,
                            end: End::Open,
                        });
                    }
                    None => {}
                },
                What::Deadline { grant, deadline } => {
                    let known = open.iter_mut().find(|(of, ..)| *of == grant);
                    if let (Some((.., until)), Some(deadline)) = (known, deadline) {
                        // The holder has believed until now, whatever it says afterwards.
                        *until = deadline.max(moment.at);
                    }
                }
                What::Lost { grant } => ended(&mut open, &mut beliefs, grant, End::Lost),
                What::Crash { host } | What::Panic { host, .. } => {
                    let theirs: Vec<OpId> = open
                        .iter()
                        .filter(|&&(_, index, _)| beliefs[index].actor.host == host)
                        .map(|&(grant, ..)| grant)
                        .collect();
                    for grant in theirs {
                        ended(&mut open, &mut beliefs, grant, End::Crashed);
                    }
                }
                What::Fail { op, .. } | What::Info { op, .. } => {
                    take_call(&mut calls, op);
                }
                What::Pause { .. }
                | What::Resume { .. }
                | What::Restart { .. }
                | What::Cut { .. }
                | What::Strikes { .. }
                | What::Heals { .. }
                | What::Promoted { .. }
                | What::Queue { .. }
                | What::Reserved { .. }
                | What::Remains { .. }
                | What::Resource { .. }
                | What::Server { .. } => {}
            }
        }
        let end = self.entries.len().checked_sub(1);
        let end = end.map_or(Moment::NEVER, |last| self.moment(last));
        for (_, index, until) in open {
            // Nothing is known of what happened after the end of the history.
            let to = if until == NEVER {
                end
            } else {
                Moment::at(until)
            };
            (beliefs[index].to, beliefs[index].end) = (to, End::Open);
        }
        // A grant whose deadline had passed when it was reported has an empty belief: `to` must not be before `from`.
        for belief in &mut beliefs {
            belief.to = belief.to.max(belief.from);
        }
        beliefs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;

    #[test]
    fn without_a_deadline_a_belief_in_a_renewed_lease_ends_with_the_history() {
        let mut history = history(vec![
            (1, tries(1, 0)),
            (2, granted(1, None)),
            (30, stores(0, "a", Some(40))),
        ]);
        let end = |history: &History| (history.beliefs()[0].to.at, history.beliefs()[0].end);
        assert_eq!(end(&history), (s(11), End::Deadline));
        history.terms.renews = true;
        assert_eq!(end(&history), (s(30), End::Open));
    }

    /// A holder has believed until it says something else.
    #[test]
    fn a_deadline_that_is_moved_back_ends_the_belief_at_once() {
        let end_after = |told: u64| {
            let history = history(vec![
                (1, tries(1, 0)),
                (2, granted(1, Some(10))),
                (
                    5,
                    What::Deadline {
                        grant: 1,
                        deadline: Some(s(told)),
                    },
                ),
                (30, stores(0, "a", Some(40))),
            ]);
            history.beliefs()[0].to.at
        };
        assert_eq!(end_after(0), s(5));
        assert_eq!(end_after(7), s(7));
        assert_eq!(end_after(12), s(12));
    }
}
