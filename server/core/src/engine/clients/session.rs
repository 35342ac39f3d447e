//! Per-connection state, and the table of all connections.

use super::buffers::ClientBuffers;
use super::transaction::Queue;
use crate::engine::acl::UserId;
use crate::engine::buffer_limits::OutputMeter;
use crate::engine::conn_id::ConnId;
use crate::engine::time::UnixMicros;
use crate::resp::{Blob, Protocol};

/// Which replies a connection wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    #[default]
    On,
    Off,
    /// The reply to the next request is suppressed.
    SkipNext,
    /// The reply to this request is suppressed.
    Skip,
}

impl ReplyMode {
    /// True if the reply to the present request is suppressed.
    pub(crate) const fn is_silent(self) -> bool {
        matches!(self, Self::Off | Self::Skip)
    }

    /// The mode after a request.
    pub(crate) const fn next(self) -> Self {
        match self {
            Self::SkipNext => Self::Skip,
            Self::Skip | Self::On => Self::On,
            Self::Off => Self::Off,
        }
    }
}

/// Whether a connection may use slots that are being imported (ASKING).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asking {
    #[default]
    No,
    /// From its next command on.
    Next,
    /// In this command, or in this transaction.
    Now,
}

/// A connection as a replica (`replication.c: replconfCommand`).
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaSide {
    /// Port on which it listens; 0 if it is unknown.
    pub(crate) port: u16,
    /// The host that it gave, if not the one it came from.
    pub(crate) host: Option<String>,
    /// The replica can receive an RDB file without its length.
    pub(crate) has_eof: bool,
    /// The replica understands a new replication id in the reply to PSYNC.
    pub(crate) has_psync2: bool,
    /// The replica requests the data without a stream.
    pub(crate) wants_data_only: bool,
    /// Parts of the data that it wants; `None` for all.
    pub(crate) filter: Option<RdbFilter>,
    /// The replica reads the stream of commands.
    pub(crate) is_reading: bool,
}

/// Parts of an RDB file that a replica requests (`rdb-filter-only`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RdbFilter {
    pub(crate) has_functions: bool,
}

/// The library of a client, as it describes itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Library {
    pub(crate) name: Blob,
    pub(crate) version: Blob,
}

/// State of one connection in the engine.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) conn: ConnId,
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    /// True after AUTH, and from the start if the user `default` needs no password.
    pub(crate) authenticated: bool,
    /// Its user; `None` for the test that owns the node, which may do everything.
    pub(crate) user: Option<UserId>,
    /// True if neither authentication nor access rules can refuse a request. Follows from the two fields above and
    /// from the users of the node (`state/acl.rs`).
    pub(crate) is_unrestricted: bool,
    pub(crate) name: Blob,
    /// The queue of a transaction; `None` outside of MULTI.
    pub(crate) queue: Option<Box<Queue>>,
    /// Number of requests of the transaction that EXEC runs.
    pub(crate) executing: Option<usize>,
    pub(crate) reply_mode: ReplyMode,
    pub(crate) asking: Asking,
    /// Reads of a cluster's replica are answered (READONLY).
    pub(crate) reads_replica: bool,
    /// True if it has a subscription.
    pub(crate) is_subscribed: bool,
    /// True if it gets every command (MONITOR).
    pub(crate) is_monitor: bool,
    /// Its settings as a replica (REPLCONF); `None` for other clients.
    pub(crate) replica_side: Option<Box<ReplicaSide>>,
    /// Its address, as CLIENT LIST prints it.
    pub(crate) addr: Box<str>,
    /// The address of the node that it has connected to.
    pub(crate) laddr: Box<str>,
    /// Output that the client has not read.
    pub(crate) output: OutputMeter,
    /// Sizes of its buffers, as Redis would have them.
    pub(crate) buffers: ClientBuffers,
    /// Bytes of requests that are not complete, beside their complete arguments.
    pub(crate) unread_input: usize,
    /// Bytes of the complete arguments of these requests.
    pub(crate) parsed_input: usize,
    /// CLIENT NO-EVICT.
    pub(crate) is_spared: bool,
    /// CLIENT NO-TOUCH: its commands do not count as a use of the keys.
    pub(crate) leaves_no_traces: bool,
    /// Name and version of its library (CLIENT SETINFO).
    pub(crate) library: Library,
    pub(crate) connected_at: UnixMicros,
    /// Time of the latest request or push.
    pub(crate) last_used_at: UnixMicros,
    /// The replication offset behind its latest write, which WAIT waits for.
    pub(crate) wrote_up_to: u64,
    /// The number of its latest command; none if that is unknown.
    pub(crate) last_command: Option<u16>,
    pub(crate) command_cache: CommandCache,
}

