//! The grant of a specimen: its token, and its state in the client.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// A grant. Clones share its state.
#[derive(Clone)]
pub(in crate::subject) struct Held {
    /// Token stored on the servers.
    pub(in crate::subject) token: String,
    deadline: Arc<Mutex<Duration>>,
    state: watch::Sender<State>,
    nodes: Arc<AtomicUsize>,
    /// Fencing token, if there is one.
    pub(in crate::subject) number: Option<u64>,
}

/// State of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Stands,
    /// The holder knows that it is lost.
    Lost,
    /// The holder has released or dropped it.
    Over,
}

impl Held {
    /// Makes a grant that the holder trusts until a time on the host's clock.
    pub(in crate::subject) fn until(token: String, deadline: Duration) -> Self {
        Self {
            token,
            deadline: Arc::new(Mutex::new(deadline)),
            state: watch::Sender::new(State::Stands),
            nodes: Arc::default(),
            number: None,
        }
    }

    /// Sets the fencing token.
    pub(in crate::subject) fn with_fencing_token(mut self, number: u64) -> Self {
        self.number = Some(number);
        self
    }

    /// Returns the deadline on the host's clock.
    pub(in crate::subject) fn deadline(&self) -> Duration {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the deadline.
    pub(in crate::subject) fn set_deadline(&self, to: Duration) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// Moves the deadline after an extension that was answered at `now`; false if the deadline had passed.
    pub(in crate::subject) fn prolong(&self, now: Duration, to: Duration) -> bool {
        let in_time = now < self.deadline();
        if in_time {
            self.set_deadline(to);
        } else {
            self.lose();
        }
        in_time
    }

    /// Returns the nodes that granted it, as a bit mask.
    pub(in crate::subject) fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Relaxed)
    }

    /// Sets the nodes that granted it, as a bit mask.
    pub(in crate::subject) fn set_nodes(&self, nodes: usize) {
        self.nodes.store(nodes, Ordering::Relaxed);
    }

    /// Reports the loss to the holder.
    pub(in crate::subject) fn lose(&self) {
        self.leave(State::Lost);
    }

    /// Marks the grant as released or dropped.
    pub(in crate::subject) fn end(&self) {
        self.leave(State::Over);
    }

    fn leave(&self, to: State) {
        self.state.send_if_modified(|state| {
            let stood = *state == State::Stands;
            if stood {
                *state = to;
            }
            stood
        });
    }

    /// True if it is neither lost nor released.
    pub(in crate::subject) fn stands(&self) -> bool {
        *self.state.borrow() == State::Stands
    }

    /// Completes when the grant is lost or released.
    pub(in crate::subject) async fn ended(&self) {
        self.reaches(|&state| state != State::Stands).await;
    }

    /// Completes when the loss is reported to the holder.
    pub(in crate::subject) async fn lost(&self) {
        self.reaches(|&state| state == State::Lost).await;
    }

    async fn reaches(&self, what: impl FnMut(&State) -> bool) {
        // The sender lives as long as `self`.
        drop(self.state.subscribe().wait_for(what).await);
    }
}
