//! Controls the clock of a server from a test.

use crate::clock::ClockMap;
use crate::engine::UnixMicros;
use crate::node_handle::{ClockKind, NodeHandle};
use std::time::Duration;

/// Sets, advances and distorts the clock of a server: [`Server::clock`](crate::Server::clock).
///
/// | | moves | whose clock |
/// |---|---|---|
/// | [`advance`](Self::advance) | through every deadline, each at its own instant | a manual one, of all servers that share it |
/// | [`set`](Self::set) | at once | the same |
/// | [`jump`](Self::jump), [`jump_back`](Self::jump_back) | at once | this server's, on any clock |
/// | [`drift`](Self::drift), [`freeze`](Self::freeze), [`thaw`](Self::thaw) | faster, slower, not at all | this server's, on any clock |
///
/// A clock that moves at once skips the time between: overdue deadlines are handled once, at the
/// new time. The whole server follows this clock: deadlines of keys, TIME, blocking commands,
/// pauses, idle times. Delayed messages ([`crate::fault::Delay`]) follow true time, because they
/// are outside of the server. No server clock moves a client's own timers.
#[derive(Clone, Copy, Debug)]
pub struct ClockControl<'a> {
    handle: &'a NodeHandle,
}

const NOT_MANUAL: &str = "only a manual clock can be moved: Server::builder().clock(Clock::Manual)";

impl<'a> ClockControl<'a> {
    pub(crate) fn of(handle: &'a NodeHandle) -> Self {
        Self { handle }
    }

    /// Time on the server's clock, in microseconds since 1970.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use redouble::{Clock, Server, engine::UnixMillis};
    ///
    /// let builder = Server::builder().clock(Clock::Manual).starting_at(UnixMillis(1_000));
    /// let server = builder.start().await?;
    /// assert_eq!(server.clock().now().millis(), UnixMillis(1_000));
    /// # std::io::Result::Ok(()) })?;
    /// # std::io::Result::Ok(())
    /// ```
    pub fn now(&self) -> UnixMicros {
        self.handle.shared.node_time(self.handle.now())
    }

    /// True time, which several servers may share
    /// ([`ServerBuilder::beside`](crate::ServerBuilder::beside)).
    pub fn true_time(&self) -> UnixMicros {
        self.handle.now()
    }

    /// Moves a manual clock forward by a duration of true time. Handles every deadline on the way,
    /// each at its own instant and in order, on this server and on all servers that share its
    /// clock. When this returns, the resulting replies and messages are in the output buffers.
    /// Waits for a script that runs. If a blocked or delayed request starts a long script meanwhile, the clients
    /// of its server are answered `-BUSY`, and those of the other servers wait for its end.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server};
    /// use std::time::Duration;
    ///
    /// let server = Server::builder().clock(Clock::Manual).start().await?;
    /// let mut redis = server.connection().await?;
    /// redis.set_ex("lease", "mine", 30).await?;
    /// server.clock().advance(Duration::from_secs(30));
    /// assert!(server.exists("lease")); // expired only when now > deadline
    /// server.clock().advance(Duration::from_millis(1));
    /// assert!(!server.exists("lease"));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the server's clock is not manual: a test that relied on it would prove nothing.
    #[track_caller]
    pub fn advance(&self, duration: Duration) {
        let advanced = self.handle.time.pass(|turn| {
            let end = turn.source.now().plus(duration);
            turn.advance(end)
        });
        assert!(advanced, "{NOT_MANUAL}");
    }

    /// Sets a manual clock so that this server's clock shows `time`, which may be in the past. Accepts
    /// a [`SystemTime`](std::time::SystemTime), [`UnixMillis`](crate::engine::UnixMillis) or
    /// [`UnixMicros`]. The clocks of servers that share it move by the same amount. Overdue
    /// deadlines are handled once, at the new time. If the clock of this server is frozen, it
    /// shows `time` from now on, and no other clock moves.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server, engine::UnixMicros};
    /// use std::time::Duration;
    ///
    /// let server = Server::builder().clock(Clock::Manual).start().await?;
    /// let mut redis = server.connection().await?;
    /// redis.set_ex("lease", "mine", 30).await?;
    /// let UnixMicros(now) = server.clock().now();
    /// server.clock().set(UnixMicros(now - 10_000_000));
    /// assert_eq!(server.pttl("lease"), Some(Duration::from_secs(40)));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If the server's clock is not manual.
    #[track_caller]
    pub fn set(&self, time: impl Into<UnixMicros>) {
        let time = time.into();
        let handle = self.handle;
        let was_set = handle.time.pass(|turn| {
            let clock = &handle.shared.clock;
            let map = clock.map();
            let was_set = if map.stands_still() {
                turn.source.kind() == ClockKind::Manual
            } else {
                turn.source
                    .set(map.when(time).unwrap_or(UnixMicros(i64::MAX)))
            };
            if was_set && map.stands_still() {
                clock.change(|map| map.jump_to(time));
            }
            turn.fire();
            was_set
        });
        assert!(was_set, "{NOT_MANUAL}");
    }

