//! Reports for people (a table and lanes for a terminal, an HTML file) and for machines (JSON, JUnit).

mod group;
pub mod html;
pub mod json;
pub mod junit;
mod saved;
pub mod terminal;
mod timeline;
mod wire;

pub(crate) use group::listed;
pub use group::{Group, shown, without_variant};
pub use saved::Saved;

use crate::{
    checker::Property,
    history::{
        Access, Actor, Call, Cause, History, Holder, Moment, OpId, Owners, PROBE_HOST, Refusal,
        What,
    },
    runner::{Outcome, Trial},
    scenario::{Fault, How, Lost, Node, Scenario},
    subject::Expected,
    verdict::{CALM, MIXED, row_of},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Returns the rows of the verdict matrix, in order.
fn rows() -> impl Iterator<Item = &'static str> {
    let nemeses = crate::scenario::nemesis::NEMESES
        .iter()
        .map(|nemesis| nemesis.name());
    std::iter::once(CALM).chain(nemeses).chain([MIXED])
}

/// Returns the row of the verdict matrix to which a scenario belongs.
pub(crate) fn fault_of(scenario: &Scenario) -> &'static str {
    row_of(&scenario.nemeses())
}

/// Returns a short description of the verdict about a subject.
#[must_use]
pub fn verdict(trial: &Trial) -> String {
    let broken = trial.broken();
    let ids = |of: &[Property]| of.iter().map(|it| it.id()).collect::<Vec<_>>();
    match (trial.expected, trial.outcome()) {
        (Expected::Sound, Outcome::AsExpected) => "sound".to_owned(),
        (_, Outcome::Open) if trial.coverage.runs == 0 => "nothing was run".to_owned(),
        (Expected::Sound, _) if broken.is_empty() => disagrees(trial),
        (Expected::Sound, _) => format!("BREAKS ITS PROMISE: {}", ids(&broken).join(", ")),
        (Expected::Convicted(of), Outcome::AsExpected) => {
            let (asked, more): (Vec<_>, Vec<_>) = broken.iter().partition(|it| of.contains(it));
            let also = match more.len() {
                0 => String::new(),
                _ => format!(" (and {})", ids(&more).join(", ")),
            };
            format!("convicted of {}{also}", ids(&asked).join(", "))
        }
        (Expected::Convicted(_), Outcome::Differs) if !trial.fixed.disagreements.is_empty() => {
            disagrees(trial)
        }
        (Expected::Convicted(of), Outcome::Differs) => {
            format!("NOT CONVICTED of {}", ids(of).join(" or "))
        }
        (Expected::Convicted(of), Outcome::Open) => {
            let breaks = match broken.len() {
                0 => String::new(),
                _ => format!("breaks {}; ", ids(&broken).join(", ")),
            };
            let expected = ids(of).join(" or ");
            format!("{breaks}too few runs to break the expected {expected}")
        }
    }
}

fn disagrees(trial: &Trial) -> String {
    let runs = trial.fixed.disagreements.iter();
    let names: BTreeSet<&str> = runs.map(|it| it.scenario).collect();
    let names: Vec<&str> = names.into_iter().collect();
    format!(
        "THE DOUBLE AND THE REAL SERVER DISAGREE: {}",
        names.join(", ")
    )
}

/// An event in a timeline.
pub(crate) struct Note {
    pub(crate) at: Moment,
    pub(crate) lane: Lane,
    pub(crate) text: String,
    /// True if the event is a failure.
    pub(crate) bad: bool,
}

/// Lane of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    Client(Actor),
    Server,
}

/// Returns the notes of a history without the single tries of waiters.
pub(crate) fn notes_told(history: &History) -> Vec<Note> {
    let mut notes = notes(history);
    notes.retain(|note| {
        let entry = history.entries.get(note.at.place.wrapping_sub(1));
        !entry.is_some_and(|entry| matches!(entry.what, What::Attempt { .. }))
    });
    notes
}

