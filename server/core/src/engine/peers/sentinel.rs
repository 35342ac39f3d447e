//! A sentinel's view: the master that it watches, the replicas and the other sentinels. `topology/`
//! decides which nodes are down and which replica takes over; the sentinel reports it.

use crate::engine::peers::replication::Address;
use std::collections::BTreeMap;
use std::time::Duration;

/// A node in the sentinels' view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its address.
    pub address: Address,
    /// Its `run_id`, 40 hexadecimal digits.
    pub run_id: String,
    /// True if this sentinel does not reach it.
    pub is_down: bool,
    /// True if it has no connections, because it has crashed or was shut down.
    pub is_disconnected: bool,
    /// Replication offset, bytes.
    pub offset: u64,
    /// `replica-priority`; 0 for a replica that is never promoted.
    pub priority: i64,
    /// `replica-announced`; SENTINEL REPLICAS omits other replicas.
    pub is_announced: bool,
}

/// A sentinel in the view of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenSentinel {
    /// Its address.
    pub address: Address,
    /// Its `run_id`, 40 hexadecimal digits.
    pub id: String,
    /// True if the others do not reach it.
    pub is_down: bool,
    /// True if it has no connections, because it has crashed or was shut down.
    pub is_disconnected: bool,
}

/// A watched master with its replicas and sentinels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The name for clients.
    pub name: String,
    /// The master.
    pub master: Seen,
    /// Its replicas.
    pub replicas: Vec<Seen>,
    /// The sentinels, including this one.
    pub sentinels: Vec<SeenSentinel>,
    /// Number of failovers (`config-epoch`).
    pub epoch: u64,
    /// Number of sentinels that must agree that the master is down.
    pub quorum: usize,
    /// `down-after-milliseconds`.
    pub down_after: Duration,
    /// This sentinel runs a failover that a client asked for.
    pub is_failing_over: bool,
}

impl Watched {
    /// Number of sentinels that can vote.
    pub(crate) fn usable(&self) -> usize {
        self.sentinels.iter().filter(|it| !it.is_down).count()
    }

    /// True if enough sentinels see the master as down (`SRI_O_DOWN`).
    pub(crate) fn is_agreed_down(&self) -> bool {
        self.master.is_down && self.usable() >= self.quorum
    }
}

/// The state of a sentinel.
#[derive(Clone, Debug)]
pub(crate) struct Sentinel {
    pub(crate) id: String,
    pub(crate) watched: Option<Watched>,
    /// Facts from the deployment, without the settings of this sentinel.
    pub(in crate::engine) told: Option<Watched>,
    /// SENTINEL REMOVE has ended the watch.
    pub(crate) is_removed: bool,
    /// Settings of the watched master (SENTINEL SET).
    pub(crate) master: MasterSettings,
    /// Settings of the sentinel itself (SENTINEL CONFIG).
    pub(crate) own: OwnSettings,
    /// Periods that SENTINEL DEBUG has changed, in milliseconds. They have no effect.
    pub(crate) periods: BTreeMap<&'static str, i64>,
    /// Moments at which the sentinel ends (SENTINEL SIMULATE-FAILURE).
    pub(crate) ends: SimulatedFailures,
}

/// Settings changed by SENTINEL SET and SENTINEL MONITOR.
#[derive(Clone, Debug)]
pub(crate) struct MasterSettings {
    pub(crate) name: Option<String>,
    pub(crate) quorum: Option<usize>,
    pub(crate) down_after: Option<Duration>,
    /// Reported, without an effect; and so the next one.
    pub(crate) failover_timeout: i64,
    pub(crate) parallel_syncs: i64,
}

impl Default for MasterSettings {
    fn default() -> Self {
        Self {
            name: None,
            quorum: None,
            down_after: None,
            failover_timeout: 180_000,
            parallel_syncs: 1,
        }
    }
}

/// Settings changed by SENTINEL CONFIG SET. They have no effect, because sentinels use no network.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnSettings {
    pub(crate) resolves_hostnames: bool,
    pub(crate) announces_hostnames: bool,
    pub(crate) announce_ip: Vec<u8>,
    pub(crate) announce_port: u16,
    pub(crate) user: Vec<u8>,
    pub(crate) password: Vec<u8>,
}

/// `SENTINEL_SIMFAILURE_*`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SimulatedFailures {
    pub(crate) after_election: bool,
    pub(crate) after_promotion: bool,
}

impl Sentinel {
    pub(in crate::engine) fn new(id: String) -> Self {
        Self {
            id,
            watched: None,
            told: None,
            is_removed: false,
            master: MasterSettings::default(),
            own: OwnSettings::default(),
            periods: BTreeMap::new(),
            ends: SimulatedFailures::default(),
        }
    }

    /// Facts from the deployment, with the settings of this sentinel.
    pub(in crate::engine) fn adjusted(&self, mut watched: Watched) -> Watched {
        let settings = &self.master;
        if let Some(name) = &settings.name {
            watched.name.clone_from(name);
        }
        watched.quorum = settings.quorum.unwrap_or(watched.quorum);
        watched.down_after = settings.down_after.unwrap_or(watched.down_after);
        watched
    }

    /// Takes over changed settings.
    pub(crate) fn refresh(&mut self) {
        let told = self.told.clone().filter(|_| !self.is_removed);
        self.watched = told.map(|told| self.adjusted(told));
    }
}
