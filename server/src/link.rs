//! One connection between its transport and the node: bytes in, bytes out, and what holds them up.

use crate::engine::{ConnId, UnixMicros};
use crate::resp::{Decoder, OwnedRequest, Protocol, Reply, encode};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

/// Output that a client does not read, past which its requests are not executed any more. Redis
/// bounds neither (`client-output-buffer-limit normal 0 0 0`); TCP's own buffers do it there.
pub(crate) const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Input kept for a connection that is not being served (paused, delayed, parked).
pub(crate) const INPUT_BYTES_MAX: usize = 1024 * 1024;

/// Output buffers above this size are given back once they are empty.
const KEEP_BYTES_MAX: usize = 64 * 1024;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// What was written is delivered first.
    Close,
    /// At once.
    Reset,
}

/// One connection. The locks are taken in this order: node, input, output.
#[derive(Debug)]
pub(crate) struct Link {
    /// Where the client is.
    pub(crate) addr: String,
    /// Where it has reached us.
    pub(crate) laddr: String,
    /// Known once the node has opened a session.
    pub(crate) conn: OnceLock<ConnId>,
    /// The transport should not read from the client for now.
    is_full: AtomicBool,
    input: Mutex<Input>,
    output: Mutex<Output>,
}

#[derive(Debug, Default)]
pub(crate) struct Input {
    pub(crate) decoder: Decoder,
    /// A delayed request, and when (in true time) it arrives.
    pub(crate) delayed: Option<(UnixMicros, OwnedRequest)>,
    /// A request whose answer comes later; the next one waits for it.
    pub(crate) parked: Option<OwnedRequest>,
    /// A request was lost: so is everything after it.
    pub(crate) silenced: bool,
    /// The client has gone.
    pub(crate) closed: bool,
    /// It stands in the node's queue of connections to serve later.
    pub(crate) queued: bool,
    /// Replies of the batch that is being served.
    pub(crate) replies: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Output {
    ready: Vec<u8>,
    /// How much of `ready` was read already.
    read: usize,
    /// Delayed frames with the time (in true time) at which they become ready.
    delayed: VecDeque<(UnixMicros, Vec<u8>)>,
    /// Nothing is delivered before this time, for a node that sleeps.
    held_until: Option<UnixMicros>,
    silenced: bool,
    ending: Option<Ending>,
    reader: Option<Waker>,
    /// Whether `reader` wants to be woken.
    is_awaited: bool,
    writer: Option<Waker>,
}

impl Link {
    pub(crate) fn new(addr: String, laddr: String) -> Self {
        Self {
            addr,
            laddr,
            conn: OnceLock::new(),
            is_full: AtomicBool::new(false),
            input: Mutex::default(),
            output: Mutex::default(),
        }
    }

    pub(crate) fn input(&self) -> MutexGuard<'_, Input> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes bytes from the client.
    pub(crate) fn feed(&self, bytes: &[u8]) {
        let mut input = self.input();
        if !input.silenced {
            input.decoder.feed(bytes);
            let is_held = input.queued || input.delayed.is_some() || input.parked.is_some();
            if is_held && input.decoder.buffered_bytes() > INPUT_BYTES_MAX {
                self.is_full.store(true, Ordering::Release);
            }
        }
    }

    /// True when the transport should not read from the client for now.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// The node has taken what it could of the input.
    pub(crate) fn was_served(&self) {
        self.is_full.store(false, Ordering::Release);
    }

    /// The client has gone.
    pub(crate) fn close_input(&self) {
        self.input().closed = true;
    }
}

impl Output {
    /// Writes a reply behind everything that was written before.
    pub(crate) fn write(&mut self, reply: &Reply, protocol: Protocol) {
        if self.silenced || self.ending.is_some() {
            return;
        }
        let out = self
            .delayed
            .back_mut()
            .map_or(&mut self.ready, |(_, frames)| frames);
        encode(reply, protocol, out);
    }

