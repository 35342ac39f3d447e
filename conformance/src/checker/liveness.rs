//! P7, liveness: once all faults are over for a waiter and a majority of servers, the waiter is granted the lock within
//! (waiters) x (lease + hand-over). Faults of other clients do not matter, even if they never end.
//!
//! A call that waits must not end in an error before its time if no fault struck it: a majority of servers can decide
//! it, so one server alone must not make it fail. If the lock promises an answer, no call at all may end in an error
//! while there is no fault anywhere. Nor may a renewal end in an error if most servers have lost the grant: these
//! servers say so, and the lock can report the loss.
//!
//! Each acquisition that is in progress at the beginning counts as a waiter that may be granted the lock first.
//! Acquisitions and renewals that come later do not count as waiters. Instead, the bound grows by the time in which
//! other clients had the lock, or may have had it because their call got no answer. It also grows if one of several
//! servers executes a request long after the call has ended.
//!
//! No call may hang, whatever the lock promises: a call whose wait is over, in a process that runs and has no request under
//! way, returns within two leases, and two request timeouts with the pauses after them.
//!
//! A call whose wait is over may end in an error while one of its requests is outstanding.
//!
//! An error is excused by what happened to requests of the same process that were sent or outstanding during the call:
//! the call found a connection broken, a reply was lost, a node failed, or a server had lost its scripts. The next call
//! meets none of these.

use super::{Checker, Finding, Property, Witness, in_process, room, seconds};
use crate::history::{
    Belief, Call, Cause, End, Excuse, FaultIntervals, Kind, Mode, Moment, NEVER, OpId, Operation,
    Outcome, Reading, Refusal, TokenSpan,
};
use crate::scenario::Topology;
use std::{collections::BTreeSet, time::Duration};

/// Judges P7.
pub struct Liveness;

/// Most round trips of one request: to connect, to ask, and to send a script that the server does not know yet.
const ROUND_TRIPS: u32 = 5;

impl Checker for Liveness {
    fn property(&self) -> Property {
        Property::Liveness
    }

    fn judge(&self, history: &Reading<'_>) -> Finding {
        let operations = history.operations();
        let fault_intervals = history.fault_intervals();
        let end = history.entries.last().map_or(Duration::ZERO, |it| it.at);
        let terms = &history.terms;
        let hand_over =
            history.longest_poll() + terms.skip + history.request_timeout() + terms.round_trips(4);
        let mut patient = 0;
        let starved = operations.iter().find_map(|waiter| {
            let Call::Acquire { wait, .. } = waiter.call else {
                return None;
            };
            let (host, asked) = (waiter.actor.host, waiter.asked.at);
            let until = (asked + wait).min(waiter.ended.at).min(end);
            let from = match fault_intervals.last_without_majority(host, asked, until) {
                Some(last) => Moment::at(last.saturating_add(history.recovery())),
                // A client that died in the same instant, but before, is no rival.
                None => waiter.asked,
            };
            let span = until.checked_sub(from.at)?;
            let rivals = operations.iter().filter(|it| waits_at(it, from));
            let waiters = u32::try_from(rivals.count()).unwrap_or(u32::MAX).max(1);
            let mut bound = (history.lease + hand_over).saturating_mul(waiters);
            if span > bound {
                // Few waiters wait for so long, so this costly search runs for them alone.
                let (held, turns) = held(&standing(history), waiter, from.at, until);
                bound += held + hand_over.saturating_mul(turns);
                bound = bound.saturating_add(
                    in_process::kept_out(history, Excuse::WaitsInProcess, waiter)
                        .saturating_sub(from.at),
                );
            }
            patient += u32::from(waiter.outcome == Outcome::Ok || span > bound);
            (span > bound).then_some((waiter, from.at, bound, waiters))
        });
        let hanging = operations.iter().find_map(|it| hangs(history, it, end));
        if let Some(witness) = hanging.or_else(|| unanswered(history)) {
            return Finding::Violation(witness);
        }
        let failed = operations
            .iter()
            .find(|it| failed(history, operations, fault_intervals, it) || unsaid(history, it));
        if let Some(it) = failed {
            return Finding::Violation(Witness {
                at: it.ended,
                until: None,
                grants: vec![],
                message: format!(
                    "at {} a call of {} ended in an error, though nothing was wrong for it and most of \
                     the servers",
                    seconds(it.ended.at),
                    it.actor,
                ),
            });
        }
        match starved {
            Some((waiter, from, bound, waiters)) => Finding::Violation(Witness {
                at: Moment::at(from + bound),
                until: None,
                grants: vec![],
                message: format!(
                    "from {} on no fault concerned {}, one of {waiters} clients that asked for the lock, but it \
                     was not granted within {}",
                    seconds(from),
                    waiter.actor,
                    seconds(bound)
                ),
            }),
            None if patient == 0 => Finding::Unknown("no client waited for long enough"),
            None => Finding::Valid,
        }
    }
}