impl Session {
    /// True if the connection is a replica that reads the stream of commands.
    pub(crate) fn reads_stream(&self) -> bool {
        self.replica_side
            .as_ref()
            .is_some_and(|side| side.is_reading)
    }
}

/// The rows of the names that a connection used last: most connections send the same few commands again.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandCache([CachedCommand; CACHED_COMMANDS]);

/// Places of the cache, a power of two.
const CACHED_COMMANDS: usize = 8;

#[derive(Clone, Copy, Debug, Default)]
struct CachedCommand {
    name: [u8; 15],
    len: u8,
    number: Option<u16>,
}

/// The place of a name: names that are sent in turn mostly have different ones.
#[inline]
fn cache_place(name: &[u8]) -> usize {
    let first = name.first().copied().map_or(0, usize::from);
    (name.len() + first) % CACHED_COMMANDS
}

impl CommandCache {
    /// The number of the row of `name`, if it is known, byte for byte.
    #[inline]
    pub(crate) fn number(&self, name: &[u8]) -> Option<u16> {
        let cached = &self.0[cache_place(name)];
        let known = cached.name.get(..usize::from(cached.len))?;
        cached.number.filter(|_| known == name)
    }

    /// Notes the row of a name, which leads to no other.
    pub(crate) fn note(&mut self, name: &[u8], number: u16) {
        let cached = &mut self.0[cache_place(name)];
        if let Some(place) = cached.name.get_mut(..name.len()) {
            place.copy_from_slice(name);
            cached.len = name.len() as u8;
            cached.number = Some(number);
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    slots: Vec<Option<Box<Session>>>,
    free: Vec<u32>,
    count: usize,
    last_id: u64,
}

impl Sessions {
    /// The number of the latest client.
    pub(crate) fn last_id(&self) -> u64 {
        self.last_id
    }

    pub(crate) fn go_on_from(&mut self, id: u64) {
        self.last_id = id;
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Opens a session of the user `default`, which has not authenticated.
    pub(crate) fn open(&mut self, addr: &str, now: UnixMicros) -> ConnId {
        self.last_id += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        let conn = ConnId {
            slot,
            id: self.last_id,
        };
        self.slots[slot as usize] = Some(Box::new(Session {
            conn,
            db: 0,
            protocol: Protocol::Resp2,
            authenticated: false,
            user: Some(UserId::DEFAULT),
            is_unrestricted: false,
            name: Blob::default(),
            queue: None,
            executing: None,
            reply_mode: ReplyMode::On,
            asking: Asking::No,
            reads_replica: false,
            is_subscribed: false,
            is_monitor: false,
            replica_side: None,
            addr: addr.into(),
            laddr: addr.into(),
            output: OutputMeter::default(),
            buffers: ClientBuffers::new(now),
            unread_input: 0,
            parsed_input: 0,
            is_spared: false,
            leaves_no_traces: false,
            library: Library::default(),
            connected_at: now,
            last_used_at: now,
            wrote_up_to: 0,
            last_command: None,
            command_cache: CommandCache::default(),
        }));
        self.count += 1;
        conn
    }

    pub(crate) fn close(&mut self, conn: ConnId) {
        if self.take(conn).is_some() {
            self.free.push(conn.slot);
            self.count -= 1;
        }
    }

    #[inline]
    pub(crate) fn get(&self, conn: ConnId) -> Option<&Session> {
        self.slots
            .get(conn.slot as usize)?
            .as_deref()
            .filter(|session| session.conn == conn)
    }

    pub(crate) fn get_mut(&mut self, conn: ConnId) -> Option<&mut Session> {
        self.slots
            .get_mut(conn.slot as usize)?
            .as_deref_mut()
            .filter(|session| session.conn == conn)
    }

    /// All connections except the one that runs, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        let mut all: Vec<&Session> = self
            .slots
            .iter()
            .flatten()
            .map(|session| &**session)
            .collect();
        all.sort_unstable_by_key(|session| session.conn.id);
        all.into_iter()
    }

    /// All connections except the one that runs, in no order.
    pub(crate) fn iter_unordered(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().flatten().map(|session| &**session)
    }

    /// The same, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.slots
            .iter_mut()
            .flatten()
            .map(|session| &mut **session)
    }

    /// Takes a session out while its request is handled.
    #[inline]
    pub(crate) fn take(&mut self, conn: ConnId) -> Option<Box<Session>> {
        self.slots
            .get_mut(conn.slot as usize)?
            .take_if(|session| session.conn == conn)
    }

    #[inline]
    pub(crate) fn put_back(&mut self, session: Box<Session>) {
        let slot = session.conn.slot as usize;
        self.slots[slot] = Some(session);
    }
}
