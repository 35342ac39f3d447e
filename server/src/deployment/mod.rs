//! Several servers as one object: started together, addressed by name, on one clock. The traffic
//! between them is `topology`'s.

mod cluster;
mod sentinel;
mod snapshot;
mod split;

pub use snapshot::DeploymentSnapshot;
pub use split::{CutLink, Partitioned, Split};

use crate::control::Control;
use crate::engine::Address;
use crate::net::Driver;
use crate::node_handle::Clock;
use crate::server::{Server, ServerBuilder};
use crate::topology::{Lag, Network};
use std::io;
use std::ops::Index;
use std::time::Duration;

/// Several servers in this process that share true time, each with its own clock, faults and
/// inspection; dropping it ends them all.
///
/// | constructor | servers | names |
/// |---|---|---|
/// | [`independent`](Self::independent) | n masters that know nothing of each other | `node-1` to `node-n` |
/// | [`cluster`](Self::cluster) | m masters that share the slots, with r replicas each | `master-1`, `replica-1-1` ... |
/// | [`sentinel`](Self::sentinel) | a master with replicas and sentinels that watch it | `master`, `replica-1` ..., `sentinel-1` ... |
/// | [`replicated`](Self::replicated) | m masters with r replicas each | `master`, `replica-1` ...; with several masters `master-2`, `replica-2-1` ... |
///
/// A lock that a failover gives to two clients, in a few lines:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redouble::{Deployment, Lag};
/// use std::time::Duration;
///
/// let group = Deployment::replicated(1, 1).await?;
/// group.set_lag("replica-1", Lag::Time(Duration::from_secs(1)));
/// let grant = |server| async move {
///     let mut redis = redouble::Server::connection(server).await?;
///     redis::cmd("SET").arg("lock").arg("me").arg("NX").query_async::<bool>(&mut redis).await
/// };
/// assert!(grant(group.node("master")).await?); // acknowledged, and not yet replicated
/// group.promote("replica-1");
/// assert!(grant(group.node("replica-1")).await?); // granted again
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Deployment {
    servers: Vec<(String, Server)>,
    network: Network,
    /// Serves the control port, if there is one.
    control: Option<Server>,
}

/// How the servers of a [`Deployment`] are to be.
#[derive(Clone, Debug, Default)]
pub struct DeploymentBuilder {
    server: ServerBuilder,
    first_port: u16,
    down_after: Option<Duration>,
}

impl DeploymentBuilder {
    /// The settings of every server, but for its port and its seed: each gets a port of its own, and
    /// a seed that follows from the given one and its place.
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

    /// The port of the first server; each gets the one behind its predecessor's. 0, the default, takes
    /// free ones.
    #[must_use]
    pub fn first_port(mut self, port: u16) -> Self {
        self.first_port = port;
        self
    }

    /// Starts so many masters that know nothing of each other, as Redlock wants them.
    ///
    /// # Errors
    /// When a port cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn independent(self, count: usize) -> io::Result<Deployment> {
        let names = (1..=count).map(|number| format!("node-{number}"));
        let deployment = self.start(names.collect()).await?;
        deployment.controlled()
    }

    /// Starts masters, each with so many replicas that hold a copy of what it holds. All of them serve
    /// the ports that ROLE and INFO tell of, except with [`Clock::Tokio`] and
    /// [`Clock::External`], where ports are only names.
    ///
    /// # Errors
    /// When a port cannot be bound.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn replicated(self, masters: usize, replicas: usize) -> io::Result<Deployment> {
        let (names, follows) = line_up(masters, replicas);
        let deployment = self.start(names).await?;
        let deployment = deployment.follow_each(&follows);
        // Clients find the others by what ROLE and INFO say, so all have to be there.
        for server in deployment.nodes().filter(|server| server.has_port()) {
            server.serve()?;
        }
        deployment.controlled()
    }

    /// Makes masters with replicas and leaves the timers of the servers to the caller, who polls all
    /// of them: for simulations with a scheduler of their own.
    ///
    /// # Errors
    /// When a port cannot be bound, or for [`Clock::Tokio`] outside of a runtime.
    pub fn build_replicated(
        self,
        masters: usize,
        replicas: usize,
    ) -> io::Result<(Deployment, Vec<Driver>)> {
        let (names, follows) = line_up(masters, replicas);
        let (deployment, drivers) = self.build(names)?;
        Ok((deployment.follow_each(&follows).controlled()?, drivers))
    }

    #[expect(clippy::unused_async, reason = "makes the compiler ask for a runtime")]
    async fn start(self, names: Vec<String>) -> io::Result<Deployment> {
        let (deployment, drivers) = self.build(names)?;
        for (server, driver) in deployment.nodes().zip(drivers) {
            server.own_driver(driver.spawn());
        }
        Ok(deployment)
    }

    fn build(mut self, names: Vec<String>) -> io::Result<(Deployment, Vec<Driver>)> {
        let network = Network::default();
        let control = self.server.take_control_port()?;
        let mut servers: Vec<(String, Server)> = Vec::with_capacity(names.len());
        let mut drivers = Vec::with_capacity(names.len());
        for (place, name) in names.into_iter().enumerate() {
            let port = match self.first_port {
                0 => 0,
                first => u16::try_from(place)
                    .ok()
                    .and_then(|place| first.checked_add(place))
                    .ok_or_else(|| io::Error::other("there are not so many ports"))?,
            };
            let mut builder = self.server.clone().port(port).seed_of(place);
            if let Some((_, first)) = servers.first() {
                builder = builder.beside(first);
            }
            let (server, driver) = builder.build()?;
            drivers.push(driver);
            let address = Address {
                host: "127.0.0.1".to_owned(),
                port: server.port_or(place),
            };
            network.join(&server.handle, address);
            servers.push((name, server));
        }
        if let Some((_, first)) = servers.first() {
            first.handle.time.connect(Box::new(network.clone()));
        }
        network.introduce();
        let deployment = Deployment {
            servers,
            network,
            control,
        };
        Ok((deployment, drivers))
    }
}

