//! The links of a run, the server behind each address, and the servers that were reached.

use super::{
    held,
    recorder::Recorder,
    stream::{ClientEnd, Link, LinkPlan, Touched},
};
use crate::{
    backend::Servers,
    scenario::{Fault, Scenario},
    vocabulary::{OpId, PROBE_HOST, Topology},
};
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

pub(crate) struct Network {
    pub(crate) servers: Arc<dyn Servers>,
    topology: Topology,
    /// Links by client process and address.
    plans: BTreeMap<(u8, u8), Arc<LinkPlan>>,
    /// Client processes that reach another server than the master.
    astray: Mutex<BTreeMap<u8, u8>>,
    touched: Arc<AtomicU64>,
}

impl Network {
    pub(crate) fn new(scenario: &Scenario, servers: Arc<dyn Servers>) -> Self {
        let hosts = scenario.hosts().into_iter().chain([PROBE_HOST]);
        let nodes = scenario.topology.addresses();
        let links = hosts.flat_map(|host| (0..nodes).map(move |node| (host, node)));
        let halts = !servers.pauses();
        let plan = |(host, node)| {
            let plan = LinkPlan::of(scenario, host, node, halts);
            ((host, node), Arc::new(plan))
        };
        Self {
            servers,
            topology: scenario.topology,
            plans: links.map(plan).collect(),
            astray: Mutex::default(),
            touched: Arc::default(),
        }
    }

    /// Returns the number of addresses that a client can connect to.
    pub(crate) fn addresses(&self) -> u8 {
        self.topology.addresses()
    }

    /// Makes a link from a client process to an address.
    pub(crate) async fn lay(
        &self,
        host: u8,
        address: u8,
        recorder: Recorder,
    ) -> io::Result<(ClientEnd, Link)> {
        let plan = self.plans.get(&(host, address));
        let plan = plan.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let server = self.leads_to(host, address);
        let dialled = recorder.now();
        let transport = self.servers.dial(server).await?;
        let touched = Touched {
            servers: Arc::clone(&self.touched),
            server,
        };
        let session = recorder.connected(host, server, dialled);
        let plan = Arc::clone(plan);
        Ok(Link::new(transport, plan, recorder, touched, session))
    }

    /// Returns the server that a client process reaches at an address.
    fn leads_to(&self, host: u8, address: u8) -> u8 {
        match self.topology {
            Topology::Nodes(_) => address,
            Topology::Replicated { .. } => {
                let astray = held(&self.astray).get(&host).copied();
                astray.unwrap_or_else(|| self.servers.master())
            }
        }
    }

    /// Leads all clients but one to the old master during a split brain.
    pub(crate) fn split(&self, fault: Fault, old_master: u8) {
        if let Fault::SplitBrain { host } = fault {
            let others = self
                .plans
                .keys()
                .map(|&(of, _)| of)
                .filter(|&of| of != host);
            held(&self.astray).extend(others.map(|of| (of, old_master)));
        }
    }

    /// Leads all clients to the one master again.
    pub(crate) fn unite(&self, fault: Fault) {
        if matches!(fault, Fault::SplitBrain { .. }) {
            held(&self.astray).clear();
        }
    }

    /// Takes the set of servers that bytes have reached since the last call.
    pub(crate) fn take_touched(&self) -> impl Iterator<Item = u8> + use<> {
        let mut left = self.touched.swap(0, Ordering::Relaxed);
        std::iter::from_fn(move || {
            let node = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            u8::try_from(node).ok().filter(|&node| node < 64)
        })
    }

    /// Returns the plan of the link to the first address, with all faults on messages of a client.
    pub(crate) fn plan(&self, host: u8) -> Option<&Arc<LinkPlan>> {
        self.plans.get(&(host, 0))
    }

    /// Records the end of an operation, which opens the gates that wait for it.
    pub(crate) fn ended(&self, op: OpId) {
        self.plans.values().for_each(|plan| plan.ended(op));
    }

    /// True if no message is in flight.
    pub(crate) fn is_still(&self) -> bool {
        self.plans.values().all(|plan| plan.under_way() == 0)
    }

    /// Returns the number of replies that have reached a client process.
    pub(crate) fn replies(&self, host: u8) -> u64 {
        let theirs = self.plans.range((host, 0)..=(host, u8::MAX));
        theirs.map(|(_, plan)| plan.replies()).sum()
    }

    /// Returns the number of connections that clients have open.
    pub(crate) fn ends(&self) -> usize {
        self.plans.values().map(|plan| plan.ends()).sum()
    }

    /// Ends the network of all clients except the probe: messages in flight never arrive.
    pub(crate) fn forget(&self) {
        for (_, plan) in self
            .plans
            .iter()
            .filter(|((host, _), _)| *host != PROBE_HOST)
        {
            plan.forget();
        }
    }
}
