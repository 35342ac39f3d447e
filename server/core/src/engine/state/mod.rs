//! The state of a node: its parts, and what concerns several of them.
//!
//! | part | knows |
//! |---|---|
//! | `config` | parameters |
//! | `acl/` | users, their rights, denied requests |
//! | `data/` | databases, expiry, sizes |
//! | `clients/` | sessions, subscriptions, watched keys, waiters, tracking, pauses, monitors |
//! | `scripting/` | known scripts, the script that keeps the node busy |
//! | `introspection/` | statistics, slow commands, identity |
//! | `peers/` | replication, journal, failover, cluster, sentinel |
//! | `running.rs` | the unit that runs: caller, own frames, effects |
//!
//! Parts never call each other. What concerns several parts stands here, on [`State`]: `change.rs` has what happens
//! when keys change, expire or go; the other files have one subject each. Commands reach all of it through
//! `context/` alone, and cannot name [`State`].

mod acl;
mod change;
mod client_line;
mod clients_limit;
mod cluster;
mod command_stream;
mod connections;
mod failover;
mod idle;
mod invalidation;
mod libraries;
pub(in crate::engine) mod measure;
mod memory;
mod output;
pub(in crate::engine) use output::only_pushes;
pub(super) mod persistence;
mod replication;

use super::acl::{Acl, Catalogue};
use super::clients::Clients;
use super::config::Config;
use super::data::Data;
use super::introspection::Introspection;
use super::peers::Peers;
use super::running::RunningUnit;
use super::scripting::Scripting;
use super::time::UnixMicros;
pub(super) use acl::users_at_start;

/// Everything a node knows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) config: Config,
    pub(super) acl: Acl,
    pub(super) data: Data,
    pub(super) clients: Clients,
    pub(super) scripting: Scripting,
    pub(super) introspection: Introspection,
    pub(super) peers: Peers,
    pub(super) unit: RunningUnit,
    /// DEBUG PAUSE-CRON.
    pub(super) are_timers_paused: bool,
}

impl State {
    /// An empty node with these commands.
    pub(super) fn new(config: Config, catalogue: &'static Catalogue, now: UnixMicros) -> Self {
        let seed = config.seed;
        let mut clients = Clients::new(seed);
        clients.set_idle_check(idle::first_check(&config, now));
        Self {
            acl: acl::at_start(&config, catalogue),
            data: Data::new(&config),
            clients,
            scripting: Scripting::default(),
            introspection: Introspection::new(seed, catalogue.len(), now),
            peers: Peers::new(&config),
            unit: RunningUnit::new(now),
            are_timers_paused: false,
            config,
        }
    }
}
