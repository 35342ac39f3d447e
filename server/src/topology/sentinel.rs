//! Sentinels. They agree at once on which nodes are down, and fail over when the master has been
//! down for long enough. Their gossip and votes are not emulated, only what clients see of them.
//! Sentinels act if most of them run and reach each other; the sentinels outside of that majority keep
//! their old view. Without a majority one of them still tells which nodes are down.

use super::network::{Network, NetworkState, is_running};
use super::task::Task;
use super::watch::{ByHand, Stage, Watch};
use crate::engine::{Address, Seen, SeenSentinel, UnixMicros, Watched};
use crate::node_handle::LockedNode;
use std::cmp::Reverse;
use std::time::Duration;

/// Name of the master for clients.
const MASTER_NAME: &str = "mymaster";

/// From SENTINEL FAILOVER to the promotion of the replica, and from there to the moment at which the sentinel sees it and
/// tells the new address. Measured on Redis 7.0.15, whose sentinels look at their nodes once a second.
const PROMOTION_AFTER: Duration = Duration::from_millis(200);
const SWITCH_AFTER: Duration = Duration::from_millis(900);
/// From there to the demotion of the former master, which the sentinel leaves alone for a while
/// (`sentinel.c: sentinelRefreshInstanceInfo`).
const DEMOTION_AFTER: Duration = Duration::from_secs(10);

impl NetworkState {
    /// A sentinel that reaches most of the sentinels, if there is one.
    fn majority_sentinel(&self, watch: &Watch) -> Option<usize> {
        let reaches = |one: usize| {
            let all = watch.present();
            all.filter(|other| self.connectivity.is_reachable(one, *other))
                .count()
        };
        let mut all = watch.present();
        all.find(|one| reaches(*one) > watch.sentinels.len() / 2)
    }

    /// The sentinel that tells which nodes are down: one of the majority, or else any that runs.
    fn observer(&self, watch: &Watch) -> Option<usize> {
        self.majority_sentinel(watch)
            .or_else(|| watch.present().next())
    }

