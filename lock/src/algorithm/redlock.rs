//! One acquisition on several independent nodes: granted when more than half of all of them granted it.
//!
//! Every node has its own [`Scripted`] acquisition with the same token, which remembers what it may have left there. A
//! round that found no quorum is the last one of its token: it is released everywhere, also where no
//! answer came. The next round has a new token, which a late release cannot hit.

mod ask;
mod identity;

pub(crate) use identity::Identities;

use super::{Acquisition, Attempt, scripted::Scripted};
use crate::{
    environment::{BoxFuture, Environment, within},
    error::{NodeError, NodeErrorKind},
    lease::Lease,
    retry,
    script::{Script, script},
    signal::Signal,
    token::{FencingToken, Token},
};
use ask::Asked;
use futures_util::{FutureExt as _, StreamExt as _, future::select_all};
use std::{
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

static RAISE: LazyLock<Script> = script!("redlock/raise.lua");

/// One acquisition on several nodes.
pub(crate) struct Redlock {
    shared: Arc<Shared>,
}

/// What the acquisition shares with the task that asks the missing nodes.
struct Shared {
    env: Arc<dyn Environment>,
    /// The same token on each of them.
    nodes: Vec<Arc<Scripted>>,
    fenced: bool,
    node_timeout: Duration,
    identities: Arc<Identities>,
    state: Mutex<State>,
    /// True from the moment at which the lock is given back or handed over: from then on no node is asked any more.
    closed: Signal,
    /// Raised when a node has the lock that did not have it before.
    grown: Signal,
}

#[derive(Default)]
struct State {
    spent: bool,
    growing: bool,
    fence: Option<FencingToken>,
}

impl Redlock {
    /// There is at least one node.
    pub(crate) fn new(
        env: Arc<dyn Environment>,
        nodes: Vec<Arc<Scripted>>,
        fenced: bool,
        node_timeout: Duration,
        identities: Arc<Identities>,
    ) -> Self {
        let shared = Shared {
            env,
            nodes,
            fenced,
            node_timeout,
            identities,
            state: Mutex::default(),
            closed: Signal::default(),
            grown: Signal::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }
}

/// What one node said.
type Answer = Result<bool, NodeError>;

impl Shared {
    /// More than half of all nodes, whether they can be reached or not.
    fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit for one node.
    fn limit(&self, until: Duration) -> Duration {
        until.min(self.env.now().saturating_add(self.node_timeout))
    }

    fn no_quorum(&self, granted: usize, cause: Option<NodeError>) -> NodeError {
        let needed = self.quorum();
        let error = NodeError::new(NodeErrorKind::NoQuorum { granted, needed });
        match cause {
            Some(cause) => error.with_source(cause),
            None => error,
        }
    }

    /// Asks the nodes that are not known yet which servers they are. No vote waits for it longer
    /// than for a slow node.
    fn identify(self: &Arc<Self>, until: Duration) -> Asked<()> {
        let limit = self.limit(until);
        let unknown = (0..self.nodes.len()).filter(|index| !self.identities.is_known(*index));
        unknown
            .map(|index| -> BoxFuture<'static, ()> {
                let shared = Arc::clone(self);
                Box::pin(async move {
                    let link = shared.nodes[index].link();
                    shared.identities.learn(index, link, limit).await;
                })
            })
            .collect()
    }

    /// Asks `nodes` for the lock, all at once.
    fn ask(
        &self,
        nodes: impl Iterator<Item = Arc<Scripted>>,
        lease: Lease,
        until: Duration,
    ) -> Asked<Attempt> {
        let limit = self.limit(until);
        nodes
            .map(|node| -> BoxFuture<'static, Attempt> {
                Box::pin(async move { node.acquire(lease, limit).await })
            })
            .collect()
    }

    /// Waits for answers until `enough` of them are yes. Then it waits for the other nodes, but not much longer than
    /// it took so far: a node that is down must not delay the call, and a slightly slower node must
    /// be counted. Returns those that said yes and those that said no, and the first error.
    async fn tally(&self, asked: &mut Asked<Answer>, enough: usize) -> Tally {
        let begun = self.env.now();
        let mut tally = Tally::default();
        let mut patience = Duration::MAX;
        while let Some(Some(answer)) = within(&*self.env, patience, asked.next()).await {
            match answer {
                Ok(true) => tally.yes += 1,
                Ok(false) => tally.no += 1,
                Err(error) => tally.error = tally.error.or(Some(error)),
            }
            if tally.yes >= enough {
                patience = patience.min(ask::patience(&*self.env, begun));
            }
        }
        tally
    }

    /// One round over all nodes.
    async fn round(self: &Arc<Self>, lease: Lease, until: Duration) -> Attempt {
        let sent = self.env.now();
        let quorum = self.quorum();
        let spare = self.nodes.len() - quorum;
        let mut asked = self.ask(self.nodes.iter().cloned(), lease, until);
        let mut identified = self.identify(until);
        let (mut granted, mut failed) = (0, 0);
        let (mut ttls, mut cause) = (Vec::new(), None);
        let mut patience = Duration::MAX;
        while let Some(Some(attempt)) = within(
            &*self.env,
            patience,
            ask::next_beside(&mut asked, &mut identified),
        )
        .await
        {
            match attempt {
                Attempt::Granted { .. } => granted += 1,
                Attempt::Refused { holder_ttl } => ttls.push(holder_ttl),
                Attempt::Failed(error) => {
                    failed += 1;
                    cause = cause.or(Some(error));
                }
            }
            if granted >= quorum {
                patience = patience.min(ask::patience(&*self.env, sent));
            } else if ttls.len() + failed > spare {
                break;
            }
        }
        if granted < quorum {
            return if ttls.is_empty() {
                Attempt::Failed(self.no_quorum(granted, cause))
            } else {
                // As soon as so many of the others are gone.
                ttls.sort_unstable_by_key(|ttl| ttl.unwrap_or(Duration::MAX));
                let last = (quorum - granted - 1).min(ttls.len() - 1);
                Attempt::Refused {
                    holder_ttl: ttls[last],
                }
            };
        }
        let identified = async { while identified.next().await.is_some() {} };
        within(&*self.env, patience, identified).await;
        let links: Vec<_> = self.nodes.iter().map(|node| node.link()).collect();
        if let Some(error) = self.identities.check(&links, self.limit(until)).await {
            return Attempt::Failed(error);
        }
        if self.fenced
            && let Err(error) = self.agree_on_fence(until).await
        {
            return Attempt::Failed(error);
        }
        self.grow(asked, lease, sent);
        Attempt::Granted { sent }
    }

    /// Makes the number of a grant: above all that its nodes have seen. It counts when so many of them
    /// have stored it that no later quorum can miss it.
    async fn agree_on_fence(&self, until: Duration) -> Result<(), NodeError> {
        let granted = || self.nodes.iter().filter(|node| node.may_stand());
        let highest = granted().filter_map(|node| node.fence()).max();
        let number = highest.unwrap_or_default().get().saturating_add(1);
        let limit = self.limit(until);
        let raised = granted()
            .cloned()
            .map(|node| -> BoxFuture<'static, Answer> {
                Box::pin(async move { node.tell(&RAISE, number, limit).await })
            });
        let tally = self.tally(&mut raised.collect(), self.quorum()).await;
        if tally.yes < self.quorum() {
            return Err(self.no_quorum(tally.yes, tally.error));
        }
        self.state().fence = Some(FencingToken::new(number));
        Ok(())
    }

    /// Goes on asking the nodes that do not have the lock yet, so that the grant survives the loss of more of them. It
    /// ends with the lease that was asked for at `sent`, and when the lock is given back.
    fn grow(self: &Arc<Self>, asked: Asked<Attempt>, lease: Lease, sent: Duration) {
        if self.missing().next().is_none() || std::mem::replace(&mut self.state().growing, true) {
            return;
        }
        let shared = Arc::clone(self);
        let task = Box::pin(async move {
            let grown = shared.grow_until_complete(asked, lease, sent);
            tokio::select! {
                biased;
                // Before anything is sent.
                () = shared.closed.after(0) => {}
                () = grown => {}
            }
            shared.state().growing = false;
        });
        if self.env.spawn(task).is_err() {
            self.state().growing = false;
        }
    }

    async fn grow_until_complete(&self, mut asked: Asked<Attempt>, lease: Lease, sent: Duration) {
        let end = lease.deadline(sent);
        for failure in 0.. {
            while let Some(attempt) = within(&*self.env, end, asked.next()).await.flatten() {
                if matches!(attempt, Attempt::Granted { .. }) {
                    self.grown.raise();
                }
            }
            let random = retry::draw(self.env.random());
            let pause = retry::back_off(failure, Duration::MAX, random);
            let next = self.env.now().saturating_add(pause);
            if self.missing().next().is_none() || next >= end {
                return;
            }
            self.env.sleep_until(next).await;
            let Some(rest) = lease.rest(self.env.now().saturating_sub(sent)) else {
                return;
            };
            asked = self.ask(self.missing().cloned(), rest, end);
        }
    }

    /// Sends an extension to the slower nodes as well, unless the lock is given back.
    fn finish(self: &Arc<Self>, mut asked: Asked<Answer>) {
        if asked.is_empty() {
            return;
        }
        let shared = Arc::clone(self);
        let task = async move {
            let finished = async { while asked.next().await.is_some() {} };
            tokio::select! {
                biased;
                () = shared.closed.after(0) => {}
                () = finished => {}
            }
        };
        // Without a runtime they have it or not.
        let _ = self.env.spawn(Box::pin(task));
    }

    fn missing(&self) -> impl Iterator<Item = &Arc<Scripted>> {
        self.nodes.iter().filter(|node| !node.may_stand())
    }

    /// Sees to it that no node is asked any more; not even one that a task of another thread is just about to ask.
    fn close(&self) {
        self.closed.raise();
        self.nodes.iter().for_each(|node| node.let_go());
    }
}