/// True if a call ended with an error although it had time left, and no fault struck what it depended on.
fn failed(
    history: &Reading<'_>,
    operations: &[Operation],
    fault_intervals: &FaultIntervals,
    it: &Operation,
) -> bool {
    let early = match it.call {
        Call::Acquire { wait, .. } => it.ended.at < it.asked.at + wait,
        Call::Try { .. }
        | Call::Renew { .. }
        | Call::Release { .. }
        | Call::SetUp
        | Call::Admit
        | Call::AdmitAgain { .. }
        | Call::CountDown
        | Call::Await { .. } => true,
        // These calls need no answer from a server.
        Call::Drop { .. } | Call::Access { .. } => return false,
    };
    // If the network is too slow, a request may time out without a fault.
    let near = history.terms.round_trips(ROUND_TRIPS) < history.request_timeout();
    let answers = history.terms.answers && near;
    let waits = matches!(it.call, Call::Acquire { .. });
    let error = match it.outcome {
        Outcome::Unknown => waits && early || answers,
        Outcome::Fail(Refusal::Other) => answers,
        Outcome::Fail(_) | Outcome::Ok | Outcome::Cancelled | Outcome::Open => false,
    };
    if !error {
        return false;
    }
    let host = it.actor.host;
    let since = history.depends_since(host, it.asked.at);
    // A call that waits needs a majority of the servers. Any other call needs all servers that store its grant.
    let missed = history.scripts_missed_at(host, since, it.ended.at).len();
    let spare = match history.topology {
        Topology::Nodes(nodes) if waits => usize::from(nodes.saturating_sub(1) / 2),
        Topology::Nodes(_) | Topology::Replicated { .. } => 0,
    };
    let told = missed > spare;
    let found = finds_broken(history, operations, it);
    if told && history.accepts(Excuse::LostScript)
        || found && history.accepts(Excuse::BrokenConnection)
        || history.accepts(Excuse::SplitVotes) && is_undecided(history, it)
        || history.accepts(Excuse::OutOfTime) && history.runs_out_of_time(it)
    {
        return false;
    }
    // The process may not have dialled a recovered node yet.
    let since = since.saturating_sub(history.recovery());
    fault_intervals.calm(host, since, it.ended.at)
        && (waits && early || fault_intervals.calm_everywhere(host, since, it.ended.at))
        // A grant may rely on a bare majority: then no node of it may have forgotten the grant.
        && it.call.of_grant().is_none_or(|grant| {
            let taken = operations.iter().find(|other| other.op == grant);
            let since = taken.map_or(Duration::ZERO, |it| it.asked.at);
            fault_intervals.calm_everywhere(host, since, it.ended.at)
        })
}

/// Counterexample of any lock, whatever it promises: a call goes on for two leases, although its wait is over, no fault
/// concerns its process, and no request of the process is under way.
fn hangs(history: &Reading<'_>, it: &Operation, end: Duration) -> Option<Witness> {
    let wait = it.call.longest_wait()?;
    let (host, asked, ended) = (it.actor.host, it.asked.at, it.ended.at.min(end));
    let bound = 2 * (history.lease + history.recovery()) + history.terms.longest_hold();
    let over = asked.saturating_add(wait);
    // Few calls take so long: what delays them is sought for those alone.
    if ended.saturating_sub(over) <= bound {
        return None;
    }
    let requests = history.requests_of(host);
    let requests = requests.filter(|request| request.sent <= ended);
    let answered = requests.map(|request| {
        let closed = history.session(request).closed;
        let done = request.replied.or(closed).unwrap_or(NEVER);
        done.max(request.sent)
    });
    let answered = answered.max().unwrap_or_default();
    let faults = history.fault_intervals();
    // The end of the process ends the call, and delays nothing.
    let before = ended.saturating_sub(Duration::from_nanos(1));
    let trouble = faults.last(host, asked, before);
    let trouble = trouble.map(|last| last.saturating_add(history.recovery()));
    let since = over
        .max(answered)
        .max(trouble.unwrap_or_default())
        .max(match it.call.acquires() {
            true => in_process::kept_out(history, Excuse::WaitsInProcess, it),
            false => Duration::ZERO,
        });
    (ended.saturating_sub(since) > bound).then(|| Witness {
        at: Moment::at(since.saturating_add(bound)),
        until: None,
        grants: vec![],
        message: format!(
            "a call of {} that began at {} has not returned within {} after the last request of its process was \
             answered",
            it.actor,
            seconds(asked),
            seconds(bound)
        ),
    })
}

/// Counterexample of any lock, whatever it promises: each acquisition, or each release within its lease, ended in an error in a run
/// without faults. Calls in other modes do not count, since the lock may not offer these modes.
fn unanswered(history: &Reading<'_>) -> Option<Witness> {
    let near = history.terms.round_trips(ROUND_TRIPS) < history.request_timeout();
    let broken = history.sessions.iter().any(|session| session.broken);
    if !near || broken || !history.fault_intervals().is_empty() {
        return None;
    }
    let is_asked = |it: &&Operation| {
        let counts = matches!(it.call, Call::Admit | Call::CountDown);
        counts || matches!(it.call.mode(), Some(Mode::Exclusive | Mode::Permits(1)))
    };
    let releases =
        |it: &&Operation| matches!(it.call, Call::Release { .. }) && is_in_time(history, it);
    all_errors(history, is_asked).or_else(|| all_errors(history, releases))
}

/// Counterexample: each of the chosen calls ended in an error.
fn all_errors(history: &Reading<'_>, chosen: impl Fn(&&Operation) -> bool) -> Option<Witness> {
    let ended = history.operations().iter().filter(chosen);
    let ended: Vec<&Operation> = ended
        .filter(|it| !matches!(it.outcome, Outcome::Cancelled | Outcome::Open))
        .collect();
    let errors = ended.iter().all(|it| {
        matches!(
            it.outcome,
            Outcome::Unknown | Outcome::Fail(Refusal::Other | Refusal::NotOffered)
        )
    });
    let last = ended.last().filter(|_| errors && ended.len() > 1)?;
    let calls = match last.call.gives_back() {
        Some(_) => "releases",
        None => "calls",
    };
    Some(Witness {
        at: last.ended,
        until: None,
        grants: vec![],
        message: format!(
            "each of {} {calls} ended in an error, though nothing was wrong in the whole run",
            ended.len()
        ),
    })
}

/// True if a release ended within the lease of its grant, counted from when the client asked for it.
fn is_in_time(history: &Reading<'_>, it: &Operation) -> bool {
    let grant = it.call.gives_back();
    let mut operations = history.operations().iter();
    let asked = operations.find(|other| Some(other.op) == grant);
    let lease = history.shortest_lease();
    asked.is_some_and(|grant| it.ended.at <= grant.asked.at.saturating_add(lease))
}