    fn is_down(&self, node: usize, locked: &[LockedNode<'_>]) -> bool {
        let observer = self.watch.as_ref().and_then(|watch| self.observer(watch));
        let is_away =
            observer.is_some_and(|observer| !self.connectivity.is_reachable(observer, node));
        is_away
            || self
                .index_of(node, locked)
                .is_none_or(|target| !is_running(&locked[target]))
    }

    /// Data nodes that most sentinels reach again and that do not follow the master, each with that
    /// master.
    pub(super) fn strays(&self) -> Vec<(usize, usize)> {
        let Some(watch) = &self.watch else {
            return Vec::new();
        };
        let follows = |node: usize| {
            let mut links = self.links.iter();
            links.any(|link| (link.replica, link.master) == (node, watch.master))
        };
        let observer = self.majority_sentinel(watch);
        let data = watch.data.iter().copied();
        let strays = data.filter(|node| {
            let is_reachable =
                observer.is_some_and(|observer| self.connectivity.is_reachable(observer, *node));
            let was_away = watch.reported_down.contains(node);
            was_away && is_reachable && *node != watch.master && !follows(*node)
        });
        strays.map(|node| (node, watch.master)).collect()
    }

    /// The data nodes that are down.
    fn down(&self, watch: &Watch, locked: &[LockedNode<'_>]) -> Vec<usize> {
        let data = watch.data.iter().copied();
        data.filter(|node| self.is_down(*node, locked)).collect()
    }

    /// The running replica of the best priority that has received most (`sentinel.c: sentinelSelectSlave`).
    fn successor(&self, locked: &[LockedNode<'_>]) -> Option<usize> {
        let watch = self.watch.as_ref()?;
        let others = watch.data.iter().filter(|node| **node != watch.master);
        let running = others.filter(|node| !self.is_down(**node, locked));
        // If several have received the same, the first is chosen.
        let facts = running.filter_map(|node| {
            let engine = &locked[self.index_of(*node, locked)?].node.engine;
            let (priority, offset) = (engine.replica_priority(), engine.replication_offset());
            (priority > 0).then_some((Reverse(priority), offset, Reverse(*node)))
        });
        facts.max().map(|(.., Reverse(node))| node)
    }

    /// The next time at which the sentinels act.
    pub(super) fn sentinels_due(&self, locked: &[LockedNode<'_>]) -> Option<UnixMicros> {
        let watch = self.watch.as_ref()?;
        self.observer(watch)?;
        if watch.is_stale || self.down(watch, locked) != watch.reported_down {
            return Some(UnixMicros(i64::MIN));
        }
        let by_hand = watch.by_hand.map(|failover| failover.due);
        let demotion = watch.demotion.map(|(_, due)| due);
        let automatic = watch.down_since.and_then(|since| {
            self.majority_sentinel(watch)?;
            let due = since.plus(self.down_after(watch, locked)?);
            self.successor(locked).map(|_| due)
        });
        [by_hand, demotion, automatic].into_iter().flatten().min()
    }

    /// Time for which the master has to be down: until as many sentinels as the quorum asks for see it as down. `None` if
    /// too few sentinels watch it.
    fn down_after(&self, watch: &Watch, locked: &[LockedNode<'_>]) -> Option<Duration> {
        let votes = watch.sentinels.iter().filter_map(|sentinel| {
            let target = self.index_of(*sentinel, locked)?;
            locked[target].node.engine.sentinel_vote()
        });
        let votes: Vec<(usize, Duration)> = votes.collect();
        let quorum = votes.iter().map(|(quorum, _)| *quorum).min()?;
        let mut times: Vec<Duration> = votes.into_iter().map(|(_, time)| time).collect();
        times.sort_unstable();
        times.get(quorum.saturating_sub(1)).copied()
    }

    /// Takes the next step of a failover by hand.
    fn advance_failover(&mut self, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        let Some(watch) = &mut self.watch else {
            return;
        };
        let follow = |node, master| Task::Follow { node, master };
        if let Some((node, _)) = watch.demotion.filter(|(_, due)| *due <= now) {
            watch.demotion = None;
            let master = watch.master;
            if self.connectivity.is_reachable(node, master) {
                self.tasks.push_back(follow(node, Some(master)));
                self.tasks.push_back(Task::EndSessions { node });
            }
        }
        let Some(failover) = watch.by_hand.filter(|failover| failover.due <= now) else {
            return;
        };
        let (by, to, old) = (failover.by, failover.to, watch.master);
        watch.is_stale = true;
        watch.by_hand = None;
        if self.is_down(to, locked) {
            return;
        }
        match failover.stage {
            Stage::Promotion => {
                self.tasks.push_back(follow(to, None));
                self.tasks.push_back(Task::EndSessions { node: to });
                if self.fails_on_purpose(by, true, locked, now) {
                    return;
                }
                if let Some(watch) = &mut self.watch {
                    watch.by_hand = Some(ByHand {
                        stage: Stage::Switch,
                        due: now.plus(SWITCH_AFTER),
                        ..failover
                    });
                }
            }
            Stage::Switch => {
                let master = self.nodes[old].1.clone();
                let slave = self.slave_text(to, old);
                self.tell(
                    by,
                    &[
                        ("+promoted-slave", slave),
                        ("+failover-state-reconf-slaves", master_text(&master)),
                    ],
                    locked,
                    now,
                );
                let links = self.links.iter().filter(|link| link.master == old);
                let others: Vec<usize> = links.map(|link| link.replica).collect();
                let others = others.into_iter();
                for node in others.filter(|node| self.connectivity.is_reachable(*node, to)) {
                    self.tasks.push_back(follow(node, Some(to)));
                    self.tasks.push_back(Task::EndSessions { node });
                }
                if let Some(watch) = &mut self.watch {
                    watch.switch(to);
                    watch.demotion = Some((old, now.plus(DEMOTION_AFTER)));
                }
            }
        }
    }

    /// Ends a sentinel that SENTINEL SIMULATE-FAILURE has told to fail at this moment.
    fn fails_on_purpose(
        &self,
        sentinel: usize,
        is_promotion: bool,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) -> bool {
        let mut fails = false;
        self.change(sentinel, locked, now, |engine, _| {
            fails = engine.simulates_failure(is_promotion);
        });
        fails
    }

    fn tell(
        &self,
        sentinel: usize,
        events: &[(&str, String)],
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        self.change(sentinel, locked, now, |engine, now| {
            engine.tell_events(events, now);
        });
    }

    /// A replica in an event of a sentinel (`sentinel.c: sentinelEvent`).
    fn slave_text(&self, node: usize, master: usize) -> String {
        let (at, of) = (&self.nodes[node].1, &self.nodes[master].1);
        format!(
            "slave {at} {} {} @ {MASTER_NAME} {} {}",
            at.host, at.port, of.host, of.port
        )
    }

    /// Updates which nodes are down, starts a failover, updates the view of the sentinels.
    pub(super) fn run_sentinels(&mut self, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        let Some(watch) = self
            .watch
            .as_ref()
            .filter(|watch| self.observer(watch).is_some())
        else {
            return;
        };
        let can_elect = self.majority_sentinel(watch).is_some();
        let (down, successor) = (self.down(watch, locked), self.successor(locked));
        self.advance_failover(locked, now);
        let Some(watch) = &mut self.watch else {
            return;
        };
        watch.is_stale |= down != watch.reported_down;
        watch.down_since = if can_elect && down.contains(&watch.master) {
            watch.down_since.or(Some(now))
        } else {
            None
        };
        let since = watch.down_since;
        let is_due = |after: Duration| since.is_some_and(|since| since.plus(after) <= now);
        let watch = self.watch.as_ref();
        let down_after = watch.and_then(|watch| self.down_after(watch, locked));
        let Some(watch) = &mut self.watch else {
            return;
        };
        if can_elect
            && down_after.is_some_and(is_due)
            && let Some(to) = successor
        {
            self.tasks.push_back(Task::FailOver { to });
        } else if watch.is_stale {
            watch.is_stale = false;
            watch.reported_down = down;
            self.update_sentinels(locked, now);
        }
    }

    /// Begins SENTINEL FAILOVER, if the sentinel that received it belongs to the majority.
    pub(super) fn fail_over_by_hand(
        &mut self,
        by: usize,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let watch = self.watch.as_ref();
        let observer = watch.and_then(|watch| self.majority_sentinel(watch));
        let is_heard =
            observer.is_some_and(|observer| self.connectivity.is_reachable(observer, by));
        let to = self.successor(locked).filter(|_| is_heard);
        let (Some(to), Some(watch)) = (to, &mut self.watch) else {
            return;
        };
        watch.is_stale = true;
        watch.by_hand = Some(ByHand {
            by,
            to,
            stage: Stage::Promotion,
            due: now.plus(PROMOTION_AFTER),
        });
        let (old, epoch) = (watch.master, watch.epoch + 1);
        let (master, slave) = (master_text(&self.nodes[old].1), self.slave_text(to, old));
        let at = self.index_of(by, locked);
        let id = at.map_or_else(String::new, |at| locked[at].node.engine.run_id().to_owned());
        self.tell(
            by,
            &[
                ("+new-epoch", epoch.to_string()),
                ("+try-failover", master.clone()),
                ("+vote-for-leader", format!("{id} {epoch}")),
                ("+elected-leader", master.clone()),
                ("+failover-state-select-slave", master),
                ("+selected-slave", slave.clone()),
                ("+failover-state-send-slaveof-noone", slave.clone()),
                ("+failover-state-wait-promotion", slave),
            ],
            locked,
            now,
        );
        if self.fails_on_purpose(by, false, locked, now)
            && let Some(watch) = &mut self.watch
        {
            watch.by_hand = None;
        }
    }

    fn update_sentinels(&self, locked: &mut [LockedNode<'_>], now: UnixMicros) {
        let Some(watch) = &self.watch else {
            return;
        };
        let address = |node: usize| self.nodes[node].1.clone();
        let id = |node: usize, locked: &[LockedNode<'_>]| {
            let target = self.index_of(node, locked);
            target.map_or_else(String::new, |target| {
                locked[target].node.engine.run_id().to_owned()
            })
        };
        let seen = |node: usize, locked: &[LockedNode<'_>]| Seen {
            address: address(node),
            run_id: id(node, locked),
            is_down: self.is_down(node, locked),
            is_disconnected: watch.absent.contains(&node),
            offset: self
                .index_of(node, locked)
                .map_or(0, |target| locked[target].node.engine.replication_offset()),
            priority: self
                .index_of(node, locked)
                .map_or(0, |target| locked[target].node.engine.replica_priority()),
            is_announced: self.index_of(node, locked).is_none_or(|target| {
                locked[target]
                    .node
                    .engine
                    .config()
                    .is_on("replica-announced")
            }),
        };
        let replicas = watch.data.iter().filter(|node| **node != watch.master);
        let observer = self.observer(watch);
        let sees = |sentinel| {
            let reaches = |observer| self.connectivity.is_reachable(observer, sentinel);
            observer.is_some_and(reaches) && !watch.absent.contains(&sentinel)
        };
        let sentinel = |node: usize| SeenSentinel {
            address: address(node),
            id: id(node, locked),
            is_down: !sees(node),
            is_disconnected: watch.absent.contains(&node),
        };
        let watched = Watched {
            name: MASTER_NAME.to_owned(),
            master: seen(watch.master, locked),
            replicas: replicas.map(|node| seen(*node, locked)).collect(),
            sentinels: watch.sentinels.iter().map(|node| sentinel(*node)).collect(),
            epoch: watch.epoch,
            quorum: watch.sentinels.len() / 2 + 1,
            down_after: watch.down_after,
            is_failing_over: false,
        };
        let runner = watch.by_hand.map(|failover| failover.by);
        for sentinel in watch.sentinels.iter().filter(|sentinel| sees(**sentinel)) {
            if let Some(at) = self.index_of(*sentinel, locked) {
                let (target, mut watched) = (&mut locked[at], watched.clone());
                watched.is_failing_over = runner == Some(*sentinel);
                target
                    .node
                    .change(target.shared, now, |engine, now| engine.watch(watched, now));
            }
        }
    }
}

/// A master in an event of a sentinel.
fn master_text(at: &Address) -> String {
    format!("master {MASTER_NAME} {} {}", at.host, at.port)
}

impl Network {
    /// Makes nodes the sentinels of the data nodes. The first data node is the master.
    pub(crate) fn watch(&self, sentinels: Vec<usize>, data: Vec<usize>, down_after: Duration) {
        self.lock().watch = Some(Watch::new(sentinels, data, down_after));
    }
}
