//! The data of all nodes of a deployment at one instant: kept, compared, put back.

use super::Deployment;
use crate::inspect::Snapshot;
use crate::node_handle::{LockedNode, Turn};
use crate::server::Server;
use std::fmt;

/// All data of a [`Deployment`] at one instant, node by node.
#[derive(Clone, Debug)]
pub struct DeploymentSnapshot(Vec<(String, Snapshot)>);

impl DeploymentSnapshot {
    /// What one node held; `None` if there is none of this name.
    pub fn node(&self, name: &str) -> Option<&Snapshot> {
        let mut nodes = self.0.iter();
        nodes.find(|(known, _)| known == name).map(|(_, data)| data)
    }

    /// What has to be taken away (`-`) and added (`+`) to come from this one to `other`, behind the name
    /// of each node where anything differs; empty when nothing does.
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
fn place(turn: &mut Turn<'_>, server: &Server) -> Option<usize> {
    let is_it =
        |locked: &LockedNode<'_>| std::ptr::eq(locked.shared, &raw const server.handle.shared);
    turn.nodes().iter().position(is_it)
}

impl Deployment {
    /// Keeps all data of all nodes as they are at this instant.
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
                let seat = place(turn, server).map(|at| &turn.nodes()[at].node.engine);
                let data = seat.map_or_else(|| server.snapshot(), Snapshot::of);
                (name.to_owned(), data)
            });
            kept.collect()
        });
        DeploymentSnapshot(data)
    }

    /// Puts all data of all nodes back, at one instant. Roles, slots, clocks and parameters stay what they
    /// are now; a replica that lags gets what its master holds when its lag is over. Nodes that the
    /// snapshot does not know, or that were shut down, are left alone.
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
                if let Some(at) = place(turn, server) {
                    let seat = &mut turn.nodes()[at];
                    seat.node
                        .change(seat.shared, now, |engine, now| data.put_into(engine, now));
                }
            }
            turn.fire();
        });
    }
}
