//! Deployments that are a cluster: how they are started, and how a test moves slots.

use super::{Deployment, DeploymentBuilder};
use crate::engine::{SLOTS, slot_of};
use crate::topology::ClusterTask;
use std::io;
use std::time::Duration;

impl DeploymentBuilder {
    /// Starts a cluster of masters that share the slots as `redis-cli --cluster create` deals them
    /// out, each with so many replicas: [`Deployment::cluster`].
    ///
    /// # Errors
    /// When a port cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or without masters.
    pub async fn cluster(mut self, masters: usize, replicas: usize) -> io::Result<Deployment> {
        assert!(masters > 0, "a cluster needs a master");
        let mut names = Vec::new();
        let mut places = Vec::new();
        let mut follows = Vec::new();
        for master in 1..=masters {
            let place = names.len();
            places.push(place);
            names.push(format!("master-{master}"));
            for replica in 1..=replicas {
                follows.push((names.len(), place));
                names.push(format!("replica-{master}-{replica}"));
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
        // Clients are sent to all of them, so all have to be there.
        for server in deployment.nodes().filter(|server| server.has_port()) {
            server.serve()?;
        }
        deployment.controlled()
    }
}

/// Clusters.
impl Deployment {
    /// [`DeploymentBuilder::cluster`] with default settings: so many masters with so many replicas
    /// each, on ports of their own, which cluster clients find from any of them. Nodes know at once
    /// what they would tell each other over the cluster bus, which there is none of. With
    /// [`Clock::Tokio`](crate::Clock::Tokio) the ports are only names: clients come in process.
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
    /// // The slot goes elsewhere, key by key; who asks here for what has gone is sent after it.
    /// cluster.begin_migration(slot, "master-1");
    /// assert!(cluster.migrate_key("lock"));
    /// assert_eq!(redis.get("lock").await.unwrap_err().code(), Some("ASK"));
    /// cluster.finish_migration(slot);
    /// assert_eq!(redis.get("lock").await.unwrap_err().code(), Some("MOVED"));
    ///
    /// // And everything of that master to its replica.
    /// cluster.fail_over_to("replica-1-1");
    /// assert_eq!(cluster.owner_of(slot), Some("replica-1-1"));
    /// cluster["replica-1-1"].assert_get("lock", "mine");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// When a port cannot be bound.
    pub async fn cluster(masters: usize, replicas: usize) -> io::Result<Self> {
        Self::builder().cluster(masters, replicas).await
    }

    /// The slot of a key or of a sharded channel.
    pub fn slot_of(key: impl AsRef<[u8]>) -> u16 {
        slot_of(key.as_ref())
    }

    /// The name of the node that answers for a slot; `None` when there is none. While the network is
    /// [split](Self::split), as the side knows it that has most of the masters, or else the side of the first
    /// node.
    ///
    /// # Panics
    /// When this is no cluster, or there is no such slot.
    pub fn owner_of(&self, slot: u16) -> Option<&str> {
        check(slot);
        self.assert_cluster();
        let owner = self.network.owner_of(slot)?;
        self.names().nth(owner)
    }

    /// The place of a node that slots may go to.
    fn master(&self, name: &str) -> usize {
        let place = self.place(name);
        self.assert_cluster();
        assert!(!self.network.is_replica(place), "{name} is a replica");
        place
    }

    /// The owner of a slot in the map of the node that the slot is to move to.
    fn reachable_owner(&self, slot: u16, to: usize) -> Option<usize> {
        let (owner, is_reachable) = self.network.owner_as_known_to(to, slot);
        assert!(is_reachable, "a split keeps slot {slot} from going there");
        owner
    }

    fn assert_cluster(&self) {
        assert!(self.network.is_cluster(), "this deployment is no cluster");
    }

    fn run(&self, task: ClusterTask) {
        self.network.run(task);
        self.settle();
    }

    /// Gives a slot to another master, with all its keys, at one instant. Clients hear of it by MOVED.
    ///
    /// # Panics
    /// When this is no cluster, when there is no such slot or no such master, or when a
    /// [split](Self::split) lies between the masters.
    pub fn move_slot(&self, slot: u16, to: &str) {
        check(slot);
        let to = self.master(to);
        self.reachable_owner(slot, to);
        self.run(ClusterTask::Move { slot, to });
    }

    /// Begins to move a slot, as CLUSTER SETSLOT does on both ends: its owner answers ASK for keys
    /// that are not there, and TRYAGAIN where only some are.
    ///
    /// # Panics
    /// When this is no cluster, when there is no such slot or no such master, when the slot is there
    /// already, or when a [split](Self::split) lies between the masters.
    pub fn begin_migration(&self, slot: u16, to: &str) {
        check(slot);
        let place = self.master(to);
        let owner = self.reachable_owner(slot, place);
        assert_ne!(owner, Some(place), "slot {slot} is there already");
        self.run(ClusterTask::Begin { slot, to: place });
    }

    /// Moves one key of a slot that is on its way, as MIGRATE does; false if it was not there, or if a
    /// split lies between.
    ///
    /// # Panics
    /// When this is no cluster.
    pub fn migrate_key(&self, key: impl AsRef<[u8]>) -> bool {
        let key = key.as_ref();
        let owner = self.owner_of(slot_of(key));
        let is_there = owner.is_some_and(|owner| self.node(owner).exists(key));
        self.run(ClusterTask::Key { key: key.to_vec() });
        is_there && !owner.is_some_and(|owner| self.node(owner).exists(key))
    }

    /// Ends the moving of a slot: what is left of its keys goes too, and all nodes know where it is.
    /// Does nothing for one that is not on its way, or while a split lies between.
    ///
    /// # Panics
    /// When this is no cluster, or there is no such slot.
    pub fn finish_migration(&self, slot: u16) {
        check(slot);
        self.assert_cluster();
        self.run(ClusterTask::Finish { slot });
    }

    /// Gives up the moving of a slot: what had gone comes back. Does nothing while a split lies between.
    ///
    /// # Panics
    /// When this is no cluster, or there is no such slot.
    pub fn cancel_migration(&self, slot: u16) {
        check(slot);
        self.assert_cluster();
        self.run(ClusterTask::Cancel { slot });
    }

    /// How long after a crash, or a [split](Self::split), the other nodes of a cluster know of it (of
    /// true time): at once unless set. From then on they answer CLUSTERDOWN if it has slots and all slots are required
    /// (`cluster-require-full-coverage`), until it is back or was [failed
    /// over](Self::fail_over_to), which nobody does by himself.
    ///
    /// # Panics
    /// When this is no cluster.
    pub fn set_failure_noticed_after(&self, time: Duration) {
        self.assert_cluster();
        self.network.set_failure_noticed_after(time);
    }
}

fn check(slot: u16) {
    assert!(
        slot < SLOTS,
        "there are {SLOTS} slots, none of number {slot}"
    );
}
