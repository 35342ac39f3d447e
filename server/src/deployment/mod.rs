//! Several servers as one object: started together, addressed by name, on one clock. The traffic
//! between them is in `topology`.

mod cluster;
mod sentinel;
mod snapshot;
mod split;

pub use snapshot::DeploymentSnapshot;
pub use split::{CutLink, Partitioned, Split};

use crate::control::Control;
use crate::disk::Loss;
use crate::engine::Address;
use crate::error::StartError;
use crate::inspect::PauseGuard;
use crate::net::Driver;
use crate::node_handle::Clock;
use crate::server::{Server, ServerBuilder};
use crate::topology::{Lag, Network};
use std::fmt;
use std::ops::Index;
use std::time::Duration;

/// Several servers in this process that share true time. Each has its own clock, faults and
/// inspection. Dropping the deployment ends all of them.
///
/// | constructor | servers | names |
/// |---|---|---|
/// | [`independent`](Self::independent) | n masters that know nothing of each other | `node-1` to `node-n` |
/// | [`cluster`](Self::cluster) | m masters that share the slots, with r replicas each | `master-1`, `replica-1-1` ... |
/// | [`cluster_nodes`](Self::cluster_nodes) | n nodes in cluster mode that have not met | `node-1` to `node-n` |
/// | [`sentinel`](Self::sentinel) | a master with replicas and sentinels that watch it | `master`, `replica-1` ..., `sentinel-1` ... |
/// | [`replicated`](Self::replicated) | m masters with r replicas each | `master`, `replica-1` ...; with several masters `master-2`, `replica-2-1` ... |
///
/// A lock that is granted to two clients because of a failover:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redouble::{Deployment, Lag};
/// use std::time::Duration;
///
/// let group = Deployment::replicated(1, 1).await?;
/// group.set_lag("replica-1", Lag::Time(Duration::from_secs(1)));
/// let grant = async |server: &redouble::Server| {
///     let mut redis = server.connection().await?;
///     redis::cmd("SET").arg("lock").arg("me").arg("NX").query_async::<bool>(&mut redis).await
/// };
/// assert!(grant(group.node("master")).await?); // acknowledged, and not yet replicated
/// group.promote("replica-1");
/// assert!(grant(group.node("replica-1")).await?); // granted again
/// # Ok(()) }
/// ```
pub struct Deployment {
    servers: Vec<(String, Server)>,
    network: Network,
    /// The server of the control port, if there is one.
    control: Option<Server>,
}

/// Settings of a [`Deployment`].
#[derive(Clone, Debug, Default)]
pub struct DeploymentBuilder {
    server: ServerBuilder,
    first_port: u16,
    down_after: Option<Duration>,
}

impl DeploymentBuilder {
    /// The settings of every server, except for its port and its seed: each server has a port of
    /// its own, and its seed follows from the given one and its index.
    #[must_use]
    pub fn servers(mut self, server: ServerBuilder) -> Self {
        self.server = server;
        self
    }

