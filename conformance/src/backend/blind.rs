//! A backend without observation of its servers. A run shows no more than on servers that the suite cannot
//! observe.

use super::{Backend, Later, Opened, Servers, Transport};
use crate::{
    scenario::{Fault, Scenario},
    vocabulary::Capability,
};
use redis::RedisConnectionInfo;
use redouble::TimeSource;
use std::{io, sync::Arc, time::Duration};

/// Another backend without observation of its servers, for comparison with a real server.
#[derive(Clone, Copy, Debug)]
pub struct Blind<B>(pub B);

impl<B: Backend> Backend for Blind<B> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn virtual_time(&self) -> bool {
        self.0.virtual_time()
    }

    fn lease_ms(&self) -> Option<u64> {
        self.0.lease_ms()
    }

    fn observes(&self) -> bool {
        false
    }

    fn can(&self, capability: Capability) -> bool {
        self.0.can(capability)
    }

    fn open<'a>(
        &'a self,
        scenario: &'a Scenario,
        time: Arc<dyn TimeSource>,
        epoch: Duration,
    ) -> Later<'a, io::Result<Opened>> {
        Box::pin(async move {
            let Opened { servers, drivers } = self.0.open(scenario, time, epoch).await?;
            let servers = Arc::new(Unseen(servers));
            Ok(Opened { servers, drivers })
        })
    }
}

struct Unseen(Arc<dyn Servers>);

impl Servers for Unseen {
    fn key(&self) -> &str {
        self.0.key()
    }

    fn login(&self) -> &RedisConnectionInfo {
        self.0.login()
    }

    fn dial(&self, node: u8) -> Later<'_, io::Result<Box<dyn Transport>>> {
        self.0.dial(node)
    }

    fn clean_up(&self) -> Later<'_, ()> {
        self.0.clean_up()
    }

    fn master(&self) -> u8 {
        self.0.master()
    }

    fn pauses(&self) -> bool {
        self.0.pauses()
    }

    fn strike(&self, fault: Fault) {
        self.0.strike(fault);
    }

    fn heal(&self, fault: Fault) {
        self.0.heal(fault);
    }

    fn gap(&self) -> Duration {
        self.0.gap()
    }

    fn failure(&self) -> Option<io::Error> {
        self.0.failure()
    }
}
