//! Snapshots of a deployment: the data of all nodes at one instant, to compare and to restore.

use super::Deployment;
use crate::inspect::Snapshot;
use crate::node_handle::{LockedNode, Turn};
use crate::server::Server;
use std::fmt;

/// The data of a [`Deployment`] at one instant, node by node.
#[derive(Clone, Debug)]
pub struct DeploymentSnapshot(Vec<(String, Snapshot)>);

impl DeploymentSnapshot {
    /// The data of one node; `None` if no node has this name.
    pub fn node(&self, name: &str) -> Option<&Snapshot> {
        let mut nodes = self.0.iter();
        nodes.find(|(known, _)| known == name).map(|(_, data)| data)
    }

    /// The changes from this snapshot to `other`, as removed (`-`) and added (`+`) lines below the
    /// name of each node that differs. Empty if no node differs.
    pub fn diff(&self, other: &Self) -> String {
        let diffs = self.0.iter().filter_map(|(name, data)| {
            let diff = data.diff(other.node(name)?);
            (!diff.is_empty()).then(|| format!("{name}:\n{diff}"))
        });
        diffs.collect()
    }
}

impl fmt::Display for DeploymentSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut nodes = self.0.iter();
        nodes.try_for_each(|(name, data)| write!(f, "{name}:\n{data}"))
    }
}

/// The index of a server among the locked nodes.
fn index(turn: &mut Turn<'_>, server: &Server) -> Option<usize> {
    let is_it =
        |locked: &LockedNode<'_>| std::ptr::eq(locked.shared, &raw const server.handle.shared);
    turn.nodes().iter().position(is_it)
}

impl Deployment {
    /// Copies the data of all nodes at this instant.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    /// use redouble::Deployment;
    ///
    /// let group = Deployment::replicated(1, 1).await?;
    /// let mut redis = group["master"].connection().await?;
    /// redis.set("stock", 3).await?;
    /// let fixture = group.snapshot();
    /// redis.decr("stock", 1).await?;
    /// assert_eq!(
    ///     fixture.diff(&group.snapshot()),
    ///     "master:\n- 0 \"stock\" = \"3\"\n+ 0 \"stock\" = \"2\"\n\
    ///      replica-1:\n- 0 \"stock\" = \"3\"\n+ 0 \"stock\" = \"2\"\n",
    /// );
    /// group.restore(&fixture);
    /// group["replica-1"].assert_get("stock", "3");
    /// # Ok(()) }
    /// ```
    pub fn snapshot(&self) -> DeploymentSnapshot {
        let nodes = || self.names().zip(self.nodes());
        let Some(first) = self.nodes().next() else {
            return DeploymentSnapshot(Vec::new());
        };
        let data = first.handle.time.pass(|turn| {
            let kept = nodes().map(|(name, server)| {
                let locked = index(turn, server).map(|at| &turn.nodes()[at].node.engine);
                let data = locked.map_or_else(|| server.snapshot(), Snapshot::of);
                (name.to_owned(), data)
            });
            kept.collect()
        });
        DeploymentSnapshot(data)
    }

    /// Restores the data of all nodes at one instant. Roles, slots, clocks and parameters do not
    /// change. A replica with a lag gets its master's data after that lag. Nodes that are not in
    /// the snapshot, or that were shut down, do not change.
    pub fn restore(&self, snapshot: &DeploymentSnapshot) {
        let Some(first) = self.nodes().next() else {
            return;
        };
        first.handle.time.pass(|turn| {
            let now = turn.source.now();
            for (name, server) in self.names().zip(self.nodes()) {
                let Some(data) = snapshot.node(name) else {
                    continue;
                };
                if let Some(at) = index(turn, server) {
                    let locked = &mut turn.nodes()[at];
                    locked
                        .node
                        .change(locked.shared, now, |engine, now| data.put_into(engine, now));
                }
            }
            turn.fire();
        });
    }
}
