//! The rehearsal: two clients acquire a lock in turns without faults. If the lock is not granted, it cannot
//! be judged, and its own error says more than a verdict. If a grant changes nothing at the place that the
//! subject describes, the lock cannot be observed: the suite skips the properties that read the servers, and
//! tells the author the reason.

use super::play;
use crate::{
    backend::Backend,
    history::{History, Moment, What},
    scenario::{Event, Happening, Op, Scenario, Schedule},
    simulation::{Run, RunError},
    subject::DynSubject,
    vocabulary::{Actor, Holder, Kind, Mode, OpId, Promises, Refusal},
};
use std::collections::BTreeMap;

const LEASE_MS: u64 = 10_000;
const SET_UP: OpId = 1;
const ASK: OpId = 2;
/// The other client tries while the first one holds the lock.
const RIVAL: OpId = 3;
const EXTEND: OpId = 4;
const GIVE_BACK: OpId = 5;
const RIVAL_GIVES_BACK: OpId = 6;
/// A client reads, if the lock has readers.
const READ: OpId = 7;
const READER_GIVES_BACK: OpId = 8;

/// Result of a rehearsal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rehearsed {
    /// Reason why the lock cannot be judged: the first client was not granted a free lock, or its grant lacks the promised deadline.
    pub(crate) refused: Option<String>,
    /// Reason why the holders of the lock cannot be observed; `None` if they can.
    pub(crate) unobservable: Option<String>,
}

/// Rehearses a lock.
///
/// # Errors
/// If the backend cannot be reached, or cannot play the subject.
pub(crate) fn rehearse(
    subject: &dyn DynSubject,
    backend: &dyn Backend,
) -> Result<Rehearsed, RunError> {
    if subject.is_rehearsed() {
        return Ok(Rehearsed::default());
    }
    let promises = subject.promises();
    if let Some(why) = undeclared(promises) {
        return Ok(Rehearsed {
            refused: Some(why),
            unobservable: None,
        });
    }
    let Some(judged) = play(subject, backend, scenario(promises))?.judged else {
        return Ok(Rehearsed::default());
    };
    let run = &judged.run;
    let entries = &run.history.entries;
    let told = entries.iter().find_map(|entry| told(&entry.what));
    let open = run.open_error.as_ref();
    let open = open.map(|error| format!("`open` failed: {error}"));
    let refused = match told {
        Some(None) => without_deadline(promises, run).or_else(|| not_offered(promises, run)),
        Some(Some(why)) => Some(not_granted(&open.unwrap_or(why))),
        None => Some(not_granted(
            open.as_deref().unwrap_or("the call never ended"),
        )),
    };
    let is_lock = promises.kind.whole().is_some();
    let unobservable = if refused.is_none() && is_lock && run.history.observed {
        unobservable(run)
    } else {
        None
    };
    Ok(Rehearsed {
        refused,
        unobservable,
    })
}

/// One client acquires the lock, another one tries, the first one extends and releases it. Of a semaphore
/// each takes one permit.
fn scenario(promises: Promises) -> Scenario {
    let mut events = vec![(SET_UP, 100, 0, Op::SetUp)];
    match (promises.kind.whole(), promises.kind) {
        (Some(whole), _) => {
            let mode = match whole.permits() {
                0 => whole,
                _ => Mode::Permits(1),
            };
            events.extend([
                (ASK, 500, 0, Op::Try { mode }),
                (RIVAL, 1_500, 1, Op::Try { mode }),
                (EXTEND, 2_500, 0, Op::Renew),
                (GIVE_BACK, 3_500, 0, Op::Release),
                (RIVAL_GIVES_BACK, 4_500, 1, Op::Release),
            ]);
            if promises.kind == Kind::ReadWrite {
                let mode = Mode::Shared;
                events.extend([
                    (READ, 5_500, 0, Op::Try { mode }),
                    (READER_GIVES_BACK, 6_500, 0, Op::Release),
                ]);
            }
        }
        (None, Kind::Latch(_)) => events.push((ASK, 500, 0, Op::CountDown)),
        (None, _) => events.push((ASK, 500, 0, Op::Admit)),
    }
    let events = events.into_iter().map(|(id, at_ms, host, op)| Event {
        id,
        at_ms,
        happening: Happening::Op {
            actor: Actor::on(host),
            op,
        },
    });
    Scenario {
        seed: 0,
        lease_ms: LEASE_MS,
        schedule: Schedule::Random,
        latency_ms: 1,
        timeout_ms: None,
        topology: promises.topology,
        events: events.collect(),
    }
}

