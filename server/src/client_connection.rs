//! A client's connection between its transport and a node: its input and its output, each behind a lock.
//!
//! Transports write into the input and read from the output. A node serves the input ([`crate::connection`] is the
//! state machine). A transport never waits for the lock of an input, because a script of that connection may
//! keep it for long: what arrives meanwhile is pending, and is taken with the next turn.

use crate::connection::{Ending, Input, Output};
use crate::engine::{ConnId, Traffic};
use crate::resp::OwnedRequest;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::Waker;

/// Limit of input behind a postponed request, or while the node serves no client: as much as the buffers of a
/// network hold.
const INPUT_BYTES_MAX: usize = 1024 * 1024;
/// Limit of input behind a request that waits for its reply (`client-query-buffer-limit`).
const PARKED_INPUT_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// One connection. The locks are taken in this order: node, input, output.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    /// Address of the client.
    pub(crate) addr: String,
    /// Address at which the client has reached the server.
    pub(crate) laddr: String,
    /// Set once the node has opened a session.
    pub(crate) conn: OnceLock<ConnId>,
    /// Index of its socket among the sockets of the server; `None` for a connection in process.
    token: Option<usize>,
    /// True if the transport stops reading from the client.
    is_full: AtomicBool,
    /// True if the transport is about to learn that it has something to do.
    is_noted: AtomicBool,
    input: Mutex<ClientInput>,
    /// Input that arrived while `input` was locked.
    pending: Mutex<PendingInput>,
    has_pending: AtomicBool,
    output: Mutex<Output>,
}

/// The input of a client, with the requests that the node has taken and not answered.
#[derive(Debug, Default)]
pub(crate) struct ClientInput {
    /// The requests that the node has not taken.
    pub(crate) requests: Input,
    /// A request whose reply comes later. The next request waits for it.
    pub(crate) parked: Option<OwnedRequest>,
    /// What has arrived since the client was served last.
    pub(crate) received: Traffic,
    /// True if the client had sent a part of a request when it was served last.
    pub(crate) was_partial: bool,
    /// True if the connection is in the node's backlog.
    pub(crate) is_queued: bool,
    /// Replies of the batch that is being served.
    pub(crate) replies: Vec<u8>,
}

/// Input that arrived while the input was locked.
#[derive(Debug, Default)]
struct PendingInput {
    bytes: Vec<u8>,
    is_closed: bool,
    is_silenced: bool,
}

impl ClientConnection {
    /// A connection in process.
    pub(crate) fn new(addr: String, laddr: String) -> Self {
        Self::with_token(addr, laddr, None)
    }

    /// A connection over the socket with this token.
    pub(crate) fn over_socket(addr: String, laddr: String, token: usize) -> Self {
        Self::with_token(addr, laddr, Some(token))
    }

    fn with_token(addr: String, laddr: String, token: Option<usize>) -> Self {
        Self {
            addr,
            laddr,
            conn: OnceLock::new(),
            token,
            is_full: AtomicBool::new(false),
            is_noted: AtomicBool::new(false),
            input: Mutex::default(),
            pending: Mutex::default(),
            has_pending: AtomicBool::new(false),
            output: Mutex::default(),
        }
    }

