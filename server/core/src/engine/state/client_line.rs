//! The line of CLIENT LIST, CLIENT INFO and ACL LOG that describes a client.

use super::State;
use crate::engine::clients::session::Session;
use crate::engine::profile::feature;
use crate::engine::time::UnixMicros;
use crate::resp::{OwnedRequest, Request};
use std::fmt::Write as _;

/// Bytes that a connection of 7.0.15 takes, without its buffers.
const CONNECTION_BYTES: usize = 768;
/// Memory of a query buffer beside its content: before and after it, and its least size.
const QUERY_HEADER_BYTES: usize = 6;
const QUERY_BYTES_MIN: usize = 8;
/// Bytes that Redis spends on an argument, a queued command, a watched key, a table's place and entry, and
/// the node of a list.
const ARGUMENT_BYTES: usize = 8;
const QUEUED_BYTES: usize = 24;
const WATCHED_BYTES: usize = 56;
const PLACE_BYTES: usize = 8;
const ENTRY_BYTES: usize = 24;
const NODE_BYTES: usize = 24;
const PLACES_MIN: usize = 4;

fn text_bytes(request: Request<'_>) -> usize {
    request.iter().map(<[u8]>::len).sum()
}

fn table_bytes(count: usize) -> usize {
    match count {
        0 => 0,
        count => count * ENTRY_BYTES + count.next_power_of_two().max(PLACES_MIN) * PLACE_BYTES,
    }
}

/// Bytes of a request on the wire.
fn wire_bytes(request: Request<'_>) -> usize {
    let line = |number: usize| 3 + number.to_string().len();
    let args = request.iter().map(|arg| line(arg.len()) + arg.len() + 2);
    line(request.len()) + args.sum::<usize>()
}

/// The user of the test that owns the node.
const NO_USER: &[u8] = b"(superuser)";

/// Sizes of a client, bytes.
pub(in crate::engine) struct ClientSize {
    /// Requests that were not taken yet.
    read: usize,
    /// Free space of their buffer.
    free: usize,
    /// Requests since MULTI.
    queued: usize,
    /// All that the client takes.
    pub(in crate::engine) total: usize,
}

impl State {
    /// Bytes of a client, as Redis would count them. `running` is the request that it runs.
    pub(in crate::engine) fn client_size(
        &self,
        session: &Session,
        running: Option<Request<'_>>,
        now: UnixMicros,
    ) -> ClientSize {
        let (conn, clients) = (session.conn, &self.clients);
        let waiting = clients.waiters.get(conn).map(|waiter| &waiter.request);
        let waiting = waiting.or_else(|| clients.pause.request_of(conn));
        let current = running.or_else(|| waiting.and_then(OwnedRequest::as_request));
        let counts = clients.pubsub.counts(conn);
        let prefixes = clients
            .tracking
            .tracker(conn)
            .map_or(0, |tracker| tracker.prefix_bytes());
        let queue = session.queue.as_ref();
        let used_at = match (running, session.last_command) {
            (None, None) => None,
            (Some(_), _) | (None, Some(_)) => Some(session.last_used_at),
        };
        let buffer = session.buffers.query_bytes(used_at, now);
        let base = CONNECTION_BYTES
            + session.buffers.reply_bytes()
            + QUERY_BYTES_MIN.max(buffer + QUERY_HEADER_BYTES);
        // The arguments of a complete request count as such, and not as input.
        let (read, pending) = match running {
            Some(request) => (wire_bytes(request), 0),
            None => (session.unread_input, session.unread_input),
        };
        let queued: usize = queue
            .into_iter()
            .flat_map(|queue| queue.requests())
            .map(|request| text_bytes(request) + request.len() * ARGUMENT_BYTES)
            .sum();
        let arguments = current.map_or(0, |request| {
            text_bytes(request) + request.len() * ARGUMENT_BYTES
        });
        let total = base
            + pending.saturating_sub(buffer)
            + if running.is_none() {
                session.parsed_input
            } else {
                0
            }
            + arguments
            + queued
            + queue.map_or(0, |queue| queue.len() * QUEUED_BYTES)
            + clients.watches.count(conn) * WATCHED_BYTES
            + table_bytes(counts.channels)
            + table_bytes(counts.shards)
            + counts.patterns * NODE_BYTES
            + prefixes
            + session.output.get();
        ClientSize {
            read,
            free: buffer.saturating_sub(read),
            queued,
            total,
        }
    }

