//! A correct Redlock: the same token on a majority of several independent nodes.

use super::{Held, Site, SoundLock, Sweep};
use crate::{
    subject::{BoxError, Host},
    vocabulary::{Promises, Topology},
};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tokio::sync::OnceCell;

/// Vote of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::subject) enum Vote {
    Yes,
    No,
    /// No reply came in time.
    Unknown,
}

impl Vote {
    /// Converts a reply.
    pub(in crate::subject) const fn of(answer: Option<bool>) -> Self {
        match answer {
            Some(true) => Self::Yes,
            Some(false) => Self::No,
            None => Self::Unknown,
        }
    }
}

/// The lock object of a client process. Clones share its state.
#[derive(Clone)]
pub(in crate::subject) struct Quorum {
    nodes: Arc<[OnceCell<Site>]>,
    /// The client process.
    pub(in crate::subject) host: Host,
    key: String,
    /// Duration of a grant.
    pub(in crate::subject) lease: Duration,
    patience: Duration,
}

/// Part of the lease that is reserved for clock drift: 100 means a hundredth.
const DRIFT: u32 = 100;

impl Quorum {
    /// Returns the number of nodes.
    pub(in crate::subject) fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Returns more than half of all nodes, reachable or not.
    pub(in crate::subject) fn majority(&self) -> usize {
        self.size() / 2 + 1
    }

    /// Returns a node, connecting to it again if there is no connection.
    pub(in crate::subject) async fn site(&self, node: usize) -> Result<&Site, BoxError> {
        let number = u8::try_from(node)?;
        let open = || Site::on(number, &self.host, &self.key, self.lease, self.patience);
        self.nodes[node].get_or_try_init(open).await
    }

    /// Makes an object with the same nodes and new connections.
    pub(in crate::subject) fn afresh(&self) -> Self {
        Self {
            nodes: (0..self.size()).map(|_| OnceCell::new()).collect(),
            ..self.clone()
        }
    }

    /// Asks a node, for at most the timeout of a reply.
    pub(in crate::subject) async fn ask_one<'a, F, T>(
        &'a self,
        node: usize,
        what: impl Fn(&'a Site) -> F,
    ) -> Option<T>
    where
        F: Future<Output = Result<T, BoxError>> + Send,
    {
        let answer = async { what(self.site(node).await?).await };
        tokio::select! {
            biased;
            answer = answer => answer.ok(),
            () = self.host.sleep(self.patience) => None,
        }
    }

    /// Asks all nodes at once.
    pub(in crate::subject) async fn each<'a, F, T>(
        &'a self,
        what: impl Fn(&'a Site) -> F + Sync,
    ) -> Vec<Option<T>>
    where
        F: Future<Output = Result<T, BoxError>> + Send,
        T: Send,
    {
        let what = &what;
        together((0..self.size()).map(|node| self.ask_one(node, what))).await
    }

    async fn ask<'a, F>(&'a self, what: impl Fn(&'a Site) -> F + Sync) -> Vec<Vote>
    where
        F: Future<Output = Result<bool, BoxError>> + Send,
    {
        let answers = self.each(what).await;
        answers.into_iter().map(Vote::of).collect()
    }

    /// Sets the token on every node.
    pub(in crate::subject) async fn set_everywhere(&self, token: &str) -> Vec<Vote> {
        self.ask(|site| site.set_nx(token)).await
    }

    /// Extends the token on every node.
    pub(in crate::subject) async fn extend_everywhere(&self, token: &str) -> Vec<Vote> {
        self.ask(|site| site.extend_as(token)).await
    }

    /// Removes the token from every node.
    pub(in crate::subject) async fn release_everywhere(&self, token: &str) -> Vec<Vote> {
        self.ask(|site| site.release_as(token)).await
    }

    /// Removes the token from the nodes of a bit mask. Returns true if all of them replied, and the number of
    /// nodes that had it.
    pub(in crate::subject) async fn release_on(&self, nodes: usize, token: &str) -> (bool, usize) {
        let chosen = (0..self.size()).filter(|node| nodes >> node & 1 == 1);
        let release = &|site: &'_ Site| {
            let (site, token) = (site.clone(), token.to_owned());
            async move { site.release_as(&token).await }
        };
        let answers = together(chosen.map(|node| self.ask_one(node, release))).await;
        let votes: Vec<_> = answers.into_iter().map(Vote::of).collect();
        (count(&votes, Vote::Unknown) == 0, count(&votes, Vote::Yes))
    }