    /// The clock that all servers share. [`Clock::System`] unless set.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.server = self.server.clock(clock);
        self
    }

    /// The port of the first server; each server gets the port after its predecessor's. 0, the
    /// default, chooses free ports.
    #[must_use]
    pub fn first_port(mut self, port: u16) -> Self {
        self.first_port = port;
        self
    }

    /// Starts independent masters, as Redlock needs them.
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn independent(self, count: usize) -> Result<Deployment, StartError> {
        let names = (1..=count).map(|number| format!("node-{number}"));
        let deployment = self.start(names.collect()).await?;
        deployment.controlled()
    }

    /// Starts masters, each with this number of replicas. All of them serve the ports that ROLE and
    /// INFO report, except with [`Clock::Tokio`] and [`Clock::External`], where ports are only
    /// names.
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn replicated(
        self,
        masters: usize,
        replicas: usize,
    ) -> Result<Deployment, StartError> {
        let (names, follows) = line_up(masters, replicas);
        let deployment = self.start(names).await?;
        let deployment = deployment.follow_each(&follows);
        // Clients find the other nodes in ROLE and INFO, so all nodes have to serve their ports.
        for server in deployment.nodes().filter(|server| server.has_port()) {
            server.serve()?;
        }
        deployment.controlled()
    }

    /// Creates masters with replicas, and leaves the timers of the servers to the caller, who must
    /// poll all of them. For simulations with a scheduler of their own.
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound; [`StartError::NoRuntime`] for [`Clock::Tokio`] outside
    /// of a runtime.
    pub fn build_replicated(
        self,
        masters: usize,
        replicas: usize,
    ) -> Result<(Deployment, Vec<Driver>), StartError> {
        let (names, follows) = line_up(masters, replicas);
        let (deployment, drivers) = self.build(names)?;
        Ok((deployment.follow_each(&follows).controlled()?, drivers))
    }

    #[expect(clippy::unused_async, reason = "makes the compiler ask for a runtime")]
    async fn start(self, names: Vec<String>) -> Result<Deployment, StartError> {
        let (deployment, drivers) = self.build(names)?;
        for (server, driver) in deployment.nodes().zip(drivers) {
            server.own_driver(driver.spawn());
        }
        Ok(deployment)
    }

    fn build(mut self, names: Vec<String>) -> Result<(Deployment, Vec<Driver>), StartError> {
        let network = Network::default();
        let control = self.server.take_control_port()?;
        let mut servers: Vec<(String, Server)> = Vec::with_capacity(names.len());
        let mut drivers = Vec::with_capacity(names.len());
        let count = names.len();
        for (index, name) in names.into_iter().enumerate() {
            let port = match self.first_port {
                0 => 0,
                first => u16::try_from(index)
                    .ok()
                    .and_then(|index| first.checked_add(index))
                    .ok_or(StartError::TooFewPorts {
                        first,
                        servers: count,
                    })?,
            };
            let mut builder = self.server.clone().port(port).seed_of(index);
            if let Some((_, first)) = servers.first() {
                builder = builder.beside(first);
            }
            let (server, driver) = builder.build()?;
            drivers.push(driver);
            let address = Address {
                host: "127.0.0.1".to_owned(),
                port: server.port_or(index),
            };
            network.join(&server.handle, address);
            servers.push((name, server));
        }
        if let Some((_, first)) = servers.first() {
            first.handle.time.connect(Box::new(network.clone()));
        }
        network.announce_addresses();
        let deployment = Deployment {
            servers,
            network,
            control,
        };
        Ok((deployment, drivers))
    }
}

/// The names of masters with replicas, and the index of each replica with that of its master.
fn line_up(masters: usize, replicas: usize) -> (Vec<String>, Vec<(usize, usize)>) {
    let is_alone = masters == 1;
    let mut names = Vec::new();
    let mut follows = Vec::new();
    for master in 1..=masters {
        let index = names.len();
        names.push(if is_alone {
            "master".to_owned()
        } else {
            format!("master-{master}")
        });
        for replica in 1..=replicas {
            follows.push((names.len(), index));
            names.push(if is_alone {
                format!("replica-{replica}")
            } else {
                format!("replica-{master}-{replica}")
            });
        }
    }
    (names, follows)
}

impl Deployment {
    /// A deployment with other settings.
    pub fn builder() -> DeploymentBuilder {
        DeploymentBuilder::default()
    }

    /// [`DeploymentBuilder::independent`] with default settings.
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    pub async fn independent(count: usize) -> Result<Self, StartError> {
        Self::builder().independent(count).await
    }

    /// [`DeploymentBuilder::replicated`] with default settings.
    ///
    /// # Errors
    /// A [`StartError`] if a port cannot be bound.
    pub async fn replicated(masters: usize, replicas: usize) -> Result<Self, StartError> {
        Self::builder().replicated(masters, replicas).await
    }

    /// Makes servers the replicas of others, by index.
    fn follow_each(self, follows: &[(usize, usize)]) -> Self {
        for &(replica, master) in follows {
            self.network.follow(replica, Some(master));
        }
        self.settle();
        self
    }

    /// Enables `REDOUBLE.*` for all servers, with their current names and roles.
    fn controlled(self) -> Result<Self, StartError> {
        let nodes = self.servers.iter();
        let nodes = nodes.map(|(name, server)| (name.as_str(), &server.handle));
        let control = Control::of(nodes, &self.network);
        self.nodes()
            .for_each(|server| server.handle.set_control(control.clone()));
        if let Some(server) = &self.control {
            server.handle.set_control(control.clone());
            server.serve()?;
        }
        Ok(self)
    }

    /// The URL of the control port ([`ServerBuilder::control_port`]), if there is one.
    pub fn control_url(&self) -> Option<String> {
        self.control.as_ref().map(Server::url)
    }

