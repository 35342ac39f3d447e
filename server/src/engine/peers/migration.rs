//! MIGRATE: keys that go to another node by DUMP and RESTORE, over a connection as a client's.
//!
//! *Policy* (`cluster.c: migrateCommand`): while keys are on their way neither node serves anybody, so
//! nobody sees them twice or nowhere. What the other node answers is told to the caller; a key whose
//! RESTORE it refused stays. One that does not answer holds up this node until the time is over.

use crate::engine::conn_id::ConnId;
use crate::engine::peers::replication::Address;
use crate::resp::{Blob, OwnedRequest};
use std::time::Duration;

/// What the caller is told when the other node does not answer.
pub(crate) const NO_ANSWER: &str = "IOERR error or timeout reading to target instance";

/// Keys that somebody wants elsewhere.
#[derive(Clone, Debug)]
pub struct Migration {
    /// Who waits for its end.
    pub(crate) conn: ConnId,
    pub(crate) to: Address,
    pub(crate) db: usize,
    pub(crate) keys: Vec<Blob>,
    /// What comes before the keys: AUTH, SELECT.
    pub(crate) greeting: Vec<OwnedRequest>,
    /// Whether the keys stay here, too.
    pub(crate) copies: bool,
    pub(crate) replaces: bool,
    pub(crate) timeout: Duration,
}

/// What is said to the other node.
#[derive(Debug)]
pub(crate) struct Consignment {
    pub(in crate::engine) greeting: Vec<OwnedRequest>,
    pub(in crate::engine) keys: Vec<(Blob, OwnedRequest)>,
}
