//! One double as a node of a run: its data, and its faults.

use super::super::View;
use crate::{
    scenario::{Fault, ServerError},
    vocabulary::Stored,
};
use redouble::{
    Data, FaultGuard, Loss, PendingEntry, Server, engine::UnixMillis, fault::AnswerError,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The owner of a server: it runs alone, or in a deployment.
pub(super) trait Holds: Send + Sync {
    fn server(&self, place: usize) -> &Server;
}

pub(super) struct DoubleNode {
    holder: Arc<dyn Holds>,
    place: usize,
    /// The lease of the scenario.
    lease: Duration,
    state: Mutex<State>,
}

struct State {
    /// Time on the server's clock at true time 0, in microseconds.
    began_us: i64,
    course: Course,
    freezes: u32,
    crashes: u32,
    drifts: Vec<i64>,
    rules: Vec<(Fault, FaultGuard)>,
}

/// The course of the server's clock since its last change: a linear function.
#[derive(Clone, Copy)]
struct Course {
    true_us: i64,
    shown_us: i64,
    /// Microseconds gained per second; -1,000,000 while it stands still.
    ppm: i64,
}

const PPM: i64 = 1_000_000;

impl Course {
    /// Returns the true time at which the clock shows `shown_us`.
    fn when(self, shown_us: i64) -> Option<i64> {
        let rate = i128::from(PPM + self.ppm);
        let away = i128::from(shown_us - self.shown_us);
        if rate <= 0 {
            // The clock stands still: times after its present one never come.
            return (away <= 0).then_some(self.true_us);
        }
        let away = if self.ppm == 0 {
            away
        } else {
            (away * i128::from(PPM)).div_euclid(rate) + 1
        };
        Some(i64::try_from(i128::from(self.true_us) + away).unwrap_or(i64::MAX))
    }
}

impl DoubleNode {
    pub(super) fn new(holder: Arc<dyn Holds>, place: usize, lease: Duration) -> Self {
        let clock = holder.server(place).clock();
        let (began_us, shown_us) = (clock.true_time().0, clock.now().0);
        let course = Course {
            true_us: 0,
            shown_us,
            ppm: 0,
        };
        Self {
            holder,
            place,
            lease,
            state: Mutex::new(State {
                began_us,
                course,
                freezes: 0,
                crashes: 0,
                drifts: Vec::new(),
                rules: Vec::new(),
            }),
        }
    }

    pub(super) fn server(&self) -> &Server {
        self.holder.server(self.place)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the course of the clock again, after a change.
    fn chart(&self, state: &mut State) {
        let clock = self.server().clock();
        let ppm = if clock.is_frozen() {
            -PPM
        } else {
            i64::from(clock.drift_ppm())
        };
        state.course = Course {
            true_us: clock.true_time().0 - state.began_us,
            shown_us: clock.now().0,
            ppm,
        };
    }

    pub(super) fn strike(&self, fault: Fault, key: &str) {
        let (server, mut state) = (self.server(), self.state());
        match fault {
            Fault::NodeCrash { keeps, .. } => {
                state.crashes += 1;
                server.crash(if keeps {
                    Loss::Nothing
                } else {
                    Loss::Everything
                });
            }
            Fault::AnswerError { error, .. } => {
                let rule = match error {
                    ServerError::Loading => AnswerError::loading(),
                    ServerError::Busy => AnswerError::busy(),
                    ServerError::ReadOnly => AnswerError::readonly(),
                    ServerError::Oom => AnswerError::oom(),
                    ServerError::MasterDown => AnswerError::masterdown(),
                };
                state.rules.push((fault, server.inject(rule)));
            }
            Fault::FlushScripts { .. } => server.flush_scripts(),
            Fault::Evict { .. } => {
                server.evict(key);
            }
            Fault::NodeClock { by_ms, .. } => {
                let by = Duration::from_millis(by_ms.unsigned_abs());
                if by_ms < 0 {
                    server.clock().jump_back(by);
                } else {
                    server.clock().jump(by);
                }
                self.chart(&mut state);
            }
            Fault::NodeDrift { ppm, .. } => {
                state.drifts.push(ppm);
                self.drift(&mut state);
            }
            Fault::NodeFreeze { .. } => {
                state.freezes += 1;
                server.clock().freeze();
                self.chart(&mut state);
            }
            Fault::Pause { .. }
            | Fault::Suspend { .. }
            | Fault::Delay { .. }
            | Fault::Hold { .. }
            | Fault::Cut { .. }
            | Fault::Partition { .. }
            | Fault::Crash { .. }
            | Fault::Drift { .. }
            | Fault::WallClock { .. }
            | Fault::NodePause { .. }
            | Fault::FailOver
            | Fault::SplitBrain { .. } => {}
        }
    }

    /// Ends a fault. If faults of a kind overlap, only the end of the last one has an effect.
    pub(super) fn heal(&self, fault: Fault) {
        let (server, mut state) = (self.server(), self.state());
        match fault {
            Fault::NodeCrash { .. } => {
                state.crashes = state.crashes.saturating_sub(1);
                if state.crashes == 0 {
                    server.restart();
                }
            }
            Fault::AnswerError { .. } => {
                let at = state.rules.iter().position(|&(of, _)| of == fault);
                drop(at.map(|at| state.rules.remove(at)));
            }
            Fault::NodeDrift { ppm, .. } => {
                let at = state.drifts.iter().position(|&of| of == ppm);
                at.map(|at| state.drifts.remove(at));
                self.drift(&mut state);
            }
            Fault::NodeFreeze { .. } => {
                state.freezes = state.freezes.saturating_sub(1);
                if state.freezes == 0 {
                    server.clock().thaw();
                }
                self.chart(&mut state);
            }
            Fault::FlushScripts { .. }
            | Fault::Evict { .. }
            | Fault::NodeClock { .. }
            | Fault::Pause { .. }
            | Fault::Suspend { .. }
            | Fault::Delay { .. }
            | Fault::Hold { .. }
            | Fault::Cut { .. }
            | Fault::Partition { .. }
            | Fault::Crash { .. }
            | Fault::Drift { .. }
            | Fault::WallClock { .. }
            | Fault::NodePause { .. }
            | Fault::FailOver
            | Fault::SplitBrain { .. } => {}
        }
    }

    fn drift(&self, state: &mut State) {
        let ppm = state.drifts.iter().sum::<i64>().max(-900_000);
        let ppm = i32::try_from(ppm).unwrap_or(i32::MAX);
        self.server().clock().drift(ppm);
        self.chart(state);
    }

    /// Returns the last instant of a key with this deadline, in true time: the key is gone one millisecond
    /// later.
    fn expiry(&self, deadline: UnixMillis) -> Option<Duration> {
        let gone = self.true_time(deadline.0.saturating_add(1))?;
        Some(gone.saturating_sub(Duration::from_millis(1)))
    }
}

impl View for DoubleNode {
    fn string(&self, key: &str) -> Option<Stored> {
        let (token, deadline) = self.server().peek(key)?;
        Some(Stored {
            token: token.to_vec(),
            expires: deadline.and_then(|deadline| self.expiry(deadline)),
        })
    }

    fn data(&self, key: &str) -> Option<(Data, Option<Duration>)> {
        let stored = self.server().db(0).find(key)?;
        let expires = stored.deadline.and_then(|deadline| self.expiry(deadline));
        Some((stored.data, expires))
    }

    fn field_expiries(&self, key: &str) -> BTreeMap<Vec<u8>, Option<Duration>> {
        let deadlines = self.server().db(0).field_deadlines(key).into_iter();
        let expiries = deadlines.map(|(field, deadline)| (field.to_vec(), self.expiry(deadline)));
        expiries.collect()
    }

    fn pending_entries(&self, key: &str, group: &str) -> Vec<PendingEntry> {
        self.server().db(0).pending_entries(key, group)
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        let keys = self.server().keys("*");
        keys.iter().map(|key| key.to_vec()).collect()
    }

    fn subscriptions(&self) -> usize {
        self.server().subscriptions()
    }

    fn true_time(&self, unix_ms: i64) -> Option<Duration> {
        let when = self.state().course.when(unix_ms.saturating_mul(1_000))?;
        Some(Duration::from_micros(u64::try_from(when).unwrap_or(0)))
    }

    fn lease(&self) -> Duration {
        self.lease
    }
}
