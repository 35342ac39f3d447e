//! Levels of a reentrant lock: does a release concern the last of them?

use super::Facts;
use crate::history::{
    Belief, Call, End, Excuse, Fate, NEVER, OpId, Operation, Outcome, Refusal, Request, TokenSpan,
};
use std::time::Duration;

impl Facts<'_> {
    /// True if the actor has another grant when it begins a release, as after a reentrant acquisition: one that it has not
    /// released, and whose deadline is not over or whose token still stands.
    pub(super) fn is_shared(&self, belief: &Belief, release: &Operation) -> bool {
        if !self.0.reentrant {
            return false;
        }
        let at = release.asked;
        self.has_forgotten_level(belief, release)
            || self.0.accepts(Excuse::InnerRelease)
                && self.0.beliefs().iter().any(|other| {
                    let theirs = other.actor == belief.actor && other.grant != belief.grant;
                    let given_back = || {
                        let mut operations = self.0.operations().iter();
                        operations
                            .any(|it| it.call.gives_back() == Some(other.grant) && it.asked < at)
                    };
                    let stands = || {
                        let mut spans = self.of_grant(other).into_iter();
                        spans.any(|span| span.stood_within(release.asked, release.ended))
                    };
                    let kept = match other.end {
                        End::Deadline | End::Lost => !given_back() && (at < other.to || stands()),
                        End::Released | End::Crashed | End::Open => at < other.to,
                    };
                    theirs && other.from < at && kept
                })
    }

    /// Returns true if the token of a reentrant lock may have a level that its owner does not count: of an acquisition
    /// without an answer, or one of whose requests had none, or that was granted too late, of a release without an answer, or of a guard that it dropped. Such a level counts until the
    /// lease is over that the last request of that call began; later only if the servers show that the release took a
    /// level away.
    fn has_forgotten_level(&self, belief: &Belief, release: &Operation) -> bool {
        if !self.0.accepts(Excuse::ForgottenLevel) {
            return false;
        }
        let at = release.asked;
        // The request of a call that had no answer may land during the release.
        let names = self.names(belief);
        let stood = |span: &&TokenSpan<'_>| {
            names.contains(span.token) && span.stood_within(at, release.ended)
        };
        let spans: Vec<_> = self.0.tokens().spans.iter().filter(stood).collect();
        let lowered = self.lowered_depth(belief, release);
        let unanswered = |it: &Operation| {
            matches!(
                it.outcome,
                Outcome::Unknown | Outcome::Cancelled | Outcome::Open
            )
        };
        let counts = |it: &Operation| it.asked < at && (lowered || at.at <= self.counts_until(it));
        let acquires = |it: &Operation| {
            let theirs = it.actor == belief.actor && it.call.acquires();
            let too_late = it.outcome == Outcome::Fail(Refusal::Lost);
            theirs && (unanswered(it) || too_late || self.repeated_a_request(it)) && counts(it)
        };
        let stays = |grant: OpId| {
            self.0.operations().iter().any(|it| {
                let drops = it.call == Call::Drop { grant };
                let may_stay = drops || it.call == Call::Release { grant } && unanswered(it);
                may_stay && counts(it)
            })
        };
        let left = |span: &TokenSpan<'_>| {
            self.0.beliefs().iter().any(|other| {
                let theirs = other.actor == belief.actor && other.grant != belief.grant;
                theirs && span.from <= other.from && stays(other.grant)
            })
        };
        let acquired = self.0.operations().iter().any(acquires);
        spans.into_iter().any(|span| acquired || left(span))
    }

    /// Returns true if a request of the call had no reply in time, and may have been executed. The call repeated it under the same
    /// token.
    fn repeated_a_request(&self, it: &Operation) -> bool {
        self.0.requests_of(it.actor.host).any(|request| {
            let of_call = it.asked.at <= request.sent && request.sent <= it.ended.at;
            of_call && self.is_unheard(it, request) && self.0.fate(request) != Fate::RequestLost
        })
    }

    /// Returns true if a call went on, or ended, without the reply to one of its requests: there was none, or the process read it after
    /// the request timeout. A process that does not run reads it later.
    fn is_unheard(&self, call: &Operation, request: &Request) -> bool {
        let host = call.actor.host;
        let Some(replied) = request.replied else {
            return true;
        };
        let read = self.0.fault_intervals().runs_from(host, replied);
        let given_up = self.0.given_up(request);
        let asks_again = |other: &Request| given_up <= other.sent && other.sent <= call.ended.at;
        let goes_on = || read > call.ended.at || self.0.requests_of(host).any(asks_again);
        given_up <= read && goes_on()
    }

    /// Until when a level may stand that a call without an answer left: for a lease from when its last request has landed and
    /// what was wrong meanwhile is over.
    fn counts_until(&self, it: &Operation) -> Duration {
        let host = it.actor.host;
        let sent = self.0.requests_of(host).filter(|request| {
            let of_call = it.asked.at <= request.sent && request.sent <= it.ended.at;
            of_call && self.is_unheard(it, request)
        });
        let landed = sent.filter_map(|request| match self.0.fate(request) {
            Fate::RequestLost => None,
            Fate::Open => Some(request.executed.unwrap_or(NEVER)),
            Fate::Delivered | Fate::Refused | Fate::Late | Fate::ReplyLost => request.executed,
        });
        let landed = landed.fold(it.ended.at, Duration::max);
        let spare = self.0.lease + self.0.recovery() + self.0.terms.round_trips(2);
        let until = landed.saturating_add(spare);
        let well = self.0.fault_intervals().last(host, it.asked.at, until);
        well.map_or(until, |well| until.max(well.saturating_add(spare)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    /// A level of a reentrant lock that its owner does not count.
    #[test]
    fn a_release_of_a_reentrant_lock_may_leave_a_forgotten_level() {
        let lies = |reentrant, forgotten: Vec<(u64, What)>| {
            let mut entries = vec![
                (0, tries(1, 0)),
                (1, stores(0, "a", Some(11))),
                (1, granted(1, Some(10))),
            ];
            entries.extend(forgotten);
            entries.extend([(4, releases(9, 0, 1)), (5, done(9))]);
            let mut history = history(entries);
            history.reentrant = reentrant;
            Truth.check(&history).witness().is_some()
        };
        let cancelled = || {
            let error = CANCELLED.to_owned();
            vec![(2, tries(2, 0)), (3, What::Info { op: 2, error })]
        };
        let dropped = || {
            let drops = What::Invoke {
                op: 3,
                actor: Actor::on(0),
                call: Call::Drop { grant: 2 },
            };
            let again = [(2, tries(2, 0)), (2, granted(2, Some(10)))];
            again
                .into_iter()
                .chain([(3, drops), (3, done(3))])
                .collect()
        };
        let unanswered = || {
            let error = "no reply".to_owned();
            let again = [(2, tries(2, 0)), (2, granted(2, Some(10)))];
            let release = [(3, releases(3, 0, 2)), (3, What::Info { op: 3, error })];
            again.into_iter().chain(release).collect()
        };
        assert!(!lies(true, cancelled()));
        assert!(!lies(true, dropped()));
        assert!(!lies(true, unanswered()));
        assert!(lies(true, vec![]));
        assert!(lies(false, cancelled()));
        assert!(lies(false, dropped()));
    }

    /// The first attempt of a call has no reply; the second one grants it the lock. The first lands after the release, and the
    /// owner enters again. The server stores an entry for each level.
    #[test]
    fn a_late_attempt_of_a_granted_call_adds_a_level() {
        let places = |count: usize, until| What::Server {
            node: 0,
            cause: Client(0),
            stored: vec![
                Holder {
                    token: b"a".to_vec(),
                    expires: Some(s(until)),
                    ..Holder::default()
                };
                count
            ],
            anonymous: 0,
        };
        let named = |op, until| What::Ok {
            op,
            deadline: Some(s(until)),
            fence: None,
            number: None,
            token: Some(Token::of_owner(b"a".to_vec())),
        };
        // A request that is sent at 1 is given up before 3.
        let lies = |executed, replied: Option<u64>, resumes: u64, again: bool| -> Option<String> {
            let mut entries = vec![
                (0, tries(1, 0)),
                (2, places(1, 12)),
                (3, named(1, 11)),
                (4, releases(2, 0, 1)),
                (4, places(0, 0)),
                (5, done(2)),
                (6, places(1, 16)),
                (7, tries(3, 0)),
                (7, places(2, 17)),
                (8, named(3, 16)),
                (9, releases(4, 0, 3)),
                (9, places(1, 17)),
                (10, done(4)),
                (1, What::Pause { host: 0 }),
                (resumes, What::Resume { host: 0 }),
            ];
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.reentrant = true;
            history.dials(0, 0, 0, None);
            history.asks(0, 1, Some(executed), replied);
            if again {
                history.asks(0, 3, Some(3), Some(3));
            }
            let finding = Truth.check(&history);
            finding.witness().map(|witness| witness.message.clone())
        };
        assert_eq!(lies(6, None, 1, true), None);
        assert_eq!(lies(6, Some(7), 1, true), None, "the reply is late");
        let stopped = lies(2, Some(2), 3, true);
        assert_eq!(stopped, None, "the process does not run when it arrives");
        let once = lies(2, Some(2), 3, false);
        assert!(once.is_some(), "the call waited for the reply");
        let message = lies(2, Some(2), 1, true).expect("each request had its reply");
        assert!(message.contains("removed nothing"), "{message}");
    }

    #[test]
    fn an_inner_release_finds_the_lock_standing() {
        let inner = |told| {
            let nested = vec![
                (2, tries(2, 0)),
                (2, stores(0, "a", Some(12))),
                (3, granted(2, Some(11))),
                (4, releases(3, 0, 2)),
                (5, told),
            ];
            let mut history = history(held_by_c1(nested));
            history.reentrant = true;
            Truth.check(&history).witness().is_some()
        };
        assert!(!inner(done(3)));
        assert!(inner(lost(3)));
    }

    /// Both grants are over, and nothing stands: an inner release has found nothing either.
    #[test]
    fn an_inner_release_of_what_is_over_frees_nothing() {
        let told_released = |expires: u64| {
            let nested = vec![
                (2, tries(2, 0)),
                (2, stores(0, "a", Some(expires))),
                (3, granted(2, Some(9))),
                (14, releases(3, 0, 2)),
                (15, done(3)),
                (expires, empties(0, Cause::Server)),
            ];
            let mut entries = held_by_c1(nested);
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.reentrant = true;
            history.lease = s(20);
            Truth.check(&history).witness().is_some()
        };
        assert!(told_released(10));
        assert!(!told_released(20), "the token stood when the owner asked");
    }

    /// The grant of a reentrant lock has expired. A later acquisition of the same owner had no answer, and lands during the release.
    #[test]
    fn a_late_level_is_removed_by_its_own_call() {
        let lie = |second: What| {
            let mut history = history(vec![
                (0, tries(1, 0)),
                (1, stores(0, "o", Some(4))),
                (2, granted(1, Some(3))),
                (3, tries(2, 0)),
                (4, empties(0, Cause::Server)),
                (5, second),
                (6, releases(3, 0, 1)),
                (7, stores(0, "o", Some(17))),
                (8, frees(0)),
                (9, lost(3)),
            ]);
            history.reentrant = true;
            Truth.check(&history).witness().map(|it| it.message.clone())
        };
        let unknown = What::Info {
            op: 2,
            error: "timed out".into(),
        };
        assert_eq!(lie(unknown), None);
        let answered = lie(refused(2)).unwrap_or_default();
        assert!(
            answered.contains("own request had removed it"),
            "{answered}"
        );
    }
}
