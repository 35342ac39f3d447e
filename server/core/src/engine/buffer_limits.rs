//! `client-output-buffer-limit`: how much a client can leave unread before its connection ends.
//!
//! *Policy* (`networking.c: checkClientOutputBufferLimits`): a client above the hard limit is disconnected at once. A
//! client above the soft limit is disconnected when it has stayed there for longer than `soft seconds`, counted in
//! whole seconds of the node's clock.

use super::time::UnixMicros;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Size of the fixed buffer of a client's replies (`PROTO_REPLY_CHUNK_BYTES`). Output that fits in it does not count
/// against limits.
const FIXED_BUFFER_BYTES: usize = 16 * 1024;

/// Measures how much a client has left unread, for `client-output-buffer-limit` and CLIENT LIST, and how much was sent to it, for
/// INFO. Up to 16 KiB do not
/// count; of more, all counts. (In Redis the first 16 KiB of many replies do not count either.) Clones measure the
/// same client.
#[derive(Clone, Debug, Default)]
pub struct OutputMeter(Arc<Measured>);

#[derive(Debug, Default)]
struct Measured {
    counted: AtomicUsize,
    peak: AtomicUsize,
    sent_bytes: AtomicU64,
    writes: AtomicU64,
}

/// What transports have read from clients, or written to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of bytes.
    pub bytes: u64,
    /// Number of reads from sockets, or of writes to them.
    pub turns: u64,
}

impl Traffic {
    /// Adds what another transport has read or written.
    #[inline]
    pub const fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.turns += other.turns;
    }
}

impl OutputMeter {
    /// Returns the number of bytes that count if `unread` bytes are unread.
    pub fn counted(unread: usize) -> usize {
        if unread > FIXED_BUFFER_BYTES {
            unread
        } else {
            0
        }
    }

    /// Sets the number of bytes that count.
    pub fn set(&self, counted: usize) {
        self.0.counted.store(counted, Ordering::Relaxed);
    }

    /// Notes the number of bytes that are unread.
    #[inline]
    pub fn note(&self, unread: usize) {
        if unread > self.0.peak.load(Ordering::Relaxed) {
            self.0.peak.store(unread, Ordering::Relaxed);
        }
    }

    /// The largest number of bytes that were unread since the last call.
    pub(crate) fn take_peak(&self) -> usize {
        self.0.peak.swap(0, Ordering::Relaxed)
    }

    /// Notes that the transport has sent some bytes.
    pub fn sent(&self, bytes: usize) {
        self.0.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.0.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// What the transport has sent.
    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            bytes: self.0.sent_bytes.load(Ordering::Relaxed),
            turns: self.0.writes.load(Ordering::Relaxed),
        }
    }

    /// What the transport has sent since the last call.
    pub(crate) fn take_traffic(&self) -> Traffic {
        Traffic {
            bytes: self.0.sent_bytes.swap(0, Ordering::Relaxed),
            turns: self.0.writes.swap(0, Ordering::Relaxed),
        }
    }

    /// Number of bytes that count (`omem`).
    pub(crate) fn get(&self) -> usize {
        self.0.counted.load(Ordering::Relaxed)
    }

    /// Number of buffers that Redis needs for them (`oll`).
    pub(crate) fn buffers(&self) -> usize {
        self.get().div_ceil(FIXED_BUFFER_BYTES)
    }
}

/// Limits of the output of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Number of unread bytes above which a client is disconnected.
    pub hard_bytes: usize,
    /// Number of unread bytes above which a client is disconnected after `soft_seconds`.
    pub soft_bytes: usize,
    /// Time above the soft limit, in whole seconds of the node's clock.
    pub soft_seconds: u64,
}

impl OutputLimits {
    /// The time from which on a client is disconnected that is above the soft limit since `since`.
    pub fn soft_end(self, since: UnixMicros) -> UnixMicros {
        let seconds = i64::try_from(self.soft_seconds).unwrap_or(i64::MAX);
        let end = since.0.div_euclid(1_000_000).saturating_add(seconds);
        UnixMicros(end.saturating_add(1).saturating_mul(1_000_000))
    }
}

/// The limits of one class of clients; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit {
    hard_bytes: u64,
    soft_bytes: u64,
    soft_seconds: u64,
}

/// The limits of all classes: normal clients, replicas, subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLimits([Limit; 3]);

const NAMES: [&str; 3] = ["normal", "slave", "pubsub"];
const NORMAL: usize = 0;
const REPLICA: usize = 1;
const PUBSUB: usize = 2;

