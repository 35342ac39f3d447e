//! Losses that a lock reports unasked: by its signal, or by a deadline that it moves to the present.

use super::Facts;
use crate::{
    checker::{Witness, seconds},
    history::{Belief, Call, End, Excuse, Moment, What},
    vocabulary::Mode,
};
use std::time::Duration;

/// Part of a lease before its end in which a lock may call a grant lost: it may be too late to extend it.
pub(super) const LATE_SHARE: u32 = 4;

impl Facts<'_> {
    /// Returns a loss that the lock reported although nothing was wrong: no fault had struck its process or a server in the whole run,
    /// the grant stood all the time, and its deadline was not near.
    ///
    /// A grant that is shared may be called back for others.
    pub(super) fn lost_for_no_reason(&self, belief: &Belief) -> Option<Witness> {
        let told = match belief.end {
            End::Lost => belief.to,
            End::Deadline => self.called_over(belief)?,
            End::Released | End::Crashed | End::Open => return None,
        };
        let deadline = self.latest_deadline(belief, told);
        let deadline = deadline.unwrap_or(belief.asked.at + self.0.lease);
        let accepts = |excuse| self.0.accepts(excuse);
        let late = accepts(Excuse::EndIsNear) && told.at + self.0.lease / LATE_SHARE >= deadline;
        let host = belief.actor.host;
        // A server that restarted, a lost script or a broken connection may be reason enough for a careful lock.
        let mut so_far = self.0.iter().take_while(|&(at, _)| at < told);
        let struck = accepts(Excuse::FaultBefore)
            && so_far.any(|(_, what)| {
                if let What::Strikes { fault } = what {
                    fault.host().is_none_or(|it| it == host)
                } else {
                    matches!(*what, What::Cut { host: it, .. } if it == host)
                }
            });
        let is_shared = belief.mode != Mode::Exclusive && accepts(Excuse::CalledBack);
        let lies =
            !is_shared && !late && !struck && self.stood_throughout(belief, belief.from, told);
        lies.then(|| Witness {
            at: told,
            until: None,
            grants: vec![belief.grant],
            message: format!(
                "at {} the lock told {} that the lock was lost, but it stood all the time, and no fault had struck the client or a server",
                seconds(told.at),
                belief.actor
            ),
        })
    }

    /// Returns true if the lock had reported the loss of a grant before a moment. Whether it was right to do so is judged on its own.
    pub(super) fn has_reported_loss(&self, belief: &Belief, before: Moment) -> bool {
        let signal = belief.end == End::Lost && belief.to <= before;
        let over = || self.called_over(belief).is_some_and(|at| at < before);
        self.0.accepts(Excuse::LossReported) && (signal || over())
    }

    /// When the lock moved the deadline of a grant to the present, and so said that the grant is over.
    pub(super) fn called_over(&self, belief: &Belief) -> Option<Moment> {
        let present = self.0.terms.timing_tolerance();
        let mut latest = Duration::ZERO;
        let mut over = None;
        for (at, deadline) in self.deadlines(belief) {
            let is_over = deadline <= at.at + present && at.at + present < latest;
            over = is_over.then_some(at);
            latest = latest.max(deadline);
        }
        over
    }

    /// The latest deadline that the lock told before a moment.
    fn latest_deadline(&self, belief: &Belief, before: Moment) -> Option<Duration> {
        let told = self.deadlines(belief);
        told.filter(|(at, _)| *at < before)
            .map(|(_, deadline)| deadline)
            .max()
    }

    /// The deadlines that the lock told of a grant until it ended, and when.
    fn deadlines(&self, belief: &Belief) -> impl Iterator<Item = (Moment, Duration)> {
        let told = self.0.iter().filter_map(|(at, what)| {
            let deadline = if let What::Ok { op, deadline, .. } = *what {
                let call = self.0.calls().get(&op).map(|&(.., call)| call);
                let renews = Call::Renew {
                    grant: belief.grant,
                };
                deadline.filter(|_| op == belief.grant || call == Some(renews))
            } else if let What::Deadline { grant, deadline } = *what {
                deadline.filter(|_| grant == belief.grant)
            } else {
                None
            };
            Some((at, deadline?))
        });
        told.filter(|(at, _)| at.at <= belief.to.at)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::*, *};
    use crate::scenario::{Fault, Lost};

    /// A grant until 9 of a lease of 10 s; the lock reports its loss at `at`.
    fn reported(at: u64, how: What, more: Vec<(u64, What)>) -> Option<String> {
        let mut entries = more;
        entries.extend([(at, how), (9, tries(7, 1))]);
        entries.sort_by_key(|&(at, _)| at);
        lie(held_by_c1(entries))
    }

    #[test]
    fn a_loss_without_a_reason_is_a_lie() {
        let signal = || What::Lost { grant: 1 };
        let over = |deadline| What::Deadline {
            grant: 1,
            deadline: Some(s(deadline)),
        };
        let said = "at 4.000 s the lock told c1 that the lock was lost, but it stood all the time, and no fault had struck the client \
                    or a server";
        assert_eq!(reported(4, signal(), vec![]).as_deref(), Some(said));
        assert_eq!(reported(4, over(4), vec![]).as_deref(), Some(said));
        assert_eq!(reported(4, over(3), vec![]).as_deref(), Some(said));
        assert_eq!(
            reported(4, over(8), vec![]),
            None,
            "a deadline may be moved"
        );
        assert_eq!(reported(8, signal(), vec![]), None, "too late to extend it");
        assert!(reported(6, signal(), vec![]).is_some());
    }

    #[test]
    fn a_grant_that_is_shared_may_be_called_back() {
        let told = |mode| {
            let asks = What::Invoke {
                op: 1,
                actor: Actor::on(0),
                call: Call::Try { mode },
            };
            lie(vec![
                (0, asks),
                (0, stores(0, "a", Some(10))),
                (1, granted(1, Some(9))),
                (4, What::Lost { grant: 1 }),
            ])
        };
        assert_eq!(told(Mode::Shared), None);
        assert!(told(Mode::Exclusive).is_some());
    }

    #[test]
    fn a_fault_or_a_grant_that_is_gone_explains_a_loss() {
        let signal = || What::Lost { grant: 1 };
        let gone = vec![(3, empties(0, Cause::Fault))];
        assert_eq!(reported(4, signal(), gone), None);
        let cut = |host| What::Cut {
            host,
            node: 0,
            lost: Lost::Reply,
        };
        assert_eq!(reported(4, signal(), vec![(3, cut(0))]), None);
        let others = vec![(3, cut(1))];
        assert!(reported(4, signal(), others).is_some(), "another client's");
        let fault = Fault::NodePause { node: 0 };
        let paused = vec![(2, What::Strikes { fault }), (3, What::Heals { fault })];
        assert_eq!(reported(4, signal(), paused), None);
        let keeps = true;
        let fault = Fault::NodeCrash { node: 0, keeps };
        let back = vec![(2, What::Strikes { fault }), (2, What::Heals { fault })];
        assert_eq!(reported(4, signal(), back), None, "it was back at once");
    }
}
