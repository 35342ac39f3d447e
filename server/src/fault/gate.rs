//! A gate that holds messages until a test opens it. Knows no node: the holder of a message leaves
//! a waker.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Holds messages until it is opened. Clones are handles to the same gate. The gate also opens when
/// the last clone is dropped, so no message is held for ever.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::fault::{Gate, Hold};
///
/// let server = redouble::Server::start().await?;
/// let (mut redis, gate) = (server.connection().await?, Gate::new());
/// let _rule = server.inject(Hold::reply(&gate).command("SET"));
/// let set = tokio::spawn(async move { redis.set("k", "v").await });
/// while gate.waiting() == 0 {
///     tokio::task::yield_now().await;
/// }
/// assert!(server.exists("k") && !set.is_finished()); // executed, and its reply is on its way
/// gate.open();
/// set.await??;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Gate(Arc<Hinge>);

/// The state that all clones share. The gate opens when this is dropped.
#[derive(Default)]
struct Hinge(Arc<Mutex<GateState>>);

#[derive(Default)]
struct GateState {
    is_open: bool,
    waiting: usize,
    wakers: Vec<Waker>,
}

fn lock(state: &Mutex<GateState>) -> MutexGuard<'_, GateState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases the held messages and lets later ones pass. When this returns, an in-process server
    /// has served the released requests, unless it is serving another client at this moment.
    pub fn open(&self) {
        self.0.open();
    }

    /// True if the gate was opened.
    pub fn is_open(&self) -> bool {
        lock(&self.0.0).is_open
    }

    /// Number of messages that the gate holds. Messages that wait behind a held one do not count.
    pub fn waiting(&self) -> usize {
        lock(&self.0.0).waiting
    }

    /// Holds a message. The message counts as waiting until the ticket is dropped. The gate calls
    /// `waker` when it opens.
    pub fn enter(&self, waker: &Waker) -> Ticket {
        let mut state = lock(&self.0.0);
        state.waiting += 1;
        if !state.is_open && !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        Ticket(self.0.0.clone())
    }
}

impl Hinge {
    fn open(&self) {
        let mut state = lock(&self.0);
        state.is_open = true;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Hinge {
    fn drop(&mut self) {
        self.open();
    }
}

impl PartialEq for Gate {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Gate {}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("is_open", &self.is_open())
            .field("waiting", &self.waiting())
            .finish()
    }
}

/// The place of a held message at a [`Gate`]. A ticket does not count as a clone of the gate.
pub struct Ticket(Arc<Mutex<GateState>>);

impl Ticket {
    /// True if the message may pass.
    pub fn is_open(&self) -> bool {
        lock(&self.0).is_open
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        lock(&self.0).waiting -= 1;
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("is_open", &self.is_open())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Bell(AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }

    #[test]
    fn a_gate_counts_its_messages_and_wakes_once() {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        let gate = Gate::new();
        let tickets = [gate.enter(&waker), gate.clone().enter(&waker)];
        assert_eq!((gate.waiting(), tickets[1].is_open()), (2, false));
        gate.open();
        assert!(tickets.iter().all(Ticket::is_open));
        assert!(gate.enter(&waker).is_open());
        gate.open();
        assert_eq!(bell.0.load(Ordering::Acquire), 1);
        drop(tickets);
        assert_eq!(gate.waiting(), 0);
    }

    #[test]
    fn a_gate_without_handles_is_open() {
        let bell = Arc::new(Bell::default());
        let gate = Gate::new();
        let other = gate.clone();
        let ticket = gate.enter(&Waker::from(bell.clone()));
        drop(gate);
        assert!(!ticket.is_open() && other == other.clone() && other != Gate::new());
        drop(other);
        assert!(ticket.is_open());
        assert_eq!(bell.0.load(Ordering::Acquire), 1);
    }
}
