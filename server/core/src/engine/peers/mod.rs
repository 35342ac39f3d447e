//! A node's place among others: replication, the journal for replicas and disk, the stream of commands for other
//! replicas, failover, cluster, sentinel.
//!
//! *Invariants.* A node is a replica exactly while it has an upstream. A journal exists exactly while a replica or a disk
//! reads it. [`Peers::is_guarded`] holds whenever a gate may refuse a request for this node's place or for want of
//! memory; `State::guards_writes` keeps it true.
//!
//! `topology/` decides how nodes reach each other.

pub(super) mod cluster;
pub(super) mod command_stream;
pub(super) mod failover;
pub(super) mod file_sync;
pub(super) mod image;
pub(super) mod journal;
pub(super) mod migration;
pub(super) mod replication;
pub(super) mod sentinel;

use crate::engine::config::Config;
use cluster::Cluster;
use command_stream::CommandStream;
use failover::Failover;
use journal::Journal;
use replication::Replication;
use sentinel::Sentinel;

/// State of a node that concerns other nodes.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) replication: Replication,
    /// Changes of the unit that runs; absent without a reader.
    pub(super) journal: Option<Box<Journal>>,
    /// Commands for replicas outside of the deployment; absent until one has come.
    pub(super) stream: Option<Box<CommandStream>>,
    /// A FAILOVER in progress.
    pub(super) failover: Option<Failover>,
    /// The node's view of its cluster, if it belongs to one.
    pub(super) cluster: Option<Box<Cluster>>,
    /// State of the node as a sentinel, if it is one.
    pub(super) sentinel: Option<Box<Sentinel>>,
    is_guarded: bool,
}

impl Peers {
    pub(super) fn new(config: &Config) -> Self {
        let mut replication = Replication::new(config.seed);
        replication.file.set_policy(config.append_only(), 0);
        Self {
            replication,
            journal: None,
            stream: None,
            failover: None,
            cluster: None,
            sentinel: None,
            is_guarded: false,
        }
    }

    /// True if a gate may refuse a request for this node's place or for want of memory.
    #[inline]
    pub(super) fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    /// Computes [`Peers::is_guarded`] again; `by_config` says whether parameters alone require it.
    pub(super) fn update_guard(&mut self, by_config: bool) {
        self.is_guarded = by_config
            || self.replication.is_replica()
            || !self.replication.readers.is_empty()
            || self.cluster.is_some()
            || self.sentinel.is_some();
    }
}