/// Returns all notes of a history, in order.
fn notes(history: &History) -> Vec<Note> {
    let calls = history.calls();
    // Events of a client process appear in the lane of its first task.
    let mut first: BTreeMap<u8, Actor> = BTreeMap::new();
    for &(_, actor, _) in calls.values() {
        let lane = first.entry(actor.host).or_insert(actor);
        *lane = actor.min(*lane);
    }
    let mut tokens = Tokens::of(history);
    let mut notes = Vec::new();
    for (index, entry) in history.entries.iter().enumerate() {
        let of_op = |op: &OpId| calls.get(op).map(|&(_, actor, call)| (actor, call));
        let on =
            |host: u8| Lane::Client(first.get(&host).copied().unwrap_or_else(|| Actor::on(host)));
        let (lane, text, bad) = match &entry.what {
            What::Invoke { actor, call, .. } => (Lane::Client(*actor), asks(*call), false),
            What::Attempt { op } => match of_op(op) {
                Some((actor, _)) => (Lane::Client(actor), "tries again".to_owned(), false),
                None => continue,
            },
            What::Ok {
                op,
                deadline,
                fence,
                ..
            } => match of_op(op) {
                Some((actor, call)) => {
                    let fence = fence.map_or_else(String::new, |it| format!(", fence {it}"));
                    let text = done(call, *deadline) + &fence;
                    (Lane::Client(actor), text, false)
                }
                None => continue,
            },
            What::Fail { op, why } => match of_op(op) {
                Some((actor, call)) => (Lane::Client(actor), refused(call, *why).to_owned(), false),
                None => continue,
            },
            What::Info { op, error } => match of_op(op) {
                Some((actor, _)) => (Lane::Client(actor), format!("unknown: {error}"), true),
                None => continue,
            },
            What::Deadline { grant, deadline } => match (of_op(grant), deadline) {
                (Some((actor, _)), Some(at)) => (
                    Lane::Client(actor),
                    format!("extended until {}", time(*at)),
                    false,
                ),
                (Some(_) | None, _) => continue,
            },
            What::Lost { grant } => match of_op(grant) {
                Some((actor, _)) => (Lane::Client(actor), "learns of the loss".to_owned(), false),
                None => continue,
            },
            What::Pause { host } => (on(*host), "paused".to_owned(), true),
            What::Resume { host } => (on(*host), "runs again".to_owned(), false),
            What::Crash { host } if is_final(history, index, *host) => {
                (on(*host), "stopped: end of run".to_owned(), false)
            }
            What::Crash { host } => (on(*host), "crashes".to_owned(), true),
            What::Restart { host } => (on(*host), "restarts".to_owned(), false),
            What::Panic { host, message } => (on(*host), format!("panics: {message}"), true),
            What::Cut { host, lost, .. } => {
                let what = match lost {
                    Lost::Request => "connection cut, request lost",
                    Lost::Reply => "connection cut, executed but reply lost",
                    Lost::Late => "connection cut, request still under way",
                };
                (on(*host), what.to_owned(), true)
            }
            What::Strikes { fault } => (of_fault(*fault, on), fault.to_string(), true),
            What::Heals { fault } => (of_fault(*fault, on), format!("over: {fault}"), false),
            What::Promoted { node } => {
                (Lane::Server, format!("{} is the master", Node(*node)), true)
            }
            What::Server {
                node,
                cause,
                stored,
                anonymous,
            } => {
                let several = history.topology.servers() > 1;
                let on = several.then(|| format!("{}: ", Node(*node)));
                let text = tokens.describe(*cause, stored, *anonymous);
                (Lane::Server, on.unwrap_or_default() + &text, false)
            }
            What::Queue { waiting, .. } => {
                let text = format!("{} in the queue", waiting.len());
                (Lane::Server, text, false)
            }
            What::Reserved { waiters, .. } => {
                let text = match waiters.len() {
                    0 => "not reserved".to_owned(),
                    1 => "reserved for a waiter".to_owned(),
                    count => format!("reserved for {count} waiters"),
                };
                (Lane::Server, text, false)
            }
            What::Remains {
                keys,
                subscriptions,
                tasks,
                ..
            } => {
                let names = keys.iter().map(|key| key.escape_ascii().to_string());
                let names: Vec<String> = names.collect();
                let text = format!(
                    "left: [{}], {subscriptions} subscriptions, {tasks} tasks",
                    names.join(", ")
                );
                let left = !keys.is_empty() || subscriptions + tasks > 0;
                (Lane::Server, text, left)
            }
            What::Resource {
                grant,
                access,
                value,
                refused,
                ..
            } => match of_op(grant) {
                Some((actor, _)) => {
                    let verb = match access {
                        Access::Read => "read",
                        Access::Write => "written",
                    };
                    let text = if *refused {
                        format!("refused by the resource, {value} not {verb}")
                    } else {
                        format!("resource: {value} {verb}")
                    };
                    (Lane::Client(actor), text, *refused)
                }
                None => continue,
            },
        };
        notes.push(Note {
            at: history.moment(index),
            lane,
            text,
            bad,
        });
    }
    notes
}

/// Returns true for a crash by which the suite ends a run: no client does anything afterwards. The suite
/// crashes all remaining clients to check that their locks become free.
pub(crate) fn is_final(history: &History, index: usize, host: u8) -> bool {
    let later = history.entries.get(index..).unwrap_or_default();
    !later.iter().any(|entry| {
        if let What::Invoke { actor, .. } = entry.what {
            return actor.host != PROBE_HOST;
        }
        matches!(entry.what, What::Restart { host: other } if other == host)
    })
}