/// Returns the outcome of a call: the inner `None` if the lock was granted, else the reason.
fn told(what: &What) -> Option<Option<String>> {
    if let What::Ok { op: ASK, .. } = what {
        Some(None)
    } else if let What::Fail { op: ASK, why } = what {
        Some(Some(format!("the call answered: {why}")))
    } else if let What::Info { op: ASK, error } = what {
        Some(Some(format!("the call ended in an error: {error}")))
    } else if let What::Panic { message, .. } = what {
        Some(Some(format!("the lock panicked: {message}")))
    } else {
        None
    }
}

fn not_granted(why: &str) -> String {
    format!(
        "its only client asked for a free lock while nothing was wrong, and was not granted it\n  {why}"
    )
}

/// Returns the reason why a lock cannot be judged that promises a deadline: its grant has none, and so counts as over at once.
fn without_deadline(promises: Promises, run: &Run) -> Option<String> {
    let mut entries = run.history.entries.iter();
    let is_over = entries.any(|entry| {
        let What::Ok {
            op: ASK, deadline, ..
        } = entry.what
        else {
            return false;
        };
        deadline == Some(entry.at)
    });
    (promises.deadline && is_over).then(|| {
        "the lock promises a deadline (`with_deadline`), but `Subject::deadline` returns none for its grant".to_owned()
    })
}

/// Returns the reason why no lock can keep such promises: it has no server, or nothing to give.
pub(super) fn undeclared(promises: Promises) -> Option<String> {
    if promises.topology.servers() == 0 {
        return Some("it promises to use no server (`Topology::Nodes(0)`)".to_owned());
    }
    let nothing = matches!(
        promises.kind,
        Kind::Semaphore(0) | Kind::Admission(0) | Kind::Latch(0)
    );
    nothing.then(|| format!("it has nothing to give (`Kind::{:?}`)", promises.kind))
}

/// Returns the reason why a lock cannot be judged that does not offer what each lock of its kind has: a release, unless it keeps its
/// grants for some time, and readers.
fn not_offered(promises: Promises, run: &Run) -> Option<String> {
    let lacks = |of: OpId| {
        let why = Refusal::NotOffered;
        let mut entries = run.history.entries.iter();
        entries.any(|entry| entry.what == What::Fail { op: of, why })
    };
    if lacks(GIVE_BACK) && promises.hold_share.is_none() {
        return Some("its `release` returns `NotOffered`".to_owned());
    }
    let readers =
        "it is declared as a read-write lock, but returns `NotOffered` for `Mode::Shared`";
    lacks(READ).then(|| readers.to_owned())
}

/// Holders that a majority of the servers stores at one moment.
#[derive(Default)]
struct Shown {
    tokens: Vec<Vec<u8>>,
    anonymous: u32,
}