/// True if the nodes that answered could not decide the last round of an acquisition: too few of them were free for a
/// grant, and too few stored a token for a refusal. The answer of a failed node would have decided it.
fn is_undecided(history: &Reading<'_>, it: &Operation) -> bool {
    let Topology::Nodes(nodes @ 2..) = history.topology else {
        return false;
    };
    if !it.call.acquires() {
        return false;
    }
    let recent = Moment::at(it.ended.at.saturating_sub(2 * history.recovery()));
    let begun = history.last_attempt(it);
    let round = Operation {
        asked: begun.unwrap_or_else(|| it.asked.max(recent)),
        ..*it
    };
    let host = it.actor.host;
    let beside = history.operations().iter().any(|other| {
        let theirs = other.actor.host == host && other.op != it.op;
        theirs && other.call.acquires() && other.asked < it.ended && it.asked < other.landed()
    });
    // A token of the process may belong to this round or to another call. A lease may end during the round.
    let tokens = |node: u8| {
        let spans = history.tokens().spans.iter();
        spans.filter(move |span| {
            let own = span.owner == Some(host) && round.asked < span.from;
            span.node == node && (beside || !own)
        })
    };
    let surely_free = |node: &&u8| {
        let mut tokens = tokens(**node);
        !tokens.any(|span| span.stood_within(round.asked, round.ended))
    };
    // The token of a reentrant owner lets it in again, and a semaphore refuses when its permits do not suffice.
    let room = match history.kind {
        Kind::Semaphore(permits) => permits.saturating_sub(room::permits_of(it)),
        Kind::Mutex | Kind::ReadWrite | Kind::Admission(_) | Kind::Latch(_) => 0,
    };
    let surely_taken = |node: &&u8| {
        let standing = tokens(**node).filter(|span| {
            let lets_in = history.reentrant && span.owner == Some(host);
            !lets_in && span.from <= round.asked && round.ended < span.gone.0
        });
        let holders: BTreeSet<&[u8]> = standing.map(|span| span.token).collect();
        holders.len() > usize::try_from(room).unwrap_or(usize::MAX)
    };
    // A node that lost the token of the round counts as failed, whatever it answered.
    let forgot = |node: u8| {
        history.tokens().spans.iter().any(|span| {
            let (gone, cause) = span.gone;
            let of_round = span.owner == Some(host) && round.asked < span.from;
            span.node == node && of_round && cause == Cause::Fault && gone < round.ended
        })
    };
    let (heard, silent): (Vec<u8>, Vec<u8>) =
        (0..nodes).partition(|&node| history.is_heard(host, Some(node), &round) && !forgot(node));
    let quorum = usize::from(nodes) / 2 + 1;
    let granted = heard.iter().filter(surely_free).count();
    let refused = heard.iter().filter(surely_taken).count();
    !silent.is_empty() && granted < quorum && quorum + refused <= usize::from(nodes)
}

/// True if a server answered a request of a call with an error. The call then reports this error, and not a broken
/// connection.
fn is_answered(history: &Reading<'_>, it: &Operation) -> bool {
    history.requests_of(it.actor.host).any(|request| {
        let theirs = it.asked.at <= request.sent
            && request
                .replied
                .is_some_and(|replied| replied <= it.ended.at);
        let error = request.error.as_deref();
        theirs && error.is_some_and(|error| error != "NOSCRIPT")
    })
}

/// True if a request of a call had no reply at the end of the call, although its connection was not broken. The call then
/// reports that, and no broken connection.
fn is_left_waiting(history: &Reading<'_>, it: &Operation) -> bool {
    history.requests_of(it.actor.host).any(|request| {
        let sent = it.asked.at <= request.sent && request.sent <= it.ended.at;
        let session = history.session(request);
        let open = !session.broken || session.closed.is_none_or(|at| it.ended.at < at);
        sent && open && request.replied.is_none_or(|at| it.ended.at < at)
    })
}

/// True if a call received the reply to its last request although the connection broke at `broke`, while the reply was on its way: the
/// error of the call is about this reply, and not about the connection.
fn has_last_reply(history: &Reading<'_>, it: &Operation, broke: Duration) -> bool {
    let requests = history.requests_of(it.actor.host);
    let sent =
        requests.filter(|request| it.asked.at <= request.sent && request.sent <= it.ended.at);
    let last = sent.max_by_key(|request| request.sent_at());
    last.is_some_and(|last| {
        let replied = last.replied.is_some_and(|at| at <= it.ended.at);
        replied && history.session(last).closed == Some(broke)
    })
}

/// True if a call needed no server: it extends or gives back a grant whose end the client knew, and sent no request.
fn asks_no_server(history: &Reading<'_>, it: &Operation) -> bool {
    let Some(grant) = it.call.of_grant() else {
        return false;
    };
    let mut beliefs = history.beliefs().iter();
    let is_over = beliefs.any(|belief| belief.grant == grant && belief.to <= it.asked);
    let mut sent = history
        .requests_of(it.actor.host)
        .map(|request| request.sent);
    is_over && !sent.any(|sent| it.asked.at <= sent && sent <= it.ended.at)
}

/// True if a call may have found a connection broken. Such a connection broke before the call ended. No other call has
/// ended in an error because of it, and the process has not dialled again since, as far as it uses one connection. A call
/// finds one broken connection at most.
fn finds_broken(history: &Reading<'_>, operations: &[Operation], it: &Operation) -> bool {
    let theirs = || {
        let sessions = history.sessions.iter();
        sessions.filter(|session| session.host == it.actor.host)
    };
    let broken = || {
        let broken = theirs().filter(|session| session.broken);
        broken
            .filter_map(|session| Some((session.node, session.closed?)))
            .filter(|&(_, at)| at <= it.ended.at)
    };
    let open = |node: u8, at: Duration| {
        let open = theirs().filter(|session| {
            session.node == node
                && session.opened <= at
                && session.closed.is_none_or(|closed| at < closed)
        });
        open.count()
    };
    // One that was dialled need not replace the broken one as long as the process has fewer than it uses at other times.
    let lacks_one = |node: u8| {
        let opened = || theirs().filter(|session| session.node == node);
        let most = opened().map(|session| open(node, session.opened)).max();
        // What the process opened at the instant of the call, it lacked before.
        let before = opened().filter(|session| {
            let at = it.asked.at;
            session.opened < at && session.closed.is_none_or(|closed| at < closed)
        });
        let had = before.count();
        history.accepts(Excuse::SeveralConnections)
            && most.is_some_and(|most| (1..most).contains(&had))
    };
    broken().any(|(node, since)| {
        let errors = operations.iter().filter(|other| {
            let error = matches!(
                other.outcome,
                Outcome::Unknown | Outcome::Fail(Refusal::Other)
            );
            let theirs = error && other.op != it.op && other.actor.host == it.actor.host;
            let theirs = theirs
                && !is_answered(history, other)
                && !is_left_waiting(history, other)
                && !has_last_reply(history, other, since)
                && !asks_no_server(history, other);
            theirs && since <= other.ended.at && other.ended <= it.asked
        });
        // A connection that its process closed before this call ended was dialled for another call, and replaced no
        // broken one.
        let dialled = history.sessions.iter().filter(|session| {
            let anew = since < session.dialled && session.dialled < it.asked.at;
            let stays = session.broken
                || session.closed.is_none_or(|at| it.ended.at < at)
                || !history.accepts(Excuse::ConnectionOfOneCall);
            session.host == it.actor.host && anew && stays
        });
        let lost = broken().filter(|&(_, at)| since <= at).count();
        errors.count() < lost && (dialled.count() < lost || lacks_one(node))
    })
}

