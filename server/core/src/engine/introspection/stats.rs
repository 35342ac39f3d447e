//! Counters of a node: requests by command and by error code, keys expired, evicted, found and missed.
//!
//! Time stands still within a command, so only commands that sleep take time.

use crate::engine::buffer_limits::Traffic;
use crate::resp::ErrorReply;
use std::collections::BTreeMap;

/// Error codes that are counted apart; scripts can make up any number of them. 128 in Redis 7.2 too
/// (`ERROR_STATS_NUMBER`), 7.0 has no bound.
const CODES_MAX: usize = 128;
/// A code is looked for in so many bytes, with the leading `-` (`networking.c: afterErrorReply`).
const CODE_BYTES_MAX: usize = 31;
const NO_CODE: &str = "ERR";

/// Number of calls of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) calls: u64,
    /// Did not pass a gate.
    pub(crate) rejected: u64,
    /// Answered an error.
    pub(crate) failed: u64,
    /// Calls with a measured time (`latency-tracking`).
    pub(crate) measured: u64,
    /// The time of all, microseconds.
    pub(crate) micros: u64,
}

impl Calls {
    pub(crate) fn is_zero(&self) -> bool {
        self.calls == 0 && self.rejected == 0 && self.failed == 0
    }
}

/// All counters. CONFIG RESETSTAT sets them back.
#[derive(Clone, Debug)]
pub(crate) struct Stats {
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    pub(crate) connections: u64,
    pub(crate) rejected_connections: u64,
    /// `sync_full`, `sync_partial_ok`, `sync_partial_err`
    pub(crate) full_syncs: u64,
    pub(crate) partial_syncs: u64,
    pub(crate) refused_partial_syncs: u64,
    /// `total_net_input_bytes`, `total_reads_processed`
    pub(crate) received: Traffic,
    /// What was sent to connections that have ended; `total_net_output_bytes` and `total_writes_processed` count the others too.
    pub(crate) sent: Traffic,
    /// `total_net_repl_output_bytes`
    pub(crate) replicated_bytes: u64,
    pub(crate) expired_keys: u64,
    pub(crate) evicted_keys: u64,
    /// `evicted_clients`
    pub(crate) evicted_clients: u64,
    /// Fields of hashes that were past their deadlines.
    pub(crate) expired_fields: u64,
    /// Values that Redis would have freed in another thread.
    pub(crate) lazily_freed: u64,
    pub(crate) keyspace_hits: u64,
    pub(crate) keyspace_misses: u64,
    /// By the number of the command.
    by_command: Vec<Calls>,
    by_code: BTreeMap<Box<str>, u64>,
    /// Calls that took time: how many, by command and microseconds.
    slow: BTreeMap<(u16, u64), u64>,
}

impl Stats {
    pub(in crate::engine) fn new(commands: usize) -> Self {
        Self {
            commands: 0,
            errors: 0,
            connections: 0,
            rejected_connections: 0,
            full_syncs: 0,
            partial_syncs: 0,
            refused_partial_syncs: 0,
            received: Traffic::default(),
            sent: Traffic::default(),
            replicated_bytes: 0,
            expired_keys: 0,
            evicted_keys: 0,
            evicted_clients: 0,
            lazily_freed: 0,
            expired_fields: 0,
            keyspace_hits: 0,
            keyspace_misses: 0,
            by_command: vec![Calls::default(); commands],
            by_code: BTreeMap::new(),
            slow: BTreeMap::new(),
        }
    }

    /// Sets the counters back for a table with so many commands.
    pub(in crate::engine) fn count_for(&mut self, commands: usize) {
        if commands != self.by_command.len() {
            *self = Self::new(commands);
        }
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.by_command.len());
    }

    /// The counters of a command.
    #[inline]
    pub(crate) fn of(&mut self, number: u16) -> &mut Calls {
        &mut self.by_command[usize::from(number)]
    }

    /// A call took time.
    #[cold]
    pub(in crate::engine) fn took(&mut self, number: u16, micros: u64, is_measured: bool) {
        self.of(number).micros += micros;
        if is_measured {
            *self.slow.entry((number, micros)).or_default() += 1;
        }
    }

    pub(crate) fn count_error(&mut self, error: &ErrorReply) {
        self.errors += 1;
        let text = error.as_bytes();
        let end = text.iter().position(|byte| *byte == b' ');
        let code = match end.filter(|end| *end < CODE_BYTES_MAX) {
            Some(end) => String::from_utf8_lossy(&text[..end]),
            None => NO_CODE.into(),
        };
        if let Some(count) = self.by_code.get_mut(&*code) {
            *count += 1;
        } else if self.by_code.len() < CODES_MAX {
            self.by_code.insert(code.into(), 1);
        }
    }

    /// Every command's counters, by number.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (u16, &Calls)> {
        (0..).zip(&self.by_command)
    }

    /// Error codes and how often they were answered, sorted.
    pub(crate) fn codes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.by_code.iter().map(|(code, count)| (&**code, *count))
    }

    /// How many calls of a command took how long, in microseconds, fastest first.
    pub(crate) fn durations(&self, number: u16) -> Vec<(u64, u64)> {
        let slow = self.slow.range((number, 0)..=(number, u64::MAX));
        let slow: Vec<(u64, u64)> = slow.map(|((_, micros), count)| (*micros, *count)).collect();
        let measured = self.by_command[usize::from(number)].measured;
        let fast = measured - slow.iter().map(|(_, count)| count).sum::<u64>();
        let fast = (fast > 0).then_some((0, fast));
        fast.into_iter().chain(slow).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_first_words() {
        let mut stats = Stats::new(1);
        for text in ["ERR a", "WRONGTYPE b c", "nospace", "ERR d"] {
            stats.count_error(&ErrorReply::new(text));
        }
        stats.count_error(&ErrorReply::new(format!("{} x", "L".repeat(31))));
        let codes: Vec<_> = stats.codes().collect();
        assert_eq!(codes, [("ERR", 4), ("WRONGTYPE", 1)]);
        for i in 0..1000 {
            stats.count_error(&ErrorReply::new(format!("CODE{i} x")));
        }
        assert_eq!((stats.codes().count(), stats.errors), (CODES_MAX, 1005));
    }

    #[test]
    fn durations_are_sorted() {
        let mut stats = Stats::new(2);
        stats.of(1).measured = 4;
        stats.took(1, 500, true);
        stats.took(1, 30, true);
        assert_eq!(stats.durations(1), [(0, 2), (30, 1), (500, 1)]);
        assert_eq!(stats.durations(0), []);
        assert_eq!(stats.of(1).micros, 530);
    }
}