    /// The names of the servers, in the order in which they were created.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(name, _)| name.as_str())
    }

    /// All servers, in the order in which they were created.
    pub fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().map(|(_, server)| server)
    }

    #[track_caller]
    fn index(&self, name: &str) -> usize {
        let Some(index) = self.names().position(|known| known == name) else {
            let names: Vec<&str> = self.names().collect();
            panic!(
                "unknown server {name}, expected one of {}",
                names.join(", ")
            )
        };
        index
    }

    /// The server of this name.
    ///
    /// # Panics
    /// If no server has this name.
    #[track_caller]
    pub fn node(&self, name: &str) -> &Server {
        &self.servers[self.index(name)].1
    }

    /// Sets how far a replica is behind, from the next write of its master on. The lag stays when
    /// the replica follows another master. No lag unless set.
    ///
    /// # Panics
    /// If no server has this name.
    #[track_caller]
    pub fn set_lag(&self, replica: &str, lag: Lag) {
        self.network.set_lag(self.index(replica), lag);
        self.settle();
    }

    /// Makes a replica a master with the data it has, as `REPLICAOF NO ONE` does. Its former master
    /// does not learn of it and goes on serving: a split brain, until it [follows](Self::follow)
    /// the new one. In a cluster all other nodes take the new master for the owner of the slots.
    ///
    /// # Panics
    /// If no server has this name.
    #[track_caller]
    pub fn promote(&self, replica: &str) {
        let index = self.index(replica);
        self.network.exclude_master_of(index);
        self.network.follow(index, None);
        self.settle();
    }

    /// Makes a server the replica of another. Its own data is lost.
    ///
    /// # Panics
    /// If no server has one of these names.
    #[track_caller]
    pub fn follow(&self, replica: &str, master: &str) {
        let (replica, master) = (self.index(replica), self.index(master));
        self.network.follow(replica, Some(master));
        self.settle();
    }

    /// Fails over as an operator does: the replica becomes the master with the data it has, and its
    /// former master and the other replicas follow it. Writes that have not arrived are lost. In a
    /// cluster the slots move with it, and all nodes learn of it. Nodes that a [split](Self::split)
    /// separates from the replica learn of it when the split is healed.
    ///
    /// # Panics
    /// If no server has this name.
    #[track_caller]
    pub fn fail_over_to(&self, replica: &str) {
        let index = self.index(replica);
        if self.network.is_cluster() {
            // In a cluster the other nodes follow by themselves.
            self.network.follow(index, None);
        } else {
            self.network.fail_over_to(index);
        }
        self.settle();
    }

    /// Kills a server: [`Server::crash`] with the loss that its
    /// [`Persistence`](crate::Persistence) implies. Clients, replicas and sentinels notice.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redouble::Deployment;
    ///
    /// let group = Deployment::replicated(1, 1).await?;
    /// group["master"].set("lock", "first");
    /// group.crash("master");
    /// assert!(group["master"].connection().await.is_err());
    /// group["replica-1"].assert_get("lock", "first");
    /// group.restart("master");
    /// group["master"].assert_missing("lock"); // without persistence its data is lost
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// If no server has this name.
    #[track_caller]
    pub fn crash(&self, name: &str) {
        self.node(name).crash(Loss::AsConfigured);
    }

    /// Starts a server again that has crashed: [`Server::restart`].
    ///
    /// # Panics
    /// If no server has this name.
    #[track_caller]
    pub fn restart(&self, name: &str) {
        self.node(name).restart();
    }

    /// Stops a server from serving its clients until the guard is dropped: [`Server::pause`].
    ///
    /// # Panics
    /// If no server has this name.
    #[track_caller]
    pub fn pause(&self, name: &str) -> PauseGuard {
        self.node(name).pause()
    }

    /// Number of writes on their way to a replica.
    ///
    /// # Panics
    /// If no server has this name.
    #[track_caller]
    pub fn in_flight(&self, replica: &str) -> usize {
        self.network.in_flight(self.index(replica))
    }

    /// The clock that all servers share.
    ///
    /// # Panics
    /// If the deployment has no servers.
    #[track_caller]
    pub fn clock(&self) -> crate::ClockControl<'_> {
        self.servers[0].1.clock()
    }

    /// Handles all deadlines up to now, on all nodes and between them.
    fn settle(&self) {
        if let Some((_, first)) = self.servers.first() {
            first.handle.time.pass(|turn| turn.fire());
        }
    }
}

/// The name of each server and what its own `{:?}` prints.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redouble::{Clock, Deployment};
///
/// let group = Deployment::builder().clock(Clock::Tokio).replicated(1, 1).await?;
/// let text = format!("{group:?}");
/// assert!(text.starts_with("Deployment { master: Server { clock: tokio 1704067200"), "{text}");
/// assert!(text.contains(" replica-1: Server { ") && text.len() < 250, "{text}");
/// # Ok(()) }
/// ```
impl fmt::Debug for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Deployment");
        for (name, server) in self.names().zip(self.nodes()) {
            text.field(name, server);
        }
        text.finish()
    }
}

impl Index<&str> for Deployment {
    type Output = Server;

    #[track_caller]
    fn index(&self, name: &str) -> &Server {
        self.node(name)
    }
}

impl Index<usize> for Deployment {
    type Output = Server;

    #[track_caller]
    fn index(&self, index: usize) -> &Server {
        &self.servers[index].1
    }
}
