//! Slow commands, slow events and failed scripts, as the parameters want them measured.

use super::State;
use crate::engine::time::UnixMicros;
use crate::resp::Reply;
use std::time::Duration;

impl State {
    /// Whether the slow log has a place for what took so many microseconds.
    #[inline]
    pub(in crate::engine) fn is_slow(&self, took: u64) -> bool {
        // A negative threshold means never, and is a very large one.
        took >= self.config.slowlog_log_slower_than as u64 && self.config.slowlog_max_len > 0
    }

    /// A command took time.
    #[cold]
    pub(in crate::engine) fn took_time(
        &mut self,
        number: u16,
        is_fast: bool,
        now: UnixMicros,
        took: u64,
    ) {
        let is_measured = self.config.latency_tracking;
        self.introspection.stats.took(number, took, is_measured);
        let millis = (took / 1000) as i64;
        let threshold = self.config.latency_monitor_threshold;
        if threshold > 0 && millis >= threshold {
            let event = if is_fast { "fast-command" } else { "command" };
            let end = now.plus(Duration::from_micros(took));
            self.introspection
                .latency
                .add(event, end.0.div_euclid(1_000_000), millis);
        }
    }

    /// A script has ended: it counts as failed if it answers an error, which is counted too unless it
    /// is what a command in it answered (`script_lua.c: luaCallFunction`).
    pub(in crate::engine) fn script_ended(&mut self, number: u16, reply: &Reply) {
        let seen = self.scripting.error.take();
        let Reply::Error(error) = reply else {
            return;
        };
        self.introspection.stats.of(number).failed += 1;
        // One that was raised has its place in the script added.
        let is_old = seen.is_some_and(|seen| error.as_bytes().starts_with(seen.as_bytes()));
        if !is_old {
            self.introspection.stats.count_error(error);
        }
    }
}
