//! The buffers of a client as Redis would have them: `qbuf-free`, `rbs` and `rbp` in CLIENT LIST.
//!
//! *Policy* (`server.c: clientsCronResizeQueryBuffer`, `clientsCronResizeOutputBuffer`): ten times a second a timer
//! looks at each client. It frees the query buffer of a client that is idle for more than two seconds. It shrinks a query
//! buffer above 32 KiB when the latest requests were small. A reply buffer that was full doubles, up to 16 KiB. A reply
//! buffer of which less than half was needed shrinks to the need. Every five seconds the need is measured anew.
//!
//! The double has no such buffers and no such timer: it computes the sizes when a client asks for them.

use crate::engine::time::UnixMicros;
use std::time::Duration;

/// Pause between two looks of the timer.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Whole seconds after which a query buffer is freed.
const IDLE_SECONDS: i64 = 2;
/// Size of a query buffer, as long as requests are small.
const QUERY_BYTES: usize = 20_474;
/// Size of a query buffer before the first request.
const FRESH_QUERY_BYTES: usize = 4;
/// Query buffers above this size shrink (`PROTO_RESIZE_THRESHOLD`).
const QUERY_SHRINKS_ABOVE: usize = 32 * 1024;
/// Size of a reply buffer: of a fresh client and at most (`PROTO_REPLY_CHUNK_BYTES`), and at least
/// (`PROTO_REPLY_MIN_BYTES`).
const REPLY_BYTES: usize = 16 * 1024;
const REPLY_BYTES_MIN: usize = 1024;
/// `REPLY_BUFFER_DEFAULT_PEAK_RESET_TIME`
const PEAK_LASTS: Duration = Duration::from_secs(5);

/// Settings for resizing reply buffers (DEBUG REPLYBUFFER).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyBufferSettings {
    pub(crate) is_resized: bool,
    /// Time after which the peak is reset; `None` for never.
    pub(crate) peak_lasts: Option<Duration>,
}

impl Default for ReplyBufferSettings {
    fn default() -> Self {
        Self {
            is_resized: true,
            peak_lasts: Some(PEAK_LASTS),
        }
    }
}

/// Sizes of the buffers of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientBuffers {
    /// The query buffer's size if large requests came.
    large_query: usize,
    /// Time at which the last large request was complete; `None` while it is not.
    large_until: Option<UnixMicros>,
    reply_bytes: usize,
    reply_peak: usize,
    peak_since: UnixMicros,
    looked_at: UnixMicros,
}

impl ClientBuffers {
    /// Buffers of a client that connects.
    pub(crate) fn new(now: UnixMicros) -> Self {
        Self {
            large_query: 0,
            large_until: Some(now),
            reply_bytes: REPLY_BYTES,
            reply_peak: REPLY_BYTES,
            // Redis notes the time in seconds and compares milliseconds: the first look resets the peak.
            peak_since: UnixMicros(now.0.div_euclid(1_000_000) * 1_000),
            looked_at: now,
        }
    }

    /// Notes how much of a large request has come; `None` if no large request is incomplete any more.
    pub(crate) fn hold_request(&mut self, bytes: Option<usize>, now: UnixMicros) {
        let Some(bytes) = bytes else {
            self.large_until.get_or_insert(now);
            return;
        };
        if self.has_shrunk(now) {
            self.large_query = 0;
        }
        self.large_query = self.large_query.max(bytes);
        self.large_until = None;
    }

    /// True if the timer has run twice since the last large request: once to reset the peak, once to shrink.
    fn has_shrunk(&self, now: UnixMicros) -> bool {
        self.large_until
            .is_some_and(|until| now >= until.plus(LOOK_INTERVAL * 2))
    }

    /// Size of the query buffer. `used_at` is the time of the latest request; `None` before the first.
    pub(crate) fn query_bytes(&self, used_at: Option<UnixMicros>, now: UnixMicros) -> usize {
        let seconds = |time: UnixMicros| time.0.div_euclid(1_000_000);
        let is_idle = |used_at| seconds(now) - seconds(used_at) > IDLE_SECONDS;
        let is_large = self.large_query > QUERY_SHRINKS_ABOVE && !self.has_shrunk(now);
        match used_at {
            _ if self.large_until.is_none() => self.large_query.max(QUERY_BYTES),
            None => FRESH_QUERY_BYTES,
            Some(used_at) if is_idle(used_at) => 0,
            Some(_) if is_large => self.large_query,
            Some(_) => QUERY_BYTES,
        }
    }

    /// Size of the reply buffer (`rbs`) at the time of the last [`ClientBuffers::settle`].
    pub(crate) fn reply_bytes(&self) -> usize {
        self.reply_bytes
    }

    /// The most of it that was needed lately (`rbp`).
    pub(crate) fn reply_peak(&self) -> usize {
        self.reply_peak
    }

    /// Fits the reply buffer to what was needed until `now`. `needed` is the largest output since the last call, which
    /// came at `used_at`.
    pub(crate) fn settle(
        &mut self,
        needed: usize,
        used_at: UnixMicros,
        now: UnixMicros,
        settings: ReplyBufferSettings,
    ) {
        self.look_until(used_at, settings);
        self.reply_peak = self.reply_peak.max(needed.min(self.reply_bytes));
        self.look_until(now, settings);
    }