    /// Moves the clock of this server only forward at once, as an operator or a time server may do.
    /// Overdue deadlines are handled once, at the new time.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # use redis::AsyncTypedCommands;
    /// use redouble::Server;
    /// use std::time::Duration;
    ///
    /// let server = Server::start().await?; // works on every clock
    /// let mut redis = server.connection().await?;
    /// redis.set_ex("lease", "mine", 30).await?;
    /// server.clock().jump(Duration::from_secs(31));
    /// assert!(!server.exists("lease")); // forgotten early
    /// assert_eq!(server.clock().offset_us(), 31_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn jump(&self, by: Duration) {
        let by_us = micros(by);
        self.bend(|map, _| map.jump(by_us));
    }

    /// Moves the clock of this server only back at once. Deadlines are points in time, so they are
    /// then further away.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server};
    /// use std::time::Duration;
    ///
    /// let server = Server::builder().clock(Clock::Manual).start().await?;
    /// let mut redis = server.connection().await?;
    /// redis.set_ex("lease", "mine", 30).await?;
    /// server.clock().jump_back(Duration::from_secs(30));
    /// assert_eq!(server.pttl("lease"), Some(Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn jump_back(&self, by: Duration) {
        let by_us = micros(by);
        self.bend(|map, _| map.jump(-by_us));
    }

    /// From now on the clock of this server gains `ppm` microseconds per second of true time, or
    /// loses them if `ppm` is negative. 0 lets it run true again, with the offset it has then. At
    /// -1,000,000 or less it stands still: a clock never runs backwards.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server};
    /// use std::time::Duration;
    ///
    /// let server = Server::builder().clock(Clock::Manual).start().await?;
    /// let mut redis = server.connection().await?;
    /// redis.set_ex("lease", "mine", 30).await?;
    /// server.clock().drift(100_000); // a tenth too fast
    /// server.clock().advance(Duration::from_secs(28));
    /// assert!(!server.exists("lease"));
    /// assert_eq!(server.clock().offset_us(), 2_800_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drift(&self, ppm: i32) {
        self.bend(|map, now| map.drift(ppm, now));
    }

    /// Stops the clock of this server only until [`ClockControl::thaw`]: no key expires there, and
    /// no timeout ends. The server still answers.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Server};
    /// use std::time::Duration;
    ///
    /// let server = Server::builder().clock(Clock::Manual).start().await?;
    /// let mut redis = server.connection().await?;
    /// redis.set_ex("lease", "mine", 30).await?;
    /// server.clock().freeze();
    /// server.clock().advance(Duration::from_secs(3_600));
    /// assert_eq!(server.pttl("lease"), Some(Duration::from_secs(30)));
    /// server.clock().thaw();
    /// assert_eq!(server.clock().offset_us(), -3_600_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn freeze(&self) {
        self.bend(ClockMap::freeze);
    }

    /// Lets the clock of this server run again from where it stands, at its previous rate.
    pub fn thaw(&self) {
        self.bend(ClockMap::thaw);
    }

    /// True if the clock of this server is frozen.
    pub fn is_frozen(&self) -> bool {
        self.handle.shared.clock.map().is_frozen()
    }

    /// The drift that [`ClockControl::drift`] has set, in microseconds per second.
    pub fn drift_ppm(&self) -> i32 {
        self.handle.shared.clock.map().drift_ppm()
    }

    /// How far the clock of this server is ahead of true time, in microseconds; negative if it is
    /// behind.
    pub fn offset_us(&self) -> i64 {
        let now = self.true_time();
        let shown = self.handle.shared.node_time(now);
        shown.0.saturating_sub(now.0)
    }

    fn bend(&self, bend: impl FnOnce(&mut ClockMap, UnixMicros)) {
        let handle = self.handle;
        handle.time.pass(|turn| {
            let now = turn.source.now();
            handle.shared.clock.change(|map| bend(map, now));
            turn.fire();
        });
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