/// True if a renewal ended in an error although the lock must know of the loss: every server was heard, all of them
/// once stored the grant, and no majority stores it now. If some servers did not store the grant before, the lock asks
/// them again, so their answers are open. For a lock that renews in the background answers are open at any time.
fn unsaid(history: &Reading<'_>, it: &Operation) -> bool {
    let Call::Renew { grant } = it.call else {
        return false;
    };
    let error = matches!(it.outcome, Outcome::Unknown | Outcome::Fail(Refusal::Other));
    let terms = &history.terms;
    if !(error && terms.answers && history.observed) || terms.renews {
        return false;
    }
    let Some(belief) = history.beliefs().iter().find(|it| it.grant == grant) else {
        return false;
    };
    let servers = match history.topology {
        Topology::Nodes(count) => usize::from(count),
        Topology::Replicated { .. } => 1,
    };
    let tokens = history.tokens();
    // A token that another task of the process may have stored says nothing about this grant.
    let theirs = tokens.surely_of_grant(belief, history.operations());
    let names: BTreeSet<_> = theirs.map(|span| span.token).collect();
    let nodes = |stood: &dyn Fn(&TokenSpan<'_>) -> bool| {
        let spans = tokens.spans.iter();
        let stood = spans.filter(|span| names.contains(span.token) && stood(span));
        stood.map(|span| span.node).collect::<BTreeSet<u8>>().len()
    };
    let confirmed = history.operations().iter().filter(|other| {
        let confirms = other.op == grant || other.call == it.call;
        confirms && other.outcome == Outcome::Ok && other.ended <= it.asked
    });
    let confirmed = confirmed.map(|other| other.ended).max();
    // The lock may count a node that did not answer once as storing the grant for ever.
    let since = belief.asked.at.saturating_sub(history.recovery());
    confirmed.is_some_and(|at| nodes(&|span| span.stood(at)) == servers)
        && 2 * nodes(&|span| span.stood_within(it.asked, it.ended)) <= servers
        && history
            .fault_intervals()
            .heard_everywhere(it.actor.host, since, it.ended.at)
}

/// True if the operation is an acquisition in progress at this moment.
fn waits_at(it: &Operation, at: Moment) -> bool {
    it.call.acquires() && it.asked <= at && at <= it.ended
}

/// Span in which an operation keeps other clients from the lock.
struct Standing {
    op: Option<OpId>,
    from: Duration,
    to: Duration,
}

/// Spans in which acquisitions kept other clients from the lock: as long as their holders believed in the grant,
/// however often they renewed it. If no release was seen, the rest of a lease counts too.
fn standing(history: &Reading<'_>) -> Vec<Standing> {
    let lease = history.lease.max(history.terms.longest_hold());
    let operations = history.operations();
    // A grant without a known release lasts until the servers no longer store it, but at most for the rest of its
    // lease.
    let rest = |belief: &Belief| {
        let last = belief.to.at.saturating_add(lease);
        let gone = history.tokens().of_grant(belief).map(|span| span.gone.0.at);
        match history.observed {
            true => gone
                .max()
                .map_or(belief.to.at, |gone| gone.max(belief.to.at).min(last)),
            false => last,
        }
    };
    let beliefs = history.beliefs().iter().map(|belief| {
        let end = operations
            .iter()
            .find(|it| it.call.gives_back() == Some(belief.grant));
        let heard = end.filter(|it| {
            let told = matches!(it.outcome, Outcome::Ok | Outcome::Fail(Refusal::Lost));
            told && matches!(it.call, Call::Release { .. }) && belief.end == End::Released
        });
        let to = match heard {
            Some(it) => it.ended.at + history.terms.longest_hold(),
            None => rest(belief),
        };
        Standing {
            op: Some(belief.grant),
            from: belief.asked.at,
            to,
        }
    });
    // The grant of an acquisition without an answer may last for a lease after the last request of this acquisition.
    let unheard = operations.iter().filter(|it| {
        let unheard = match it.outcome {
            Outcome::Unknown | Outcome::Cancelled | Outcome::Open => true,
            Outcome::Fail(why) => why == Refusal::Other,
            Outcome::Ok => false,
        };
        // An acquisition that has not ended by the end of the history is still waiting.
        it.call.acquires() && unheard && it.ended != Moment::NEVER
    });
    let unheard = unheard.map(|it| Standing {
        op: Some(it.op),
        from: it.asked.at,
        to: it.ended.at.saturating_add(lease),
    });
    let late = late(history).map(|at| Standing {
        op: None,
        from: at,
        to: at.saturating_add(lease),
    });
    beliefs.chain(unheard).chain(late).collect()
}