    /// Writes encoded replies behind everything that was written before, and leaves `replies` empty.
    pub(crate) fn append(&mut self, replies: &mut Vec<u8>) {
        if self.silenced || self.ending.is_some() {
            replies.clear();
        } else if self.ready.is_empty() && self.delayed.is_empty() {
            std::mem::swap(&mut self.ready, replies);
            self.read = 0;
        } else {
            let out = self
                .delayed
                .back_mut()
                .map_or(&mut self.ready, |(_, frames)| frames);
            out.append(replies);
        }
    }

    /// Writes a reply that becomes ready at `at`, or behind a frame that is later still.
    pub(crate) fn write_delayed(&mut self, reply: &Reply, protocol: Protocol, at: UnixMicros) {
        if self.silenced || self.ending.is_some() {
            return;
        }
        let at = self.delayed.back().map_or(at, |(last, _)| at.max(*last));
        let mut frames = Vec::new();
        encode(reply, protocol, &mut frames);
        self.delayed.push_back((at, frames));
    }

    pub(crate) fn hold_until(&mut self, until: UnixMicros) {
        self.held_until = Some(until);
    }

    /// Everything written from now on is lost.
    pub(crate) fn silence(&mut self) {
        self.silenced = true;
    }

    /// Ends the connection; what was written before is still delivered, unless it is a reset.
    pub(crate) fn end(&mut self, ending: Ending) {
        if ending == Ending::Reset {
            self.ready.clear();
            self.read = 0;
            self.delayed.clear();
            self.held_until = None;
        }
        self.ending.get_or_insert(ending);
        self.wake();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// How the connection has ended, once everything before was taken.
    pub(crate) fn ended(&self) -> Option<Ending> {
        self.ending
            .filter(|_| self.ready.is_empty() && self.delayed.is_empty())
    }

    /// Whether the transport has something to do.
    pub(crate) fn has_news(&self) -> bool {
        (!self.ready.is_empty() && self.held_until.is_none()) || self.ended().is_some()
    }

    /// True when no request should be executed for now: it has ended, or nobody reads.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.ending.is_some() || self.is_full()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.unread_bytes() > OUTPUT_BYTES_MAX
    }

    pub(crate) fn unread_bytes(&self) -> usize {
        self.ready.len() - self.read
    }

    /// Makes ready what is due at `now`.
    pub(crate) fn release(&mut self, now: UnixMicros) {
        if self.held_until.is_some_and(|until| until <= now) {
            self.held_until = None;
        }
        while self.delayed.front().is_some_and(|(at, _)| *at <= now)
            && let Some((_, mut frames)) = self.delayed.pop_front()
        {
            self.ready.append(&mut frames);
        }
        self.wake();
    }

    /// Moves what is ready into `into`, which must be empty; false when there is nothing. For a
    /// transport that never uses [`Output::read`].
    pub(crate) fn take(&mut self, into: &mut Vec<u8>) -> bool {
        if self.ready.is_empty() || self.held_until.is_some() {
            return false;
        }
        std::mem::swap(&mut self.ready, into);
        true
    }

    /// Copies what is ready into `into`; the number of bytes.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> usize {
        if self.held_until.is_some() {
            return 0;
        }
        let rest = &self.ready[self.read..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.read += count;
        if self.read == self.ready.len() {
            self.ready.clear();
            self.ready.shrink_to(KEEP_BYTES_MAX);
            self.read = 0;
        }
        count
    }

    /// Asks to be woken when there is news, or not to be.
    pub(crate) fn on_readable(&mut self, waker: Option<&Waker>) {
        self.is_awaited = waker.is_some();
        if let Some(waker) = waker
            && !self
                .reader
                .as_ref()
                .is_some_and(|known| known.will_wake(waker))
        {
            self.reader = Some(waker.clone());
        }
    }

    pub(crate) fn on_writable(&mut self, waker: &Waker) {
        self.writer = Some(waker.clone());
    }

    pub(crate) fn wake(&mut self) {
        if std::mem::take(&mut self.is_awaited)
            && let Some(waker) = &self.reader
        {
            waker.wake_by_ref();
        }
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }
}
