//! The output of a connection: unread bytes, and delayed frames.

use super::rules::Ruling;
use super::{Ending, ReleaseCondition};
use crate::engine::{OutputLimits, OutputMeter, UnixMicros};
use crate::fault::Fate;
use crate::resp::{Protocol, Reply, encode};
use std::collections::VecDeque;
use std::task::Waker;

/// Unread output above which a diagnosis reports that a client does not read, and above which a proxy stops
/// reading from its server. A node buffers replies without a bound, as Redis does
/// (`client-output-buffer-limit normal 0 0 0`).
pub(crate) const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// An empty output buffer above this size is freed.
const KEEP_BYTES_MAX: usize = 64 * 1024;

/// Fate of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The connection goes on.
    GoesOn,
    /// The connection ends, now or behind delayed frames.
    Ends,
    /// Both directions are silent from now on.
    Silences,
}

#[derive(Debug, Default)]
pub(crate) struct Output {
    ready: Vec<u8>,
    /// Number of bytes of `ready` that were read.
    read: usize,
    /// Delayed frames. The first one delays all others.
    late: VecDeque<DelayedFrames>,
    /// Bytes of the delayed frames.
    late_bytes: usize,
    /// Nothing is delivered before this time, because the node sleeps.
    held_until: Option<UnixMicros>,
    silenced: bool,
    ending: Option<Ending>,
    /// Set while more than the soft limit is unread.
    over_soft_limit: Option<OverSoftLimit>,
    /// Unread bytes that count against the limits, and where they are reported.
    counted: usize,
    meter: OutputMeter,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Since when more than the soft limit is unread.
#[derive(Debug)]
struct OverSoftLimit {
    bytes: usize,
    /// On the node's clock.
    since: UnixMicros,
}

/// How the unread output compares with the limits of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitCheck {
    /// Not above any limit.
    Within,
    /// Above the soft limit. The limit is exceeded at this time of the node's clock.
    ExceededAt(UnixMicros),
    /// The client is to be disconnected.
    Exceeded,
}

/// Delayed frames, and the end of the connection if it follows them.
#[derive(Debug)]
struct DelayedFrames {
    wait: ReleaseCondition,
    frames: Vec<u8>,
    ending: Option<Ending>,
}

impl Output {
    /// True if everything that is written from now on is lost.
    fn is_done(&self) -> bool {
        self.silenced
            || self.ending.is_some()
            || self.late.back().is_some_and(|late| late.ending.is_some())
    }

