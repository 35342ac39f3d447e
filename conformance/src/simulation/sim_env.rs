//! The environment of a scenario's client processes: clocks, links, the scheduler.

use super::{
    clock::{HostClock, WallClock},
    network::Network,
    port::Port,
    recorder::Recorder,
    scheduler::{Spawner, TaskOwner},
    stream::ClientEnd,
    true_time::Sleep,
};
use std::{io, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Environment of one client process.
pub(super) struct SimEnv {
    pub(super) clock: HostClock,
    pub(super) wall: WallClock,
    pub(super) network: Arc<Network>,
    pub(super) recorder: Recorder,
    pub(super) spawner: Spawner,
}

impl SimEnv {
    pub(super) fn now(&self) -> Duration {
        self.clock.local(self.recorder.now())
    }

    pub(super) fn wall_clock(&self) -> Duration {
        self.wall.at(self.recorder.now())
    }

    /// Converts an instant of tokio's to the process's clock, if true time follows tokio's clock.
    pub(super) fn time_of(&self, instant: Instant) -> Option<Duration> {
        let at = self.recorder.time_of(instant)?;
        Some(self.clock.local(at))
    }

    /// Completes when the process's clock shows `local`.
    pub(super) fn sleep_until(&self, local: Duration) -> Sleep {
        self.recorder.sleep_until(self.clock.true_time(local))
    }

    /// Makes a link from a process to a server.
    pub(super) async fn wire(&self, host: u8, node: u8) -> io::Result<ClientEnd> {
        let recorder = self.recorder.clone();
        let (end, link) = self.network.lay(host, node, recorder).await?;
        self.spawner.spawn(TaskOwner::Link(host), Box::pin(link));
        Ok(end)
    }

    /// Opens a port on the machine that leads to a server over the links of a process.
    pub(super) async fn port_to(&self, host: u8, node: u8) -> io::Result<Port> {
        let (network, recorder) = (Arc::clone(&self.network), self.recorder.clone());
        Port::open(host, node, network, recorder, &self.spawner).await
    }
}
