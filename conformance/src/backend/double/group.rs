//! The doubles of a run: independent ones, or a master with replicas that can take over.

use super::node::{DoubleNode, Holds};
use crate::{backend::Later, scenario::Fault};
use redouble::{Deployment, Lag, Loss, Server, ServerBuilder};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

pub(super) struct Group {
    pub(super) nodes: Vec<DoubleNode>,
    /// Replication, if there are replicas.
    replication: Option<Arc<Deployment>>,
    master: AtomicU8,
}

impl Holds for Vec<Server> {
    fn server(&self, place: usize) -> &Server {
        &self[place]
    }
}

impl Holds for Deployment {
    fn server(&self, place: usize) -> &Server {
        &self[place]
    }
}

impl Group {
    pub(super) fn independent(servers: Vec<Server>, lease: Duration) -> Self {
        let count = servers.len();
        let holder: Arc<dyn Holds> = Arc::new(servers);
        Self::of(&holder, count, lease, None)
    }

    pub(super) fn replicated(
        server: ServerBuilder,
        replicas: u8,
        lease: Duration,
    ) -> io::Result<(Self, Vec<Later<'static, ()>>)> {
        let builder = Deployment::builder().servers(server);
        let (deployment, drivers) = builder.build_replicated(1, usize::from(replicas))?;
        let deployment = Arc::new(deployment);
        let holder: Arc<dyn Holds> = Arc::clone(&deployment) as Arc<dyn Holds>;
        let count = 1 + usize::from(replicas);
        let group = Self::of(&holder, count, lease, Some(deployment));
        let drivers = drivers
            .into_iter()
            .map(|driver| Box::pin(driver) as Later<'static, ()>);
        Ok((group, drivers.collect()))
    }

    fn of(
        holder: &Arc<dyn Holds>,
        count: usize,
        lease: Duration,
        replication: Option<Arc<Deployment>>,
    ) -> Self {
        let node = |place| DoubleNode::new(Arc::clone(holder), place, lease);
        Self {
            nodes: (0..count).map(node).collect(),
            replication,
            master: AtomicU8::new(0),
        }
    }

    pub(super) fn server(&self, node: u8) -> Option<&Server> {
        self.nodes.get(usize::from(node)).map(DoubleNode::server)
    }

    pub(super) fn master(&self) -> u8 {
        self.master.load(Ordering::Relaxed)
    }

    /// Returns the next replica to become master.
    fn heir(&self) -> u8 {
        (self.master() + 1) % u8::try_from(self.nodes.len()).unwrap_or(u8::MAX)
    }

    pub(super) fn strike(&self, fault: Fault) {
        let Some(deployment) = &self.replication else {
            return;
        };
        let heir = self.heir();
        let name = name(heir);
        if fault == Fault::FailOver {
            deployment.set_lag(&name, Lag::Units(usize::MAX));
        } else if matches!(fault, Fault::SplitBrain { .. }) {
            deployment.promote(&name);
            self.master.store(heir, Ordering::Relaxed);
        }
    }

    pub(super) fn heal(&self, fault: Fault) {
        let Some(deployment) = &self.replication else {
            return;
        };
        if fault == Fault::FailOver {
            let (old, new) = (self.master(), self.heir());
            deployment.fail_over_to(&name(new));
            deployment.set_lag(&name(new), Lag::default());
            self.master.store(new, Ordering::Relaxed);
            self.reset(deployment, old);
        } else if matches!(fault, Fault::SplitBrain { .. }) {
            let new = self.master();
            for old in (0..self.nodes.len()).filter_map(|place| u8::try_from(place).ok()) {
                if old != new {
                    deployment.follow(&name(old), &name(new));
                    self.reset(deployment, old);
                }
            }
        }
    }

    /// Ends the connections of a former master by a short crash.
    fn reset(&self, deployment: &Deployment, node: u8) {
        let server = deployment.node(&name(node));
        server.crash(Loss::Nothing);
        server.restart();
    }
}

/// Returns the name of a node in its deployment.
fn name(node: u8) -> String {
    match node {
        0 => "master".to_owned(),
        replica => format!("replica-{replica}"),
    }
}