/// Returns the lane of the client or server that a fault strikes.
fn of_fault(fault: Fault, on: impl Fn(u8) -> Lane) -> Lane {
    fault.host().map_or(Lane::Server, on)
}

fn asks(call: Call) -> String {
    match call {
        Call::Try { mode } => format!("try{} ...", How(mode)),
        Call::Acquire { mode, wait } => format!("lock{}, wait {} ...", How(mode), time(wait)),
        Call::Renew { .. } => "renew ...".to_owned(),
        Call::Release { .. } => "release ...".to_owned(),
        Call::Drop { .. } => "drops the guard".to_owned(),
        Call::Access { .. } => "access the resource ...".to_owned(),
        Call::SetUp => "set the lock up ...".to_owned(),
        Call::Admit => "ask to be admitted ...".to_owned(),
        Call::AdmitAgain { .. } => "ask again to be admitted ...".to_owned(),
        Call::CountDown => "count down ...".to_owned(),
        Call::Await { wait } => format!("await zero, wait {} ...", time(wait)),
    }
}

fn done(call: Call, deadline: Option<Duration>) -> String {
    let until = deadline.map_or_else(String::new, |at| format!(" until {}", time(at)));
    let what = match call {
        Call::Try { .. } | Call::Acquire { .. } => "LOCKED",
        Call::Renew { .. } => "renewed",
        Call::Release { .. } => "released",
        Call::Drop { .. } => "dropped",
        Call::Access { .. } => "accessed",
        Call::SetUp => "set up",
        Call::Admit | Call::AdmitAgain { .. } => "ADMITTED",
        Call::CountDown => "counted",
        Call::Await { .. } => "at zero",
    };
    format!("{what}{until}")
}

const fn refused(call: Call, why: Refusal) -> &'static str {
    match call {
        Call::Try { .. } | Call::Acquire { .. } => match why {
            Refusal::Lost => "granted too late",
            Refusal::NotOffered => "not offered",
            Refusal::Contended | Refusal::TimedOut | Refusal::Fenced | Refusal::Other => {
                "not granted"
            }
        },
        Call::Renew { .. } => "not renewed",
        Call::Release { .. } | Call::Drop { .. } => "was not held any more",
        Call::Access { .. } => "refused by the resource",
        Call::SetUp => "was set up before",
        Call::Admit | Call::AdmitAgain { .. } => "not admitted",
        Call::CountDown if matches!(why, Refusal::Lost) => "not set up",
        Call::CountDown => "not counted",
        Call::Await { .. } => "not at zero in time",
    }
}

/// Formats a time or duration with as many digits as necessary.
pub(crate) fn time(at: Duration) -> String {
    let text = format!("{:.3}", at.as_secs_f64());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}

/// Short names of stored tokens: their owner and a letter.
pub(crate) struct Tokens<'a> {
    owners: Owners<'a>,
    names: BTreeMap<Vec<u8>, String>,
}

impl<'a> Tokens<'a> {
    /// Names no token of a history yet.
    pub(crate) fn of(history: &'a History) -> Self {
        Self {
            owners: history.owners(),
            names: BTreeMap::new(),
        }
    }

    /// Returns the name of a token. `cause` is its first writer.
    pub(crate) fn name(&mut self, cause: Cause, stored: &Holder) -> String {
        if let Some(name) = self.names.get(&stored.token) {
            return name.clone();
        }
        let nth = self.names.len();
        let letter = char::from(b'A' + u8::try_from(nth % 26).unwrap_or(0));
        let owner = self.owners.of(&stored.token, cause);
        let owner = owner.map_or_else(|| "server".to_owned(), |host| Actor::on(host).to_string());
        let name = format!("{letter} of {owner}");
        self.names.insert(stored.token.clone(), name.clone());
        name
    }

    fn describe(&mut self, cause: Cause, stored: &[Holder], anonymous: u32) -> String {
        let by = match cause {
            Cause::Client(host) => format!(" (by {})", Actor::on(host)),
            Cause::Server => String::new(),
            Cause::Fault => " (by a fault)".to_owned(),
        };
        let mut all = Vec::new();
        for stored in stored {
            let name = self.name(cause, stored);
            let depth = match stored.depth {
                None | Some(0 | 1) => String::new(),
                Some(depth) => format!(" ({depth} times)"),
            };
            all.push(match stored.expires {
                Some(at) => format!("{name}{depth} until {}", time(at)),
                None => format!("{name}{depth} forever"),
            });
        }
        if anonymous > 0 {
            all.push(format!("a count of {anonymous}"));
        }
        if all.is_empty() {
            all.push("free".to_owned());
        }
        format!("{}{by}", all.join(", "))
    }
}