    pub(crate) fn input(&self) -> MutexGuard<'_, ClientInput> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The input; `None` while the connection is being served.
    pub(crate) fn try_input(&self) -> Option<MutexGuard<'_, ClientInput>> {
        match self.input.try_lock() {
            Ok(input) => Some(input),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Index of its socket among the sockets of the server; `None` for a connection in process.
    pub(crate) fn token(&self) -> Option<usize> {
        self.token
    }

    /// Notes that the transport has something to do; false if that was noted before.
    #[inline]
    pub(crate) fn note(&self) -> bool {
        !self.is_noted.swap(true, Ordering::AcqRel)
    }

    /// Clears the note of [`ClientConnection::note`]: the transport looks at the connection now.
    pub(crate) fn forget_note(&self) {
        self.is_noted.store(false, Ordering::Release);
    }

    /// Wakes the tasks that wait to read from or to write to this connection, in process. The caller
    /// holds no lock.
    pub(crate) fn wake(&self) {
        let wakers = self.output().take_wakers();
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Takes bytes from the client. Does not wait while the connection is being served.
    pub(crate) fn feed(&self, bytes: &[u8]) {
        if let Some(mut input) = self.try_input() {
            self.take_pending(&mut input);
            self.feed_into(&mut input, bytes);
            return;
        }
        let mut pending = self.pending();
        pending.bytes.extend_from_slice(bytes);
        if pending.bytes.len() > INPUT_BYTES_MAX {
            self.is_full.store(true, Ordering::Release);
        }
        self.has_pending.store(true, Ordering::Release);
    }

    /// Takes bytes from the client, for a caller that has the input.
    pub(crate) fn feed_into(&self, input: &mut ClientInput, bytes: &[u8]) {
        if !bytes.is_empty() {
            input.received.add(Traffic {
                bytes: bytes.len() as u64,
                turns: 1,
            });
        }
        input.requests.feed(bytes);
        if input.is_overfull() {
            self.is_full.store(true, Ordering::Release);
        }
    }

    /// Notes that the client sends nothing more. Does not wait while the connection is being served.
    pub(crate) fn close_input(&self) {
        self.change_input(|input| input.close(), |pending| pending.is_closed = true);
    }

    /// Loses what the client has sent, and everything that it sends from now on. Does not wait while the
    /// connection is being served, so a node can call it beside a long script.
    pub(crate) fn silence_input(&self) {
        self.change_input(Input::silence, |pending| pending.is_silenced = true);
    }

    fn change_input(&self, now: impl FnOnce(&mut Input), later: impl FnOnce(&mut PendingInput)) {
        if let Some(mut input) = self.try_input() {
            self.take_pending(&mut input);
            now(&mut input.requests);
            return;
        }
        later(&mut self.pending());
        self.has_pending.store(true, Ordering::Release);
    }

    fn pending(&self) -> MutexGuard<'_, PendingInput> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves into the input what arrived while it was locked.
    #[inline]
    pub(crate) fn take_pending(&self, input: &mut ClientInput) {
        if self.has_pending.load(Ordering::Acquire) {
            self.move_pending(input);
        }
    }

    #[cold]
    fn move_pending(&self, input: &mut ClientInput) {
        let mut pending = self.pending();
        self.has_pending.store(false, Ordering::Release);
        let PendingInput {
            bytes,
            is_closed,
            is_silenced,
        } = std::mem::take(&mut *pending);
        if is_silenced {
            input.requests.silence();
        }
        self.feed_into(input, &bytes);
        if is_closed {
            input.requests.close();
        }
    }

    /// True if the transport stops reading from the client.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Called when the node has served the input. Returns true if there is room again for more input.
    pub(crate) fn was_served(&self, input: &ClientInput) -> bool {
        let is_full = input.is_overfull();
        let was_full = self.is_full.load(Ordering::Acquire);
        if was_full != is_full {
            self.is_full.store(is_full, Ordering::Release);
        }
        was_full && !is_full
    }

    /// True if a message of this connection waits for a gate.
    pub(crate) fn is_at_gate(&self) -> bool {
        self.input().requests.is_at_gate() || self.output().is_at_gate()
    }

    /// Ends the connection at once.
    pub(crate) fn reset(&self) {
        self.output().end(Ending::Reset);
    }
}

impl ClientInput {
    /// True if the input has to be served before it takes more.
    fn is_overfull(&self) -> bool {
        let max = if self.is_queued || self.requests.postponed().is_some() {
            INPUT_BYTES_MAX
        } else if self.parked.is_some() {
            PARKED_INPUT_BYTES_MAX
        } else {
            return false;
        };
        self.requests.buffered_bytes() > max
    }
}
