//! Per-connection state, and the table of all connections.

use super::transaction::Queue;
use crate::engine::conn_id::ConnId;
use crate::engine::time::UnixMicros;
use crate::resp::{Blob, Protocol};

/// Which replies a connection wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    #[default]
    On,
    Off,
    /// Not the next one.
    SkipNext,
    /// Not this one.
    Skip,
}

/// Whether a connection takes slots that are on their way for ones that have arrived (ASKING).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asking {
    #[default]
    No,
    /// From its next command on.
    Next,
    /// In this command, or in this transaction.
    Now,
}

/// What the engine knows about one connection.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) conn: ConnId,
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    pub(crate) authenticated: bool,
    pub(crate) name: Blob,
    /// The queue of a transaction; `None` outside of MULTI.
    pub(crate) queue: Option<Box<Queue>>,
    pub(crate) reply_mode: ReplyMode,
    pub(crate) asking: Asking,
    /// Reads of a cluster's replica are answered (READONLY).
    pub(crate) reads_replica: bool,
    /// True if it has a subscription.
    pub(crate) is_subscribed: bool,
    /// True if it gets every command (MONITOR).
    pub(crate) is_monitor: bool,
    /// Its address, as CLIENT LIST prints it.
    pub(crate) addr: Box<str>,
    /// The address of the node that it has connected to.
    pub(crate) laddr: Box<str>,
    /// CLIENT NO-EVICT. The double evicts no client.
    pub(crate) is_spared: bool,
    pub(crate) connected_at: UnixMicros,
    /// Time of the latest request or push.
    pub(crate) last_used_at: UnixMicros,
    /// The replication offset behind its latest write, which WAIT waits for.
    pub(crate) wrote_up_to: u64,
    /// The number of its latest command; none if that is unknown.
    pub(crate) last_command: Option<u16>,
    pub(crate) command_cache: CommandCache,
}

/// The row of the name that a connection used last: most connections send the same command again.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandCache {
    name: [u8; 15],
    len: u8,
    number: Option<u16>,
}

impl CommandCache {
    /// The number of the row of `name`, if that was used last, byte for byte.
    #[inline]
    pub(crate) fn number(&self, name: &[u8]) -> Option<u16> {
        let known = self.name.get(..usize::from(self.len))?;
        self.number.filter(|_| known == name)
    }

    /// Notes the row of a name, which leads to no other.
    pub(crate) fn note(&mut self, name: &[u8], number: u16) {
        if let Some(place) = self.name.get_mut(..name.len()) {
            place.copy_from_slice(name);
            self.len = name.len() as u8;
            self.number = Some(number);
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

    pub(crate) fn open(&mut self, authenticated: bool, addr: &str, now: UnixMicros) -> ConnId {
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
            authenticated,
            name: Blob::default(),
            queue: None,
            reply_mode: ReplyMode::On,
            asking: Asking::No,
            reads_replica: false,
            is_subscribed: false,
            is_monitor: false,
            addr: addr.into(),
            laddr: addr.into(),
            is_spared: false,
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