#[derive(Default)]
struct Tally {
    yes: usize,
    no: usize,
    error: Option<NodeError>,
}

impl Acquisition for Redlock {
    fn key(&self) -> &[u8] {
        self.shared.nodes[0].key()
    }

    fn token(&self) -> &Token {
        self.shared.nodes[0].token()
    }

    fn acquire(&self, lease: Lease, until: Duration) -> BoxFuture<'_, Attempt> {
        Box::pin(async move {
            // Spent if it is cancelled, too.
            self.shared.state().spent = true;
            let attempt = self.shared.round(lease, until).await;
            self.shared.state().spent = !matches!(attempt, Attempt::Granted { .. });
            attempt
        })
    }

    /// Counts only nodes that have had the lock all the time: one that forgot it may be asked for it again,
    /// but cannot confirm it.
    fn extend(
        &self,
        lease: Lease,
        until: Duration,
    ) -> BoxFuture<'_, Result<Option<Duration>, NodeError>> {
        Box::pin(async move {
            let shared = &self.shared;
            let (sent, asked, tally) = loop {
                let (sent, grown) = (shared.env.now(), shared.grown.count());
                let limit = shared.limit(until);
                let standing = shared.nodes.iter().filter(|node| node.may_stand()).cloned();
                let asked = standing.map(|node| -> BoxFuture<'static, Answer> {
                    Box::pin(async move { Ok(node.extend(lease, limit).await?.is_some()) })
                });
                let mut asked = asked.collect();
                let tally = tokio::select! {
                    biased;
                    tally = shared.tally(&mut asked, shared.quorum()) => tally,
                    // With one node more there may be a quorum.
                    () = shared.grown.after(grown) => continue,
                };
                break (sent, asked, tally);
            };
            if tally.yes >= shared.quorum() {
                shared.finish(asked);
                shared.grow(Asked::default(), lease, sent);
                return Ok(Some(sent));
            }
            let without = shared.nodes.iter().filter(|node| node.is_settled()).count();
            if shared.nodes.len() - without < shared.quorum() {
                return Ok(None);
            }
            Err(shared.no_quorum(tally.yes, tally.error))
        })
    }

    fn release(&self, until: Duration) -> BoxFuture<'_, Result<bool, NodeError>> {
        Box::pin(async move {
            let shared = &self.shared;
            shared.close();
            let limit = shared.limit(until);
            let asked = shared.nodes.iter().filter(|node| !node.is_settled());
            let asked = asked.cloned().map(|node| -> BoxFuture<'static, Answer> {
                Box::pin(async move { node.release(limit).await })
            });
            let mut asked: Asked<Answer> = asked.collect();
            let all = asked.len();
            let tally = shared.tally(&mut asked, shared.quorum()).await;
            let silent = all - tally.yes - tally.no;
            if tally.yes >= shared.quorum() {
                Ok(true)
            } else if tally.yes + silent < shared.quorum() {
                Ok(false)
            } else {
                Err(shared.no_quorum(tally.yes, tally.error))
            }
        })
    }

    fn settle(&self, until: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let shared = &self.shared;
            shared.close();
            let open = shared.nodes.iter().filter(|node| !node.is_settled());
            let open = open.cloned().map(|node| -> BoxFuture<'static, bool> {
                Box::pin(async move { node.settle(until).await })
            });
            let mut open: Asked<bool> = open.collect();
            while open.next().await.is_some() {}
            self.is_settled()
        })
    }

    fn adopt(&self, fence: Option<FencingToken>) {
        self.shared.nodes.iter().for_each(|node| node.adopt(None));
        self.shared.state().fence = fence;
    }

    fn hold_until(&self, until: Duration) {
        self.shared
            .nodes
            .iter()
            .for_each(|node| node.hold_until(until));
    }

    fn let_go(&self) {
        self.shared.close();
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        let changes = self.shared.nodes.iter().map(|node| node.changed());
        Box::pin(select_all(changes).map(drop))
    }

    /// Independent nodes have no replicas that matter.
    fn replicate(&self, _: u32, _: Duration) -> BoxFuture<'_, Result<u64, NodeError>> {
        Box::pin(async { Err(NodeError::new(NodeErrorKind::Client)) })
    }

    fn is_settled(&self) -> bool {
        self.shared.nodes.iter().all(|node| node.is_settled())
    }

    fn may_stand(&self) -> bool {
        self.shared.nodes.iter().any(|node| node.may_stand())
    }

    fn is_spent(&self) -> bool {
        self.shared.state().spent
    }

    fn longest_lease(&self) -> Duration {
        let leases = self.shared.nodes.iter().map(|node| node.longest_lease());
        leases.max().unwrap_or_default()
    }

    fn fence(&self) -> Option<FencingToken> {
        self.shared.state().fence
    }
}