    /// Updates the reply buffer sizes of all clients and of the caller.
    pub(in crate::engine) fn settle_buffers(&mut self, caller: &mut Session, now: UnixMicros) {
        let settings = self.clients.reply_buffers;
        let others = self.clients.sessions.iter_mut();
        for session in others.chain(std::iter::once(caller)) {
            let needed = session.output.take_peak();
            session
                .buffers
                .settle(needed, session.last_used_at, now, settings);
        }
    }

    /// Appends the line of a client (`networking.c: catClientInfoString`). `running` is the request that it runs. There are no descriptors and no
    /// buffers of Redis's here: `fd` is that of a first connection, `obl` that of a client that has read everything, and
    /// the sizes are what Redis's would come to.
    pub(in crate::engine) fn push_client_line(
        &self,
        session: &Session,
        running: Option<Request<'_>>,
        now: UnixMicros,
        text: &mut Vec<u8>,
    ) {
        let conn = session.conn;
        let clients = &self.clients;
        let seconds =
            |since: UnixMicros| now.0.div_euclid(1_000_000) - since.0.div_euclid(1_000_000);
        let waiting = clients.waiters.get(conn).map(|waiter| &waiter.request);
        let waiting = waiting.or_else(|| clients.pause.request_of(conn));
        let counts = clients.pubsub.counts(conn);
        let tracker = clients.tracking.tracker(conn);
        let queue = session.queue.as_ref();
        let queued_len = queue.map(|queue| queue.len()).or(session.executing);
        let mut flags = String::new();
        for (flag, is_set) in [
            ('O', session.is_monitor),
            ('S', session.reads_stream()),
            ('P', session.is_subscribed),
            ('x', queued_len.is_some()),
            ('b', waiting.is_some()),
            ('t', tracker.is_some()),
            ('R', tracker.is_some_and(|tracker| tracker.is_broken)),
            ('B', tracker.is_some_and(|tracker| tracker.mode.broadcast)),
            ('d', clients.watches.is_dirty(conn)),
            ('U', session.addr.starts_with('/')),
            ('r', session.reads_replica),
            ('e', session.is_spared),
            ('T', session.leaves_no_traces),
        ] {
            flags.extend(is_set.then_some(flag));
        }
        let flags = if flags.is_empty() { "N" } else { &flags };
        // The running request, or the one that waits.
        let current = running.or_else(|| waiting.and_then(OwnedRequest::as_request));
        let arguments = current.map_or(0, text_bytes);
        let ClientSize {
            read,
            free,
            queued,
            total,
        } = self.client_size(session, running, now);
        let (unread, buffers) = (session.output.get(), session.output.buffers());
        let watched = if self.config.profile.has(feature::CLIENT_WATCH_COUNT) {
            format!(" watch={}", clients.watches.count(conn))
        } else {
            String::new()
        };
        let capabilities = if self.config.profile.has(feature::CLIENT_CAPABILITIES) {
            " capa="
        } else {
            ""
        };
        let mut tail = String::new();
        let _infallible = write!(
            tail,
            " age={} idle={} flags={flags}{capabilities} db={} sub={} psub={} ssub={} multi={}{watched} qbuf={read} qbuf-free={free} \
         argv-mem={arguments} multi-mem={queued} rbs={} rbp={} obl=0 oll={buffers} \
         omem={unread} tot-mem={total} events=r cmd={}",
            seconds(session.connected_at),
            seconds(session.last_used_at),
            session.db,
            counts.channels,
            counts.patterns,
            counts.shards,
            queued_len.map_or(-1, |len| len as i64),
            session.buffers.reply_bytes(),
            session.buffers.reply_peak(),
            session
                .last_command
                .map_or("NULL", |number| self.acl.command_name(number)),
        );
        let user = session.user.map_or(NO_USER, |user| self.acl.name(user));
        let end = format!(
            " redir={} resp={}",
            tracker.map_or(-1, |tracker| tracker.redirect_id() as i64),
            session.protocol.number(),
        );
        let library = &session.library;
        let names_library = self.config.profile.has(feature::CLIENT_LIBRARY);
        let library = [
            &b" lib-name="[..],
            &library.name,
            b" lib-ver=",
            &library.version,
            if self.config.profile.has(feature::CLIENT_IO_THREAD) {
                b" io-thread=0"
            } else {
                b""
            },
        ];
        let head = format!(
            "id={} addr={} laddr={} fd=8 name=",
            conn.client_id(),
            session.addr,
            session.laddr
        );
        let parts = [
            head.as_bytes(),
            &session.name,
            tail.as_bytes(),
            b" user=",
            user,
            end.as_bytes(),
        ];
        let library = library.into_iter().filter(|_| names_library);
        for part in parts.into_iter().chain(library) {
            text.extend_from_slice(part);
        }
    }
}