    /// Applies the effects of the timer up to a time.
    fn look_until(&mut self, until: UnixMicros, settings: ReplyBufferSettings) {
        loop {
            let at = self.looked_at.plus(LOOK_INTERVAL);
            if at > until {
                return;
            }
            self.looked_at = at;
            if !settings.is_resized {
                self.looked_at = until;
                return;
            }
            let bytes = self.fitted();
            let is_fitted = bytes == self.reply_bytes;
            let reset_at = settings.peak_lasts.map(|lasts| self.peak_since.plus(lasts));
            let is_reset = reset_at.is_some_and(|reset_at| at >= reset_at);
            let has_peak = self.reply_peak > 0;
            if is_reset {
                self.reply_peak = 0;
                self.peak_since = at;
            }
            self.reply_bytes = bytes;
            // From here on nothing changes until the peak is reset.
            if is_fitted && !(is_reset && has_peak) {
                self.looked_at = match reset_at {
                    Some(reset_at) if !is_reset && has_peak && reset_at < until => {
                        reset_at.max(self.looked_at)
                    }
                    Some(_) | None => until,
                };
            }
        }
    }

    /// Size that the reply buffer gets at the next look.
    fn fitted(&self) -> usize {
        let half = self.reply_bytes / 2;
        if half >= REPLY_BYTES_MIN && self.reply_peak < half {
            REPLY_BYTES_MIN.max(self.reply_peak + 1)
        } else if self.reply_bytes < REPLY_BYTES && self.reply_peak == self.reply_bytes {
            REPLY_BYTES.min(self.reply_bytes * 2)
        } else {
            self.reply_bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> UnixMicros {
        UnixMicros(millis * 1000)
    }

    #[test]
    fn the_reply_buffer_of_an_idle_client_shrinks_after_five_seconds() {
        let mut buffers = ClientBuffers::new(at(0));
        let settings = ReplyBufferSettings::default();
        let mut sizes = Vec::new();
        for now in [4_900, 5_000, 5_100, 3_600_000] {
            buffers.settle(0, at(0), at(now), settings);
            sizes.push((buffers.reply_bytes(), buffers.reply_peak()));
        }
        assert_eq!(
            sizes,
            [(16_384, 16_384), (16_384, 0), (1_024, 0), (1_024, 0)]
        );
    }

    /// As measured on a server of 7.0.15.
    #[test]
    fn the_reply_buffer_of_a_fresh_client_shrinks_at_the_second_look() {
        let connected = 1_795_000_000_000;
        let mut buffers = ClientBuffers::new(at(connected));
        let settings = ReplyBufferSettings::default();
        let mut sizes = Vec::new();
        for later in [99, 100, 200, 10_000] {
            buffers.settle(0, at(connected), at(connected + later), settings);
            sizes.push(buffers.reply_bytes());
        }
        assert_eq!(sizes, [16_384, 16_384, 1_024, 1_024]);
    }

    #[test]
    fn a_full_reply_buffer_doubles_at_each_look() {
        let mut buffers = ClientBuffers::new(at(0));
        let mut settings = ReplyBufferSettings::default();
        buffers.settle(0, at(0), at(60_000), settings);
        settings.peak_lasts = None;
        let mut sizes = Vec::new();
        for step in 1..=6 {
            let now = at(60_000 + step * 100);
            buffers.settle(32_768, now, now, settings);
            sizes.push(buffers.reply_bytes());
        }
        assert_eq!(sizes, [1_024, 2_048, 4_096, 8_192, 16_384, 16_384]);
        settings.is_resized = false;
        buffers.settle(0, at(70_000), at(90_000), settings);
        assert_eq!(buffers.reply_bytes(), 16_384);
        // the peak is never reset again
        settings = ReplyBufferSettings {
            is_resized: true,
            peak_lasts: None,
        };
        buffers.settle(0, at(90_000), at(i64::MAX / 1000), settings);
        assert_eq!(buffers.reply_bytes(), 16_384);
    }

    #[test]
    fn a_reply_buffer_keeps_what_is_needed_regularly() {
        let mut buffers = ClientBuffers::new(at(0));
        let settings = ReplyBufferSettings::default();
        for second in 0..60 {
            let now = at(second * 1000);
            buffers.settle(3_000, now, now, settings);
        }
        assert_eq!(
            (buffers.reply_bytes(), buffers.reply_peak()),
            (4_096, 3_000)
        );
    }

    #[test]
    fn a_query_buffer_is_large_for_two_looks_and_freed_when_idle() {
        let mut buffers = ClientBuffers::new(at(0));
        assert_eq!(buffers.query_bytes(None, at(0)), 4);
        assert_eq!(buffers.query_bytes(Some(at(900)), at(2_999)), 20_474);
        assert_eq!(buffers.query_bytes(Some(at(900)), at(3_000)), 0);
        buffers.hold_request(Some(40_000), at(5_000));
        buffers.hold_request(Some(400_000), at(5_000));
        assert_eq!(buffers.query_bytes(None, at(9_000)), 400_000);
        buffers.hold_request(None, at(9_000));
        for (now, bytes) in [(9_199, 400_000), (9_200, 20_474), (12_000, 0)] {
            assert_eq!(
                buffers.query_bytes(Some(at(9_000)), at(now)),
                bytes,
                "{now}"
            );
        }
        buffers.hold_request(Some(50_000), at(20_000));
        buffers.hold_request(None, at(20_000));
        assert_eq!(buffers.query_bytes(Some(at(20_000)), at(20_000)), 50_000);
    }
}
