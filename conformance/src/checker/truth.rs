//! P19, truth: a result never claims more than the servers did.
//!
//! * A grant is returned only before its own deadline.
//! * "Extended" only if the grant stood at some instant of the call; "lost" only if it did not stand all the time, or its
//!   own deadline was over.
//! * "Released" only if this call removed the grant; "lost already" only if it was gone before. If the servers store it in several
//!   places, and it expired in some of them before the call removed it from the others, both are true.
//! * "Contended" only if another grant stood that leaves no room for this one (of readers a writer's, or one of the same
//!   process; of a semaphore too many permits), others were queued, or the lock was reserved, at some instant of the call,
//!   or another task of the process had the lock or asked for it. Of several nodes: unless one majority answered all the
//!   time and stored at most what this call put there.
//! * The TTL at a server never exceeds the lease, which is the longest that the suite asks for.

use super::{Checker, Finding, Property, Witness, in_process, room, seconds};
use crate::{
    history::{
        Belief, Call, Cause, Cause::Client, End, Excuse, Fate, FaultEffect, Holder, Kind, Moment,
        OpId, Operation, Outcome, Reading, Refusal, TokenSpan, What,
    },
    scenario::Topology,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Judges P19.
pub struct Truth;

struct Facts<'a>(&'a Reading<'a>);

/// The most steps in which a client undoes a call: dials and requests, each after the reply to the one before.
const UNDOING_STEPS: u32 = 16;

impl Checker for Truth {
    fn property(&self) -> Property {
        Property::Truth
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        if let Some(witness) = dead_on_arrival(history) {
            return Finding::Violation(witness);
        }
        if !history.observed {
            return Finding::Unknown("the server was not observed");
        }
        let facts = Facts(history);
        let lies = facts.0.operations().iter().filter_map(|it| {
            let (grants, message) = facts.lie(it)?;
            Some(Witness {
                at: it.ended,
                until: None,
                grants,
                message,
            })
        });
        let first = lies.chain(facts.too_long()).min_by_key(|lie| lie.at);
        first.map_or(Finding::Valid, Finding::Violation)
    }
}

/// A grant whose deadline was over when it was returned.
fn dead_on_arrival(history: &Reading<'_>) -> Option<Witness> {
    let calls = history.calls();
    history.iter().find_map(|(at, what)| {
        let &What::Ok {
            op,
            deadline: Some(deadline),
            ..
        } = what
        else {
            return None;
        };
        let (_, actor, call) = *calls.get(&op)?;
        (call.acquires() && deadline <= at.at).then(|| Witness {
            at,
            until: None,
            grants: vec![op],
            message: format!(
                "{actor} was granted the lock at {}, its deadline being {}",
                seconds(at.at),
                seconds(deadline)
            ),
        })
    })
}

/// On how many nodes.
fn nodes<'a>(spans: impl Iterator<Item = &'a TokenSpan<'a>>) -> usize {
    let nodes: BTreeSet<u8> = spans.map(|span| span.node).collect();
    nodes.len()
}

/// Returns true if it was removed before its time was over.
fn cut_short(span: &&TokenSpan<'_>) -> bool {
    let (gone, _) = span.gone;
    span.expiry(gone).is_none_or(|ends| gone.at < ends)
}