/// Returns what the servers store just before a moment, without expired holders.
fn shown(history: &History, before: Moment) -> Shown {
    let mut nodes: BTreeMap<u8, (&[Holder], u32)> = BTreeMap::new();
    for (at, what) in history.iter().take_while(|&(at, _)| at < before) {
        if let What::Server {
            node,
            stored,
            anonymous,
            ..
        } = what
            && at < before
        {
            nodes.insert(*node, (stored, *anonymous));
        }
    }
    let quorum = usize::from(history.topology.addresses()) / 2 + 1;
    let mut votes: BTreeMap<&[u8], usize> = BTreeMap::new();
    for (stored, _) in nodes.values() {
        for holder in stored.iter().filter(|it| it.lives(before.at)) {
            *votes.entry(&holder.token).or_default() += 1;
        }
    }
    let mut counts: Vec<u32> = nodes.values().map(|&(_, count)| count).collect();
    counts.sort_unstable_by(|one, other| other.cmp(one));
    let tokens = votes.into_iter().filter(|&(_, count)| count >= quorum);
    Shown {
        tokens: tokens.map(|(token, _)| token.to_vec()).collect(),
        anonymous: counts.get(quorum - 1).copied().unwrap_or(0),
    }
}

/// Returns the moment of an event.
fn moment(history: &History, is: impl Fn(&What) -> bool) -> Option<Moment> {
    history.iter().find_map(|(at, what)| is(what).then_some(at))
}

/// Returns the reason why the holders of a lock cannot be observed, if there is one.
fn unobservable(run: &Run) -> Option<String> {
    let history = &run.history;
    let granted = |op: OpId| {
        moment(
            history,
            |what| matches!(what, What::Ok { op: of, .. } if *of == op),
        )
    };
    let begun = |op: OpId| {
        moment(
            history,
            |what| matches!(what, What::Invoke { op: of, .. } if *of == op),
        )
    };
    let at_grant = shown(history, granted(ASK)?);
    if at_grant.tokens.is_empty() && at_grant.anonymous == 0 {
        // If the lock stores nothing at all, it has nothing to observe.
        let first = run.beside.first()?;
        return Some(format!(
            "the grant was stored under the key {:?}, and the subject looks for its holders somewhere else: `observe` has to read that \
             key (by default the subject reads the string at the key of the lock)",
            String::from_utf8_lossy(first)
        ));
    }
    let named = history.named();
    if let Some(token) = named.get(&ASK)
        && !at_grant.tokens.contains(&token.bytes)
    {
        return Some(format!(
            "`token` names {:?}, which is not stored where the subject looks for its holders",
            String::from_utf8_lossy(&token.bytes)
        ));
    }
    if at_grant.anonymous > 0 {
        return None;
    }
    let stands = |shown: &Shown| at_grant.tokens.iter().all(|it| shown.tokens.contains(it));
    let rivals = begun(EXTEND).map(|at| shown(history, at));
    let is_count = |shown: &Shown| {
        let mut all = shown.tokens.iter().chain(&at_grant.tokens);
        all.all(|token| !token.is_empty() && token.iter().all(u8::is_ascii_digit))
    };
    if let Some(rivals) = &rivals
        && !rivals.tokens.is_empty()
        && !stands(rivals)
        && is_count(rivals)
    {
        return Some(
            "the stored token of a grant changes when another client asks, so it is not a token; a number of holders is \
             observed with `Observed::counter`"
                .to_owned(),
        );
    }
    if let Some(at) = granted(RIVAL)
        && matches!(history.kind, Kind::Semaphore(2..))
    {
        let both = shown(history, at).tokens;
        let is_new = |token: &Vec<u8>| !at_grant.tokens.contains(token);
        if !both.is_empty() && !both.iter().any(is_new) {
            return Some(
                "two clients hold a permit each, but only one holder is observed".to_owned(),
            );
        }
    }
    let extended = granted(EXTEND).and_then(|_| begun(GIVE_BACK));
    let extended = extended.map(|at| shown(history, at));
    match (rivals, extended) {
        (Some(before), Some(after)) => {
            let changed = stands(&before) && !after.tokens.is_empty() && !stands(&after);
            changed.then(|| {
                "the stored token of a grant changes with each extension, so it is not a token"
                    .to_owned()
            })
        }
        _ => None,
    }
}