const fn limit(hard_bytes: u64, soft_bytes: u64, soft_seconds: u64) -> Limit {
    Limit {
        hard_bytes,
        soft_bytes,
        soft_seconds,
    }
}

const MB: u64 = 1024 * 1024;
const DEFAULT: BufferLimits = BufferLimits([
    limit(0, 0, 0),
    limit(256 * MB, 64 * MB, 60),
    limit(32 * MB, 8 * MB, 60),
]);

impl Default for BufferLimits {
    fn default() -> Self {
        DEFAULT
    }
}

impl fmt::Display for BufferLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, limit)) in NAMES.iter().zip(&self.0).enumerate() {
            let space = if at == 0 { "" } else { " " };
            let Limit {
                hard_bytes,
                soft_bytes,
                soft_seconds,
            } = limit;
            write!(f, "{space}{name} {hard_bytes} {soft_bytes} {soft_seconds}")?;
        }
        Ok(())
    }
}

impl BufferLimits {
    /// No class has a limit.
    pub(crate) const NONE: Self = Self([limit(0, 0, 0); 3]);

    /// Limits of a client; subscribers and replicas have limits of their own.
    pub(crate) fn of_client(self, is_subscriber: bool, is_replica: bool) -> OutputLimits {
        let class = match (is_replica, is_subscriber) {
            (true, _) => REPLICA,
            (false, true) => PUBSUB,
            (false, false) => NORMAL,
        };
        let limit = self.0[class];
        let bytes = |bytes: u64| match bytes {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        };
        OutputLimits {
            hard_bytes: bytes(limit.hard_bytes),
            soft_bytes: bytes(limit.soft_bytes),
            soft_seconds: limit.soft_seconds,
        }
    }

    /// Changes some classes (`config.c: updateClientOutputBufferLimit`).
    pub(super) fn change(&mut self, text: &[u8]) -> Result<(), &'static str> {
        if text.is_empty() {
            return Ok(());
        }
        let words: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
        if !words.len().is_multiple_of(4) {
            return Err("Wrong number of arguments in buffer limit configuration.");
        }
        let mut next = *self;
        for four in words.chunks(4) {
            let class = match &four[0].to_ascii_lowercase()[..] {
                b"normal" => NORMAL,
                b"slave" | b"replica" => REPLICA,
                b"pubsub" => PUBSUB,
                _ => return Err("Invalid client class specified in buffer limit configuration."),
            };
            let bytes = |word| super::memory_size::parse_memory(word);
            let seconds = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<i32>().ok();
            let seconds = seconds(four[3]).and_then(|seconds| u64::try_from(seconds).ok());
            let (Some(hard), Some(soft), Some(seconds)) = (bytes(four[1]), bytes(four[2]), seconds)
            else {
                return Err(
                    "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
                );
            };
            next.0[class] = limit(hard, soft, seconds);
        }
        *self = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_changed_one_by_one() {
        let mut limits = BufferLimits::default();
        let all = "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60";
        assert_eq!(limits.to_string(), all);
        assert_eq!(limits.change(b"PUBSUB 1mb 8mb 60 replica 1 2 3"), Ok(()));
        let all = "normal 0 0 0 slave 1 2 3 pubsub 1048576 8388608 60";
        assert_eq!(limits.to_string(), all);
        let subscriber = OutputLimits {
            hard_bytes: 1024 * 1024,
            soft_bytes: 8 * 1024 * 1024,
            soft_seconds: 60,
        };
        assert_eq!(limits.of_client(true, false), subscriber);
        let normal = limits.of_client(false, false);
        assert_eq!(
            (normal.hard_bytes, normal.soft_bytes),
            (usize::MAX, usize::MAX)
        );
        for wrong in [
            "normal",
            "normal  0 0 0",
            "foo 1 2 3",
            "slave x 2 3",
            "slave 1 2 -1",
            "normal 1 2 x",
        ] {
            assert!(limits.change(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(limits.to_string(), all, "all or nothing");
    }

    #[test]
    fn a_soft_limit_counts_whole_seconds() {
        let limits = OutputLimits {
            hard_bytes: usize::MAX,
            soft_bytes: 1,
            soft_seconds: 3,
        };
        for (since, end) in [(0, 4), (999_999, 4), (1_000_000, 5), (-1, 3)] {
            let end = UnixMicros(end * 1_000_000);
            assert_eq!(limits.soft_end(UnixMicros(since)), end, "{since}");
        }
    }
}