impl Facts<'_> {
    fn lie(&self, it: &Operation) -> Option<(Vec<OpId>, String)> {
        let report =
            |says: &str| format!("at {} {} was told {says}", seconds(it.ended.at), it.actor);
        if let (Call::Renew { grant }, Outcome::Ok) = (it.call, it.outcome) {
            let belief = self
                .0
                .beliefs()
                .iter()
                .find(|belief| belief.grant == grant)?;
            let says = "that its lease was extended, but the lock was gone";
            let lied = self.was_gone(belief, it);
            return lied.then(|| (vec![grant], report(says)));
        }
        if let (Call::Renew { grant }, Outcome::Fail(Refusal::Lost)) = (it.call, it.outcome) {
            let mut beliefs = self.0.beliefs().iter();
            let belief = beliefs.find(|belief| belief.grant == grant)?;
            let says = "that the lock was lost, but it stood all the time";
            // A client that already knows of the loss, or that sees its deadline pass, asks no server.
            let told = belief.end == End::Lost && belief.to < it.asked;
            let asked = !told && (belief.end != End::Deadline || it.ended < belief.to);
            // By a clock of its own that was bent it may have passed.
            let (bent, host) = ([FaultEffect::ClientClock], it.actor.host);
            let (from, to) = (belief.asked.at, it.ended.at);
            let asked = asked && !self.0.fault_intervals().any(&bent, host, from, to);
            // Of several nodes, one that granted it later than the others cannot vouch for the time before.
            let since = match self.0.topology {
                Topology::Nodes(2..) => belief.from,
                Topology::Nodes(_) | Topology::Replicated { .. } => it.asked,
            };
            let lied = asked && self.stood_throughout(belief, since, it.ended);
            return lied.then(|| (vec![grant], report(says)));
        }
        if let Call::Release { grant } = it.call {
            let belief = self
                .0
                .beliefs()
                .iter()
                .find(|belief| belief.grant == grant)?;
            // An inner release removes nothing; but nor does it find the lock lost.
            let inner = self.is_shared(belief, it);
            // The token of an owner may stand for another of its grants when this one is over.
            let over = inner && belief.end == End::Deadline && belief.to <= it.asked;
            let says = match it.outcome {
                Outcome::Ok
                    if !inner
                        && nodes(self.removed(belief, it)) == 0
                        && !self.counted_down(it)
                        && !self.removed_what_was_left(belief, it)
                        && !self.ends_later(belief, it) =>
                {
                    "that it released the lock, but its request removed nothing"
                }
                Outcome::Ok if !inner && self.refuted(belief, it) => {
                    "that it released the lock, but a majority of the nodes answered that the lock was gone"
                }
                Outcome::Fail(Refusal::Lost)
                    if !over
                        && self.stood_throughout(belief, it.asked, it.ended)
                        && !self.lost_a_part(belief, it) =>
                {
                    "that the lock was lost already, but it stood all the time"
                }
                Outcome::Fail(Refusal::Lost)
                    if !inner
                        && self.names(belief).len() == 1
                        && !self.lost_a_part(belief, it)
                        && nodes(self.removed(belief, it).filter(cut_short)) >= self.quorum() =>
                {
                    "that the lock was lost already, but its own request had removed it"
                }
                Outcome::Ok
                | Outcome::Fail(_)
                | Outcome::Unknown
                | Outcome::Cancelled
                | Outcome::Open => return None,
            };
            return Some((vec![grant], report(says)));
        }
        let refused = matches!(
            it.outcome,
            Outcome::Fail(Refusal::Contended | Refusal::TimedOut)
        );
        let lied = it.call.acquires() && refused && !self.contended(it);
        lied.then(|| {
            let says = "that another client holds the lock, but none did during the call";
            (vec![], report(says))
        })
    }

    /// True if the actor has another grant when it begins a release, as after a reentrant acquisition: one that it has not
    /// released, and whose deadline is not over or whose token still stands.
    fn is_shared(&self, belief: &Belief, release: &Operation) -> bool {
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

    /// Returns true if a request of the call had no reply, and may have been executed. The call repeated it under the same
    /// token.
    fn repeated_a_request(&self, it: &Operation) -> bool {
        self.0.requests_of(it.actor.host).any(|request| {
            let of_call = it.asked.at <= request.sent && request.sent <= it.ended.at;
            of_call && request.replied.is_none() && self.0.fate(request) != Fate::RequestLost
        })
    }

    /// Until when a level may stand that a call without an answer left: for a lease from when its last request has landed and
    /// what was wrong meanwhile is over.
    fn counts_until(&self, it: &Operation) -> Duration {
        let host = it.actor.host;
        let sent = self.0.requests_of(host).filter(|request| {
            it.asked.at <= request.sent && request.sent <= it.ended.at && request.replied.is_none()
        });
        let landed = sent.filter_map(|request| match self.0.fate(request) {
            Fate::RequestLost => None,
            Fate::Open => Some(request.executed.unwrap_or(Duration::MAX)),
            Fate::Delivered | Fate::Refused | Fate::Late | Fate::ReplyLost => request.executed,
        });
        let landed = landed.fold(it.ended.at, Duration::max);
        let spare = self.0.lease + self.0.recovery() + self.0.terms.round_trips(2);
        let until = landed.saturating_add(spare);
        let well = self.0.fault_intervals().last(host, it.asked.at, until);
        well.map_or(until, |well| until.max(well.saturating_add(spare)))
    }

    /// Returns true if a request of the process lowered the depth of the grant's token during the call, and left it
    /// there.
    fn lowered_depth(&self, belief: &Belief, it: &Operation) -> bool {
        let host = it.actor.host;
        self.is_lessened(belief, |_, at, cause| {
            cause == Client(host) && it.asked < at && at < it.ended
        })
    }

    /// Returns true if the servers store the token of the grant in several places, a request of the process removed it from some
    /// of them during the call, and it had expired in the others before the call ended.
    fn removed_what_was_left(&self, belief: &Belief, it: &Operation) -> bool {
        self.0.accepts(Excuse::PartExpired)
            && self.lowered_depth(belief, it)
            && self
                .of_grant(belief)
                .iter()
                .all(|span| span.gone.0 < it.ended && span.gone.1 == Cause::Server)
    }

    /// Returns true if the servers stored the token of the grant in several places, and it expired in some of them while it still
    /// stood in others: the grant may have been no longer whole.
    fn lost_a_part(&self, belief: &Belief, it: &Operation) -> bool {
        // A replica repeats what its master does, also a release of one of several levels.
        let copies = matches!(self.0.topology, Topology::Replicated { .. });
        self.0.accepts(Excuse::PartExpired)
            && (self.is_part_over(belief, it)
                || self.is_lessened(belief, |node, at, cause| {
                    let expired = cause == Cause::Server && !(copies && node > 0);
                    expired && belief.from < at && at < it.ended
                }))
    }

    /// Returns true if one of several places of the grant's token reached its expiry and was still stored: a key that stores all
    /// holders keeps it until a client removes it.
    fn is_part_over(&self, belief: &Belief, it: &Operation) -> bool {
        let names = self.names(belief);
        let is_over = |stored: &[Holder], from: Moment, to: Moment| {
            let places = stored.iter().filter(|it| names.contains(&*it.token));
            let (from, to) = (from.max(belief.from).at, to.min(it.ended).at);
            let ends: Vec<_> = places.map(|it| it.expires).collect();
            let over = |ends: &Option<Duration>| ends.is_some_and(|at| from <= at && at <= to);
            ends.len() > 1 && ends.iter().any(over) && !ends.iter().all(over)
        };
        let mut before: BTreeMap<u8, (Moment, &[Holder])> = BTreeMap::new();
        let over = self.0.iter().any(|(at, what)| {
            let What::Server { node, stored, .. } = what else {
                return false;
            };
            let last = before.insert(*node, (at, stored));
            last.is_some_and(|(from, stored)| is_over(stored, from, at))
        });
        over || before
            .values()
            .any(|&(from, stored)| is_over(stored, from, Moment::NEVER))
    }

    /// Returns true if a step of a server that `such` selects lessened what the server stored of the grant, levels or places, and
    /// left the rest.
    fn is_lessened(&self, belief: &Belief, such: impl Fn(u8, Moment, Cause) -> bool) -> bool {
        let names = self.names(belief);
        let mut before: BTreeMap<u8, u32> = BTreeMap::new();
        self.0.iter().any(|(at, what)| {
            let What::Server {
                node,
                cause,
                stored,
                ..
            } = what
            else {
                return false;
            };
            let held = stored.iter().filter(|it| names.contains(&*it.token));
            let depths = held.map(|held| held.depth.unwrap_or(1));
            let depth = Some(depths.sum::<u32>()).filter(|depth| *depth > 0);
            let was = match depth {
                Some(depth) => before.insert(*node, depth),
                None => before.remove(node),
            };
            such(*node, at, *cause) && depth.is_some() && depth < was
        })
    }

    /// The tokens of a grant: the one that the subject named, else its own, or those of the grants that it was taken on
    /// top of.
    fn of_grant(&self, belief: &Belief) -> Vec<&TokenSpan<'_>> {
        if self.0.tokens().named.contains_key(&belief.grant) {
            return self.0.tokens().of_grant(belief).collect();
        }
        let older = self.0.beliefs().iter().filter(|older| {
            self.0.reentrant && older.actor == belief.actor && older.from <= belief.from
        });
        let older = older.flat_map(|older| self.0.tokens().of_grant(older));
        self.0.tokens().of_grant(belief).chain(older).collect()
    }

    /// Their names. If there is more than one, some may be those of other tasks of the process.
    fn names(&self, belief: &Belief) -> BTreeSet<&[u8]> {
        let spans = self.of_grant(belief).into_iter();
        spans.map(|span| span.token).collect()
    }

    /// What a request of the process removed of the grant during the call.
    fn removed(&self, belief: &Belief, it: &Operation) -> impl Iterator<Item = &TokenSpan<'_>> {
        let (host, from, to) = (it.actor.host, it.asked, it.ended);
        // Also where it was put later: a grant may grow.
        let names = self.names(belief);
        let theirs = self.0.tokens().spans.iter();
        theirs.filter(move |span| {
            let (gone, by) = span.gone;
            names.contains(span.token) && by == Client(host) && from < gone && gone < to
        })
    }

    /// Returns true if so many of several nodes answered a request of the call and stored no token of the grant at any instant
    /// of it that the others are no majority. A token that a request of the process removed before the call does not count as gone.
    fn refuted(&self, belief: &Belief, it: &Operation) -> bool {
        let Topology::Nodes(nodes @ 2..) = self.0.topology else {
            return false;
        };
        let (host, names) = (it.actor.host, self.names(belief));
        let denies = |node: &u8| {
            let mut requests = self.0.requests_of(host);
            let answered = requests.any(|request| {
                self.0.session(request).node == *node
                    && it.asked <= request.sent_at()
                    && request.error.is_none()
                    && request.replied.is_some_and(|at| at <= it.ended.at)
            });
            let mut theirs = self.0.tokens().spans.iter();
            let stored = theirs.any(|span| {
                let removed = span.gone.1 == Client(host) && belief.from < span.gone.0;
                let there = span.stood_within(it.asked, it.ended) || removed;
                span.node == *node && names.contains(span.token) && there
            });
            answered && !stored
        };
        !names.is_empty() && (0..nodes).filter(denies).count() >= self.quorum()
    }

    /// Returns true if a request of the process lowered the count of holders during the call.
    fn counted_down(&self, it: &Operation) -> bool {
        let mut before: BTreeMap<u8, u32> = BTreeMap::new();
        self.0.iter().any(|(at, what)| {
            let &What::Server {
                node,
                cause,
                anonymous,
                ..
            } = what
            else {
                return false;
            };
            let was = before.insert(node, anonymous).unwrap_or(0);
            let theirs = cause == Client(it.actor.host) && it.asked < at && at < it.ended;
            theirs && anonymous < was
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

    /// Returns true if a request of the process gave the grant another end during the call, as the release of one does
    /// that keeps others out for some time at least; or need not, as it ends soon enough.
    fn ends_later(&self, belief: &Belief, it: &Operation) -> bool {
        let host = it.actor.host;
        let spans = self.of_grant(belief);
        // A process that does not run sends its request so much later.
        let stood = (self.0.fault_intervals()).stopped_for(host, it.asked.at, it.ended.at);
        let soon = it.asked.at + stood + self.0.terms.longest_hold();
        let ends_soon = spans.iter().any(|span| {
            let ends = span.expiry(it.asked);
            span.stood_within(it.asked, it.ended) && ends.is_some_and(|ends| ends <= soon)
        });
        if self.0.terms.hold == Duration::ZERO {
            return self.expired_by_request(&spans, it);
        }
        // The expiries of a server are not observed while its clock is wrong.
        let bent = [FaultEffect::ServerClock];
        let bent = (self.0.fault_intervals()).any(&bent, host, it.asked.at, it.ended.at);
        let mut changes = spans.into_iter().flat_map(|it| &it.expiries);
        let changed = bent
            || changes.any(|&(at, by, _)| by == Client(host) && it.asked < at && at < it.ended);
        changed || ends_soon
    }

    /// Returns true if a server executed a request of the process during the call, and the grant's token, if it still
    /// stood, then had a TTL of at most the timing tolerance. Such a release expires the token instead of deleting it.
    /// The TTL is not observed while the clock of the server is wrong.
    fn expired_by_request(&self, spans: &[&TokenSpan<'_>], it: &Operation) -> bool {
        let tolerance = self.0.terms.timing_tolerance();
        self.0.requests_of(it.actor.host).any(|request| {
            let Some(at) = (request.executed).filter(|&at| it.asked.at <= at && at <= it.ended.at)
            else {
                return false;
            };
            let node = self.0.session(request).node;
            let after = Moment {
                at,
                place: usize::MAX,
            };
            let theirs = spans.iter().filter(|span| span.node == node);
            theirs
                .filter(|span| span.stood_within(Moment::at(at), after))
                .any(|span| {
                    let expires = span.expiry(after);
                    !self.exact(node, at) || expires.is_some_and(|end| end <= at + tolerance)
                })
        })
    }

    /// Returns true if no token of the grant stood on as many nodes as it takes, at any instant of the call.
    fn was_gone(&self, belief: &Belief, it: &Operation) -> bool {
        let names = self.names(belief);
        let theirs = self.0.tokens().spans.iter();
        let stood = theirs
            .filter(|span| names.contains(span.token) && span.stood_within(it.asked, it.ended));
        let nodes: BTreeSet<u8> = stood.map(|span| span.node).collect();
        !names.is_empty() && nodes.len() < self.quorum()
    }

    /// Returns true if the one token of the grant stood on as many nodes as it takes, all the time.
    fn stood_throughout(&self, belief: &Belief, since: Moment, until: Moment) -> bool {
        let names = self.names(belief);
        let everywhere = self.0.tokens().spans.iter().filter(|span| {
            let throughout = span.from <= since && until < span.gone.0;
            names.contains(span.token) && throughout
        });
        let needed = match self.0.topology {
            Topology::Nodes(_) => self.quorum(),
            Topology::Replicated { replicas } => 1 + usize::from(replicas),
        };
        names.len() == 1 && everywhere.count() >= needed
    }

    /// How many nodes it takes to hold the lock.
    fn quorum(&self) -> usize {
        match self.0.topology {
            Topology::Nodes(count) => usize::from(count) / 2 + 1,
            Topology::Replicated { .. } => 1,
        }
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
        let alone = heard && !beside;
        let anothers = |span: &TokenSpan<'_>| {
            let own = alone && span.owner == Some(host) && it.asked < span.from;
            !own && span.stood_within(it.asked, it.ended)
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
            let replied = request.replied.unwrap_or(Duration::MAX);
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

    /// A token that lasts longer than any lease that was asked for.
    fn too_long(&self) -> Option<Witness> {
        // A clock that was bent and is straight again rounds to other milliseconds.
        let longest = self.0.lease + self.0.terms.timing_tolerance();
        self.0.tokens().spans.iter().find_map(|span| {
            let mut theirs = span.expiries.iter().filter_map(|&(at, cause, expires)| {
                let (Client(host), true) = (cause, self.exact(span.node, at.at)) else {
                    return None;
                };
                let ttl = expires.map(|expires| expires.saturating_sub(at.at));
                // The token may have got its expiry before, under another key.
                let begun = at.at.saturating_sub(longest);
                let set_back = self.0.fault_intervals().set_back(span.node, begun, at.at);
                ttl.is_none_or(|ttl| ttl > longest + set_back)
                    .then_some((at, host, ttl))
            });
            let (at, host, ttl) = theirs.next()?;
            let ttl = ttl.map_or_else(|| "no end".to_owned(), seconds);
            let (client, lease) = (crate::history::Actor::on(host), seconds(self.0.lease));
            Some(Witness {
                at,
                until: None,
                grants: vec![],
                message: format!(
                    "at {} the lock of {client} was given {ttl}, the lease being {lease}",
                    seconds(at.at)
                ),
            })
        })
    }

    /// Returns true if the clock of a server showed true time.
    fn exact(&self, node: u8, at: Duration) -> bool {
        !self
            .0
            .fault_intervals()
            .at_node(FaultEffect::ServerClock, node, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let error = crate::history::CANCELLED.to_owned();
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
        let entries = |count: usize, until| What::Server {
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
        let lies = |replied: Option<u64>, left: usize| -> Option<String> {
            let mut history = history(vec![
                (0, tries(1, 0)),
                (2, entries(1, 12)),
                (3, named(1, 11)),
                (4, releases(2, 0, 1)),
                (4, entries(0, 0)),
                (5, done(2)),
                (6, entries(1, 16)),
                (7, tries(3, 0)),
                (7, entries(2, 17)),
                (8, named(3, 16)),
                (9, releases(4, 0, 3)),
                (9, entries(left, 17)),
                (10, done(4)),
            ]);
            history.reentrant = true;
            history.dials(0, 0, 0, None);
            history.asks(0, 1, Some(6), replied);
            let finding = Truth.check(&history);
            finding.witness().map(|witness| witness.message.clone())
        };
        assert_eq!(lies(None, 1), None);
        let message = lies(Some(7), 1).expect("each request had its reply");
        assert!(message.contains("removed nothing"), "{message}");
    }
    use crate::{
        checker::hand_made::*,
        history::{Actor, Cause, History, Holder, Token},
    };

    fn lie(entries: Vec<(u64, What)>) -> Option<String> {
        let finding = Truth.check(&history(entries));
        finding.witness().map(|witness| witness.message.clone())
    }

    #[test]
    fn a_lost_grant_cannot_be_extended() {
        let extended_after = |gone| {
            lie(vec![
                (0, tries(1, 0)),
                (1, stores(0, "a", Some(11))),
                (2, granted(1, Some(9))),
                (gone, empties(0, Cause::Fault)),
                (5, renews(2, 0, 1)),
                (6, granted(2, Some(14))),
            ])
        };
        assert_eq!(extended_after(6), None);
        assert_eq!(
            extended_after(4).as_deref(),
            Some("at 6.000 s c1 was told that its lease was extended, but the lock was gone")
        );
    }

    #[test]
    fn a_clock_that_stands_still_says_nothing_of_its_own_server_only() {
        let stopped = |node| {
            let fault = crate::scenario::Fault::NodeFreeze { node };
            let frozen = History {
                topology: Topology::Nodes(3),
                ..history(vec![
                    (0, What::Strikes { fault }),
                    (1, stores(0, "a", None)),
                ])
            };
            Truth.check(&frozen).witness().is_some()
        };
        assert!(!stopped(0));
        assert!(stopped(1), "another server's");
    }

    fn held_by_c1(more: Vec<(u64, What)>) -> Vec<(u64, What)> {
        let held = vec![
            (0, tries(1, 0)),
            (0, stores(0, "a", Some(10))),
            (1, granted(1, Some(9))),
        ];
        held.into_iter().chain(more).collect()
    }

    fn lost(op: OpId) -> What {
        let why = Refusal::Lost;
        What::Fail { op, why }
    }

    #[test]
    fn a_grant_that_stands_is_not_lost_when_it_is_extended() {
        let renewed = |at, more: Vec<(u64, What)>| {
            let renewal = [(at, renews(2, 0, 1)), (at, lost(2))];
            lie(held_by_c1(more.into_iter().chain(renewal).collect()))
        };
        assert_eq!(
            renewed(5, vec![]).as_deref(),
            Some("at 5.000 s c1 was told that the lock was lost, but it stood all the time")
        );
        assert_eq!(renewed(9, vec![]), None, "its own deadline was over");
        // Seed 99 of `seed-A1` under `drift-beyond`.
        let fault = crate::scenario::Fault::Drift {
            host: 0,
            ppm: 200_000,
        };
        assert_eq!(renewed(5, vec![(2, What::Strikes { fault })]), None);
        let told = vec![(3, What::Lost { grant: 1 })];
        assert_eq!(
            lie(held_by_c1(
                told.into_iter()
                    .chain([(5, renews(2, 0, 1)), (5, lost(2))])
                    .collect()
            )),
            None
        );
        let gone = [
            (5, renews(2, 0, 1)),
            (6, empties(0, Cause::Fault)),
            (7, lost(2)),
        ];
        assert_eq!(lie(held_by_c1(gone.into())), None);
    }

    /// Seed 632 of `redlock-handed-on` under `node-amnesia`, with a lock that does not wait for slower nodes.
    #[test]
    fn a_node_that_granted_it_later_vouches_for_nothing() {
        let lost_with = |late| {
            let mut entries = vec![
                (0, tries(1, 0)),
                (0, stores_on(0, 0, "a", Some(10))),
                (0, stores_on(1, 0, "a", Some(10))),
                (late, stores_on(2, 0, "a", Some(10))),
                (1, granted(1, Some(9))),
                (3, empties(1, Cause::Fault)),
                (4, renews(2, 0, 1)),
                (5, lost(2)),
            ];
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.topology = Topology::Nodes(3);
            Truth.check(&history).witness().is_some()
        };
        assert!(lost_with(0));
        assert!(!lost_with(2));
    }

    #[test]
    fn a_grant_must_not_be_dead_on_arrival() {
        let granted_at = |at| lie(vec![(0, tries(1, 0)), (at, granted(1, Some(9)))]);
        assert_eq!(granted_at(8), None);
        assert!(
            granted_at(9)
                .unwrap()
                .contains("its deadline being 9.000 s")
        );
    }

    #[test]
    fn released_means_that_this_call_removed_it() {
        let release = |entries: Vec<(u64, What)>| {
            let begin = vec![(3, releases(2, 0, 1))];
            lie(held_by_c1(begin.into_iter().chain(entries).collect()))
        };
        assert_eq!(release(vec![(3, frees(0)), (4, done(2))]), None);
        assert!(release(vec![(4, done(2))]).is_some());
        assert!(
            release(vec![(3, frees(1)), (4, done(2))]).is_some(),
            "another removed it"
        );
        assert!(
            release(vec![(12, frees(0)), (12, done(2))]).is_some(),
            "it had expired"
        );
    }

    #[test]
    fn a_release_gives_a_token_with_a_minimum_hold_an_expiry() {
        let release = |hold, kept: Option<(u64, What)>| {
            let told = [(3, releases(2, 0, 1))].into_iter().chain(kept);
            let mut history = history(held_by_c1(told.chain([(7, done(2))]).collect()));
            history.terms.hold = s(hold);
            Truth.check(&history) == Finding::Valid
        };
        let kept = |host| Some((4, stores(host, "a", Some(6))));
        assert!(release(6, kept(0)));
        assert!(!release(0, kept(0)));
        assert!(!release(6, kept(1)));
        assert!(!release(6, None));
        // Seed 810 of `semaphore-holding` under `suspend`: it ends then anyway.
        assert!(release(7, None));
    }

    /// A release that sets an expiry of a millisecond: the client sees no deletion.
    #[test]
    fn a_release_may_let_the_token_expire_at_once() {
        let release = |expires, executed, host| {
            let told = [
                (3, releases(2, 0, 1)),
                (4, stores(0, "a", Some(expires))),
                (7, done(2)),
            ];
            let mut history = history(held_by_c1(told.to_vec()));
            history.dials(host, 0, 0, None);
            history.asks(0, 4, executed, executed);
            Truth.check(&history) == Finding::Valid
        };
        assert!(release(4, Some(4), 0));
        assert!(!release(6, Some(4), 0), "two seconds are left");
        assert!(!release(4, Some(2), 0), "a request before the call");
        assert!(!release(4, None, 0), "no request was executed");
        assert!(!release(4, Some(4), 1), "a request of another process");
    }

    #[test]
    fn a_paused_process_sets_the_expiry_later() {
        // Seed 13407 of `fenced-fair` under `suspend`: when it runs again its lease ends as soon as what it promised.
        let release = |runs_again| {
            let pause = [
                (3, What::Pause { host: 0 }),
                (runs_again, What::Resume { host: 0 }),
            ];
            let told = [(3, releases(2, 0, 1))].into_iter().chain(pause);
            let mut history = history(held_by_c1(told.chain([(8, done(2))]).collect()));
            history.terms.hold = s(4);
            Truth.check(&history) == Finding::Valid
        };
        assert!(release(6));
        assert!(!release(4));
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

    /// A key stores all holders, each with its deadline. A client has two places in it, the second for a call that had no answer. The
    /// first is over at 6, and the release at 8 removes it.
    #[test]
    fn a_place_that_is_over_is_lost_although_the_key_still_stores_it() {
        let lie = |first: u64| {
            let server = |places: &[u64]| {
                let stored = places.iter().map(|&expires| Holder {
                    token: b"o".to_vec(),
                    expires: Some(s(expires)),
                    ..Holder::default()
                });
                What::Server {
                    node: 0,
                    cause: Client(0),
                    stored: stored.collect(),
                    anonymous: 0,
                }
            };
            let unknown = What::Info {
                op: 2,
                error: "timed out".into(),
            };
            let history = history(vec![
                (0, tries(1, 0)),
                (1, server(&[first])),
                (1, granted(1, Some(5))),
                (2, tries(2, 0)),
                (3, server(&[first, 12])),
                (4, unknown),
                (7, releases(3, 0, 1)),
                (8, server(&[12])),
                (9, lost(3)),
                (10, frees(0)),
            ]);
            Truth.check(&history).witness().map(|it| it.message.clone())
        };
        assert_eq!(lie(6), None);
        let stood = lie(11).unwrap_or_default();
        assert!(stood.contains("it stood all the time"), "{stood}");
    }

    /// The servers count the levels of an owner under one token. A call of the owner had no answer, and its level stands.
    #[test]
    fn a_grant_that_is_over_is_lost_although_another_level_stands() {
        let lie = |deadline: u64| {
            let server = |depth: u32, expires: u64| What::Server {
                node: 0,
                cause: Client(0),
                stored: vec![Holder {
                    token: b"o".to_vec(),
                    expires: Some(s(expires)),
                    depth: Some(depth),
                    ..Holder::default()
                }],
                anonymous: 0,
            };
            let unknown = What::Info {
                op: 2,
                error: "timed out".into(),
            };
            let mut history = history(vec![
                (0, tries(1, 0)),
                (1, server(1, 10)),
                (1, granted(1, Some(deadline))),
                (2, tries(2, 0)),
                (3, server(2, 12)),
                (4, unknown),
                (7, releases(3, 0, 1)),
                (8, server(1, 12)),
                (9, lost(3)),
                (10, frees(0)),
            ]);
            history.reentrant = true;
            Truth.check(&history).witness().map(|it| it.message.clone())
        };
        assert_eq!(lie(5), None);
        let stood = lie(9).unwrap_or_default();
        assert!(stood.contains("it stood all the time"), "{stood}");
    }

    /// An owner enters again and leaves. The replica follows its master.
    #[test]
    fn a_level_that_a_replica_lowers_is_no_part_that_expired() {
        let levels = |depth: u32| {
            let holder = Holder {
                token: b"o".to_vec(),
                expires: Some(s(10)),
                depth: Some(depth),
                ..Holder::default()
            };
            let server = |(node, cause)| What::Server {
                node,
                cause,
                stored: (depth > 0).then(|| holder.clone()).into_iter().collect(),
                anonymous: 0,
            };
            [(0, Client(0)), (1, Cause::Server)].map(server)
        };
        let at = |at, entries: [What; 2]| entries.map(|entry| (at, entry));
        let mut entries = vec![(0, tries(1, 0))];
        entries.extend(at(0, levels(1)));
        entries.extend([(1, granted(1, Some(9))), (2, tries(2, 0))]);
        entries.extend(at(2, levels(2)));
        entries.extend([(3, granted(2, Some(9))), (4, releases(3, 0, 2))]);
        entries.extend(at(4, levels(1)));
        entries.extend([(5, done(3)), (6, releases(4, 0, 1))]);
        entries.extend(at(7, levels(0)));
        entries.push((8, lost(4)));
        let mut history = history(entries);
        history.reentrant = true;
        history.topology = Topology::Replicated { replicas: 1 };
        let finding = Truth.check(&history);
        let message = finding.witness().map(|it| &*it.message).unwrap_or_default();
        assert!(message.contains("own request had removed it"), "{message}");
    }

    /// The server stores the grant in two places.
    #[test]
    fn a_part_of_a_grant_may_expire_before_the_release() {
        let entries = |steps: &[(u64, Cause, &[u64])], told: What| {
            let mut entries = vec![(0, tries(1, 0)), (2, granted(1, Some(10)))];
            entries.extend([(6, releases(2, 0, 1)), (9, told)]);
            entries.extend(steps.iter().map(|&(at, cause, places)| {
                let stored = places.iter().map(|&expires| Holder {
                    token: b"a".to_vec(),
                    expires: Some(s(expires)),
                    ..Holder::default()
                });
                let stored = stored.collect();
                let server = What::Server {
                    node: 0,
                    cause,
                    stored,
                    anonymous: 0,
                };
                (at, server)
            }));
            entries.sort_by_key(|&(at, _)| at);
            lie(entries)
        };
        let both = (1, Client(0), &[8, 11][..]);
        let (own, expired) = (Client(0), Cause::Server);
        // The release removes one, and the other expires.
        let half = [both, (7, own, &[8]), (8, expired, &[])];
        assert_eq!(entries(&half, done(2)), None);
        // One expires, and the release removes the other.
        let rest = [both, (5, expired, &[11]), (7, own, &[])];
        assert_eq!(entries(&rest, done(2)), None);
        assert_eq!(entries(&rest, lost(2)), None);
        let whole = entries(&[both, (7, own, &[])], lost(2)).unwrap_or_default();
        assert!(whole.contains("own request had removed it"), "{whole}");
        let left = entries(&[both, (7, own, &[11])], done(2)).unwrap_or_default();
        assert!(left.contains("removed nothing"), "{left}");
        let none = [both, (7, expired, &[11]), (8, expired, &[])];
        let none = entries(&none, done(2)).unwrap_or_default();
        assert!(none.contains("removed nothing"), "{none}");
    }

    #[test]
    fn lost_already_means_that_it_was_gone() {
        let release = |at, entries: Vec<(u64, What)>| {
            let begin = vec![(at, releases(2, 0, 1))];
            lie(held_by_c1(begin.into_iter().chain(entries).collect()))
        };
        assert_eq!(release(12, vec![(13, lost(2))]), None);
        assert_eq!(release(9, vec![(12, lost(2))]), None, "it went meanwhile");
        assert!(release(3, vec![(4, lost(2))]).is_some());
        let own = release(3, vec![(4, frees(0)), (5, lost(2))]);
        assert!(own.unwrap().contains("its own request had removed it"));
        // Seed 10603 of `read-write` under `node-drift`: what it clears away had just ended.
        assert_eq!(release(9, vec![(10, frees(0)), (11, lost(2))]), None);
        // Seed 15477 of `semaphore` under `overwork`: two tasks of a process ask at once, and one of them releases.
        let both = |token: &str| stores(0, token, Some(10));
        let beside = lie(vec![
            (0, tries(1, 0)),
            (0, tries(2, 0)),
            (0, both("a")),
            (1, both("b")),
            (1, granted(1, Some(9))),
            (1, granted(2, Some(9))),
            (3, releases(3, 0, 1)),
            (4, frees(0)),
            (5, lost(3)),
        ]);
        assert_eq!(beside, None);
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
    #[test]
    fn a_node_that_executes_an_earlier_request_meanwhile_is_not_free() {
        let refused_with = |sent, executed, nodes: [u8; 2]| {
            let error = crate::history::CANCELLED.to_owned();
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
    fn no_ttl_is_longer_than_the_lease() {
        assert_eq!(lie(vec![(1, stores(0, "a", Some(11)))]), None);
        assert!(lie(vec![(1, stores(0, "a", Some(12)))]).is_some());
        assert!(lie(vec![(1, stores(0, "a", None))]).is_some());
    }

    /// A client sets its own key with an expiry, and renames the key.
    #[test]
    fn a_clock_that_is_set_back_lengthens_what_has_an_expiry() {
        let lies = |node, by_ms, at| {
            let fault = crate::scenario::Fault::NodeClock { node, by_ms };
            let mut entries = vec![
                (20, stores(0, "a", Some(33))),
                (at, What::Strikes { fault }),
            ];
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            history.topology = Topology::Nodes(3);
            Truth.check(&history).witness().is_some()
        };
        assert!(!lies(0, -3_000, 19));
        assert!(lies(0, -2_000, 19), "by less than that");
        assert!(lies(0, 3_000, 19), "set forward");
        assert!(lies(0, -3_000, 8), "before the lease began");
        assert!(lies(1, -3_000, 19), "the clock of another node");
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
