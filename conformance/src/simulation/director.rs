//! The director of a run: it starts the clients and the faults, ends the faults, and probes the lock after
//! all clients have crashed.

use super::{
    held,
    world::{LONGEST_POLL, World},
};
use crate::{
    history::What,
    scenario::{Fault, Op, Scenario},
    vocabulary::{
        CLEAN_UPS_PER_LEASE, FIRST_PROBE_OP, Mode, PROBE_HOST, PROBE_OP, PROBES_MAX, Refusal,
        Topology,
    },
};
use std::{sync::Arc, time::Duration};

/// Begin or end of a fault.
#[derive(Clone, Copy)]
enum Turn {
    /// A fault strikes, until a time in milliseconds.
    Strike(Fault, u64),
    Heal(Fault),
}

/// Returns the begin and end of every fault, sorted by time.
fn turns(scenario: &Scenario) -> Vec<(u64, Turn)> {
    let mut turns = Vec::new();
    for (from, to, fault) in scenario.faults() {
        turns.push((from, Turn::Strike(fault, to)));
        if !fault.is_instant() {
            turns.push((to, Turn::Heal(fault)));
        }
    }
    turns.sort_by_key(|&(at, _)| at);
    turns
}

/// After its last event a run goes on for this part of a lease at least.
const REST: u32 = 3;

/// Round trips in which a new process acquires a permit: to dial, to log in, to load a script and to ask.
const ROUND_TRIPS_TO_A_PERMIT: u32 = 8;

impl World {
    /// Plays the faults, then crashes all clients and probes the lock.
    pub(super) async fn direct(self: Arc<Self>) {
        for host in self.scenario.actors().into_iter().map(|actor| actor.host) {
            if held(&self.alive).insert(host) {
                self.start(host, 0);
            }
        }
        for (at_ms, turn) in turns(&self.scenario) {
            self.until(at_ms).await;
            match turn {
                Turn::Strike(fault, until_ms) => self.strike(fault, until_ms),
                Turn::Heal(fault) => self.heal(fault, at_ms),
            }
        }
        self.recorder
            .sleep_until(Duration::from_millis(self.scenario.end_ms()) + self.rest())
            .await;
        let alive: Vec<u8> = held(&self.alive).iter().copied().collect();
        for host in alive {
            self.crash(host);
        }
        self.network.forget();
        self.probe();
    }

    /// Time after the last event that a client has to clean up (P15): its outstanding request fails, the next one fails too, and
    /// after a pause a server answers the third.
    fn rest(&self) -> Duration {
        let lease = self.scenario.lease();
        let retry = self.promises.longest_retry(lease);
        let clean_up =
            3 * self.scenario.request_timeout() + retry + retry.max(lease / CLEAN_UPS_PER_LEASE);
        clean_up.max(lease / REST)
    }

    async fn until(&self, at_ms: u64) {
        self.recorder
            .sleep_until(Duration::from_millis(at_ms))
            .await;
    }

    fn strike(&self, fault: Fault, until_ms: u64) {
        match fault {
            Fault::Pause { host, after: 0 } => self.pause(host),
            Fault::Pause { host, after } => self.pause_after(host, after, until_ms),
            Fault::Suspend { host } => {
                self.recorder.record(What::Strikes { fault });
                self.pause(host);
            }
            Fault::Crash { host } => self.crash(host),
            // The link records a cut when it strikes a message.
            Fault::Cut { .. } => {}
            // These faults are applied in the links and in the clocks of clients. So is a pause of a node
            // that can be observed: otherwise the node would execute its pending requests all at once, and
            // observations could not tell them apart.
            Fault::Delay { .. }
            | Fault::Hold { .. }
            | Fault::Partition { .. }
            | Fault::Drift { .. }
            | Fault::WallClock { .. } => self.recorder.record(What::Strikes { fault }),
            Fault::NodePause { .. } => {
                self.recorder.record(What::Strikes { fault });
                if self.network.servers.pauses() {
                    self.network.servers.strike(fault);
                }
            }
            Fault::NodeCrash { .. }
            | Fault::AnswerError { .. }
            | Fault::FlushScripts { .. }
            | Fault::NodeClock { .. }
            | Fault::NodeDrift { .. }
            | Fault::NodeFreeze { .. }
            | Fault::Evict { .. }
            | Fault::FailOver
            | Fault::SplitBrain { .. } => {
                self.recorder.record(What::Strikes { fault });
                self.at_the_servers(|| {
                    let old_master = self.network.servers.master();
                    self.network.servers.strike(fault);
                    self.network.split(fault, old_master);
                });
            }
        }
    }

