//! Deployments that are a cluster: how they are started, and how a test moves slots.

use super::{Deployment, DeploymentBuilder};
use crate::engine::{SLOTS, slot_of};
use crate::error::StartError;
use crate::topology::ClusterTask;
use std::time::Duration;

impl DeploymentBuilder {
    /// Starts a cluster of masters, each with this number of replicas: [`Deployment::cluster`]. The
    /// masters share the slots as `redis-cli --cluster create` divides them.
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or without masters.
    pub async fn cluster(
        mut self,
        masters: usize,
        replicas: usize,
    ) -> Result<Deployment, StartError> {
        assert!(masters > 0, "a cluster needs a master");
        // Masters have the first ports, as `redis-cli --cluster create` chooses them.
        let mut names: Vec<String> = (1..=masters)
            .map(|master| format!("master-{master}"))
            .collect();
        let places: Vec<usize> = (0..masters).collect();
        let mut follows = Vec::new();
        for master in 0..masters {
            for replica in 1..=replicas {
                follows.push((names.len(), master));
                names.push(format!("replica-{}-{replica}", master + 1));
            }
        }
        self.server = self.server.configure(|config| {
            config.cluster_enabled = true;
        });
        let deployment = self.start(names).await?;
        deployment.network.join_into_cluster(&places);
        for (replica, master) in follows {
            deployment.network.follow(replica, Some(master));
        }
        deployment.settle();
        // Replies redirect clients to any node, so all nodes have to serve their ports.
        for server in deployment.nodes().filter(|server| server.has_port()) {
            server.serve()?;
        }
        deployment.controlled()
    }

    /// Starts nodes in cluster mode that have no slots and have not met: [`Deployment::cluster_nodes`].
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or without nodes.
    pub async fn cluster_nodes(mut self, count: usize) -> Result<Deployment, StartError> {
        assert!(count > 0, "a cluster needs a node");
        let names = (1..=count).map(|number| format!("node-{number}"));
        self.server = self.server.configure(|config| {
            config.cluster_enabled = true;
        });
        let deployment = self.start(names.collect()).await?;
        deployment.network.prepare_for_cluster();
        for server in deployment.nodes().filter(|server| server.has_port()) {
            server.serve()?;
        }
        deployment.controlled()
    }
}

