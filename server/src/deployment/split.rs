//! Splits of a deployment's network, as guards: a link that is cut, nodes that do not hear each other,
//! clients that do not reach several nodes.

use super::Deployment;
use crate::fault::{Partition, Rule, Ruled as _};
use crate::fault_guard::FaultGuard;
use std::collections::BTreeSet;

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