    fn heal(self: &Arc<Self>, fault: Fault, at_ms: u64) {
        match fault {
            Fault::Pause { host, after: 0 } => self.resume(host),
            Fault::Pause { host, .. } => {
                (0..self.pauses.end(host, at_ms)).for_each(|_| self.resume(host));
            }
            Fault::Suspend { host } => {
                self.resume(host);
                self.recorder.record(What::Heals { fault });
            }
            Fault::Crash { host } => self.restart(host, at_ms),
            Fault::Cut { .. } => {}
            Fault::Delay { .. }
            | Fault::Hold { .. }
            | Fault::Partition { .. }
            | Fault::Drift { .. }
            | Fault::WallClock { .. } => self.recorder.record(What::Heals { fault }),
            Fault::NodePause { .. } => {
                if self.network.servers.pauses() {
                    self.network.servers.heal(fault);
                }
                self.recorder.record(What::Heals { fault });
            }
            Fault::NodeCrash { .. }
            | Fault::AnswerError { .. }
            | Fault::FlushScripts { .. }
            | Fault::NodeClock { .. }
            | Fault::NodeDrift { .. }
            | Fault::NodeFreeze { .. }
            | Fault::Evict { .. }
            | Fault::FailOver
            | Fault::SplitBrain { .. } => {
                self.at_the_servers(|| {
                    self.network.servers.heal(fault);
                    self.network.unite(fault);
                });
                self.recorder.record(What::Heals { fault });
            }
        }
    }

    /// Changes servers, and observes them afterwards.
    fn at_the_servers(&self, change: impl FnOnce()) {
        let servers = &self.network.servers;
        let master = servers.master();
        change();
        if let Topology::Replicated { .. } = self.scenario.topology
            && servers.master() != master
        {
            let node = servers.master();
            self.recorder.record(What::Promoted { node });
        }
        self.look_at_all();
    }

    /// Pauses a client process as soon as so many replies have reached it.
    fn pause_after(&self, host: u8, after: u32, until_ms: u64) {
        let replies = self.replies(host) + u64::from(after);
        self.pauses.add(host, replies, until_ms);
    }

    /// Begins the pauses of a client process that have waited for replies, if these have reached it.
    pub(super) fn begin_pauses(&self, host: u8) {
        let begin = self.pauses.begin(host, || self.replies(host));
        (0..begin).for_each(|_| self.pause(host));
    }

    /// Returns the number of replies that have reached a client process, from servers and from the resource.
    fn replies(&self, host: u8) -> u64 {
        self.network.replies(host) + self.resource.replies(host)
    }

    fn pause(&self, host: u8) {
        self.recorder.record(What::Pause { host });
        self.spawner.pause(host);
    }

    fn resume(&self, host: u8) {
        self.spawner.resume(host);
        self.recorder.record(What::Resume { host });
    }

    fn crash(&self, host: u8) {
        if held(&self.alive).remove(&host) {
            self.recorder.record(What::Crash { host });
            held(&self.watches).retain(|watch| watch.host != host);
            self.spawner.kill(host);
        }
    }

    fn restart(self: &Arc<Self>, host: u8, at_ms: u64) {
        if held(&self.alive).insert(host) {
            self.recorder.record(What::Restart { host });
            self.start(host, at_ms);
        }
    }

    /// Tries to acquire the lock on a host without faults, for as long as the lease of a crashed holder can
    /// last.
    fn probe(self: &Arc<Self>) {
        let Some(mode) = self.promises.kind.whole() else {
            return self.spawner.stop();
        };
        let mut player = self.prober();
        let poll = self.promises.longest_poll(self.scenario.lease());
        let poll = poll.unwrap_or(LONGEST_POLL);
        let skip = self.recorder.history().terms.skip;
        let wait = self.promises.longest_lease(self.scenario.lease()) * 2 + poll + skip;
        let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        let (spawner, world) = (self.spawner.clone(), Arc::clone(self));
        let asks = Op::Acquire { mode, wait_ms };
        player.host.clone().spawn(async move {
            player.perform(PROBE_OP, asks).await;
            if let (Mode::Permits(permits), true) = (mode, world.has_refused_the_probe()) {
                world.probe_one_by_one(permits, wait_ms).await;
            }
            spawner.stop();
        });
        debug_assert!(!held(&self.alive).contains(&PROBE_HOST));
    }

    /// True if the lock does not offer the operation that the probe asked for.
    fn has_refused_the_probe(&self) -> bool {
        let history = self.recorder.history();
        history.entries.iter().rev().any(|entry| {
            let why = Refusal::NotOffered;
            entry.what == What::Fail { op: PROBE_OP, why }
        })
    }

    /// Acquires all permits of a semaphore whose calls take one permit each, when the leases of all crashed holders are over.
    /// Each is kept, so each later call waits for a part of the lease only: all of them are held at the same time.
    async fn probe_one_by_one(self: &Arc<Self>, permits: u32, wait_ms: u64) {
        let mode = Mode::Permits(1);
        let count = permits.min(PROBES_MAX);
        let part = self.scenario.lease() / (2 * count.max(1));
        // Each probe is a process of its own, which has to connect first.
        let connects = self
            .recorder
            .history()
            .terms
            .round_trips(ROUND_TRIPS_TO_A_PERMIT);
        let later = part.max(connects);
        let later = u64::try_from(later.as_millis()).unwrap_or(u64::MAX);
        let over = self.recorder.now() + Duration::from_millis(wait_ms);
        self.recorder.sleep_until(over).await;
        let mut kept = Vec::new();
        for nth in 0..count {
            let wait_ms = if nth == 0 { wait_ms } else { later };
            let mut player = self.prober();
            player
                .perform(FIRST_PROBE_OP + nth, Op::Acquire { mode, wait_ms })
                .await;
            kept.push(player);
        }
    }
}
