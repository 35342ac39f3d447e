//! Slow commands, slow events and failed scripts, as the parameters want them measured.

use super::State;
use crate::engine::time::UnixMicros;
use crate::resp::Reply;
use std::time::Duration;

/// A measurement that has started.
pub(in crate::engine) struct Watch {
    read: fn() -> u64,
    started: u64,
}

impl State {
    /// Returns true if the slow log records a duration of `took` microseconds.
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

    /// Starts to measure an event for LATENCY; `None` if nothing is measured.
    #[inline]
    pub(in crate::engine) fn start_watch(&self) -> Option<Watch> {
        if self.config.latency_monitor_threshold == 0 {
            return None;
        }
        let read = self.config.stopwatch?;
        Some(Watch {
            read,
            started: read(),
        })
    }

    /// Notes an event that has ended now, if it took at least as long as `latency-monitor-threshold` says.
    #[cold]
    pub(in crate::engine) fn stop_watch(&mut self, watch: &Watch, event: &'static str) {
        let micros = (watch.read)().saturating_sub(watch.started);
        let millis = i64::try_from(micros / 1000).unwrap_or(i64::MAX);
        let threshold = self.config.latency_monitor_threshold;
        if threshold > 0 && millis >= threshold {
            let end = self.unit.now().plus(Duration::from_micros(micros));
            let latency = &mut self.introspection.latency;
            latency.add(event, end.0.div_euclid(1_000_000), millis);
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
        // The position in the script is added to a raised error.
        let is_old = seen.is_some_and(|seen| error.as_bytes().starts_with(seen.as_bytes()));
        if !is_old {
            self.introspection.stats.count_error(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Config, Engine, NodeApi, UnixMicros};
    use crate::resp::OwnedRequest;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A clock on which 30 ms pass between two readings.
    fn slow() -> u64 {
        static READINGS: AtomicU64 = AtomicU64::new(0);
        READINGS.fetch_add(1, Ordering::Relaxed) * 30_000
    }

    /// The events that LATENCY has after some requests, the expiry of a key and an eviction.
    fn events(threshold: i64, stopwatch: Option<fn() -> u64>) -> Vec<&'static str> {
        let config = Config {
            latency_monitor_threshold: threshold,
            stopwatch,
            ..Config::default()
        };
        let mut engine = Engine::new(config, UnixMicros(0));
        let conn = engine.connect("127.0.0.1:5", UnixMicros(0));
        let conn = conn.expect("a connection");
        for line in [
            "SET evicted v",
            "CONFIG SET maxmemory 1 maxmemory-policy allkeys-lru",
            "CONFIG SET maxmemory 0",
            "GET evicted",
            "SET expires v PX 1",
        ] {
            let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
            let request = request.as_request().expect("not empty");
            engine.handle(conn, request, UnixMicros(0));
        }
        engine.handle_timeout(UnixMicros(1_000_000));
        let latency = engine.state().introspection.latency.iter();
        latency.map(|(event, _)| event).collect()
    }

    #[test]
    fn events_that_take_long_are_noted() {
        let all = [
            "command",
            "eviction-cycle",
            "eviction-del",
            "expire-cycle",
            "fast-command",
        ];
        assert_eq!(events(30, Some(slow)), all);
        // A command of which an eviction is a part takes longer than one reading.
        assert_eq!(events(1_000, Some(slow)), [""; 0]);
        assert_eq!(events(0, Some(slow)), [""; 0]);
        assert_eq!(events(30, None), [""; 0]);
    }
}