/// The names of masters with replicas, and who follows whom.
fn line_up(masters: usize, replicas: usize) -> (Vec<String>, Vec<(usize, usize)>) {
    let is_alone = masters == 1;
    let mut names = Vec::new();
    let mut follows = Vec::new();
    for master in 1..=masters {
        let place = names.len();
        names.push(if is_alone {
            "master".to_owned()
        } else {
            format!("master-{master}")
        });
        for replica in 1..=replicas {
            follows.push((names.len(), place));
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
    /// When a port cannot be bound.
    pub async fn independent(count: usize) -> io::Result<Self> {
        Self::builder().independent(count).await
    }

    /// [`DeploymentBuilder::replicated`] with default settings.
    ///
    /// # Errors
    /// When a port cannot be bound.
    pub async fn replicated(masters: usize, replicas: usize) -> io::Result<Self> {
        Self::builder().replicated(masters, replicas).await
    }

    /// Makes replicas of servers, by their places: each with its master.
    fn follow_each(self, follows: &[(usize, usize)]) -> Self {
        for &(replica, master) in follows {
            self.network.follow(replica, Some(master));
        }
        self.settle();
        self
    }

    /// From now on `REDOUBLE.*` speaks to all servers, as they are now and follow each other.
    fn controlled(self) -> io::Result<Self> {
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

    /// The names of the servers, in the order in which they were made.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(name, _)| name.as_str())
    }

    /// All servers, in the order in which they were made.
    pub fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().map(|(_, server)| server)
    }

    fn place(&self, name: &str) -> usize {
        let place = self.names().position(|known| known == name);
        place.unwrap_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            panic!("no server is called {name}; there are {}", names.join(", "))
        })
    }

    /// The server of this name.
    ///
    /// # Panics
    /// When there is none.
    pub fn node(&self, name: &str) -> &Server {
        &self.servers[self.place(name)].1
    }

    /// How far a replica is behind from its master's next write on, whoever that is. Not at all
    /// unless set.
    ///
    /// # Panics
    /// When there is no server of this name.
    pub fn set_lag(&self, replica: &str, lag: Lag) {
        self.network.set_lag(self.place(replica), lag);
        self.settle();
    }

    /// Makes a replica a master with what it holds, as `REPLICAOF NO ONE` does. Its former master
    /// is not told and goes on serving: a split brain, until it [follows](Self::follow). In a cluster
    /// everybody else takes the new one for the owner of the slots.
    ///
    /// # Panics
    /// When there is no server of this name.
    pub fn promote(&self, replica: &str) {
        let place = self.place(replica);
        self.network.deafen_master_of(place);
        self.network.follow(place, None);
        self.settle();
    }

    /// Makes a server the replica of another: what it held is lost.
    ///
    /// # Panics
    /// When there is no server of one of these names.
    pub fn follow(&self, replica: &str, master: &str) {
        let (replica, master) = (self.place(replica), self.place(master));
        self.network.follow(replica, Some(master));
        self.settle();
    }

    /// A failover as an operator makes it: the replica becomes the master with what it holds, and
    /// every other replica of its master and that master itself follow it. What had not arrived is lost.
    /// In a cluster the slots go with it, and all nodes know. Nodes that a [split](Self::split) keeps away
    /// from the replica do not hear of it before that is healed.
    ///
    /// # Panics
    /// When there is no server of this name.
    pub fn fail_over_to(&self, replica: &str) {
        let place = self.place(replica);
        if self.network.is_cluster() {
            // There the others follow by themselves.
            self.network.follow(place, None);
        } else {
            self.network.fail_over_to(place);
        }
        self.settle();
    }

    /// Writes that have not arrived at a replica.
    ///
    /// # Panics
    /// When there is no server of this name.
    pub fn in_flight(&self, replica: &str) -> usize {
        self.network.in_flight(self.place(replica))
    }

    /// The clock that all share: to be moved through any of them.
    ///
    /// # Panics
    /// For a deployment of no servers.
    pub fn clock(&self) -> crate::ClockControl<'_> {
        self.servers[0].1.clock()
    }

    /// Does what is due now, on all nodes and between them.
    fn settle(&self) {
        if let Some((_, first)) = self.servers.first() {
            first.handle.time.pass(|turn| turn.fire());
        }
    }
}

impl Index<&str> for Deployment {
    type Output = Server;

    fn index(&self, name: &str) -> &Server {
        self.node(name)
    }
}

impl Index<usize> for Deployment {
    type Output = Server;

    fn index(&self, place: usize) -> &Server {
        &self.servers[place].1
    }
}
