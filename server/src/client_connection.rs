//! One connection between its transport and the node: bytes in, bytes out, and what holds them up.

use crate::engine::{ConnId, UnixMicros};
use crate::fault::Fate;
use crate::release_condition::ReleaseCondition;
use crate::resp::{Decoder, ErrorReply, OwnedRequest, Protocol, Reply, encode};
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
pub(crate) struct ClientConnection {
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

/// A request on its way, and what becomes of it then.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) wait: ReleaseCondition,
    pub(crate) request: OwnedRequest,
    pub(crate) instead: Option<ErrorReply>,
    pub(crate) fate: Fate,
}

/// Whether the client has gone.
#[derive(Debug, Default)]
pub(crate) enum Gone {
    #[default]
    No,
    Yes,
    /// It has, and the news is on its way.
    Later(ReleaseCondition),
}

#[derive(Debug, Default)]
pub(crate) struct Input {
    pub(crate) decoder: Decoder,
    /// The first request that is still on its way; the others stay in the decoder.
    pub(crate) held: Option<Held>,
    /// A request whose answer comes later; the next one waits for it.
    pub(crate) parked: Option<OwnedRequest>,
    /// A request was lost: so is everything after it.
    pub(crate) silenced: bool,
    /// Comes behind everything that the client has sent.
    pub(crate) gone: Gone,
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
    /// Frames on their way; the first one holds all others.
    late: VecDeque<Late>,
    /// Bytes of all those.
    late_bytes: usize,
    /// Nothing is delivered before this time, for a node that sleeps.
    held_until: Option<UnixMicros>,
    silenced: bool,
    ending: Option<Ending>,
    reader: Option<Waker>,
    /// Whether `reader` wants to be woken.
    is_awaited: bool,
    writer: Option<Waker>,
}

/// Frames on their way, and the end of the connection if it comes behind them.
#[derive(Debug)]
struct Late {
    wait: ReleaseCondition,
    frames: Vec<u8>,
    ending: Option<Ending>,
}

impl ClientConnection {
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
            if input.is_overfull() {
                self.is_full.store(true, Ordering::Release);
            }
        }
    }

    /// True when the transport should not read from the client for now.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// The node has taken what it could of the input.
    pub(crate) fn was_served(&self, input: &Input) {
        self.is_full.store(input.is_overfull(), Ordering::Release);
    }

    /// The client has gone.
    pub(crate) fn close_input(&self) {
        let mut input = self.input();
        if matches!(input.gone, Gone::No) {
            input.gone = Gone::Yes;
        }
    }

    /// Whether anything waits for a gate to open.
    pub(crate) fn is_at_gate(&self) -> bool {
        let input = self.input();
        let held = input.held.as_ref().map(|held| &held.wait);
        let gone = match &input.gone {
            Gone::Later(wait) => Some(wait),
            Gone::No | Gone::Yes => None,
        };
        let is_at_gate =
            |wait: Option<&ReleaseCondition>| wait.is_some_and(ReleaseCondition::is_at_gate);
        is_at_gate(held) || is_at_gate(gone) || {
            let output = self.output();
            output.late.iter().any(|late| late.wait.is_at_gate())
        }
    }
}

impl Input {
    /// Whether it has to be served before it takes more.
    fn is_overfull(&self) -> bool {
        let is_held = self.queued || self.held.is_some() || self.parked.is_some();
        is_held && self.decoder.buffered_bytes() > INPUT_BYTES_MAX
    }

    /// What the client says from now on is lost.
    pub(crate) fn silence(&mut self) {
        self.silenced = true;
        self.held = None;
        self.decoder.clear();
    }
}

impl Output {
    /// Nothing that is written from now on will ever arrive.
    fn is_done(&self) -> bool {
        self.silenced
            || self.ending.is_some()
            || self.late.back().is_some_and(|late| late.ending.is_some())
    }

    /// Lets `write` append behind everything that was written before.
    fn append_by(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        match self.late.back_mut() {
            None => write(&mut self.ready),
            Some(Late { frames, .. }) => {
                let before = frames.len();
                write(frames);
                self.late_bytes += frames.len() - before;
            }
        }
    }

    /// Writes a reply behind everything that was written before.
    pub(crate) fn write(&mut self, reply: &Reply, protocol: Protocol) {
        if !self.is_done() {
            self.append_by(|out| encode(reply, protocol, out));
        }
    }

    /// Writes encoded replies behind everything that was written before, and leaves `replies` empty.
    pub(crate) fn append(&mut self, replies: &mut Vec<u8>) {
        if self.is_done() {
            replies.clear();
        } else if self.ready.is_empty() && self.late.is_empty() {
            std::mem::swap(&mut self.ready, replies);
            self.read = 0;
        } else {
            self.append_by(|out| out.append(replies));
        }
    }

    /// Writes frames, and ends the connection behind them if it is to end; when the waiting is over.
    pub(crate) fn write_late(
        &mut self,
        mut frames: Vec<u8>,
        ending: Option<Ending>,
        wait: Option<ReleaseCondition>,
    ) {
        if self.is_done() {
            return;
        }
        if wait.is_none() && self.late.is_empty() {
            self.ready.append(&mut frames);
            if let Some(ending) = ending {
                self.end(ending);
            }
            return;
        }
        self.late_bytes += frames.len();
        self.late.push_back(Late {
            wait: wait.unwrap_or_default(),
            frames,
            ending,
        });
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
            self.lose_late();
        } else if !self.late.is_empty() {
            self.write_late(Vec::new(), Some(ending), None);
            return;
        }
        self.ending.get_or_insert(ending);
        self.wake();
    }

    /// The server ends: what is on its way does not arrive.
    pub(crate) fn abandon(&mut self) {
        self.lose_late();
        self.end(Ending::Close);
    }

    fn lose_late(&mut self) {
        self.late.clear();
        self.late_bytes = 0;
        self.held_until = None;
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// How the connection has ended, once everything before was taken.
    pub(crate) fn ended(&self) -> Option<Ending> {
        self.ending
            .filter(|_| self.ready.is_empty() && self.late.is_empty())
    }

    /// Whether the transport has something to do.
    pub(crate) fn has_news(&self) -> bool {
        (!self.ready.is_empty() && self.held_until.is_none()) || self.ended().is_some()
    }

    /// True when no request should be executed for now: it has ended, or nobody reads.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.ending.is_some()
            || self.is_full()
            || self.late.back().is_some_and(|late| late.ending.is_some())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.unread_bytes() > OUTPUT_BYTES_MAX
    }

    pub(crate) fn unread_bytes(&self) -> usize {
        self.ready.len() - self.read + self.late_bytes
    }

    /// When [`Output::release`] has something to do.
    pub(crate) fn due(&self) -> Option<UnixMicros> {
        self.late.front().and_then(|late| late.wait.due())
    }

    /// Makes ready what is due at `now`.
    pub(crate) fn release(&mut self, now: UnixMicros) {
        if self.held_until.is_some_and(|until| until <= now) {
            self.held_until = None;
        }
        while self.late.front().is_some_and(|late| late.wait.is_over(now))
            && let Some(mut late) = self.late.pop_front()
        {
            self.late_bytes -= late.frames.len();
            self.ready.append(&mut late.frames);
            if let Some(ending) = late.ending {
                self.end(ending);
            }
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
