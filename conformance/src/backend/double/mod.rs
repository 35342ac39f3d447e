//! The embedded double: in process, in virtual time, observed after each of its steps.

mod group;
mod node;

use super::{Backend, Later, Opened, Servers, Transport, View};
use crate::{
    scenario::{Fault, Scenario},
    vocabulary::{Capability, Topology},
};
use group::Group;
use node::DoubleNode;
use redis::RedisConnectionInfo;
use redouble::{Clock, Profile, Server, ServerBuilder, TimeSource};
use std::{
    io,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// Fresh doubles for every run. They answer as Redis 7.0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Double;

/// Fresh doubles that answer as the server of a profile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoubleOf(pub(crate) Profile);

/// Names of locks, used in turn. They cover the cases of hash tags, from which the names of further keys are
/// derived: none, one, empty braces, a closing brace alone.
const KEYS: [&str; 4] = ["lock", "{lock}", "{}lock", "lo}ck"];

impl Backend for Double {
    fn name(&self) -> String {
        "double".to_owned()
    }

    fn virtual_time(&self) -> bool {
        true
    }

    fn lease_ms(&self) -> Option<u64> {
        None
    }

    fn can(&self, _: Capability) -> bool {
        true
    }

    fn open<'a>(
        &'a self,
        scenario: &'a Scenario,
        time: Arc<dyn TimeSource>,
        epoch: Duration,
    ) -> Later<'a, io::Result<Opened>> {
        let server = builder(time, epoch);
        Box::pin(async move { open(server, scenario) })
    }
}

impl Backend for DoubleOf {
    fn name(&self) -> String {
        format!("double, as {}", self.0)
    }

    fn virtual_time(&self) -> bool {
        Double.virtual_time()
    }

    fn lease_ms(&self) -> Option<u64> {
        Double.lease_ms()
    }

    fn can(&self, capability: Capability) -> bool {
        Double.can(capability)
    }

    fn open<'a>(
        &'a self,
        scenario: &'a Scenario,
        time: Arc<dyn TimeSource>,
        epoch: Duration,
    ) -> Later<'a, io::Result<Opened>> {
        let server = builder(time, epoch).compat(self.0);
        Box::pin(async move { open(server, scenario) })
    }
}

fn builder(time: Arc<dyn TimeSource>, epoch: Duration) -> ServerBuilder {
    Server::builder()
        .clock(Clock::External(time))
        .starting_at(UNIX_EPOCH + epoch)
}

/// Starts the servers of a scenario.
fn open(server: ServerBuilder, scenario: &Scenario) -> io::Result<Opened> {
    let (seed, topology) = (scenario.seed, scenario.topology);
    let login = RedisConnectionInfo::default().set_skip_set_lib_name();
    let (group, drivers) = match topology {
        Topology::Nodes(count) => independent(&server, scenario, count.max(1))?,
        Topology::Replicated { replicas } => {
            Group::replicated(server.seed(seed), replicas, scenario.lease())?
        }
    };
    Ok(Opened {
        servers: Arc::new(Doubles {
            group,
            login,
            key: KEYS[(seed % KEYS.len() as u64) as usize],
        }),
        drivers,
    })
}

/// Starts independent servers that share the time source.
fn independent(
    server: &ServerBuilder,
    scenario: &Scenario,
    count: u8,
) -> io::Result<(Group, Vec<Later<'static, ()>>)> {
    let mut nodes = Vec::with_capacity(usize::from(count));
    let mut drivers: Vec<Later<'static, ()>> = Vec::with_capacity(usize::from(count));
    for place in 0..count {
        let seed = scenario.seed.wrapping_add(u64::from(place) << 56);
        let (server, driver) = server.clone().seed(seed).build()?;
        nodes.push(server);
        drivers.push(Box::pin(driver));
    }
    Ok((Group::independent(nodes, scenario.lease()), drivers))
}

struct Doubles {
    group: Group,
    login: RedisConnectionInfo,
    key: &'static str,
}

impl Doubles {
    fn node(&self, node: u8) -> Option<&DoubleNode> {
        self.group.nodes.get(usize::from(node))
    }
}

impl Servers for Doubles {
    fn key(&self) -> &str {
        self.key
    }

    fn login(&self) -> &RedisConnectionInfo {
        &self.login
    }

    fn dial(&self, node: u8) -> Later<'_, io::Result<Box<dyn Transport>>> {
        Box::pin(std::future::ready(match self.group.server(node) {
            Some(server) => Ok(Box::new(server.connect()) as Box<dyn Transport>),
            None => Err(io::ErrorKind::AddrNotAvailable.into()),
        }))
    }

    fn observes(&self) -> bool {
        true
    }

    fn view(&self, node: u8) -> Option<&dyn View> {
        self.node(node).map(|node| node as &dyn View)
    }

    fn master(&self) -> u8 {
        self.group.master()
    }

    fn strike(&self, fault: Fault) {
        match fault.node() {
            Some(node) => {
                if let Some(node) = self.node(node) {
                    node.strike(fault, self.key);
                }
            }
            None => self.group.strike(fault),
        }
    }

    fn heal(&self, fault: Fault) {
        match fault.node() {
            Some(node) => {
                if let Some(node) = self.node(node) {
                    node.heal(fault);
                }
            }
            None => self.group.heal(fault),
        }
    }
}
