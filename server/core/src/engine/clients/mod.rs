//! The clients of a node: sessions, subscriptions, watched keys, waiters, tracking, pauses, monitors.
//!
//! *Invariants.* A connection appears in a registry only while its session is open: [`Clients::close`] removes it
//! everywhere. `Session::is_subscribed` holds exactly while the connection has a subscription, and
//! `Session::is_monitor` while it is among the monitors. The session of the request that runs is out of the table.
//!
//! Keys and values are unknown here; nothing is sent from here.

pub(super) mod blocking;
pub(super) mod buffers;
pub(super) mod pause;
pub(super) mod pubsub;
pub(super) mod session;
pub(super) mod tracking;
pub(super) mod transaction;

use super::conn_id::ConnId;
use super::time::UnixMillis;
use blocking::Waiters;
use buffers::ReplyBufferSettings;
use pause::Pause;
use pubsub::PubSub;
use session::Sessions;
use tracking::Tracking;
use transaction::{Queue, Watches};

/// All clients of a node.
#[derive(Debug)]
pub(super) struct Clients {
    pub(super) sessions: Sessions,
    pub(super) watches: Watches,
    pub(super) waiters: Waiters,
    pub(super) pubsub: PubSub,
    pub(super) tracking: Tracking,
    pub(super) pause: Pause,
    pub(super) reply_buffers: ReplyBufferSettings,
    /// Connections that are sent every command.
    monitors: Vec<ConnId>,
    /// The queue of an earlier transaction, for reuse.
    spare_queue: Option<Box<Queue>>,
    /// Time of the next search for idle clients.
    idle_check: Option<UnixMillis>,
}

impl Clients {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            sessions: Sessions::default(),
            watches: Watches::default(),
            waiters: Waiters::default(),
            pubsub: PubSub::default(),
            tracking: Tracking::new(seed),
            pause: Pause::default(),
            reply_buffers: ReplyBufferSettings::default(),
            monitors: Vec::new(),
            spare_queue: None,
            idle_check: None,
        }
    }

    /// Takes over the connections of a node that restarts, with all of their registrations.
    pub(super) fn adopt(&mut self, old: Self, seed: u64) {
        *self = Self {
            spare_queue: None,
            idle_check: self.idle_check,
            ..old
        };
        self.tracking.reseed(seed);
    }

    /// Forgets a connection.
    pub(super) fn close(&mut self, conn: ConnId) {
        self.waiters.remove(conn);
        self.pause.leave(conn);
        self.end_registrations(conn);
        self.sessions.close(conn);
    }

    /// Ends everything that a connection is registered for, except waiting.
    pub(super) fn end_registrations(&mut self, conn: ConnId) {
        self.watches.unwatch(conn);
        self.pubsub.leave(conn);
        self.tracking.end(conn);
        self.monitors.retain(|other| *other != conn);
    }

    pub(super) fn monitors(&self) -> &[ConnId] {
        &self.monitors
    }

    pub(super) fn add_monitor(&mut self, conn: ConnId) {
        self.monitors.push(conn);
    }

    /// An empty queue for a transaction.
    pub(super) fn take_queue(&mut self) -> Box<Queue> {
        self.spare_queue.take().unwrap_or_default()
    }

    /// Keeps the queue of a transaction that is over.
    pub(super) fn reuse_queue(&mut self, queue: Box<Queue>) {
        self.spare_queue = queue.emptied();
    }

    pub(super) fn idle_check(&self) -> Option<UnixMillis> {
        self.idle_check
    }

    pub(super) fn set_idle_check(&mut self, at: Option<UnixMillis>) {
        self.idle_check = at;
    }
}
