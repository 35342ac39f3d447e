//! Per-connection state, and the table of all connections.

use crate::resp::{Blob, Protocol};

/// Names a connection of one engine; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    slot: u32,
    id: u64,
}

impl ConnId {
    /// What CLIENT ID answers.
    pub fn client_id(self) -> u64 {
        self.id
    }
}

/// What the engine knows about one connection.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) conn: ConnId,
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    pub(crate) authenticated: bool,
    pub(crate) name: Blob,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Sessions {
    slots: Vec<Option<Box<Session>>>,
    free: Vec<u32>,
    count: usize,
    last_id: u64,
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn open(&mut self, authenticated: bool) -> ConnId {
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
