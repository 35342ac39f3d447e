//! Access of handlers to connections: sessions, waiters, subscriptions, tracking, watched keys, pauses.

use super::Ctx;
use crate::engine::buffer_limits::{BufferLimits, OutputLimits, Traffic};
use crate::engine::channel::Space;
use crate::engine::clients::blocking::Waiters;
use crate::engine::clients::buffers::ReplyBufferSettings;
use crate::engine::clients::pause::{Pause, Paused};
use crate::engine::clients::pubsub::PubSub;
use crate::engine::clients::session::{Session, Sessions};
use crate::engine::clients::tracking::{Mode as TrackingMode, Tracking};
use crate::engine::conn_id::ConnId;
use crate::engine::origin::Origin;
use crate::engine::time::UnixMillis;
use crate::resp::{Blob, Request};

impl Ctx<'_> {
    /// Bytes of all clients but replicas and monitors, as Redis would count them.
    pub(crate) fn clients_bytes(&self) -> usize {
        let others = self.state.clients.sessions.iter();
        let all = others.chain(std::iter::once(&*self.session));
        let normal = all.filter(|session| !session.is_monitor && !session.reads_stream());
        normal
            .map(|session| self.state.client_size(session, None, self.now).total)
            .sum()
    }

    /// What was sent to all clients.
    pub(crate) fn sent(&self) -> Traffic {
        let mut sent = self.state.introspection.stats.sent;
        let others = self.state.clients.sessions.iter_unordered();
        for session in others.chain(std::iter::once(&*self.session)) {
            sent.add(session.output.traffic());
        }
        sent
    }

    /// Limits of the output of the caller. A reply to a script is no output.
    pub(crate) fn output_limits(&self) -> OutputLimits {
        let limits = match self.origin {
            Origin::Script => BufferLimits::NONE,
            Origin::Client | Origin::Exec | Origin::Retry => {
                self.state.config.client_output_buffer_limit
            }
        };
        limits.of_client(self.session.is_subscribed, self.session.reads_stream())
    }

    /// All other connections. The caller's session is [`Ctx::session`].
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.state.clients.sessions
    }

    /// Requests that wait for a key.
    pub(crate) fn waiters(&self) -> &Waiters {
        &self.state.clients.waiters
    }

    /// Subscriptions of all connections.
    pub(crate) fn pubsub(&self) -> &PubSub {
        &self.state.clients.pubsub
    }

    /// Client-side caching of all connections.
    pub(crate) fn tracking(&self) -> &Tracking {
        &self.state.clients.tracking
    }

    /// CLIENT PAUSE.
    pub(crate) fn pause(&self) -> &Pause {
        &self.state.clients.pause
    }

    /// Updates the buffer sizes of all clients. Without it CLIENT LIST shows old sizes.
    pub(crate) fn settle_buffers(&mut self) {
        self.state.settle_buffers(self.session, self.now);
    }

    /// Sets how reply buffers are resized from now on.
    pub(crate) fn set_reply_buffers(&mut self, change: impl FnOnce(&mut ReplyBufferSettings)) {
        self.settle_buffers();
        change(&mut self.state.clients.reply_buffers);
    }

    /// Appends the line of CLIENT LIST that describes a client. `request` is what the caller runs.
    pub(crate) fn push_client_line(
        &self,
        session: &Session,
        request: Request<'_>,
        text: &mut Vec<u8>,
    ) {
        let running = (session.conn == self.session.conn).then_some(request);
        self.state
            .push_client_line(session, running, self.now, text);
    }

    /// Closes the connection of another client at once.
    pub(crate) fn kick(&mut self, conn: ConnId) {
        self.state.kick(conn);
    }

    /// Ends the waiting of another client; false if it does not wait for a key.
    pub(crate) fn unblock(&mut self, conn: ConnId, with_error: bool) -> bool {
        self.state.unblock(conn, with_error)
    }

    /// Pauses clients until a time.
    pub(crate) fn pause_clients(&mut self, until: UnixMillis, what: Paused) {
        self.state.clients.pause.begin(until, what);
    }

    /// Ends CLIENT PAUSE. Postponed requests run after this unit.
    pub(crate) fn end_pause(&mut self) {
        self.state.end_pause();
    }

    /// Begins a transaction of the caller with an empty queue.
    pub(crate) fn begin_transaction(&mut self) {
        self.session.queue = Some(self.state.clients.take_queue());
    }

    /// Makes the next EXEC of the caller fail if the key changes.
    pub(crate) fn watch(&mut self, key: &[u8]) {
        let found = self.db().find_live(key, self.now_millis());
        let was_expired = found.is_some_and(|(_, is_live)| !is_live);
        let (conn, db) = (self.session.conn, self.session.db);
        self.state.clients.watches.watch(conn, db, key, was_expired);
    }

    /// Forgets the watched keys of the caller.
    pub(crate) fn unwatch(&mut self) {
        self.state.clients.watches.unwatch(self.session.conn);
    }

    /// True if a key that the caller watches has changed or expired since WATCH.
    pub(crate) fn is_watch_broken(&self) -> bool {
        let (conn, watches) = (self.session.conn, &self.state.clients.watches);
        let has_expired = |(db, key): (usize, &Blob)| {
            let found = self.state.data.db(db).find_live(key, self.now_millis());
            found.is_some_and(|(_, is_live)| !is_live)
        };
        watches.is_dirty(conn) || watches.fresh_keys(conn).any(has_expired)
    }

    /// Subscribes the caller.
    pub(crate) fn subscribe(&mut self, space: Space, name: &[u8]) {
        self.state
            .clients
            .pubsub
            .subscribe(self.session.conn, space, name);
        self.session.is_subscribed = true;
    }

    /// Ends a subscription of the caller, if there is one.
    pub(crate) fn unsubscribe(&mut self, space: Space, name: &[u8]) {
        let conn = self.session.conn;
        self.state.clients.pubsub.unsubscribe(conn, space, name);
        self.session.is_subscribed = !self.state.clients.pubsub.counts(conn).is_zero();
    }

    /// Sends a message to all subscribers and returns how many of this node's connections get it.
    pub(crate) fn publish(&mut self, space: Space, channel: &[u8], message: &[u8]) -> usize {
        self.state.publish(space, channel, message)
    }

    /// Tracks keys for the caller, or changes how it tracks. Invalidations go to `redirect` if given.
    pub(crate) fn begin_tracking(&mut self, mode: TrackingMode, redirect: Option<ConnId>) {
        let conn = self.session.conn;
        self.state.clients.tracking.begin(conn, mode, redirect);
    }

    /// Adds a prefix of keys to those that the caller tracks.
    pub(crate) fn track_prefix(&mut self, prefix: &[u8]) {
        self.state
            .clients
            .tracking
            .listen(self.session.conn, prefix);
    }

    /// Ends the tracking of the caller.
    pub(crate) fn end_tracking(&mut self) {
        self.state.clients.tracking.end(self.session.conn);
    }

    /// CLIENT CACHING of the caller.
    pub(crate) fn cache_next(&mut self) {
        let (conn, is_in_unit) = (self.session.conn, self.origin != Origin::Client);
        self.state.clients.tracking.cache_next(conn, is_in_unit);
    }

    /// Makes the caller a monitor.
    pub(crate) fn begin_monitor(&mut self) {
        self.session.is_monitor = true;
        self.state.clients.add_monitor(self.session.conn);
    }

    /// Ends everything the caller is registered for: WATCH, subscriptions, tracking, MONITOR.
    pub(crate) fn end_registrations(&mut self) {
        let conn = self.session.conn;
        self.state.clients.end_registrations(conn);
        self.session.is_subscribed = false;
        self.session.is_monitor = false;
    }
}
