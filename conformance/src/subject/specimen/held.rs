//! The grant of a specimen: its token, and what its holder believes.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::watch;

/// A grant. Clones are the same grant.
#[derive(Clone)]
pub(in crate::subject) struct Held {
    /// What was stored for it.
    pub(in crate::subject) token: String,
    deadline: Arc<Mutex<Duration>>,
    state: watch::Sender<State>,
    nodes: Arc<AtomicUsize>,
    /// Its fencing token, where there is one.
    pub(in crate::subject) number: Option<u64>,
}

/// What has become of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Stands,
    /// Its holder is told that it is lost.
    Lost,
    /// Its holder has given it back, or has forgotten it.
    Over,
}

impl Held {
    /// A grant that is believed in until a time on the host's clock.
    pub(in crate::subject) fn until(token: String, deadline: Duration) -> Self {
        Self {
            token,
            deadline: Arc::new(Mutex::new(deadline)),
            state: watch::Sender::new(State::Stands),
            nodes: Arc::default(),
            number: None,
        }
    }

    /// The same with a fencing token.
    pub(in crate::subject) fn numbered(mut self, number: u64) -> Self {
        self.number = Some(number);
        self
    }

    /// Until when it is believed in, on the host's clock.
    pub(in crate::subject) fn deadline(&self) -> Duration {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the deadline.
    pub(in crate::subject) fn set_deadline(&self, to: Duration) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// Moves the deadline after an extension whose answer came at `now`, unless it has passed.
    pub(in crate::subject) fn prolong(&self, now: Duration, to: Duration) -> bool {
        let in_time = now < self.deadline();
        if in_time {
            self.set_deadline(to);
        } else {
            self.lose();
        }
        in_time
    }

    /// Which nodes granted it, a bit for each, for those that want to know.
    pub(in crate::subject) fn nodes(&self) -> usize {
        self.nodes.load(Ordering::Relaxed)
    }

    /// Notes which nodes granted it.
    pub(in crate::subject) fn set_nodes(&self, nodes: usize) {
        self.nodes.store(nodes, Ordering::Relaxed);
    }

    /// Tells the holder that it is lost.
    pub(in crate::subject) fn lose(&self) {
        self.leave(State::Lost);
    }

    /// The holder does not want it any more.
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

    /// Whether it is neither lost nor given back.
    pub(in crate::subject) fn stands(&self) -> bool {
        *self.state.borrow() == State::Stands
    }

    /// Completes when it stands no longer.
    pub(in crate::subject) async fn ended(&self) {
        self.reaches(|&state| state != State::Stands).await;
    }

    /// Completes when the holder is told of the loss.
    pub(in crate::subject) async fn lost(&self) {
        self.reaches(|&state| state == State::Lost).await;
    }

    async fn reaches(&self, what: impl FnMut(&State) -> bool) {
        // The sender lives as long as this.
        drop(self.state.subscribe().wait_for(what).await);
    }
}
