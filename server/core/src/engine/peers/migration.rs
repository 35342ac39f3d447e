//! MIGRATE: keys that go to another node by DUMP and RESTORE, over a connection as a client's.
//!
//! *Policy* (`cluster.c: migrateCommand`): while keys are on their way neither node serves clients, so
//! no client sees a key twice or nowhere. The caller gets the other node's answer; a key stays if the other
//! node refused its RESTORE. If the other node does not answer, this node stalls until the timeout.

use crate::engine::conn_id::ConnId;
use crate::engine::peers::replication::Address;
use crate::resp::{Blob, OwnedRequest};
use std::time::Duration;

/// The caller's answer if the other node does not answer.
pub(crate) const NO_ANSWER: &str = "IOERR error or timeout reading to target instance";

/// Keys that a client moves to another node.
#[derive(Clone, Debug)]
pub struct Migration {
    /// The connection that waits for the end.
    pub(crate) conn: ConnId,
    /// The address of the other node.
    pub to: Address,
    pub(crate) db: usize,
    pub(crate) keys: Vec<Blob>,
    /// Requests before the keys: AUTH, SELECT.
    pub(crate) greeting: Vec<OwnedRequest>,
    /// True if the keys stay here, too.
    pub(crate) copies: bool,
    pub(crate) replaces: bool,
    pub(crate) timeout: Duration,
}

/// The requests to the other node.
#[derive(Debug)]
pub struct Consignment {
    pub(in crate::engine) greeting: Vec<OwnedRequest>,
    pub(in crate::engine) keys: Vec<(Blob, OwnedRequest)>,
}
