//! The machine that this program runs on, with its own clocks: locks are measured there.

use super::{Address, Clocks, Machine};
use crate::simulation::{clock::HostClock, host::Host};
use redis::RedisConnectionInfo;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl Machine {
    /// The machine with servers at these addresses. Tasks run on the runtime in which this is called.
    pub(crate) fn new(servers: Vec<(String, u16)>, login: RedisConnectionInfo) -> Self {
        let servers = servers.into_iter();
        let servers = servers.map(|(host, port)| Address::Tcp(host, port));
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let clocks = Clocks {
            local: HostClock::ORIGIN,
            wall: wall.unwrap_or_default(),
        };
        Self::with(clocks, servers.collect(), login)
    }

    /// A client process.
    pub(crate) fn host(&self, id: u8, seed: u64, lease: Duration) -> Host {
        Host::on_machine(id, seed, lease, self.clone())
    }
}