/// Clusters.
impl Deployment {
    /// [`DeploymentBuilder::cluster`] with default settings: masters with this number of replicas
    /// each, on ports of their own, which cluster clients discover from any node. There is no
    /// cluster bus: nodes learn at once what they would learn over it. With
    /// [`Clock::Tokio`](crate::Clock::Tokio) the ports are only names, and clients connect in
    /// process.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    /// use redouble::Deployment;
    ///
    /// let cluster = Deployment::cluster(3, 1).await?;
    /// let slot = Deployment::slot_of("lock");
    /// let owner = cluster.owner_of(slot).expect("every slot has one");
    /// let mut redis = cluster[owner].connection().await?;
    /// redis.set("lock", "mine").await?;
    ///
    /// // The slot moves key by key. The old owner redirects requests for keys that have moved.
    /// cluster.begin_migration(slot, "master-1");
    /// assert!(cluster.migrate_key("lock"));
    /// assert_eq!(redis.get("lock").await.unwrap_err().code(), Some("ASK"));
    /// cluster.finish_migration(slot);
    /// assert_eq!(redis.get("lock").await.unwrap_err().code(), Some("MOVED"));
    ///
    /// // A failover moves all slots of a master to its replica.
    /// cluster.fail_over_to("replica-1-1");
    /// assert_eq!(cluster.owner_of(slot), Some("replica-1-1"));
    /// cluster["replica-1-1"].assert_get("lock", "mine");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    pub async fn cluster(masters: usize, replicas: usize) -> Result<Self, StartError> {
        Self::builder().cluster(masters, replicas).await
    }

    /// [`DeploymentBuilder::cluster_nodes`] with default settings: nodes in cluster mode, `node-1` to `node-n`, that
    /// become a cluster by CLUSTER MEET, ADDSLOTS and REPLICATE, or by `redis-cli --cluster create`. For code under
    /// test that builds its own cluster.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redouble::Deployment;
    ///
    /// let nodes = Deployment::cluster_nodes(2).await?;
    /// nodes[0].command(["CLUSTER", "ADDSLOTSRANGE", "0", "16383"])?;
    /// let port = nodes[1].listen()?.port().to_string();
    /// nodes[0].command(["CLUSTER", "MEET", "127.0.0.1", &port])?;
    /// let id = nodes[0].command(["CLUSTER", "MYID"])?.to_string();
    /// nodes[1].command(["CLUSTER", "REPLICATE", &id])?;
    /// nodes[0].set("lock", "mine");
    /// nodes[1].assert_get("lock", "mine");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    pub async fn cluster_nodes(count: usize) -> Result<Self, StartError> {
        Self::builder().cluster_nodes(count).await
    }

    /// The slot of a key or of a sharded channel.
    pub fn slot_of(key: impl AsRef<[u8]>) -> u16 {
        slot_of(key.as_ref())
    }

    /// The name of the node that owns a slot; `None` if no node does. During a
    /// [split](Self::split), this is the view of the side with most of the masters, or else of the
    /// side of the first node.
    ///
    /// # Panics
    /// If this is no cluster, or there is no such slot.
    pub fn owner_of(&self, slot: u16) -> Option<&str> {
        check(slot);
        self.assert_cluster();
        let owner = self.network.owner_of(slot)?;
        self.names().nth(owner)
    }

    /// The index of a master.
    fn master(&self, name: &str) -> usize {
        let index = self.index(name);
        self.assert_cluster();
        assert!(!self.network.is_replica(index), "{name} is a replica");
        index
    }

    /// The owner of a slot in the map of the node that the slot is to move to.
    fn reachable_owner(&self, slot: u16, to: usize) -> Option<usize> {
        let (owner, is_reachable) = self.network.owner_as_known_to(to, slot);
        assert!(
            is_reachable,
            "a split separates the owner of slot {slot} from that node"
        );
        owner
    }

    fn assert_cluster(&self) {
        assert!(self.network.is_cluster(), "this deployment is no cluster");
    }

    fn run(&self, task: ClusterTask) {
        self.network.run(task);
        self.settle();
    }

    /// Gives a slot to another master, with all its keys, at one instant. Clients learn of it by
    /// MOVED.
    ///
    /// # Panics
    /// If this is no cluster, if there is no such slot or no such master, or if a
    /// [split](Self::split) separates the masters.
    pub fn move_slot(&self, slot: u16, to: &str) {
        check(slot);
        let to = self.master(to);
        self.reachable_owner(slot, to);
        self.run(ClusterTask::Move { slot, to });
    }

    /// Starts the migration of a slot, as CLUSTER SETSLOT does on both nodes. The owner then
    /// answers ASK for keys that it does not have, and TRYAGAIN if it has only some of them.
    ///
    /// # Panics
    /// If this is no cluster, if there is no such slot or no such master, if that master owns the
    /// slot already, or if a [split](Self::split) separates the masters.
    pub fn begin_migration(&self, slot: u16, to: &str) {
        check(slot);
        let index = self.master(to);
        let owner = self.reachable_owner(slot, index);
        assert_ne!(owner, Some(index), "that node owns slot {slot} already");
        self.run(ClusterTask::Begin { slot, to: index });
    }

    /// Moves one key of a slot in migration, as MIGRATE does. Returns false if there is no such
    /// key, or if a split separates the masters.
    ///
    /// # Panics
    /// If this is no cluster.
    pub fn migrate_key(&self, key: impl AsRef<[u8]>) -> bool {
        let key = key.as_ref();
        let owner = self.owner_of(slot_of(key));
        let is_there = owner.is_some_and(|owner| self.node(owner).exists(key));
        self.run(ClusterTask::Key { key: key.to_vec() });
        is_there && !owner.is_some_and(|owner| self.node(owner).exists(key))
    }

    /// Completes the migration of a slot: the remaining keys move, and all nodes learn the new
    /// owner. Does nothing if the slot is not in migration, or if a split separates the masters.
    ///
    /// # Panics
    /// If this is no cluster, or there is no such slot.
    pub fn finish_migration(&self, slot: u16) {
        check(slot);
        self.assert_cluster();
        self.run(ClusterTask::Finish { slot });
    }

    /// Cancels the migration of a slot: keys that have moved come back. Does nothing if a split
    /// separates the masters.
    ///
    /// # Panics
    /// If this is no cluster, or there is no such slot.
    pub fn cancel_migration(&self, slot: u16) {
        check(slot);
        self.assert_cluster();
        self.run(ClusterTask::Cancel { slot });
    }

    /// Sets the time (true time) after which the other nodes of a cluster notice a crash or a
    /// [split](Self::split); zero unless set. From then on they answer CLUSTERDOWN if the node has
    /// slots and all slots are required (`cluster-require-full-coverage`), until the node is back
    /// or was [failed over](Self::fail_over_to). There are no automatic failovers.
    ///
    /// # Panics
    /// If this is no cluster.
    pub fn set_failure_noticed_after(&self, time: Duration) {
        self.assert_cluster();
        self.network.set_failure_noticed_after(time);
    }
}

fn check(slot: u16) {
    assert!(
        slot < SLOTS,
        "slot {slot} is out of range: there are {SLOTS} slots"
    );
}
