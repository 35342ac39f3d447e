//! Sentinels: they agree at once on who is down, and fail over when the master has been down for long
//! enough. How real ones gossip and vote is not emulated; what clients see of it is. Where most of
//! them hear each other they act; the others know what they knew.

use super::replica::{Network, NetworkState, ReplicaTask, listens, seat};
use crate::engine::{Address, Seen, UnixMicros, Watched};
use crate::node_handle::LockedNode;
use std::time::Duration;

/// What clients call the master.
const NAME: &str = "mymaster";

/// What the sentinels of a deployment watch.
#[derive(Debug)]
pub(super) struct Watch {
    sentinels: Vec<usize>,
    data: Vec<usize>,
    master: usize,
    epoch: u64,
    down_after: Duration,
    /// Since when the master is down.
    down_since: Option<UnixMicros>,
    /// Who was down when the sentinels were told last.
    told_down: Vec<usize>,
    /// The sentinels do not know yet how things are.
    pub(super) is_stale: bool,
}

impl Watch {
    /// Sentinels that have seen nothing yet. The first node with data is the master.
    fn new(sentinels: Vec<usize>, data: Vec<usize>, down_after: Duration) -> Self {
        Self {
            sentinels,
            master: data.first().copied().unwrap_or(0),
            data,
            epoch: 0,
            down_after,
            down_since: None,
            told_down: Vec::new(),
            is_stale: true,
        }
    }

    /// As at the start.
    pub(super) fn reset(&mut self) {
        let (sentinels, data) = (self.sentinels.clone(), self.data.clone());
        *self = Self::new(sentinels, data, self.down_after);
    }

    pub(super) fn is_sentinel(&self, node: usize) -> bool {
        self.sentinels.contains(&node)
    }

    /// A failover makes this node the master.
    pub(super) fn switch(&mut self, master: usize) {
        self.master = master;
        self.epoch += 1;
        self.down_since = None;
        self.is_stale = true;
    }
}

impl NetworkState {
    /// A sentinel that hears most of them, if there is one.
    fn eye(&self, watch: &Watch) -> Option<usize> {
        let hears = |one: usize| {
            let all = watch.sentinels.iter();
            all.filter(|other| self.breaks.is_open(one, **other))
                .count()
        };
        let mut all = watch.sentinels.iter().copied();
        all.find(|one| hears(*one) > watch.sentinels.len() / 2)
    }

