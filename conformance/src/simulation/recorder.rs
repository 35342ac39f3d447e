//! Writes the history.

use super::{
    held,
    true_time::{Sleep, TrueTime},
};
use crate::{
    history::{HEAD_MAX, History, Message, What},
    scenario::Direction,
};
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct Recorder {
    time: TrueTime,
    history: Arc<Mutex<History>>,
}

impl Recorder {
    pub(crate) fn new(time: TrueTime, history: History) -> Self {
        Self {
            time,
            history: Arc::new(Mutex::new(history)),
        }
    }

    /// True time since the start of the run.
    pub(crate) fn now(&self) -> Duration {
        self.time.now()
    }

    /// The true time of an instant of tokio's, where time is tokio's.
    pub(crate) fn time_of(&self, instant: Instant) -> Option<Duration> {
        self.time.of(instant)
    }

    /// Completes at a true time.
    pub(crate) fn sleep_until(&self, at: Duration) -> Sleep {
        self.time.sleep_until(at)
    }

    pub(crate) fn record(&self, what: What) {
        let now = self.now();
        self.history().push(now, what);
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        held(&self.history)
    }

    /// Notes that a message was sent; the answer names it.
    pub(crate) fn sent(&self, host: u8, node: u8, direction: Direction, bytes: &[u8]) -> usize {
        let sent = self.now();
        let messages = &mut self.history().messages;
        messages.push(Message {
            host,
            node,
            direction,
            sent,
            arrived: None,
            head: bytes[..bytes.len().min(HEAD_MAX)].to_vec(),
        });
        messages.len() - 1
    }

    /// Notes that it has arrived.
    pub(crate) fn arrived(&self, message: usize) {
        let now = self.now();
        if let Some(message) = self.history().messages.get_mut(message) {
            message.arrived = Some(now);
        }
    }
}
