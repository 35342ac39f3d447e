//! One connection between its transport and the node: bytes in, bytes out, and what holds them up.

use crate::engine::{ConnId, UnixMicros};
use crate::fault::Fate;
use crate::release_condition::ReleaseCondition;
use crate::resp::{Decoder, ErrorReply, OwnedRequest, Protocol, Reply, encode};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::task::Waker;

/// Unread output from which a diagnosis says that a client does not read, and from which a proxy reads no
/// more from its server. A node buffers replies without a bound, as Redis does
/// (`client-output-buffer-limit normal 0 0 0`).
pub(crate) const OUTPUT_BYTES_MAX: usize = 1024 * 1024;
/// Input kept for a connection whose messages are held up on their way, or whose node is paused: as much
/// as the buffers of a network hold.
pub(crate) const INPUT_BYTES_MAX: usize = 1024 * 1024;
/// Input kept behind a request that waits for its reply (`client-query-buffer-limit`).
const PARKED_INPUT_BYTES_MAX: usize = 1024 * 1024 * 1024;

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
    /// Place of its socket among the sockets of the server; `None` for a connection in process.
    token: Option<usize>,
    /// The transport should not read from the client for now.
    is_full: AtomicBool,
    /// The transport is about to be told that it has something to do.
    is_noted: AtomicBool,
    input: Mutex<Input>,
    /// What came while the input was in use: a script of this connection may keep it for long.
    came_meanwhile: Mutex<Came>,
    /// Whether there is anything.
    has_come: AtomicBool,
    output: Mutex<Output>,
}

/// What came from a client while its input was in use.
#[derive(Debug, Default)]
struct Came {
    bytes: Vec<u8>,
    is_gone: bool,
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
            came_meanwhile: Mutex::default(),
            has_come: AtomicBool::new(false),
            output: Mutex::default(),
        }
    }

    pub(crate) fn input(&self) -> MutexGuard<'_, Input> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The input, unless it is in use: its connection is being served at this moment.
    pub(crate) fn try_input(&self) -> Option<MutexGuard<'_, Input>> {
        match self.input.try_lock() {
            Ok(input) => Some(input),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Place of its socket among the sockets of the server; `None` for a connection in process.
    pub(crate) fn token(&self) -> Option<usize> {
        self.token
    }

    /// Notes that the transport has something to do; false if that was noted before.
    #[inline]
    pub(crate) fn note(&self) -> bool {
        !self.is_noted.swap(true, Ordering::AcqRel)
    }

    /// The transport looks at the connection now.
    pub(crate) fn forget_note(&self) {
        self.is_noted.store(false, Ordering::Release);
    }

    /// Wakes the tasks that wait to read from or to write to this connection, in process. The caller
    /// holds no lock.
    pub(crate) fn wake(&self) {
        let wakers = self.output().take_wakers();
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Takes bytes from the client. Does not wait while the input is in use.
    pub(crate) fn feed(&self, bytes: &[u8]) {
        if let Some(mut input) = self.try_input() {
            self.take_what_came(&mut input);
            self.feed_into(&mut input, bytes);
            return;
        }
        let mut came = self.came_meanwhile();
        came.bytes.extend_from_slice(bytes);
        if came.bytes.len() > INPUT_BYTES_MAX {
            self.is_full.store(true, Ordering::Release);
        }
        self.has_come.store(true, Ordering::Release);
    }

    fn came_meanwhile(&self) -> MutexGuard<'_, Came> {
        self.came_meanwhile
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves what came while the input was in use into the input.
    #[inline]
    pub(crate) fn take_what_came(&self, input: &mut Input) {
        if self.has_come.load(Ordering::Acquire) {
            self.take_it(input);
        }
    }

    #[cold]
    fn take_it(&self, input: &mut Input) {
        let mut came = self.came_meanwhile();
        self.has_come.store(false, Ordering::Release);
        let Came { bytes, is_gone } = std::mem::take(&mut *came);
        self.feed_into(input, &bytes);
        if is_gone {
            input.close();
        }
    }

    /// Takes bytes from the client, for a caller that has the input.
    pub(crate) fn feed_into(&self, input: &mut Input, bytes: &[u8]) {
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

    /// The node has taken what it could of the input; true if there is room again for more.
    pub(crate) fn was_served(&self, input: &Input) -> bool {
        let is_full = input.is_overfull();
        let was_full = self.is_full.load(Ordering::Acquire);
        if was_full != is_full {
            self.is_full.store(is_full, Ordering::Release);
        }
        was_full && !is_full
    }

    /// The client has gone. Does not wait while the input is in use.
    pub(crate) fn close_input(&self) {
        if let Some(mut input) = self.try_input() {
            self.take_what_came(&mut input);
            input.close();
            return;
        }
        self.came_meanwhile().is_gone = true;
        self.has_come.store(true, Ordering::Release);
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
        let max = if self.queued || self.held.is_some() {
            INPUT_BYTES_MAX
        } else if self.parked.is_some() {
            PARKED_INPUT_BYTES_MAX
        } else {
            return false;
        };
        self.decoder.buffered_bytes() > max
    }

    /// The client has gone.
    pub(crate) fn close(&mut self) {
        if matches!(self.gone, Gone::No) {
            self.gone = Gone::Yes;
        }
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

    /// Writes encoded replies behind everything that was written before, and leaves `replies` empty. Returns
    /// whether the client had left something unread.
    pub(crate) fn append(&mut self, replies: &mut Vec<u8>) -> bool {
        let was_unread = self.unread_bytes() > 0;
        if self.is_done() {
            replies.clear();
        } else if self.ready.is_empty() && self.late.is_empty() {
            std::mem::swap(&mut self.ready, replies);
            self.read = 0;
        } else {
            self.append_by(|out| out.append(replies));
        }
        was_unread
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
        if ending == Ending::Reset {
            self.ending = Some(ending);
        } else {
            self.ending.get_or_insert(ending);
        }
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

    /// Whether there is something to read.
    pub(crate) fn has_news(&self) -> bool {
        (!self.ready.is_empty() && self.held_until.is_none()) || self.ended().is_some()
    }

    /// True when no further request is executed: the connection has ended, or its end is on the way.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.ending.is_some() || self.late.back().is_some_and(|late| late.ending.is_some())
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
    }

    /// What is ready to be sent.
    pub(crate) fn chunk(&self) -> &[u8] {
        if self.held_until.is_some() {
            return &[];
        }
        &self.ready[self.read..]
    }

    /// So many bytes of [`Output::chunk`] were sent.
    pub(crate) fn advance(&mut self, count: usize) {
        self.read += count;
        if self.read >= self.ready.len() {
            self.ready.clear();
            if self.ready.capacity() > KEEP_BYTES_MAX {
                self.ready.shrink_to(KEEP_BYTES_MAX);
            }
            self.read = 0;
        }
    }

    /// Copies what is ready into `into`; the number of bytes.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> usize {
        let rest = self.chunk();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.advance(count);
        count
    }

    /// Has the reader woken when there is something to read.
    pub(crate) fn on_readable(&mut self, waker: &Waker) {
        if !self
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

    /// Takes the wakers of the reader, if there is something to read, and of the writer.
    fn take_wakers(&mut self) -> [Option<Waker>; 2] {
        let reader = if self.has_news() {
            self.reader.take()
        } else {
            None
        };
        [reader, self.writer.take()]
    }
}
