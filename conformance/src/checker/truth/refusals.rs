//! "Contended", the result of an acquisition that is refused.

use super::Facts;
use crate::{
    checker::{in_process, room},
    history::{
        Belief, Call, Cause, Cause::Client, Excuse, Kind, Moment, NEVER, Operation, Outcome,
        Refusal, Request, TokenSpan, What,
    },
    scenario::Topology,
};
use std::{collections::BTreeMap, time::Duration};

/// The most steps in which a client undoes a call: dials and requests, each after the reply to the one before.
const UNDOING_STEPS: u32 = 16;

impl Facts<'_> {
    /// Returns the sentence of a refusal that claims more than the servers did.
    pub(super) fn lie_of_refusal(&self, it: &Operation) -> Option<&'static str> {
        let refused = matches!(
            it.outcome,
            Outcome::Fail(Refusal::Contended | Refusal::TimedOut)
        );
        let lied = it.call.acquires() && refused && !self.contended(it);
        lied.then_some("that another client holds the lock, but none did during the call")
    }

    /// Returns true if others held the lock, or were queued, or the lock was reserved, at some instant of the call.
    fn contended(&self, it: &Operation) -> bool {
        if matches!(self.0.kind, Kind::Admission(_) | Kind::Latch(_)) {
            return true;
        }
        if self.0.accepts(Excuse::HeldInProcess) && self.held_in_process(it) {
            return true;
        }
        if self.0.accepts(Excuse::GrantedTooLate) && self.would_be_over(it) {
            return true;
        }
        let host = it.actor.host;
        let since = it.asked.at.saturating_sub(self.0.recovery());
        let heard = self
            .0
            .fault_intervals()
            .heard_everywhere(host, since, it.ended.at);
        // A token that appears meanwhile is its own only if no other call of its process can have asked for it.
        let beside = self.0.operations().iter().any(|other| {
            other.op != it.op
                && other.actor.host == host
                && other.call.acquires()
                && (other.overlaps(it) || self.is_being_undone(other, it.asked))
        });
        if self.quorum() > 1 {
            return self.hurried(it) || !self.free_majority(it, !beside);
        }
        if self.0.accepts(Excuse::RefusedOutOfTime) && self.0.runs_out_of_time(it)
            || self.0.accepts(Excuse::EarlierRequest) && self.is_executed_with_an_earlier_one(it)
        {
            return true;
        }
        if self.has_it_already(it) {
            return false;
        }
        // If a fault struck, a request of an earlier call may have stored the token late, or this call may have removed it again.
        let anothers = |span: &TokenSpan<'_>| {
            let own =
                !beside && span.owner == Some(host) && it.asked < span.from && is_stored(span);
            let sure = || heard || self.is_own_still(it, span);
            !(own && sure()) && span.stood_within(it.asked, it.ended)
        };
        // A waiter stores its own place in a queue. A reservation is made by a release, also of the same process, and for
        // another call than the one that is refused.
        let reserved = |span: &TokenSpan<'_>| span.stood_within(it.asked, it.ended);
        let counts =
            |span: &TokenSpan<'_>| anothers(span) && !self.was_left_behind(span, it.asked.at);
        room::is_taken(self.0, it, &counts)
            || self.0.queued().spans.iter().any(anothers)
            || self.0.accepts(Excuse::Reserved) && self.0.reserved().spans.iter().any(reserved)
            || self.0.counts_holders() && self.counted_others(it, beside)
    }

    /// Returns true if the caller is the owner of a reentrant mutex: it believes in its grant during the whole call, and the grant stands.
    fn has_it_already(&self, it: &Operation) -> bool {
        let believes = |belief: &&Belief| {
            belief.actor == it.actor && belief.from < it.asked && it.ended < belief.to
        };
        let mut own = self.0.beliefs().iter().filter(believes);
        let reenters = self.0.reentrant && self.0.kind == Kind::Mutex;
        reenters && own.any(|belief| self.stood_throughout(belief, it.asked, it.ended))
    }

    /// Returns true if a request of the call stored the token, and either the token is stored at the end of the call, or the servers
    /// answered each request of the call before it ended.
    fn is_own_still(&self, it: &Operation, span: &TokenSpan<'_>) -> bool {
        let stored = |request: &&Request| {
            let executed = request.executed == Some(span.from.at);
            executed && self.0.session(request).node == span.node
        };
        let of_call = |request: &&Request| {
            let sent = request.sent_at();
            it.asked <= sent && sent < it.ended
        };
        let requests = || self.0.requests_of(it.actor.host);
        let (own, others): (Vec<_>, Vec<_>) = requests().filter(stored).partition(of_call);
        let answered = |request: &Request| request.replied.is_some_and(|at| at <= it.ended.at);
        !own.is_empty()
            && others.is_empty()
            && (span.stood(it.ended) || requests().filter(of_call).all(answered))
    }

    /// Returns true if the server executed a request of an earlier call of the process, which had no answer, at the same instant as a
    /// request of this call. They may have arrived together, so the token of that call may have come and gone within one step, in
    /// which nothing is observed. The request of a call that its caller has just dropped may leave the process behind this call's
    /// begin, together with that of this call.
    fn is_executed_with_an_earlier_one(&self, it: &Operation) -> bool {
        let host = it.actor.host;
        let is_earlier = |request: &Request| {
            let sent = request.sent_at();
            self.0.operations().iter().any(|other| {
                let before = other.asked <= sent && sent < it.asked;
                let just_dropped = other.outcome == Outcome::Cancelled
                    && other.ended.at == it.asked.at
                    && request.sent == it.asked.at;
                let unanswered = matches!(other.outcome, Outcome::Unknown | Outcome::Cancelled);
                let acquires = other.actor.host == host && other.call.acquires();
                other.op != it.op && acquires && unanswered && (before || just_dropped)
            })
        };
        // A lock may send many requests in one call, so each is compared with those of the same instant only.
        let mut earlier: BTreeMap<Duration, Vec<&Request>> = BTreeMap::new();
        for request in self.0.requests_of(host) {
            let executed = request.executed;
            let executed = executed.filter(|&at| it.asked.at <= at && is_earlier(request));
            if let Some(at) = executed {
                earlier.entry(at).or_default().push(request);
            }
        }
        self.0.requests_of(host).any(|request| {
            let of_call = it.asked <= request.sent_at() && request.sent_at() < it.ended;
            let together = request.executed.and_then(|at| earlier.get(&at));
            of_call
                && together
                    .is_some_and(|others| others.iter().any(|other| !std::ptr::eq(*other, request)))
        })
    }

    /// Returns true if servers counted a holder at some instant of the call that this call alone did not count. What a
    /// process counts may be of another call of it that is `beside` this one.
    fn counted_others(&self, it: &Operation, beside: bool) -> bool {
        let room = match self.0.kind {
            Kind::Semaphore(permits) => permits.saturating_sub(room::permits_of(it)),
            Kind::Mutex | Kind::ReadWrite | Kind::Admission(_) | Kind::Latch(_) => 0,
        };
        let mut before: BTreeMap<u8, u32> = BTreeMap::new();
        let mut meanwhile = false;
        for (at, what) in self.0.iter().take_while(|&(at, _)| at < it.ended) {
            let &What::Server {
                node,
                cause,
                anonymous,
                ..
            } = what
            else {
                continue;
            };
            if at < it.asked {
                before.insert(node, anonymous);
            } else {
                meanwhile |= (beside || cause != Client(it.actor.host)) && anonymous > room;
            }
        }
        meanwhile || before.values().any(|&count| count > room)
    }

    /// Returns true if the token is of a call that was refused, and that left it behind although no fault concerned its process:
    /// no client holds the lock under this token.
    fn was_left_behind(&self, span: &TokenSpan<'_>, at: Duration) -> bool {
        let Some(host) = span.owner else {
            return false;
        };
        // The lock may take it back after the call has returned.
        let spare = self.0.recovery() + self.0.terms.round_trips(4);
        if span.from.at.saturating_add(spare) >= at {
            return false;
        }
        let operations = self.0.operations().iter();
        let mut theirs = operations.filter(|it| {
            let acquires = it.actor.host == host && it.call.acquires();
            acquires && it.asked < span.from && span.from < it.landed()
        });
        let (Some(call), None) = (theirs.next(), theirs.next()) else {
            return false;
        };
        let refused = matches!(
            call.outcome,
            Outcome::Fail(Refusal::Contended | Refusal::TimedOut)
        );
        let holds =
            |belief: &Belief| belief.actor.host == host && self.names(belief).contains(span.token);
        refused
            && !self.0.beliefs().iter().any(holds)
            && call.ended.at.saturating_add(spare) < at
            && self.0.fault_intervals().calm(host, call.asked.at, at)
    }

    /// Returns true if an earlier call of the process had no answer, and the requests that may undo it go on: one is under way
    /// at every instant from the end of that call to `at`.
    fn is_being_undone(&self, earlier: &Operation, at: Moment) -> bool {
        let unanswered = matches!(earlier.outcome, Outcome::Unknown | Outcome::Cancelled);
        if !unanswered || at < earlier.ended || !self.0.accepts(Excuse::UndoneMeanwhile) {
            return false;
        }
        let (host, ended) = (earlier.actor.host, earlier.ended.at);
        // The request of a call that its caller has just dropped may leave the process behind this call's begin.
        if earlier.outcome == Outcome::Cancelled && at.at == ended {
            return true;
        }
        let timeout = self.0.request_timeout();
        let busy = self.0.busy_until(host, None, ended, timeout, UNDOING_STEPS);
        ended < busy && at.at <= busy
    }

    /// Returns true if a grant would be over: the process waited for the reply to a request of the call for as long as the lease,
    /// less a tenth for clocks and margins; in a call that does not wait, for the replies to several requests together.
    fn would_be_over(&self, it: &Operation) -> bool {
        let sent = self.0.requests_of(it.actor.host).filter(|request| {
            let of_call = it.asked <= request.sent_at() && request.sent_at() < it.ended;
            of_call && request.blocks.is_zero()
        });
        let replies = sent.map(|request| {
            let replied = request.replied.unwrap_or(NEVER);
            (request.sent, replied.min(it.ended.at))
        });
        let waited = if matches!(it.call, Call::Try { .. }) {
            let mut replies: Vec<_> = replies.collect();
            replies.sort_unstable();
            let waited = replies.into_iter().fold(
                (Duration::ZERO, Duration::ZERO),
                |(waited, until), (from, to)| {
                    let more = to.saturating_sub(from.max(until));
                    (waited + more, until.max(to))
                },
            );
            waited.0
        } else {
            let longest = replies.map(|(from, to)| to.saturating_sub(from)).max();
            longest.unwrap_or_default()
        };
        waited >= self.0.lease - self.0.lease / 10
    }

    /// Returns true if another task of the process was in a call to acquire the lock, or had a grant that it had not
    /// released.
    fn held_in_process(&self, it: &Operation) -> bool {
        let mut rivals = in_process::rivals(self.0, it);
        rivals.any(|(other, let_go)| other.asked < it.ended && it.asked < let_go)
    }

    /// Returns true if one majority of the nodes answered all the time and stored nothing but what this call put there,
    /// from its first request to its last reply. Votes that were split leave no such majority. A node that executed a
    /// request of an earlier call of the process meanwhile may have stored the token of that call, if only within one
    /// step, in which nothing is observed.
    fn free_majority(&self, it: &Operation, alone: bool) -> bool {
        let Topology::Nodes(nodes) = self.0.topology else {
            return true;
        };
        let (host, spans) = (it.actor.host, &self.0.tokens().spans);
        let is_free = |node: &u8| {
            let foreign = |span: &TokenSpan<'_>| {
                let own = alone && span.owner == Some(host) && it.asked < span.from;
                span.node == *node && !own && span.stood_within(it.asked, it.ended)
            };
            let mut requests = self.0.requests_of(host);
            let earlier = requests.any(|request| {
                let meanwhile = |at| it.asked.at <= at && at <= it.ended.at;
                self.0.session(request).node == *node
                    && request.sent_at() < it.asked
                    && request.executed.is_some_and(meanwhile)
            });
            let heard = self.0.is_heard(host, Some(*node), it);
            let asks = earlier && self.0.accepts(Excuse::EarlierRequest);
            let silent = !heard && self.0.accepts(Excuse::NodeUnheard);
            !asks && !silent && !spans.iter().any(foreign)
        };
        (0..nodes).filter(is_free).count() >= self.quorum()
    }

    /// Returns true if the caller was not willing to wait for as long as the slowest of several nodes may take to
    /// answer: to connect, to be told the script, to ask, and to ask once more with what all said; and to have a number
    /// stored, by a script that it has to be told as well.
    fn hurried(&self, it: &Operation) -> bool {
        let trips = self.0.terms.round_trips(6);
        matches!(it.call, Call::Acquire { wait, .. } if wait < trips)
    }
}

