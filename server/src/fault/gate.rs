//! A gate that holds messages until a test opens it. Knows no node: whoever has a message to hold
//! leaves a waker.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Holds messages until it is opened, and lets them pass from then on. Clones are the same gate; when
/// the last one is gone, of the test and of its rules, it opens: nothing is held for ever.
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

/// What the clones of a gate share; the gate opens with its end.
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
    /// A gate that is closed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets pass what is held, and everything after it. An in-process server has served what was
    /// held when this returns, unless somebody else is being served at this moment.
    pub fn open(&self) {
        self.0.open();
    }

    /// Whether it was opened.
    pub fn is_open(&self) -> bool {
        lock(&self.0.0).is_open
    }

    /// How many messages are held now. What waits behind a held message is not counted.
    pub fn waiting(&self) -> usize {
        lock(&self.0.0).waiting
    }

    /// Holds a message: it counts as waiting until the ticket is dropped, and `waker` is called when
    /// the gate opens.
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

/// A message's place before a [`Gate`]. It does not keep the gate from opening with its last clone.
pub struct Ticket(Arc<Mutex<GateState>>);

impl Ticket {
    /// Whether the message may go on.
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
    fn a_gate_counts_who_waits_and_rings_once() {
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
    fn a_gate_that_nobody_can_open_any_more_is_open() {
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