    fn is_down(&self, node: usize, seats: &[LockedNode<'_>]) -> bool {
        let eye = self.watch.as_ref().and_then(|watch| self.eye(watch));
        let is_away = eye.is_some_and(|eye| !self.breaks.is_open(eye, node));
        is_away || seat(self, node, seats).is_none_or(|seat| !listens(&seats[seat]))
    }

    /// Nodes with data that most sentinels reach again, and that do not follow the master: each with
    /// that master.
    pub(super) fn strays(&self) -> Vec<(usize, usize)> {
        let Some(watch) = &self.watch else {
            return Vec::new();
        };
        let follows = |node: usize| {
            let mut links = self.links.iter();
            links.any(|link| (link.replica, link.master) == (node, watch.master))
        };
        let eye = self.eye(watch);
        let data = watch.data.iter().copied();
        let strays = data.filter(|node| {
            let is_there = eye.is_some_and(|eye| self.breaks.is_open(eye, *node));
            let was_away = watch.told_down.contains(node);
            was_away && is_there && *node != watch.master && !follows(*node)
        });
        strays.map(|node| (node, watch.master)).collect()
    }

    /// The nodes with data that are down.
    fn down(&self, watch: &Watch, seats: &[LockedNode<'_>]) -> Vec<usize> {
        let data = watch.data.iter().copied();
        data.filter(|node| self.is_down(*node, seats)).collect()
    }

    /// The replica that is alive and has received most.
    fn successor(&self, seats: &[LockedNode<'_>]) -> Option<usize> {
        let watch = self.watch.as_ref()?;
        let others = watch.data.iter().filter(|node| **node != watch.master);
        let alive = others.filter(|node| !self.is_down(**node, seats));
        // Of several that are as far, the first.
        alive.copied().max_by_key(|node| {
            let seat = seat(self, *node, seats);
            let offset = seat.map_or(0, |seat| seats[seat].node.engine.replication_offset());
            (offset, std::cmp::Reverse(*node))
        })
    }

    /// When the sentinels have something to do.
    pub(super) fn sentinels_due(&self, seats: &[LockedNode<'_>]) -> Option<UnixMicros> {
        let watch = self.watch.as_ref()?;
        self.eye(watch)?;
        if watch.is_stale || self.down(watch, seats) != watch.told_down {
            return Some(UnixMicros(i64::MIN));
        }
        let due = watch.down_since?.plus(watch.down_after);
        self.successor(seats).map(|_| due)
    }

    /// Notices who is down, fails over, tells the sentinels.
    pub(super) fn look_after(&mut self, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        let Some(watch) = self
            .watch
            .as_ref()
            .filter(|watch| self.eye(watch).is_some())
        else {
            return;
        };
        let (down, successor) = (self.down(watch, seats), self.successor(seats));
        let Some(watch) = &mut self.watch else {
            return;
        };
        watch.is_stale |= down != watch.told_down;
        watch.down_since = if down.contains(&watch.master) {
            watch.down_since.or(Some(now))
        } else {
            None
        };
        if watch
            .down_since
            .is_some_and(|since| since.plus(watch.down_after) <= now)
            && let Some(to) = successor
        {
            self.orders.push_back(ReplicaTask::FailOver { to });
        } else if watch.is_stale {
            watch.is_stale = false;
            watch.told_down = down;
            self.tell_sentinels(seats, now);
        }
    }

    /// SENTINEL FAILOVER, as one of most sentinels has it.
    pub(super) fn fail_over_by_hand(&mut self, by: usize, seats: &[LockedNode<'_>]) {
        let watch = self.watch.as_ref();
        let eye = watch.and_then(|watch| self.eye(watch));
        if eye.is_some_and(|eye| self.breaks.is_open(eye, by))
            && let Some(to) = self.successor(seats)
        {
            self.orders.push_back(ReplicaTask::FailOver { to });
        }
    }

    fn tell_sentinels(&self, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        let Some(watch) = &self.watch else {
            return;
        };
        let address = |node: usize| self.nodes[node].1.clone();
        let id = |node: usize, seats: &[LockedNode<'_>]| {
            let seat = seat(self, node, seats);
            seat.map_or_else(String::new, |seat| {
                seats[seat].node.engine.run_id().to_owned()
            })
        };
        let seen = |node: usize, seats: &[LockedNode<'_>]| Seen {
            address: address(node),
            run_id: id(node, seats),
            is_down: self.is_down(node, seats),
            offset: seat(self, node, seats)
                .map_or(0, |seat| seats[seat].node.engine.replication_offset()),
        };
        let replicas = watch.data.iter().filter(|node| **node != watch.master);
        let watched = Watched {
            name: NAME.to_owned(),
            master: seen(watch.master, seats),
            replicas: replicas.map(|node| seen(*node, seats)).collect(),
            sentinels: watch
                .sentinels
                .iter()
                .map(|node| (address(*node), id(*node, seats)))
                .collect::<Vec<(Address, String)>>(),
            epoch: watch.epoch,
            quorum: watch.sentinels.len() / 2 + 1,
            down_after: watch.down_after,
        };
        let eye = self.eye(watch);
        let told = watch.sentinels.iter().filter(|sentinel| {
            let is_there = |eye| self.breaks.is_open(eye, **sentinel);
            eye.is_some_and(is_there)
        });
        for sentinel in told {
            if let Some(at) = seat(self, *sentinel, seats) {
                let (seat, watched) = (&mut seats[at], watched.clone());
                seat.node
                    .change(seat.shared, now, |engine, now| engine.watch(watched, now));
            }
        }
    }
}

impl Network {
    /// Makes nodes the sentinels of the nodes with data, of which the first is the master.
    pub(crate) fn watch(&self, sentinels: Vec<usize>, data: Vec<usize>, down_after: Duration) {
        self.lock().watch = Some(Watch::new(sentinels, data, down_after));
    }
}