/// Returns how long other clients kept a waiter from the lock in a span, and how many operations did so.
fn held(
    standing: &[Standing],
    waiter: &Operation,
    from: Duration,
    to: Duration,
) -> (Duration, u32) {
    let others = standing.iter().filter(|it| it.op != Some(waiter.op));
    let others = others.map(|it| (it.from.max(from), it.to.min(to)));
    let mut others: Vec<_> = others.filter(|(from, to)| from < to).collect();
    others.sort_unstable();
    let (mut held, mut covered) = (Duration::ZERO, from);
    for &(from, to) in &others {
        held += to.saturating_sub(from.max(covered));
        covered = covered.max(to);
    }
    (held, u32::try_from(others.len()).unwrap_or(u32::MAX))
}

/// Times at which one of several servers executed a request that no call waited for any more. From then on its token
/// keeps other clients from the lock at this server.
fn late<'a>(history: &'a Reading<'_>) -> impl Iterator<Item = Duration> + 'a {
    let patience = history.request_timeout();
    let awaited = move |span: &TokenSpan<'_>| {
        history.operations().iter().any(|it| {
            let theirs = it.call.acquires() && Some(it.actor.host) == span.owner;
            let over = it.ended.at.saturating_add(patience);
            theirs && it.asked <= span.from && span.from.at <= over
        })
    };
    let tokens = history.tokens();
    let spans = tokens.spans.iter().filter(|_| tokens.several);
    let late = spans.filter(move |span| span.owner.is_some() && !awaited(span));
    late.map(|span| span.from.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Holder, What},
        scenario::{Fault, Topology},
    };

    /// The lease is 12 s, and a hand-over takes slightly more than 4 s.
    fn check(entries: Vec<(u64, What)>) -> Finding {
        let mut history = history(entries);
        history.lease = s(12);
        history.terms.wake = Some(s(2));
        Liveness.check(&history)
    }

    /// A call whose process has no request under way, and that does not return.
    #[test]
    fn no_call_hangs() {
        // Two leases, and two request timeouts with the pauses after them.
        let hangs =
            |ends: u64, call: What, more: Vec<(u64, What)>, requests: &[(u64, Option<u64>)]| {
                let mut entries = vec![(1, call), (ends, refused(1))];
                entries.extend(more);
                entries.sort_by_key(|&(at, _)| at);
                let mut history = history(entries);
                history.lease = s(12);
                history.dials(0, 0, 0, None);
                for &(sent, replied) in requests {
                    history.asks(0, sent, replied, replied);
                }
                Liveness.check(&history).witness().is_some()
            };
        let bound = 2 * 12 + 2 * 2;
        assert!(hangs(2 + bound, tries(1, 0), vec![], &[]));
        assert!(!hangs(1 + bound, tries(1, 0), vec![], &[]));
        assert!(!hangs(4 + bound, waits(1, 0, 5), vec![], &[]), "it waits");
        assert!(hangs(7 + bound, waits(1, 0, 5), vec![], &[]));
        assert!(!hangs(4 + bound, tries(1, 0), vec![], &[(2, Some(5))]));
        assert!(!hangs(4 + bound, tries(1, 0), vec![], &[(2, None)]));
        let pause = || vec![(2, What::Pause { host: 0 }), (5, What::Resume { host: 0 })];
        assert!(!hangs(4 + bound, tries(1, 0), pause(), &[]));
        let others = || vec![(2, What::Pause { host: 1 }), (5, What::Resume { host: 1 })];
        assert!(hangs(4 + bound, tries(1, 0), others(), &[]));
        let crash = vec![(2, What::Crash { host: 0 })];
        assert!(!hangs(4 + bound, tries(1, 0), crash, &[]));
    }

    #[test]
    fn errors_alone_are_no_answers() {
        let error = |op| What::Info {
            op,
            error: "silence".to_owned(),
        };
        let ends = |second: What, fault: Option<Fault>| {
            let strikes = fault.map(|fault| (0, What::Strikes { fault }));
            let calls = [
                (1, tries(1, 0)),
                (2, error(1)),
                (3, tries(2, 0)),
                (4, second),
            ];
            check(strikes.into_iter().chain(calls).collect())
                .witness()
                .is_some()
        };
        assert!(ends(error(2), None));
        assert!(!ends(refused(2), None));
        assert!(!ends(error(2), Some(Fault::NodePause { node: 0 })));
    }

    #[test]
    fn errors_alone_are_no_releases() {
        let unknown = |op| What::Info {
            op,
            error: "silence".to_owned(),
        };
        let ends = |second: What, lease: u64| {
            let mut history = history(vec![
                (1, tries(1, 0)),
                (2, granted(1, Some(10))),
                (3, releases(2, 0, 1)),
                (4, unknown(2)),
                (5, tries(3, 0)),
                (6, granted(3, Some(14))),
                (7, releases(4, 0, 3)),
                (8, second),
            ]);
            history.lease = s(lease);
            Liveness.check(&history).witness().is_some()
        };
        assert!(ends(unknown(4), 10));
        let released = What::Ok {
            op: 4,
            deadline: None,
            fence: None,
            number: None,
            token: None,
        };
        assert!(!ends(released, 10));
        assert!(!ends(unknown(4), 2), "the leases were over");
    }

    /// Seed 10021 of `redlock-of-three` under `eviction`: the grant relied on two nodes, and one of them forgot it.
    #[test]
    fn a_grant_that_a_node_forgot_need_not_be_extended() {
        let renewed = |fault: Option<Fault>| {
            let strikes = fault.map(|fault| (2, What::Strikes { fault }));
            let told = (
                4,
                What::Fail {
                    op: 2,
                    why: Refusal::Other,
                },
            );
            let begin = [(1, tries(1, 0)), (2, granted(1, Some(11)))];
            let end = [(3, renews(2, 0, 1)), told];
            let mut history = history(begin.into_iter().chain(strikes).chain(end).collect());
            (history.topology, history.terms.answers) = (Topology::Nodes(3), true);
            Liveness.check(&history).witness().is_some()
        };
        assert!(renewed(None));
        assert!(!renewed(Some(Fault::Evict { node: 1 })));
    }

    /// Seeds 1329 and 13397 of `redlock-of-three` under `eviction`. In one, the lock asked a node again that had
    /// refused. In the other, a node stored the token of another task of the process.
    #[test]
    fn a_grant_that_most_servers_have_lost_is_reported_as_lost() {
        let renewed = |had: u8, forget: &[u8], more: Option<What>, (answers, in_background)| {
            let stored = (0..had).map(|node| (1, stores_on(node, 0, "a", Some(11))));
            let forget = forget.iter().map(|&node| (3, empties(node, Cause::Fault)));
            let more = more.map(|what| (0, what));
            let error = "no quorum".to_owned();
            let told = (5, What::Info { op: 2, error });
            let struck = (
                3,
                What::Strikes {
                    fault: Fault::Evict { node: 0 },
                },
            );
            let begin = more.into_iter().chain([(1, tries(1, 0))]).chain(stored);
            let begin = begin.chain([(2, granted(1, Some(10))), struck]);
            let end = [(4, renews(2, 0, 1)), told];
            let mut history = history(begin.chain(forget).chain(end).collect());
            history.topology = Topology::Nodes(3);
            (history.terms.answers, history.terms.renews) = (answers, in_background);
            Liveness.check(&history).witness().is_some()
        };
        let promised = (true, false);
        assert!(renewed(3, &[0, 1], None, promised));
        assert!(!renewed(3, &[0], None, promised), "a majority is left");
        assert!(!renewed(3, &[0, 1], None, (false, false)));
        assert!(!renewed(3, &[0, 1], None, (true, true)));
        assert!(!renewed(2, &[0, 1], None, promised), "one is asked again");
        let silent = Some(What::Strikes {
            fault: Fault::NodePause { node: 2 },
        });
        assert!(!renewed(3, &[0, 1], silent, promised));
        let beside = Some(tries(9, 0));
        assert!(!renewed(3, &[0, 1], beside, promised), "of two tasks");
    }

    /// Seed 7161 of `fenced-redlock` under `eviction`: a node forgot its vote before the lock stored the fencing token
    /// there.
    #[test]
    fn a_vote_that_a_node_forgot_may_be_missed() {
        let tried = |fault: Option<Fault>| {
            let strikes = fault.map(|fault| (2, What::Strikes { fault }));
            let why = Refusal::Other;
            let told = (3, What::Fail { op: 1, why });
            let begin = [(1, tries(1, 0))].into_iter().chain(strikes);
            let mut history = history(begin.chain([told]).collect());
            (history.topology, history.terms.answers) = (Topology::Nodes(3), true);
            Liveness.check(&history).witness().is_some()
        };
        assert!(tried(None));
        assert!(!tried(Some(Fault::Evict { node: 1 })));
    }

    /// Of three nodes the first one stores a foreign token, and the second one no longer stores the token of the call.
    #[test]
    fn a_node_that_forgot_the_token_of_a_round_counts_as_failed() {
        let waited = |cause| {
            let error = "split votes".to_owned();
            let mut history = history(vec![
                (0, stores_on(0, 1, "b", Some(20))),
                (1, waits(1, 0, 20)),
                (2, stores_on(1, 0, "a", Some(12))),
                (2, stores_on(2, 0, "a", Some(12))),
                (3, empties(1, cause)),
                (4, What::Info { op: 1, error }),
            ]);
            history.topology = Topology::Nodes(3);
            Liveness.check(&history).witness().is_some()
        };
        assert!(!waited(Cause::Fault));
        assert!(waited(Cause::Client(0)), "the process removed it");
    }

    #[test]
    fn where_nothing_is_wrong_every_call_has_an_answer_if_that_is_promised() {
        let ends = |answers, end: What, fault: Option<Fault>| {
            let mut history = history(vec![(1, tries(1, 0)), (2, end)]);
            if let Some(fault) = fault {
                history.entries.insert(
                    0,
                    crate::history::Entry {
                        at: s(0),
                        what: What::Strikes { fault },
                    },
                );
            }
            (history.lease, history.terms.answers) = (s(12), answers);
            Liveness.check(&history).witness().is_none()
        };
        let unknown = || What::Info {
            op: 1,
            error: "type error".into(),
        };
        let (op, why) = (1, Refusal::Other);
        assert!(!ends(true, unknown(), None));
        assert!(!ends(true, What::Fail { op, why }, None));
        assert!(ends(true, refused(1), None));
        assert!(ends(false, unknown(), None));
        let error = Fault::NodePause { node: 0 };
        assert!(ends(true, unknown(), Some(error)));
    }

    #[test]
    fn a_lone_waiter_is_granted_within_a_lease_and_a_hand_over() {
        let granted_at = |at| {
            check(vec![
                (0, stores(1, "b", Some(12))),
                (1, waits(1, 0, 60)),
                (at, granted(1, Some(at + 11))),
            ])
        };
        assert_eq!(granted_at(17), Finding::Valid);
        assert!(granted_at(18).witness().is_some());
        let refused = vec![(1, waits(1, 0, 60)), (61, refused(1))];
        assert!(check(refused).witness().is_some());
    }

    #[test]
    fn a_rival_adds_a_turn_and_an_extension_the_time_that_it_is_used() {
        let rivals = |more: Vec<(u64, What)>| {
            let mut entries = vec![(1, waits(1, 0, 60)), (28, granted(1, Some(39)))];
            entries.extend(more);
            entries.sort_by_key(|&(at, _)| at);
            check(entries)
        };
        assert!(rivals(vec![]).witness().is_some());
        assert_eq!(rivals(vec![(0, waits(2, 1, 30))]), Finding::Valid);
        let later = rivals(vec![(4, waits(2, 1, 30))]);
        assert!(later.witness().is_some(), "it came later");
        let extended = vec![(2, stores(1, "b", Some(14))), (6, stores(1, "b", Some(18)))];
        assert!(
            rivals(extended).witness().is_some(),
            "no client relied on it"
        );
        let held = |to| {
            let deadline = Some(s(to));
            vec![
                (0, tries(2, 1)),
                (0, granted(2, Some(11))),
                (5, What::Deadline { grant: 2, deadline }),
                (to, releases(3, 1, 2)),
                (to, done(3)),
            ]
        };
        assert_eq!(rivals(held(9)), Finding::Valid);
        assert!(rivals(held(2)).witness().is_some());
    }

    #[test]
    fn the_bound_for_a_waiter_counts_from_the_end_of_its_own_faults() {
        let paused = |host| {
            check(vec![
                (1, waits(1, 0, 60)),
                (2, What::Pause { host }),
                (20, What::Resume { host }),
                (30, granted(1, Some(39))),
            ])
        };
        assert_eq!(paused(0), Finding::Valid);
        assert!(paused(1).witness().is_some());
    }

    #[test]
    fn a_waiter_is_granted_by_the_nodes_that_are_there() {
        let granted_at = |at, struck: &[u8]| {
            let crash = |&node| What::Strikes {
                fault: Fault::NodeCrash { node, keeps: true },
            };
            let dead = struck.iter().map(crash).map(|it| (0, it));
            let told = [(1, waits(1, 0, 60)), (at, granted(1, Some(at + 11)))];
            let mut history = history(dead.chain(told).collect());
            (history.lease, history.topology) = (s(12), Topology::Nodes(3));
            history.terms.wake = Some(s(2));
            Liveness.check(&history).witness().is_none()
        };
        assert!(granted_at(17, &[1]));
        assert!(!granted_at(18, &[1]));
        assert!(granted_at(18, &[1, 2]));
    }

    /// Seed 10951 of `redlock-of-three` and `fenced-redlock` under `node-pause`: a paused node executed the try of a
    /// grant 25 s later. The next node to be paused was one of the two free ones.
    #[test]
    fn a_request_that_a_server_executes_long_after_its_call_adds_a_lease() {
        let stored_at = |at, nodes| {
            let mut entries = vec![
                (0, tries(2, 1)),
                (1, granted(2, Some(12))),
                (1, waits(1, 0, 60)),
                (at, stores_on(2, 1, "b", Some(at + 12))),
                (35, granted(1, Some(46))),
            ];
            entries.sort_by_key(|&(at, _)| at);
            let mut history = history(entries);
            (history.lease, history.topology) = (s(12), Topology::Nodes(nodes));
            history.terms.wake = Some(s(2));
            Liveness.check(&history).witness().is_none()
        };
        assert!(stored_at(9, 3));
        assert!(!stored_at(9, 1), "the only one holds it up for all");
        assert!(!stored_at(1, 3), "it was awaited");
    }

    #[test]
    fn a_waiter_that_gives_up_soon_proves_nothing() {
        let soon = vec![(1, waits(1, 0, 5)), (6, refused(1))];
        assert!(matches!(check(soon), Finding::Unknown(_)));
    }

    #[test]
    fn an_error_of_a_few_servers_ends_no_call() {
        let failed = |at, struck: &[u8]| {
            let crash = |&node| What::Strikes {
                fault: Fault::NodeCrash { node, keeps: true },
            };
            let mut entries: Vec<_> = struck.iter().map(crash).map(|it| (1, it)).collect();
            let error = "a node failed".to_owned();
            entries.extend([(2, waits(1, 0, 10)), (at, What::Info { op: 1, error })]);
            let mut history = history(entries);
            history.topology = Topology::Nodes(3);
            Liveness.check(&history).witness().is_some()
        };
        assert!(failed(4, &[]));
        assert!(failed(4, &[1]));
        assert!(!failed(4, &[0, 1]), "too few are left");
        assert!(!failed(12, &[1]), "it had no time left");
    }

    #[test]
    fn a_call_that_finds_its_connection_broken_may_end_in_an_error() {
        let ends_in_an_error = |broke: &[u64], before: &[u64]| {
            let error = || "broken pipe".to_owned();
            let mut entries = Vec::new();
            for (op, &at) in (10..).zip(before) {
                let told = What::Info { op, error: error() };
                entries.extend([(at, tries(op, 0)), (at, told)]);
            }
            let told = What::Info {
                op: 2,
                error: error(),
            };
            entries.extend([(30, waits(2, 0, 10)), (31, told)]);
            let mut history = history(entries);
            for &at in broke {
                let dialled = if at < 30 { 1 } else { 16 };
                history.dials(0, 0, dialled, Some(at));
            }
            Liveness.check(&history).witness().is_some()
        };
        assert!(ends_in_an_error(&[], &[]));
        assert!(!ends_in_an_error(&[15], &[]));
        assert!(!ends_in_an_error(&[15], &[10]), "that was before");
        assert!(ends_in_an_error(&[15], &[20]), "another call has found it");
        assert!(
            !ends_in_an_error(&[15, 15], &[20]),
            "there were two of them"
        );
        assert!(ends_in_an_error(&[15, 15], &[20, 25]));
        assert!(
            ends_in_an_error(&[15, 40], &[]),
            "the second one works until 40"
        );
    }

    /// Seed 3666 of a lock with one token for all its tasks, under mixed faults.
    #[test]
    fn a_renewal_after_the_deadline_found_no_connection_broken() {
        let ends_in_an_error = |deadline, sends: bool| {
            let error = || "an error".to_owned();
            let told = |op| What::Info { op, error: error() };
            let entries = vec![
                (1, tries(1, 0)),
                (2, granted(1, Some(deadline))),
                (20, renews(3, 0, 1)),
                (20, told(3)),
                (30, waits(2, 0, 10)),
                (31, told(2)),
            ];
            let mut history = history(entries);
            history.lease = s(40);
            history.dials(0, 0, 1, Some(15));
            history.asks(0, 1, Some(1), Some(2));
            if sends {
                history.asks(0, 20, None, None);
            }
            Liveness.check(&history).witness().is_some()
        };
        assert!(!ends_in_an_error(9, false));
        assert!(
            ends_in_an_error(9, true),
            "it has met the broken connection"
        );
        assert!(ends_in_an_error(29, false), "its grant was not over");
    }

    #[test]
    fn an_error_that_a_server_answered_found_no_connection_broken() {
        let ends_in_an_error = |answered: Option<u64>| {
            let error = || "an error".to_owned();
            let told = |op| What::Info { op, error: error() };
            let entries = vec![
                (18, tries(9, 0)),
                (20, told(9)),
                (30, waits(2, 0, 10)),
                (31, told(2)),
            ];
            let mut history = history(entries);
            history.dials(0, 0, 1, Some(19));
            history.asks(0, 18, Some(18), answered);
            history.requests[0].error = answered.map(|_| "BUSY".to_owned());
            Liveness.check(&history).witness().is_some()
        };
        assert!(!ends_in_an_error(Some(19)));
        assert!(ends_in_an_error(None));
    }

    /// A subscription over a connection of its own gets no reply; the other connection is broken, and no request touches it.
    /// The connection breaks at 5, while the reply to the last request of the first call is under way. The next call begins at 30.
    #[test]
    fn a_call_whose_last_request_is_answered_found_no_connection_broken() {
        let unknown = |op| What::Info {
            op,
            error: "an error".to_owned(),
        };
        let fails = |replied: Option<u64>| {
            let mut history = history(vec![
                (3, waits(1, 0, 4)),
                (7, unknown(1)),
                (30, waits(2, 0, 10)),
                (31, unknown(2)),
            ]);
            (history.lease, history.terms.wake) = (s(12), Some(s(2)));
            history.dials(0, 0, 0, Some(5));
            history.asks(0, 4, Some(4), replied);
            Liveness.check(&history).witness().is_some()
        };
        assert!(!fails(Some(6)));
        assert!(fails(None), "it found the connection broken");
    }

    #[test]
    fn a_request_without_a_reply_found_no_connection_broken() {
        let ends_in_an_error = |replied: Option<u64>| {
            let told = |op| What::Info {
                op,
                error: "an error".to_owned(),
            };
            let entries = vec![
                (18, tries(9, 0)),
                (20, told(9)),
                (30, waits(2, 0, 10)),
                (31, told(2)),
            ];
            let mut history = history(entries);
            history.dials(0, 0, 1, Some(15));
            history.dials(0, 0, 18, None);
            (history.sessions[1].closed, history.sessions[1].noticed) = (Some(s(20)), Some(s(20)));
            history.asks(1, 18, Some(18), replied);
            Liveness.check(&history).witness().is_some()
        };
        assert!(!ends_in_an_error(None));
        assert!(
            ends_in_an_error(Some(19)),
            "it has met the broken connection"
        );
    }

    #[test]
    fn a_script_that_one_of_three_servers_forgot_is_no_excuse() {
        let ends_in_an_error = |forgot: &[u8]| {
            let flush = |&node| {
                (
                    3,
                    What::Strikes {
                        fault: Fault::FlushScripts { node },
                    },
                )
            };
            let mut entries: Vec<_> = forgot.iter().map(flush).collect();
            let error = "no script".to_owned();
            entries.extend([(30, waits(2, 0, 10)), (31, What::Info { op: 2, error })]);
            let mut history = history(entries);
            history.topology = Topology::Nodes(3);
            for (session, &node) in forgot.iter().enumerate() {
                history.dials(0, node, 1, None);
                history.asks(session, 30, Some(30), Some(31));
                history.requests.last_mut().unwrap().error = Some("NOSCRIPT".to_owned());
            }
            Liveness.check(&history).witness().is_some()
        };
        assert!(ends_in_an_error(&[1]));
        assert!(!ends_in_an_error(&[0, 1]), "too few are left");
    }

    #[test]
    fn a_script_that_the_server_forgot_is_loaded_once() {
        let ends_in_an_error = |told: &[u64]| {
            let fault = Fault::FlushScripts { node: 0 };
            let error = "no script".to_owned();
            let mut history = history(vec![
                (3, What::Strikes { fault }),
                (30, waits(2, 0, 10)),
                (31, What::Info { op: 2, error }),
            ]);
            history.dials(0, 0, 1, None);
            for &at in told {
                history.asks(0, at, Some(at), Some(at));
                history.requests.last_mut().unwrap().error = Some("NOSCRIPT".to_owned());
            }
            Liveness.check(&history).witness().is_some()
        };
        assert!(!ends_in_an_error(&[31]));
        assert!(ends_in_an_error(&[20, 31]), "it knew");
        assert!(ends_in_an_error(&[]));
    }

    /// Of three nodes the second one fails; the first and the last store these tokens, or none, when a call of the process 0 ends
    /// in an error. Returns true if the servers could decide it.
    fn is_decided(kind: Kind, reentrant: bool, first: &[(u8, &str)], last: &[(u8, &str)]) -> bool {
        let stores = |node, holders: &[(u8, &str)]| {
            let mut stored: Vec<Holder> = Vec::new();
            let each = holders.iter().map(|&(host, token)| {
                stored.push(Holder {
                    token: token.into(),
                    expires: Some(s(20)),
                    ..Holder::default()
                });
                let (cause, stored) = (Cause::Client(host), stored.clone());
                let what = What::Server {
                    node,
                    cause,
                    stored,
                    anonymous: 0,
                };
                (0, what)
            });
            each.collect::<Vec<_>>()
        };
        let (node, keeps) = (1, true);
        let mut entries = [stores(0, first), stores(2, last)].concat();
        let fault = Fault::NodeCrash { node, keeps };
        entries.push((1, What::Strikes { fault }));
        let error = "no majority".to_owned();
        entries.extend([(2, waits(1, 0, 10)), (4, What::Info { op: 1, error })]);
        let mut history = history(entries);
        history.topology = Topology::Nodes(3);
        (history.kind, history.reentrant) = (kind, reentrant);
        Liveness.check(&history).witness().is_some()
    }

    #[test]
    fn a_node_that_has_room_for_the_call_refuses_nothing() {
        let full = [(1, "b"), (2, "c")];
        let semaphore = |first: &[_]| is_decided(Kind::Semaphore(2), false, first, &full);
        assert!(!semaphore(&[(1, "b")]), "one permit is left");
        assert!(semaphore(&full));
        let mutex = |reentrant, host| {
            let own = [(host, "a")];
            is_decided(Kind::Mutex, reentrant, &own, &[(1, "b")])
        };
        assert!(!mutex(true, 0), "the owner may enter again");
        assert!(mutex(true, 2));
        assert!(mutex(false, 0));
    }
}
