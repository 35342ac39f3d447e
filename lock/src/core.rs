//! State that all locks of a manager share. It depends on no kind of lock.

use crate::{node::Node, options::Options, renewal::Renewals};
use std::sync::Arc;

/// The node of a manager, the watchdogs of its guards, and the defaults of its locks.
pub(crate) struct Core {
    pub(crate) node: Node,
    pub(crate) renewals: Arc<Renewals>,
    pub(crate) defaults: Options,
    pub(crate) key_prefix: Vec<u8>,
}

impl Core {
    /// The key at the node of what the user calls `name`.
    pub(crate) fn key(&self, name: &[u8]) -> Vec<u8> {
        [&self.key_prefix, name].concat()
    }
}
