//! The identity of a connection.

/// Names a connection of one engine; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    pub(super) slot: u32,
    pub(super) id: u64,
}

impl ConnId {
    /// Reply of CLIENT ID.
    pub fn client_id(self) -> u64 {
        self.id
    }
}
