//! One client asks for a free lock where nothing is wrong. A lock that is not granted then cannot be judged: its own
//! error says more than any verdict.

use super::play;
use crate::{
    backend::Backend,
    history::{Actor, Kind, OpId, What},
    scenario::{Event, Happening, Op, Scenario, Schedule},
    simulation::RunError,
    subject::Suspect,
};

const LEASE_MS: u64 = 10_000;
const SET_UP: OpId = 1;
const ASK: OpId = 2;
const GIVE_BACK: OpId = 3;

/// Plays it. The answer is the reason if the lock was not granted.
///
/// # Errors
/// If the backend is out of reach, or cannot play the subject.
pub(crate) fn rehearse(
    suspect: &dyn Suspect,
    backend: &dyn Backend,
) -> Result<Option<String>, RunError> {
    let promises = suspect.promises();
    let ask = match (promises.kind.whole(), promises.kind) {
        (Some(mode), _) => Op::Try { mode },
        (None, Kind::Latch(_)) => Op::CountDown,
        (None, _) => Op::Admit,
    };
    let mut events = vec![(SET_UP, 100, Op::SetUp), (ASK, 500, ask)];
    if promises.kind.whole().is_some() {
        events.push((GIVE_BACK, 1_500, Op::Release));
    }
    let events = events.into_iter().map(|(id, at_ms, op)| Event {
        id,
        at_ms,
        happening: Happening::Op {
            actor: Actor::on(0),
            op,
        },
    });
    let scenario = Scenario {
        seed: 0,
        lease_ms: LEASE_MS,
        schedule: Schedule::Random,
        latency_ms: 1,
        topology: promises.topology,
        events: events.collect(),
    };
    let Some(judged) = play(suspect, backend, scenario)?.judged else {
        return Ok(None);
    };
    let entries = &judged.run.history.entries;
    let told = entries.iter().find_map(|entry| told(&entry.what));
    let open = judged.run.open_error.as_ref();
    let open = open.map(|error| format!("`open` failed: {error}"));
    Ok(match told {
        Some(None) => None,
        Some(Some(why)) => Some(open.unwrap_or(why)),
        None => Some(open.unwrap_or_else(|| "the call never ended".to_owned())),
    })
}

/// How the call ended: `None` inside if the lock was granted, else the reason.
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