    /// Removes the token from the nodes of a bit mask in the background, until all of them have replied.
    pub(in crate::subject) fn sweep_on(&self, nodes: usize, token: String) {
        let all = self.clone();
        self.host.spawn(async move {
            let until = all.host.now() + all.lease;
            while !all.release_on(nodes, &token).await.0 && all.host.now() < until {
                all.host.sleep(all.lease / 60).await;
            }
        });
    }

    /// Gives up an attempt: removes the token everywhere, and retries in the background where that fails.
    pub(in crate::subject) async fn give_up(&self, sweep: Sweep<Self>, token: &str) {
        let votes = self.release_everywhere(token).await;
        if count(&votes, Vote::Unknown) == 0 {
            sweep.done();
        }
    }

    /// Returns the deadline of a grant whose requests were sent at `sent`.
    pub(in crate::subject) fn valid_until(&self, sent: Duration) -> Duration {
        sent + self.lease - self.lease / DRIFT
    }
}

impl SoundLock for Quorum {
    async fn open(
        host: &Host,
        key: &str,
        lease: Duration,
        patience: Duration,
    ) -> Result<Self, BoxError> {
        Ok(Self {
            nodes: (0..host.nodes()).map(|_| OnceCell::new()).collect(),
            host: host.clone(),
            key: key.to_owned(),
            lease,
            patience,
        })
    }

    async fn acquire(&self) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (self.host.random_token(), self.host.now());
        let sweep = Sweep::over(self, &token);
        let votes = self.set_everywhere(&token).await;
        let until = self.valid_until(sent);
        if count(&votes, Vote::Yes) >= self.majority() && self.host.now() < until {
            sweep.done();
            return Ok(Some(Held::until(token, until)));
        }
        self.give_up(sweep, &token).await;
        Ok(None)
    }

    async fn extend(&self, held: &Held) -> Result<bool, BoxError> {
        let sent = self.host.now();
        let votes = self.extend_everywhere(&held.token).await;
        let until = self.valid_until(sent);
        let extended = count(&votes, Vote::Yes) >= self.majority() && self.host.now() < until;
        if !extended && count(&votes, Vote::Unknown) > 0 {
            return Err("fewer than a majority of the nodes replied".into());
        }
        Ok(extended && held.prolong(self.host.now(), until))
    }

    async fn release(&self, held: &Held) -> Result<bool, BoxError> {
        let sweep = Sweep::over(self, &held.token);
        let votes = self.release_everywhere(&held.token).await;
        if count(&votes, Vote::Unknown) == 0 {
            sweep.done();
        }
        if count(&votes, Vote::Yes) >= self.majority() {
            Ok(true)
        } else if count(&votes, Vote::No) >= self.majority() {
            Ok(false)
        } else {
            Err("fewer than a majority of the nodes replied".into())
        }
    }

    fn sweep(&self, token: String) {
        self.sweep_on(usize::MAX, token);
    }
}

/// Promises of specimens that run on three nodes.
pub(in crate::subject) const fn redlock_of_three() -> Promises {
    Promises::mutex_on_one_node()
        .on(Topology::Nodes(3))
        .with_deadline()
        .with_drift_ppm(10_000)
}

/// Returns the number of nodes with this vote.
pub(in crate::subject) fn count(votes: &[Vote], what: Vote) -> usize {
    votes.iter().filter(|&&vote| vote == what).count()
}

/// Returns the nodes with this vote, as a bit mask.
pub(in crate::subject) fn who(votes: &[Vote], what: Vote) -> usize {
    let theirs = votes.iter().enumerate().filter(|&(_, &vote)| vote == what);
    theirs.fold(0, |nodes, (node, _)| nodes | 1 << node)
}

/// Waits for all futures at once.
async fn together<T>(futures: impl Iterator<Item = impl Future<Output = T> + Send>) -> Vec<T> {
    let mut futures: Vec<(Option<T>, Pin<Box<_>>)> =
        futures.map(|future| (None, Box::pin(future))).collect();
    poll_fn(|cx| {
        for (output, future) in futures.iter_mut().filter(|(output, _)| output.is_none()) {
            if let Poll::Ready(ready) = future.as_mut().poll(cx) {
                *output = Some(ready);
            }
        }
        let done = futures.iter().all(|(output, _)| output.is_some());
        if done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    futures
        .into_iter()
        .filter_map(|(output, _)| output)
        .collect()
}
