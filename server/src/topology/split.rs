//! What keeps nodes from hearing each other: links that are cut, and splits of the network.

use super::deployment::Deployment;
use super::replica::{Network, NetworkState, ReplicaTask};
use crate::engine::UnixMicros;
use crate::fault::{Partition, Rule, Ruled as _};
use crate::fault_guard::FaultGuard;
use crate::net::LockedNode;
use std::collections::{BTreeMap, BTreeSet};

/// All that is broken between nodes, by numbers that are never used again.
#[derive(Debug, Default)]
pub(super) struct Breaks {
    last: u64,
    /// Replicas whose links are cut.
    cuts: BTreeMap<u64, usize>,
    /// The nodes on one side of each split; all others are on the other.
    splits: BTreeMap<u64, BTreeSet<usize>>,
}

impl Breaks {
    /// Everything works.
    pub(super) fn clear(&mut self) {
        self.cuts.clear();
        self.splits.clear();
    }

    /// Whether nodes hear each other.
    pub(super) fn is_open(&self, node: usize, other: usize) -> bool {
        let mut splits = self.splits.values();
        splits.all(|side| side.contains(&node) == side.contains(&other))
    }

    /// Whether a replica hears its master.
    pub(super) fn passes(&self, replica: usize, master: usize) -> bool {
        !self.is_cut(replica) && self.is_open(replica, master)
    }

    fn is_cut(&self, replica: usize) -> bool {
        self.cuts.values().any(|cut| *cut == replica)
    }

    /// The link of a replica is another one now.
    pub(super) fn mend(&mut self, replica: usize) {
        self.cuts.retain(|_, cut| *cut != replica);
    }

    /// The nodes that hear each other, in the order of the first of each.
    fn groups(&self, nodes: usize) -> Vec<BTreeSet<usize>> {
        let mut groups: Vec<BTreeSet<usize>> = Vec::new();
        for node in 0..nodes {
            let is_its = |group: &&mut BTreeSet<usize>| {
                let first = group.first();
                first.is_some_and(|first| self.is_open(*first, node))
            };
            match groups.iter_mut().find(is_its) {
                Some(group) => drop(group.insert(node)),
                None => groups.push(BTreeSet::from([node])),
            }
        }
        groups
    }
}

impl NetworkState {
    /// Links are what they have become, and both ends notice.
    pub(super) fn look_at_links(&mut self, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        for index in 0..self.links.len() {
            let link = &mut self.links[index];
            let is_open = self.breaks.passes(link.replica, link.master);
            let has_changed = std::mem::replace(&mut link.is_open, is_open) != is_open;
            // Who needs a copy first is told by it.
            if has_changed && !(is_open && link.needs_copy) {
                self.tell_of_link(index, is_open, seats, now);
            }
        }
    }

    /// A split has begun or was healed.
    pub(super) fn look_at_sides(&mut self, seats: &mut [LockedNode<'_>], now: UnixMicros) {
        self.look_at_links(seats, now);
        let groups = self.breaks.groups(self.nodes.len());
        let follows = self.regroup(groups, seats, now);
        let strays = self.strays();
        let follows = follows.into_iter().chain(strays);
        self.orders.extend(follows.map(|(node, master)| {
            let master = Some(master);
            ReplicaTask::Follow { node, master }
        }));
    }
}

impl Network {
    /// Changes what is broken, which shows when time is next looked at.
    fn change_breaks<T>(&self, change: impl FnOnce(&mut Breaks) -> T) -> T {
        let mut state = self.lock();
        let splits = state.breaks.splits.len();
        let changed = change(&mut state.breaks);
        let is_same = state.breaks.splits.len() == splits;
        let order = if is_same {
            ReplicaTask::Links
        } else {
            ReplicaTask::Sides
        };
        state.orders.push_back(order);
        changed
    }

    /// Cuts the link of a replica; the number of the cut.
    pub(crate) fn cut(&self, replica: usize) -> u64 {
        self.change_breaks(|breaks| {
            breaks.last += 1;
            breaks.cuts.insert(breaks.last, replica);
            breaks.last
        })
    }

    /// Ends one cut.
    fn end_cut(&self, number: u64) {
        self.change_breaks(|breaks| breaks.cuts.remove(&number));
    }

    /// Ends all cuts of the link of a replica.
    pub(crate) fn mend(&self, replica: usize) {
        self.change_breaks(|breaks| breaks.mend(replica));
    }

    /// Whether the link of a replica is cut, by itself.
    pub(crate) fn is_cut(&self, replica: usize) -> bool {
        self.lock().breaks.is_cut(replica)
    }

    /// Splits these nodes from all others; the number of the split.
    pub(crate) fn split(&self, away: BTreeSet<usize>) -> u64 {
        self.change_breaks(|breaks| {
            breaks.last += 1;
            breaks.splits.insert(breaks.last, away);
            breaks.last
        })
    }

    pub(crate) fn splits(&self) -> usize {
        self.lock().breaks.splits.len()
    }

    fn end_split(&self, number: u64) {
        self.change_breaks(|breaks| breaks.splits.remove(&number));
    }

    /// All nodes hear each other.
    pub(crate) fn heal_all(&self) {
        self.change_breaks(Breaks::clear);
    }
}

/// What keeps nodes, and clients, from hearing each other.
impl Deployment {
    /// Cuts the link between a replica and its master until the guard is dropped: what is written
    /// meanwhile arrives then, or a copy of everything if it was much.
    ///
    /// # Panics
    /// When there is no server of this name.
    pub fn cut_link(&self, replica: &str) -> CutLink<'_> {
        let number = self.network.cut(self.place(replica));
        self.settle();
        CutLink {
            deployment: self,
            number,
        }
    }

