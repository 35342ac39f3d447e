//! The clock of a server, in the hands of a test.

use crate::clock::ClockMap;
use crate::engine::UnixMicros;
use crate::node_handle::{ClockKind, NodeHandle};
use std::time::Duration;

/// Moves and bends the clock of a server: [`Server::clock`](crate::Server::clock).
///
/// | | moves | whose clock |
/// |---|---|---|
/// | [`advance`](Self::advance) | through every deadline, each at its own instant | a manual one, of all servers that share it |
/// | [`set`](Self::set) | at once | the same |
/// | [`jump`](Self::jump), [`jump_back`](Self::jump_back) | at once | this server's, on any clock |
/// | [`drift`](Self::drift), [`freeze`](Self::freeze), [`thaw`](Self::thaw) | faster, slower, not at all | this server's, on any clock |
///
/// A clock that moves at once skips the time between: overdue work is done once, at the new time. All that
/// the server does follows this clock: deadlines of keys, TIME, blocking commands, pauses, idle
/// times. Delayed messages ([`crate::fault::Delay`]) follow true time, as they are under way outside
/// of the server; so do a client's own timers, which no server clock moves.
#[derive(Clone, Copy, Debug)]
pub struct ClockControl<'a> {
    handle: &'a NodeHandle,
}

const NOT_MANUAL: &str = "only a manual clock can be moved: Server::builder().clock(Clock::Manual)";

impl<'a> ClockControl<'a> {
    pub(crate) fn of(handle: &'a NodeHandle) -> Self {
        Self { handle }
    }

    /// The time that the server's clock shows, in microseconds since 1970.
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

    /// The time that the source of the clock shows, which servers may share
    /// ([`ServerBuilder::beside`](crate::ServerBuilder::beside)).
    pub fn true_time(&self) -> UnixMicros {
        self.handle.now()
    }

    /// Moves a manual clock forward by a duration of true time, through every deadline on the way,
    /// each at its own instant: those of this server and of all that share its clock, in order. What
    /// they cause is in the output buffers when this returns. Waits for a script that runs.
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
    /// When the server's clock is not manual: a test that relied on it would prove nothing.
    #[track_caller]
    pub fn advance(&self, duration: Duration) {
        let advanced = self.handle.time.pass(|turn| {
            let end = turn.source.now().plus(duration);
            turn.advance(end)
        });
        assert!(advanced, "{NOT_MANUAL}");
    }

    /// Sets a manual clock, forward or back, to a [`SystemTime`](std::time::SystemTime), to [`UnixMillis`](crate::engine::UnixMillis) or to
    /// [`UnixMicros`], so that this server's shows `time`; those of servers that
    /// share it move as far. It does not step: what is overdue happens once, at the new time. A
    /// clock that is frozen shows `time` from now on, and no other moves.
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
    /// When the server's clock is not manual.
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

    /// Moves the clock of this server alone forward at once, as an operator or a time server may. It
    /// does not step: what is overdue happens once, at the new time.
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

    /// Moves the clock of this server alone back at once. Deadlines are points in time: they are
    /// further away then.
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

    /// From now on the clock of this server gains `ppm` microseconds in each second of true time, or
    /// loses them if negative; 0 lets it run true again, with the offset it has got. At -1,000,000
    /// or less it stands still: a clock never runs backwards.
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

    /// The clock of this server alone stands still: nothing expires there, and none of its timeouts
    /// comes, until [`ClockControl::thaw`]. The server answers all the same.
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

    /// The clock of this server goes on from where it stood, at the rate it had.
    pub fn thaw(&self) {
        self.bend(ClockMap::thaw);
    }

    /// Whether the clock of this server was frozen.
    pub fn is_frozen(&self) -> bool {
        self.handle.shared.clock.map().is_frozen()
    }

    /// What [`ClockControl::drift`] has set, in microseconds per second.
    pub fn drift_ppm(&self) -> i32 {
        self.handle.shared.clock.map().drift_ppm()
    }

    /// How far the clock of this server is ahead of true time now, in microseconds; negative when
    /// it is behind.
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