/// Returns true if a request stored the token. A clock that is set back brings back one whose time was over.
fn is_stored(span: &TokenSpan<'_>) -> bool {
    let first = span.expiries.first();
    first.is_none_or(|&(_, cause, _)| cause != Cause::Fault)
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;

    #[test]
    fn contended_means_that_another_grant_stood() {
        assert_eq!(
            lie(held_by_c1(vec![(2, tries(2, 1)), (3, refused(2))])),
            None
        );
        assert!(lie(vec![(2, tries(2, 1)), (3, refused(2))]).is_some());
        let own_token = vec![
            (2, tries(2, 1)),
            (2, stores(1, "b", Some(12))),
            (3, refused(2)),
        ];
        assert!(lie(own_token).is_some());
        let expired = held_by_c1(vec![(11, tries(2, 1)), (12, refused(2))]);
        assert!(lie(expired).is_some());
        let just = held_by_c1(vec![(10, tries(2, 1)), (12, refused(2))]);
        assert_eq!(lie(just), None);
    }

    /// The call begins at 2 with SET NX, whose reply a cut of the connection takes away. It asks again at 4, or removes its token at 5.
    #[test]
    fn a_token_that_the_call_stored_and_left_is_its_own_in_spite_of_a_fault() {
        let lies = |sent: u64, undone: bool, replied: Option<u64>| {
            let cut = What::Cut {
                host: 0,
                node: 0,
                lost: crate::scenario::Lost::Reply,
            };
            let mut entries = vec![
                (1, tries(1, 0)),
                (
                    1,
                    What::Info {
                        op: 1,
                        error: CANCELLED.to_owned(),
                    },
                ),
                (2, tries(2, 0)),
                (3, stores(0, "a", Some(13))),
                (3, cut),
            ];
            entries.extend(undone.then(|| (5, empties(0, Client(0)))));
            entries.push((6, refused(2)));
            let mut history = history(entries);
            history.dials(0, 0, 0, None);
            history.asks(0, sent, Some(3), replied);
            history.asks(0, 4, Some(4), Some(5));
            Truth.check(&history) != Finding::Valid
        };
        assert!(lies(2, false, None));
        assert!(!lies(1, false, None), "the request of an earlier call");
        assert!(!lies(2, true, None), "it has undone what it cannot know");
        assert!(lies(2, true, Some(4)), "each request was answered");
    }

    #[test]
    fn the_owner_of_a_reentrant_lock_is_not_kept_out_by_its_own_grant() {
        let lies = |reentrant, more: Vec<(u64, What)>| {
            let mut entries = held_by_c1(more);
            entries.extend([(4, tries(2, 0)), (6, refused(2))]);
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.reentrant = reentrant;
            Truth.check(&history) != Finding::Valid
        };
        assert!(lies(true, vec![]));
        assert!(!lies(false, vec![]), "the lock is not reentrant");
        let another = (3, stores(1, "b", Some(13)));
        assert!(!lies(true, vec![another]), "another client took it over");
    }

    /// A client's token is over. A clock is set back while the client asks again.
    #[test]
    fn a_token_that_a_clock_brings_back_is_not_the_one_of_the_call() {
        let lies = |cause| {
            let granted = What::Ok {
                op: 1,
                deadline: Some(s(2)),
                fence: None,
                number: None,
                token: Some(Token::of_grant(b"a".to_vec())),
            };
            let history = history(vec![
                (0, tries(1, 0)),
                (0, stores(0, "a", Some(2))),
                (1, granted),
                (2, empties(0, Cause::Server)),
                (4, tries(2, 0)),
                (5, stored_by(cause, &[("a", 9)])),
                (6, refused(2)),
            ]);
            let tokens = history.tokens();
            assert_eq!(tokens.spans.last().unwrap().owner, Some(0));
            Truth.check(&history) != Finding::Valid
        };
        assert!(!lies(Cause::Fault));
        assert!(lies(Client(0)), "a request of the call stored it");
    }

    /// Seed 8024 of `fenced-redlock`: on slow links the time was over before its number was stored.
    #[test]
    fn a_call_with_a_short_wait_may_be_refused_by_several_nodes() {
        let refused_after = |wait, nodes| {
            let mut history = history(vec![(0, waits(1, 0, wait)), (wait, refused(1))]);
            // Six round trips take 12 s.
            (history.terms.latency, history.topology) = (s(1), Topology::Nodes(nodes));
            Truth.check(&history) == Finding::Valid
        };
        assert!(refused_after(12, 3));
        assert!(!refused_after(13, 3));
        assert!(!refused_after(12, 1));
    }

    /// The requests of a cancelled call and of the next one arrive together, with that which undoes the first.
    #[test]
    fn a_request_of_a_cancelled_call_may_refuse_the_next_one() {
        let lies = |cancelled: bool, ended_at: u64, sent: u64, executed: u64| {
            let ended = if cancelled {
                What::Info {
                    op: 1,
                    error: "cancelled".into(),
                }
            } else {
                let why = Refusal::Other;
                What::Fail { op: 1, why }
            };
            let mut history = history(vec![
                (0, waits(1, 0, 9)),
                (ended_at, ended),
                (3, tries(2, 0)),
                (6, refused(2)),
            ]);
            history.dials(0, 0, 0, None);
            history.asks(0, sent, Some(executed), Some(6));
            history.asks(0, 3, Some(5), Some(6));
            let finding = Truth.check(&history);
            let message = finding.witness().map(|it| it.message.clone());
            message.is_some_and(|it| it.starts_with("at 6.000 s"))
        };
        assert!(!lies(true, 2, 1, 5));
        assert!(lies(true, 2, 1, 2), "the server had executed it before");
        assert!(lies(false, 2, 1, 5), "the earlier call had an answer");
        assert!(!lies(true, 3, 3, 5), "it was in the hands of the client");
        assert!(lies(true, 2, 3, 5), "it was not");
    }

    /// A writer stores its key, finds readers, and returns without taking its key back.
    #[test]
    fn a_token_that_a_refused_call_left_behind_is_no_grant() {
        let refused_beside = |first: What, at, fault: bool| {
            let state = |host, tokens: &[&str]| {
                let holder = |token: &&str| Holder {
                    token: token.as_bytes().to_vec(),
                    expires: Some(s(10)),
                    ..Default::default()
                };
                What::Server {
                    node: 0,
                    cause: Client(host),
                    stored: tokens.iter().map(holder).collect(),
                    anonymous: 0,
                }
            };
            let mut entries = vec![
                (0, state(2, &["r"])),
                (0, tries(1, 1)),
                (1, state(1, &["r", "b"])),
                (2, first),
                (2, state(2, &["b"])),
                (at, tries(2, 0)),
                (at, refused(2)),
            ];
            if fault {
                let cut = What::Cut {
                    host: 1,
                    node: 0,
                    lost: crate::scenario::Lost::Request,
                };
                entries.insert(5, (3, cut));
            }
            lie(entries).is_none()
        };
        assert!(!refused_beside(refused(1), 8, false));
        assert!(refused_beside(refused(1), 3, false), "it is being undone");
        assert!(
            refused_beside(refused(1), 8, true),
            "the undoing may be lost"
        );
        assert!(refused_beside(granted(1, Some(9)), 8, false));
        let error = "silence".to_owned();
        assert!(refused_beside(What::Info { op: 1, error }, 8, false));
    }

    /// Seed 2934 of `redlock`: the requests of a cancelled call land during the next call of the process, and the process
    /// removes that token within the step in which a node stores it.
    /// The request of a call that was cancelled at 3 takes the lock during the next call, which begins at once or later.
    #[test]
    fn a_request_may_leave_when_its_call_was_cancelled_just_now() {
        let lie = |begins: u64| {
            let error = CANCELLED.to_owned();
            lie(vec![
                (0, waits(1, 0, 9)),
                (3, What::Info { op: 1, error }),
                (begins, tries(2, 0)),
                (5, stores(0, "a", Some(15))),
                (6, refused(2)),
            ])
        };
        assert_eq!(lie(3), None);
        assert!(lie(4).is_some());
    }

    #[test]
    fn a_node_that_executes_an_earlier_request_meanwhile_is_not_free() {
        let refused_with = |sent, executed, nodes: [u8; 2]| {
            let error = CANCELLED.to_owned();
            let mut history = history(vec![
                (0, tries(1, 0)),
                (2, What::Info { op: 1, error }),
                (3, tries(2, 0)),
                (6, refused(2)),
            ]);
            history.topology = Topology::Nodes(3);
            for (session, node) in nodes.into_iter().enumerate() {
                history.dials(0, node, 0, None);
                history.asks(session, sent, Some(executed), Some(executed));
            }
            Truth.check(&history) == Finding::Valid
        };
        assert!(refused_with(1, 4, [0, 1]));
        assert!(!refused_with(1, 2, [0, 1]), "executed before the call");
        assert!(!refused_with(4, 5, [0, 1]), "a request of the call itself");
        assert!(!refused_with(1, 4, [0, 0]), "two nodes are free");
    }

    #[test]
    fn a_process_is_free_again_when_its_grant_is_released() {
        let refused_after = |more: Vec<(u64, What)>| {
            let mut entries = vec![
                (0, tries_by(1, Actor { host: 0, task: 1 })),
                (1, granted(1, Some(9))),
            ];
            entries.extend(more);
            entries.extend([(5, tries(2, 0)), (6, refused(2))]);
            lie(entries).is_none()
        };
        assert!(refused_after(vec![]));
        assert!(refused_after(vec![(2, releases(3, 0, 1))]));
        assert!(!refused_after(vec![(2, releases(3, 0, 1)), (4, done(3))]));
        let restart = vec![(2, What::Crash { host: 0 }), (3, What::Restart { host: 0 })];
        assert!(!refused_after(restart));
    }
}
