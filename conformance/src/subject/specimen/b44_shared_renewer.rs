//! B44: two threads extend all leases of a process, one request after another and without a timeout. A node
//! that hangs blocks both threads, and all other extensions wait.

use super::{Held, Quorum, Site, SoundLock, Specimen, exhibit, quorum::redlock_of_three};
use crate::{
    checker::Property::Renewal,
    subject::{BoxError, Expected::Convicted, Host, Row},
    vocabulary::Promises,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::{
    Semaphore,
    mpsc::{UnboundedSender, unbounded_channel},
};

struct SharedRenewer;

pub(super) const ROWS: &[Row] = &[Row {
    name: "two-threads-renew-all",
    make: || exhibit(SharedRenewer),
    expected: Convicted(&[Renewal]),
    summary: "Redlock whose leases are extended by two threads, which one node can block",
}];

/// Number of threads that extend leases.
const THREADS: usize = 2;

/// The nodes, and the threads that extend leases there.
#[derive(Clone)]
struct Renewing {
    nodes: Quorum,
    /// The nodes as the threads use them, with a long timeout.
    patient: Quorum,
    threads: Arc<Semaphore>,
}

impl Renewing {
    /// Extends a grant on a node as soon as a thread is free.
    async fn extend_on(self, node: usize, held: Held, done: UnboundedSender<bool>) {
        let thread = tokio::select! {
            biased;
            () = held.ended() => return,
            thread = self.threads.acquire() => thread,
        };
        let extend = |site: &Site| {
            let (site, token) = (site.clone(), held.token.clone());
            async move { site.extend_as(&token).await }
        };
        // The mistake: until the node answers, this thread extends nothing else.
        let extended = self.patient.ask_one(node, extend).await;
        drop(thread);
        let _ = done.send(extended == Some(true));
    }

    /// Extends a grant on all nodes after each third of the lease, until it ends.
    async fn keep(self, held: Held) {
        let host = &self.nodes.host;
        while host.now() < held.deadline() {
            let next = host.now() + self.nodes.lease / 3;
            host.sleep_until(next.min(held.deadline())).await;
            let sent = host.now();
            let (done, mut answers) = unbounded_channel();
            for node in 0..self.nodes.size() {
                let task = self.clone().extend_on(node, held.clone(), done.clone());
                host.spawn(task);
            }
            drop(done);
            let mut yes = 0;
            while yes < self.nodes.majority() {
                let answer = tokio::select! {
                    biased;
                    answer = answers.recv() => answer,
                    () = host.sleep_until(next + self.nodes.lease / 6) => None,
                };
                let Some(extended) = answer else { break };
                yes += usize::from(extended);
            }
            if yes >= self.nodes.majority() {
                held.prolong(host.now(), self.nodes.valid_until(sent));
            }
        }
        held.lose();
    }
}

impl SoundLock for Renewing {
    async fn open(
        host: &Host,
        key: &str,
        lease: Duration,
        patience: Duration,
    ) -> Result<Self, BoxError> {
        let nodes = <Quorum as SoundLock>::open(host, key, lease, patience).await?;
        let patient = <Quorum as SoundLock>::open(host, key, lease, 4 * lease).await?;
        Ok(Self {
            nodes,
            patient,
            threads: Arc::new(Semaphore::new(THREADS)),
        })
    }

    async fn acquire(&self) -> Result<Option<Held>, BoxError> {
        let held = self.nodes.acquire().await?;
        if let Some(held) = &held {
            let (renewing, held) = (self.clone(), held.clone());
            self.nodes.host.spawn(async move {
                tokio::select! {
                    biased;
                    () = held.ended() => {}
                    () = renewing.keep(held.clone()) => {}
                }
            });
        }
        Ok(held)
    }

    async fn extend(&self, held: &Held) -> Result<bool, BoxError> {
        self.nodes.extend(held).await
    }

    async fn release(&self, held: &Held) -> Result<bool, BoxError> {
        self.nodes.release(held).await
    }

    fn sweep(&self, token: String) {
        self.nodes.sweep(token);
    }
}

impl Specimen<Renewing> for SharedRenewer {
    fn id(&self) -> &'static str {
        "B44"
    }

    fn promises(&self) -> Promises {
        redlock_of_three().renewing().signalling()
    }
}
