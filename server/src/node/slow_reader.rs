//! Clients that do not read their replies: the node disconnects them at the limits of `client-output-buffer-limit`.
//!
//! *Policy.* A node checks the output of a client when it writes more than a small reply to it, and when the
//! time of the soft limit comes. A client that has read enough in between is below the limit again. If a message
//! resets a connection, its session ends at once; after a reply the connection ends it itself.

use super::{Node, SharedNode, lock};
use crate::connection::{Ending, LimitCheck, Output};
use crate::engine::{ConnId, NodeApi, UnixMicros};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// Clients above their soft limit, by client id, each with the time of the node's clock at which it is disconnected.
#[derive(Debug)]
pub(super) struct SlowReaders {
    /// The earliest of these times, known without the lock.
    first: AtomicI64,
    due: Mutex<BTreeMap<u64, UnixMicros>>,
}

/// Value of [`SlowReaders::first`] without slow readers.
const NONE: i64 = i64::MAX;

impl Default for SlowReaders {
    fn default() -> Self {
        Self {
            first: AtomicI64::new(NONE),
            due: Mutex::default(),
        }
    }
}

impl SlowReaders {
    fn insert(&self, client_id: u64, at: UnixMicros) {
        let mut due = lock(&self.due);
        due.insert(client_id, at);
        self.note_first(&due);
    }

    /// The time (of the node's clock) of the next check.
    pub(super) fn first(&self) -> Option<UnixMicros> {
        Some(self.first.load(Ordering::Acquire))
            .filter(|first| *first != NONE)
            .map(UnixMicros)
    }

    fn take_due(&self, now: UnixMicros) -> Vec<u64> {
        let mut due = lock(&self.due);
        let is_due = |(client_id, at): (&u64, &UnixMicros)| (*at <= now).then_some(*client_id);
        let taken: Vec<u64> = due.iter().filter_map(is_due).collect();
        due.retain(|_, at| *at > now);
        self.note_first(&due);
        taken
    }

    fn note_first(&self, due: &BTreeMap<u64, UnixMicros>) {
        let first = due.values().min().map_or(NONE, |first| first.0);
        self.first.store(first, Ordering::Release);
    }
}

impl SharedNode {
    /// Resets a connection whose client has left too much unread, or notes when that will be. Returns true if it
    /// reset the connection.
    pub(super) fn check_output(
        &self,
        output: &mut Output,
        api: &(impl NodeApi + ?Sized),
        conn: ConnId,
        now: UnixMicros,
    ) -> bool {
        match output.check_limits(api.output_limits(conn), || self.node_time(now)) {
            LimitCheck::Within => false,
            LimitCheck::ExceededAt(end) => {
                self.slow_readers.insert(conn.client_id(), end);
                false
            }
            LimitCheck::Exceeded => {
                tracing::warn!(
                    client_id = conn.client_id(),
                    "a client does not read its replies: its connection is reset"
                );
                output.end(Ending::Reset);
                true
            }
        }
    }
}

impl Node {
    /// Disconnects the clients that have been above their soft limit for too long.
    pub(super) fn end_slow_readers(&mut self, shared: &SharedNode, now: UnixMicros) {
        let node_time = shared.node_time(now);
        if shared
            .slow_readers
            .first()
            .is_none_or(|first| first > node_time)
        {
            return;
        }
        for client_id in shared.slow_readers.take_due(node_time) {
            if let Some(connection) = shared.connection(client_id)
                && let Some(conn) = connection.conn.get()
            {
                let is_reset =
                    shared.check_output(&mut connection.output(), &self.engine, *conn, now);
                shared.note(&connection);
                if is_reset {
                    self.engine.disconnect(*conn);
                }
            }
        }
    }
}
