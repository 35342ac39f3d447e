//! The unit of work that runs: its instant, its caller, and what it leaves behind.
//!
//! *Invariants.* `now` changes only between units. `caller` is the connection whose request runs, and `None` while
//! something happens that no client has asked for. Own frames belong to the caller and are taken with its reply.
//! `has_sequel` is set whenever the driver has more to do than to pass on the reply.
//!
//! `state/` and `driver/` write these fields directly: they are the working memory of one unit.

use super::clients::blocking::Retry;
use super::conn_id::ConnId;
use super::effect::Outbox;
use super::scripting::Transaction;
use super::time::{UnixMicros, UnixMillis};
use crate::resp::Reply;

/// The unit that runs, or ran last.
#[derive(Debug)]
pub(super) struct RunningUnit {
    /// Instant of the unit.
    now: UnixMicros,
    /// The instant in milliseconds, the unit of deadlines.
    now_millis: UnixMillis,
    /// Connection whose request runs.
    pub(super) caller: Option<ConnId>,
    /// Effects for the driver.
    pub(super) outbox: Outbox,
    /// Frames that the caller's own request sent to it.
    pub(super) own_frames: Vec<Reply>,
    /// Lines of MONITOR for the caller about its own request.
    pub(super) own_tail: Vec<Reply>,
    /// Number of own frames before the reply; all if `None`.
    pub(super) reply_at: Option<usize>,
    /// True if the unit was a transaction that has left out replies as CLIENT REPLY demands.
    pub(super) is_filtered: bool,
    /// True if something follows from this unit (see `driver/unit.rs`).
    pub(super) has_sequel: bool,
    /// True while keys are evicted for a request that does not run yet: pushes to its caller come before its
    /// reply.
    pub(super) is_evicting: bool,
    /// True if the unit changed `maxmemory`: keys are evicted after it.
    pub(super) evicts_behind: bool,
    /// Reason for which a blocked request runs again.
    pub(super) retry: Option<Retry>,
    /// A transaction whose script was killed and that goes on now.
    pub(super) resumed: Option<Transaction>,
    /// End of the latest command that slept.
    pub(super) awake_at: UnixMicros,
}

impl RunningUnit {
    pub(super) fn new(now: UnixMicros) -> Self {
        Self {
            now,
            now_millis: now.millis(),
            caller: None,
            outbox: Outbox::default(),
            own_frames: Vec::new(),
            own_tail: Vec::new(),
            reply_at: None,
            is_filtered: false,
            has_sequel: false,
            is_evicting: false,
            evicts_behind: false,
            retry: None,
            resumed: None,
            awake_at: now,
        }
    }

    /// Begins a unit that no client has asked for.
    pub(super) fn begin(&mut self, now: UnixMicros) {
        self.set_now(now);
        self.caller = None;
    }

    /// Begins a unit of a connection.
    #[inline]
    pub(super) fn begin_for(&mut self, caller: ConnId, now: UnixMicros) {
        self.set_now(now);
        self.caller = Some(caller);
    }

    /// Many units share one instant, and a division costs as much as a gate.
    #[inline]
    fn set_now(&mut self, now: UnixMicros) {
        if now != self.now {
            (self.now, self.now_millis) = (now, now.millis());
            self.awake_at = now;
        }
    }

    /// The instant of the unit.
    pub(super) fn now(&self) -> UnixMicros {
        self.now
    }

    /// The millisecond of an instant, which mostly is that of the unit.
    #[inline]
    pub(super) fn millis_of(&self, now: UnixMicros) -> UnixMillis {
        if now == self.now {
            self.now_millis
        } else {
            now.millis()
        }
    }
}
