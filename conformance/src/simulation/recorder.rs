//! The writer of the history.

use super::{
    held,
    pairing::{Answered, Found},
    true_time::{Sleep, TrueTime},
};
use crate::{
    history::{HEAD_MAX, History, Message, Request, Session, What},
    scenario::Direction,
};
use std::{
    ops::Range,
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

    /// Returns the true time since the start of the run.
    pub(crate) fn now(&self) -> Duration {
        self.time.now()
    }

    /// Returns the true time of an instant of tokio's, if true time follows tokio's clock.
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

    /// Records that a message was sent; returns its index.
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

    /// Records that a process started to connect at `dialled` and is connected now; returns the connection's
    /// index.
    pub(crate) fn connected(&self, host: u8, node: u8, dialled: Duration) -> usize {
        let opened = self.now();
        let sessions = &mut self.history().sessions;
        sessions.push(Session {
            host,
            node,
            dialled,
            opened,
            closed: None,
            broken: false,
            noticed: None,
        });
        sessions.len() - 1
    }

    /// Records that the network or the server has ended a connection.
    pub(crate) fn closed(&self, session: usize) {
        let now = self.now();
        if let Some(session) = self.history().sessions.get_mut(session)
            && session.closed.is_none()
        {
            (session.closed, session.broken) = (Some(now), true);
        }
    }

    /// Records that the process has noticed the end of its connection.
    pub(crate) fn noticed(&self, session: usize) {
        let now = self.now();
        if let Some(session) = self.history().sessions.get_mut(session) {
            session.closed.get_or_insert(now);
            session.noticed.get_or_insert(now);
        }
    }

    /// Records that a request was sent; returns its index.
    pub(super) fn asked(&self, session: usize, found: Found) -> usize {
        let sent = self.now();
        let mut history = self.history();
        let place = history.entries.len();
        let requests = &mut history.requests;
        requests.push(Request {
            session,
            sent,
            place,
            bytes: found.bytes,
            command: found.command,
            blocks: found.blocks,
            executed: None,
            replied: None,
            error: None,
        });
        requests.len() - 1
    }

    /// Records that a message has arrived at the server, and the requests that it completes.
    pub(crate) fn executed(&self, message: usize, requests: Range<usize>) {
        let now = self.now();
        let mut history = self.history();
        if let Some(message) = history.messages.get_mut(message) {
            message.arrived = Some(now);
        }
        if let Some(requests) = history.requests.get_mut(requests) {
            requests.iter_mut().for_each(|it| it.executed = Some(now));
        }
    }

    /// Records the server's replies to requests, with their error codes.
    pub(super) fn answered(&self, answered: &[Answered]) {
        for (request, error) in answered.iter().filter(|(_, error)| error.is_some()) {
            if let Some(request) = self.history().requests.get_mut(*request) {
                request.error.clone_from(error);
            }
        }
    }

    /// Records that a message has arrived at the client, and the replies that it completes.
    pub(super) fn replied(&self, message: usize, answered: &[Answered]) {
        let now = self.now();
        let mut history = self.history();
        if let Some(message) = history.messages.get_mut(message) {
            message.arrived = Some(now);
        }
        for &(request, _) in answered {
            if let Some(request) = history.requests.get_mut(request) {
                request.replied = Some(now);
            }
        }
    }
}
