//! Splits of a deployment's network, as guards: a cut link, nodes that do not reach each other,
//! clients that do not reach several nodes.

use super::Deployment;
use crate::fault::{Partition, Rule, Ruled as _};
use crate::fault_guard::{ExpectedHits, FaultGuard};
use std::collections::BTreeSet;

/// Splits of the network.
impl Deployment {
    /// Cuts the link between a replica and its master until the guard is dropped. Then the writes
    /// of the meantime arrive, or a copy of all data if there were many.
    ///
    /// # Panics
    /// If no server has this name.
    #[track_caller]
    pub fn cut_link(&self, replica: &str) -> CutLink<'_> {
        let number = self.network.cut(self.index(replica));
        self.settle();
        CutLink {
            deployment: self,
            number,
        }
    }

    /// Splits the network until the guard is dropped or [healed](Split::heal): the nodes in `away`
    /// do not reach the other nodes. Nodes on the same side reach each other, and clients reach all
    /// nodes. With several splits, two nodes reach each other if no split separates them.
    ///
    /// * A replica that is separated from its master receives nothing, as with
    ///   [`cut_link`](Self::cut_link). A link that was cut separately stays cut when the split is
    ///   healed.
    /// * In a cluster neither messages nor changes of slots cross the split. Each side notices the
    ///   missing nodes after [a time](Self::set_failure_noticed_after); then the side without a
    ///   majority of the masters with slots answers CLUSTERDOWN. On the other side a replica may
    ///   [take over](Self::fail_over_to) from its master. That master learns of it when the split
    ///   is healed: it follows the new master, as its replicas do, and loses the writes of the
    ///   meantime. If two masters claim a slot, the one with the later epoch gets it.
    /// * Sentinels act on the side with most of them. Other sentinels keep their view, and without
    ///   a majority there is no failover. When the split is healed, all data nodes follow the
    ///   master that most sentinels agreed on.
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
    /// If no server has one of these names, or if one of the sides would be empty.
    #[track_caller]
    pub fn split(&self, away: &[&str]) -> Split<'_> {
        let mut side = BTreeSet::new();
        for name in away {
            side.insert(self.index(name));
        }
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

    /// Cuts the network between clients and several nodes, with the same rule on each node.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    /// use redouble::{Clock, Deployment, fault::Partition};
    ///
    /// let nodes = Deployment::builder().clock(Clock::Tokio).independent(3).await?;
    /// let mut far = nodes["node-1"].connection_builder().addr("far:1").open().await?;
    /// let minority = nodes.partition(Partition::new().addr("far:*"), &["node-1", "node-2"]);
    /// assert!(far.get("k").await.unwrap_err().is_timeout());
    /// assert!(nodes["node-3"].connection_builder().addr("far:1").open().await.is_ok());
    /// minority.heal();
    /// assert_eq!(far.get("k").await?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// If no server has one of these names.
    #[track_caller]
    pub fn partition(&self, rule: Rule<Partition>, nodes: &[&str]) -> Partitioned {
        let mut guards = Vec::with_capacity(nodes.len());
        for name in nodes {
            guards.push(self.node(name).inject(rule.afresh()));
        }
        Partitioned {
            guards,
            expected: None,
        }
    }

    /// Ends every [split](Self::split), every [cut link](Self::cut_link), and every fault rule on
    /// every node, of whatever kind. Guards that are dropped later have no effect. Pauses, crashes,
    /// clocks and lags do not change.
    pub fn heal_all(&self) {
        self.network.heal_all();
        self.settle();
        for server in self.nodes() {
            server.handle.plan().clear();
        }
    }
}

/// A cut link; dropping this restores it: [`Deployment::cut_link`].
#[derive(Debug)]
#[must_use = "dropping this restores the link"]
pub struct CutLink<'a> {
    deployment: &'a Deployment,
    number: u64,
}

impl CutLink<'_> {
    /// Restores the link.
    pub fn restore(self) {}
}

impl Drop for CutLink<'_> {
    fn drop(&mut self) {
        self.deployment.network.end_cut(self.number);
        self.deployment.settle();
    }
}

/// A split of the network; dropping this heals it: [`Deployment::split`].
#[derive(Debug)]
#[must_use = "dropping this heals the split"]
pub struct Split<'a> {
    deployment: &'a Deployment,
    number: u64,
}

impl Split<'_> {
    /// Heals the split.
    pub fn heal(self) {}
}

impl Drop for Split<'_> {
    fn drop(&mut self) {
        self.deployment.network.end_split(self.number);
        self.deployment.settle();
    }
}

/// A partition between clients and several nodes; dropping this heals it:
/// [`Deployment::partition`].
#[derive(Debug)]
#[must_use = "dropping this heals the partition"]
pub struct Partitioned {
    guards: Vec<FaultGuard>,
    expected: Option<ExpectedHits>,
}

impl Partitioned {
    /// Number of messages that the partition has held, on all nodes together.
    pub fn fired(&self) -> u64 {
        self.guards.iter().map(FaultGuard::fired).sum()
    }

    /// Expects the partition to hold exactly `n` messages, on all nodes together, by the time the guard is dropped.
    /// The drop panics if they were more or fewer, unless the thread panics already; the message names the line that
    /// called this method.
    ///
    /// ```should_panic
    /// # let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    /// # let nodes = runtime.block_on(redouble::Deployment::builder().independent(2)).expect("ports");
    /// use redouble::fault::Partition;
    ///
    /// let minority = nodes.partition(Partition::new().addr("far:*"), &["node-1"]).expect(1);
    /// minority.heal(); // the fault "..." was expected to hit 1 message and has hit 0: tests/jobs.rs:12:66
    /// ```
    #[track_caller]
    pub fn expect(mut self, n: u64) -> Self {
        self.expected = Some(ExpectedHits::by_caller(n));
        self
    }

    /// Asserts the number of messages that the partition has held so far, on all nodes together.
    ///
    /// # Panics
    /// If they were more or fewer, in the line of the test that called it.
    #[track_caller]
    pub fn assert_fired(&self, n: u64) {
        let wrong = ExpectedHits::by_caller(n).unlike(self.fired(), self.name());
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }

    /// The rule, which is the same on all nodes.
    fn name(&self) -> &str {
        self.guards.first().map_or("partition", FaultGuard::name)
    }

    /// Heals the partition: all held messages arrive.
    ///
    /// # Panics
    /// If the partition has not held as many messages as [`expect`](Self::expect) said.
    pub fn heal(self) {}
}

impl Drop for Partitioned {
    fn drop(&mut self) {
        let fired = self.fired();
        let expected = self.expected.take();
        let wrong = expected.and_then(|expected| expected.unmet(fired, self.name()));
        // The messages arrive before the test fails.
        self.guards.clear();
        if let Some(wrong) = wrong
            && !std::thread::panicking()
        {
            panic!("{wrong}");
        }
    }
}
