//! `client-output-buffer-limit`: how much a client may leave unread before its connection ends.

use std::fmt;

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
    /// What a client may leave unread, bytes; a subscriber has a limit of its own.
    pub(crate) fn output_bytes_max(self, is_subscriber: bool) -> usize {
        match self.0[if is_subscriber { PUBSUB } else { NORMAL }].hard_bytes {
            0 => usize::MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }

    /// Changes some classes (`config.c: updateClientOutputBufferLimit`). Of normal clients and subscribers
    /// only the hard limit has its effect here; the limits of replicas concern no connection.
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
                b"slave" | b"replica" => 1,
                b"pubsub" => PUBSUB,
                _ => return Err("Invalid client class specified in buffer limit configuration."),
            };
            let bytes = |word| super::parameter::parse_memory(word);
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
        let soft = |limits: &Self, class: usize| {
            let limit = limits.0[class];
            (limit.soft_bytes, limit.soft_seconds)
        };
        if [NORMAL, PUBSUB]
            .iter()
            .any(|class| soft(&next, *class) != soft(&DEFAULT, *class))
        {
            return Err("redouble has no soft limits of normal clients and subscribers");
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
        assert_eq!(limits.output_bytes_max(true), 1024 * 1024);
        assert_eq!(limits.output_bytes_max(false), usize::MAX);
        for wrong in [
            "normal",
            "normal  0 0 0",
            "foo 1 2 3",
            "slave x 2 3",
            "slave 1 2 -1",
            "normal 1 1 0",
            "pubsub 1 2 3",
        ] {
            assert!(limits.change(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(limits.to_string(), all, "all or nothing");
    }
}