    /// Splits the network between nodes until the guard is dropped or [healed](Split::heal): the nodes
    /// that are `away` and all others do not hear each other; those on one side do. Clients reach
    /// all of them. Where several splits stand, nodes hear each other that no split parts.
    ///
    /// * A replica away from its master gets nothing until then, as with [`cut_link`](Self::cut_link);
    ///   a link that is cut by itself stays cut afterwards.
    /// * In a cluster nothing crosses, neither messages nor news of slots. What is on the other side is missed
    ///   after the [time](Self::set_failure_noticed_after) after which crashes are noticed; then the side
    ///   without most of the masters that have slots answers CLUSTERDOWN. On the other a replica may
    ///   [take over](Self::fail_over_to) from its master that is away, which hears of it when the
    ///   split is healed: it follows the new one, as its replicas do, and what it was told meanwhile is
    ///   lost. Of two masters that claim a slot the later epoch has it.
    /// * Sentinels act where most of them are. A sentinel elsewhere keeps what it knew; with no majority
    ///   anywhere nobody fails over. When the split is healed, all data nodes follow the master
    ///   that most sentinels agreed on.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Deployment};
    /// use std::time::Duration;
    ///
    /// let cluster = Deployment::builder().clock(Clock::Manual).cluster(3, 1).await?;
    /// cluster.set_failure_noticed_after(Duration::from_secs(15));
    /// let split = cluster.split(&["master-1"]);
    /// let mut old = cluster["master-1"].connection().await?;
    /// old.set("b", "granted").await?; // it does not know yet that it is alone
    /// cluster.clock().advance(Duration::from_secs(15));
    /// assert_eq!(old.get("b").await.unwrap_err().code(), Some("CLUSTERDOWN"));
    ///
    /// cluster.fail_over_to("replica-1-1");
    /// let mut new = cluster["replica-1-1"].connection().await?;
    /// assert_eq!(new.get("b").await?, None);
    /// split.heal();
    /// assert_eq!(old.get("b").await.unwrap_err().code(), Some("MOVED"));
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When there is no server of one of these names, or when nobody is on one of the sides.
    pub fn split(&self, away: &[&str]) -> Split<'_> {
        let side: BTreeSet<usize> = away.iter().map(|name| self.place(name)).collect();
        assert!(
            !side.is_empty() && side.len() < self.names().count(),
            "a split needs nodes on both sides"
        );
        let number = self.network.split(side);
        self.settle();
        Split {
            deployment: self,
            number,
        }
    }

    /// Cuts the network between clients and several nodes: the same rule on each of them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Deployment, fault::Partition};
    ///
    /// let nodes = Deployment::builder().clock(Clock::Tokio).independent(3).await?;
    /// let mut far = nodes["node-1"].connection_from("far:1").await?;
    /// let minority = nodes.partition(Partition::new().addr("far:*"), &["node-1", "node-2"]);
    /// assert!(far.get("k").await.unwrap_err().is_timeout());
    /// assert!(nodes["node-3"].connection_from("far:1").await.is_ok());
    /// minority.heal();
    /// assert_eq!(far.get("k").await?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// When there is no server of one of these names.
    pub fn partition(&self, rule: Rule<Partition>, nodes: &[&str]) -> Partitioned {
        let rules = nodes
            .iter()
            .map(|name| self.node(name).inject(rule.afresh()));
        Partitioned(rules.collect())
    }

    /// Ends all that is wrong with the network: every [split](Self::split), every [link that is
    /// cut](Self::cut_link), and every fault rule on every node, of whatever kind. Guards that are
    /// dropped later do nothing more. Pauses, crashes, clocks and lags stay what they are.
    pub fn heal_all(&self) {
        self.network.heal_all();
        self.settle();
        for server in self.nodes() {
            server.handle.plan().clear();
        }
    }
}

/// A link that is cut; dropping it lets the link work again: [`Deployment::cut_link`].
#[derive(Debug)]
#[must_use = "the link works again when this is dropped"]
pub struct CutLink<'a> {
    deployment: &'a Deployment,
    number: u64,
}

impl CutLink<'_> {
    /// Lets the link work again.
    pub fn restore(self) {}
}

impl Drop for CutLink<'_> {
    fn drop(&mut self) {
        self.deployment.network.end_cut(self.number);
        self.deployment.settle();
    }
}

/// Nodes that do not hear each other; dropping it ends that: [`Deployment::split`].
#[derive(Debug)]
#[must_use = "the split is healed when this is dropped"]
pub struct Split<'a> {
    deployment: &'a Deployment,
    number: u64,
}

impl Split<'_> {
    /// Lets the nodes hear each other again.
    pub fn heal(self) {}
}

impl Drop for Split<'_> {
    fn drop(&mut self) {
        self.deployment.network.end_split(self.number);
        self.deployment.settle();
    }
}

/// Clients that do not reach several nodes; dropping it ends that: [`Deployment::partition`].
#[derive(Debug)]
#[must_use = "the partition is healed when this is dropped"]
pub struct Partitioned(Vec<FaultGuard>);

impl Partitioned {
    /// How many messages it has held, on all nodes together.
    pub fn fired(&self) -> u64 {
        self.0.iter().map(FaultGuard::fired).sum()
    }

    /// Lets everything arrive.
    pub fn heal(self) {}
}
