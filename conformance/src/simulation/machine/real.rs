//! The machine that runs this program, with its own clocks, on which benches measure locks.

use super::{Address, Clocks, Machine};
use crate::simulation::{clock::HostClock, host::Host};
use redis::RedisConnectionInfo;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl Machine {
    /// Makes the machine, with servers at these addresses. Tasks run on the current runtime.
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

    /// Makes a client process.
    pub(crate) fn host(&self, id: u8, seed: u64, lease: Duration) -> Host {
        Host::on_machine(id, seed, lease, self.clone())
    }
}