    /// Lets `write` append behind everything that was written before.
    fn append_by(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        match self.late.back_mut() {
            None => write(&mut self.ready),
            Some(DelayedFrames { frames, .. }) => {
                let before = frames.len();
                write(frames);
                self.late_bytes += frames.len() - before;
            }
        }
        self.measure();
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
            self.measure();
        } else {
            self.append_by(|out| out.append(replies));
        }
        was_unread
    }

    /// Writes what the rules have left of a frame, which `write` encodes. The connection is silent or ends
    /// afterwards if the rules say so.
    pub(crate) fn deliver(&mut self, ruling: Ruling, write: impl FnOnce(&mut Vec<u8>)) -> Delivery {
        let Ruling {
            wait,
            instead,
            fate,
        } = ruling;
        let (ending, bytes_max) = match fate {
            Fate::Drop => {
                self.silence();
                return Delivery::GoesOn;
            }
            Fate::Silence => {
                self.silence();
                return Delivery::Silences;
            }
            Fate::Arrives => (None, usize::MAX),
            Fate::CutAfter(bytes) => (Some(Ending::Close), bytes),
            Fate::Close => (Some(Ending::Close), 0),
            Fate::Reset => (Some(Ending::Reset), 0),
        };
        let mut frames = Vec::new();
        match instead {
            Some(error) => encode(&error.into(), Protocol::Resp2, &mut frames),
            None => write(&mut frames),
        }
        frames.truncate(bytes_max);
        self.write_late(frames, ending, wait);
        match ending {
            None => Delivery::GoesOn,
            Some(_) => Delivery::Ends,
        }
    }

    /// Ends the connection after everything that was written before, once the condition is met.
    pub(crate) fn end_when(&mut self, wait: Option<ReleaseCondition>) {
        match wait {
            None => self.end(Ending::Close),
            wait => self.write_late(Vec::new(), Some(Ending::Close), wait),
        }
    }

    /// Writes frames once the condition is met, and then ends the connection if there is an `ending`.
    fn write_late(
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
            self.measure();
            if let Some(ending) = ending {
                self.end(ending);
            }
            return;
        }
        self.late_bytes += frames.len();
        self.late.push_back(DelayedFrames {
            wait: wait.unwrap_or_default(),
            frames,
            ending,
        });
        self.measure();
    }

    /// Delivers nothing before this time.
    pub(crate) fn hold_until(&mut self, until: UnixMicros) {
        self.held_until = Some(until);
    }

    /// Loses everything that is written from now on.
    pub(crate) fn silence(&mut self) {
        self.silenced = true;
    }

    pub(crate) fn is_silenced(&self) -> bool {
        self.silenced
    }

    /// Ends the connection. A close comes after everything that was written before, a reset at once.
    pub(crate) fn end(&mut self, ending: Ending) {
        if ending == Ending::Reset {
            self.ready.clear();
            self.read = 0;
            self.drop_delayed();
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

    /// Ends the connection because its server ends: delayed frames are lost.
    pub(crate) fn abandon(&mut self) {
        self.drop_delayed();
        self.end(Ending::Close);
    }

    fn drop_delayed(&mut self) {
        self.late.clear();
        self.late_bytes = 0;
        self.held_until = None;
        self.measure();
    }

    /// True if the connection has ended for its client's requests: its end is written.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// How the connection has ended, once the client has taken everything before its end.
    pub(crate) fn ended(&self) -> Option<Ending> {
        self.ending
            .filter(|_| self.ready.is_empty() && self.late.is_empty())
    }

    /// True if there is something to read.
    pub(crate) fn has_news(&self) -> bool {
        (!self.ready.is_empty() && self.held_until.is_none()) || self.ended().is_some()
    }

    /// True when no further request is executed: the connection has ended, or its end is on the way.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.ending.is_some() || self.late.back().is_some_and(|late| late.ending.is_some())
    }

    /// True if the client has left more than [`OUTPUT_BYTES_MAX`] unread.
    pub(crate) fn is_full(&self) -> bool {
        self.unread_bytes() > OUTPUT_BYTES_MAX
    }

    /// Bytes that the client has not read, those of delayed frames included.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.ready.len() - self.read + self.late_bytes
    }

    /// True if a frame waits for a gate.
    pub(crate) fn is_at_gate(&self) -> bool {
        self.late.iter().any(|late| late.wait.is_at_gate())
    }

    /// The meter of the unread bytes.
    pub(crate) fn meter(&self) -> OutputMeter {
        self.meter.clone()
    }

    /// Counts the unread bytes again, after a change.
    #[inline]
    fn measure(&mut self) {
        let unread = self.unread_bytes();
        self.meter.note(unread);
        let counted = OutputMeter::counted(unread);
        if counted != self.counted {
            self.report(counted);
        }
    }

    fn report(&mut self, counted: usize) {
        self.counted = counted;
        self.meter.set(counted);
        if let Some(over) = &self.over_soft_limit
            && counted < over.bytes
        {
            self.over_soft_limit = None;
        }
    }

    /// Compares the unread output with its limits. `now` is the time of the node's clock.
    pub(crate) fn check_limits(
        &mut self,
        limits: OutputLimits,
        now: impl FnOnce() -> UnixMicros,
    ) -> LimitCheck {
        if self.counted >= limits.hard_bytes {
            return LimitCheck::Exceeded;
        }
        if self.counted < limits.soft_bytes {
            self.over_soft_limit = None;
            return LimitCheck::Within;
        }
        let (now, bytes) = (now(), limits.soft_bytes);
        let over = OverSoftLimit { bytes, since: now };
        let since = self.over_soft_limit.get_or_insert(over).since;
        let end = limits.soft_end(since);
        if now < end {
            LimitCheck::ExceededAt(end)
        } else {
            LimitCheck::Exceeded
        }
    }

    /// The time at which [`Output::release`] has something to do.
    pub(crate) fn due(&self) -> Option<UnixMicros> {
        self.late.front().and_then(|late| late.wait.due())
    }

    /// Makes frames ready whose condition is met at `now`.
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

    /// Bytes that are ready to be sent.
    pub(crate) fn chunk(&self) -> &[u8] {
        if self.held_until.is_some() {
            return &[];
        }
        &self.ready[self.read..]
    }

    /// Removes the first `count` bytes of [`Output::chunk`], which were sent.
    pub(crate) fn advance(&mut self, count: usize) {
        if count > 0 {
            self.meter.sent(count);
        }
        self.read += count;
        if self.read >= self.ready.len() {
            self.ready.clear();
            if self.ready.capacity() > KEEP_BYTES_MAX {
                self.ready.shrink_to(KEEP_BYTES_MAX);
            }
            self.read = 0;
        }
        self.measure();
    }

    /// Copies ready bytes to `into`; returns their number.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> usize {
        let rest = self.chunk();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.advance(count);
        count
    }

    /// Registers the reader, to be woken when there is something to read.
    pub(crate) fn on_readable(&mut self, waker: &Waker) {
        if !self
            .reader
            .as_ref()
            .is_some_and(|known| known.will_wake(waker))
        {
            self.reader = Some(waker.clone());
        }
    }

    /// Registers the writer, to be woken when there is room for more input.
    pub(crate) fn on_writable(&mut self, waker: &Waker) {
        self.writer = Some(waker.clone());
    }

    /// Takes the wakers of the reader, if there is something to read, and of the writer.
    pub(crate) fn take_wakers(&mut self) -> [Option<Waker>; 2] {
        let reader = if self.has_news() {
            self.reader.take()
        } else {
            None
        };
        [reader, self.writer.take()]
    }
}
