//! What people read: a table and lanes for a terminal, one HTML file, JSON for machines.

pub mod html;
pub mod json;
pub mod terminal;

use crate::{
    history::{Actor, Call, Cause, History, Moment, OpId, Stored, What},
    runner::Trial,
    scenario::Lost,
    subject::Expected,
    verdict::{CALM, MIXED},
};
use std::{collections::BTreeMap, time::Duration};

/// The rows of the verdict matrix, in order.
fn rows() -> impl Iterator<Item = &'static str> {
    let nemeses = crate::scenario::nemesis::NEMESES
        .iter()
        .map(|nemesis| nemesis.name());
    std::iter::once(CALM).chain(nemeses).chain([MIXED])
}

/// The verdict about a subject in a few words.
#[must_use]
pub fn verdict(trial: &Trial) -> String {
    let broken = trial.broken();
    let ids: Vec<&str> = broken.iter().map(|property| property.id()).collect();
    match (trial.expected, trial.as_expected()) {
        (Expected::Sound, true) => "sound".to_owned(),
        (Expected::Convicted(_), true) => format!("convicted of {}", ids.join(", ")),
        (Expected::Sound, false) => format!("BREAKS ITS PROMISE: {}", ids.join(", ")),
        (Expected::Convicted(of), false) => {
            let wanted: Vec<&str> = of.iter().map(|property| property.id()).collect();
            format!("NOT CONVICTED of {}", wanted.join(" or "))
        }
    }
}

/// Something that a timeline shows at a point in time.
pub(crate) struct Note {
    pub(crate) at: Moment,
    pub(crate) lane: Lane,
    pub(crate) text: String,
    /// Something went wrong here.
    pub(crate) bad: bool,
}

/// Where a timeline shows something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    Client(Actor),
    Server,
}

/// All notes of a history, in order.
pub(crate) fn notes(history: &History) -> Vec<Note> {
    let calls = history.calls();
    // What happens to a client process is shown in the lane of its first task.
    let mut first: BTreeMap<u8, Actor> = BTreeMap::new();
    for &(_, actor, _) in calls.values() {
        let lane = first.entry(actor.host).or_insert(actor);
        *lane = actor.min(*lane);
    }
    let mut tokens = Tokens::default();
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
            What::Ok { op, deadline } => match of_op(op) {
                Some((actor, call)) => (Lane::Client(actor), done(call, *deadline), false),
                None => continue,
            },
            What::Fail { op } => match of_op(op) {
                Some((actor, call)) => (Lane::Client(actor), refused(call).to_owned(), false),
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
                Some((actor, _)) => (Lane::Client(actor), "is told: lost".to_owned(), false),
                None => continue,
            },
            What::Pause { host } => (on(*host), "paused".to_owned(), true),
            What::Resume { host } => (on(*host), "runs again".to_owned(), false),
            What::Crash { host } => (on(*host), "dies".to_owned(), true),
            What::Restart { host } => (on(*host), "restarts".to_owned(), false),
            What::Panic { host, message } => (on(*host), format!("panics: {message}"), true),
            What::Cut { host, lost } => {
                let what = match lost {
                    Lost::Request => "connection cut, request lost",
                    Lost::Reply => "connection cut, executed but reply lost",
                    Lost::Late => "connection cut, request still under way",
                };
                (on(*host), what.to_owned(), true)
            }
            What::Server { cause, stored } => (
                Lane::Server,
                tokens.describe(*cause, stored.as_ref()),
                false,
            ),
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

fn asks(call: Call) -> String {
    match call {
        Call::Try => "try ...".to_owned(),
        Call::Acquire { wait } => format!("lock, wait {} ...", time(wait)),
        Call::Renew { .. } => "renew ...".to_owned(),
        Call::Release { .. } => "release ...".to_owned(),
        Call::Drop { .. } => "drops the guard".to_owned(),
    }
}

fn done(call: Call, deadline: Option<Duration>) -> String {
    match call {
        Call::Try | Call::Acquire { .. } => match deadline {
            Some(at) => format!("LOCKED until {}", time(at)),
            None => "LOCKED".to_owned(),
        },
        Call::Renew { .. } => match deadline {
            Some(at) => format!("renewed until {}", time(at)),
            None => "renewed".to_owned(),
        },
        Call::Release { .. } => "released".to_owned(),
        Call::Drop { .. } => "dropped".to_owned(),
    }
}

const fn refused(call: Call) -> &'static str {
    match call {
        Call::Try | Call::Acquire { .. } => "not granted",
        Call::Renew { .. } => "not renewed",
        Call::Release { .. } | Call::Drop { .. } => "was not held any more",
    }
}

/// A time or duration with as many digits as it needs.
pub(crate) fn time(at: Duration) -> String {
    let text = format!("{:.3}", at.as_secs_f64());
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text} s")
}

/// Short names for stored tokens: their owner and a letter.
#[derive(Default)]
pub(crate) struct Tokens {
    names: BTreeMap<Vec<u8>, String>,
}

impl Tokens {
    /// The name of a token, given who stored it first.
    pub(crate) fn name(&mut self, cause: Cause, stored: &Stored) -> String {
        if let Some(name) = self.names.get(&stored.token) {
            return name.clone();
        }
        let nth = self.names.len();
        let letter = char::from(b'A' + u8::try_from(nth % 26).unwrap_or(0));
        let owner = match cause {
            Cause::Client(host) => Actor::on(host).to_string(),
            Cause::Server => "server".to_owned(),
        };
        let name = format!("{letter} of {owner}");
        self.names.insert(stored.token.clone(), name.clone());
        name
    }

    fn describe(&mut self, cause: Cause, stored: Option<&Stored>) -> String {
        let by = match cause {
            Cause::Client(host) => format!(" (by {})", Actor::on(host)),
            Cause::Server => String::new(),
        };
        match stored {
            None => format!("free{by}"),
            Some(stored) => {
                let name = self.name(cause, stored);
                match stored.expires {
                    Some(at) => format!("{name} until {}{by}", time(at)),
                    None => format!("{name} for ever{by}"),
                }
            }
        }
    }
}
