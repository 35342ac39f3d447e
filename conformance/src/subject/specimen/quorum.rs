//! Redlock as it should be: the same token on most of several nodes that know nothing of each other.

use super::{Held, Site, SoundLock, Sweep};
use crate::{
    scenario::Topology,
    subject::{BoxError, Host, Promises},
};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};
use tokio::sync::OnceCell;

/// What a node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::subject) enum Vote {
    Yes,
    No,
    /// It gave no answer in time.
    Unknown,
}

impl Vote {
    /// What an answer comes to.
    pub(in crate::subject) const fn of(answer: Option<bool>) -> Self {
        match answer {
            Some(true) => Self::Yes,
            Some(false) => Self::No,
            None => Self::Unknown,
        }
    }
}

/// The lock object of a client process. Clones are the same object.
#[derive(Clone)]
pub(in crate::subject) struct Quorum {
    nodes: Arc<[OnceCell<Site>]>,
    /// The process.
    pub(in crate::subject) host: Host,
    key: String,
    /// How long a grant lasts.
    pub(in crate::subject) lease: Duration,
    patience: Duration,
}

/// What part of the lease clocks may run apart in it, one in so many.
const DRIFT: u32 = 100;

impl Quorum {
    /// How many nodes there are.
    pub(in crate::subject) fn size(&self) -> usize {
        self.nodes.len()
    }

    /// More than half of all nodes, whether they can be reached or not.
    pub(in crate::subject) fn majority(&self) -> usize {
        self.size() / 2 + 1
    }

    /// A node; whoever cannot be reached is tried anew each time.
    pub(in crate::subject) async fn site(&self, node: usize) -> Result<&Site, BoxError> {
        let number = u8::try_from(node)?;
        let open = || Site::on(number, &self.host, &self.key, self.lease, self.patience);
        self.nodes[node].get_or_try_init(open).await
    }

    /// The same nodes over connections of its own.
    pub(in crate::subject) fn afresh(&self) -> Self {
        Self {
            nodes: (0..self.size()).map(|_| OnceCell::new()).collect(),
            ..self.clone()
        }
    }

    /// Asks a node, for no longer than a reply may take.
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

    /// Extends it on every node.
    pub(in crate::subject) async fn extend_everywhere(&self, token: &str) -> Vec<Vote> {
        self.ask(|site| site.extend_as(token)).await
    }

    /// Removes it from every node.
    pub(in crate::subject) async fn release_everywhere(&self, token: &str) -> Vec<Vote> {
        self.ask(|site| site.release_as(token)).await
    }

    /// Removes it from some nodes, a bit for each: whether all of them answered, and how many had it.
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

    /// The same in the background, until all of them have answered.
    pub(in crate::subject) fn sweep_on(&self, nodes: usize, token: String) {
        let all = self.clone();
        self.host.spawn(async move {
            let until = all.host.now() + all.lease;
            while !all.release_on(nodes, &token).await.0 && all.host.now() < until {
                all.host.sleep(all.lease / 60).await;
            }
        });
    }

    /// Gives up an attempt: the token is removed everywhere, later where that fails now.
    pub(in crate::subject) async fn give_up(&self, sweep: Sweep<Self>, token: &str) {
        let votes = self.release_everywhere(token).await;
        if count(&votes, Vote::Unknown) == 0 {
            sweep.done();
        }
    }

    /// Until when a grant may be believed in that was asked for at `sent`.
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
            return Err("too few nodes answered".into());
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
            Err("too few nodes answered".into())
        }
    }

    fn sweep(&self, token: String) {
        self.sweep_on(usize::MAX, token);
    }
}

/// What several of the specimens claim that run on three nodes.
pub(in crate::subject) const fn redlock_of_three() -> Promises {
    Promises::mutex_on_one_node()
        .on(Topology::Nodes(3))
        .with_deadline()
        .with_drift_ppm(10_000)
}

/// How many nodes said this.
pub(in crate::subject) fn count(votes: &[Vote], what: Vote) -> usize {
    votes.iter().filter(|&&vote| vote == what).count()
}

/// Which nodes said this, a bit for each.
pub(in crate::subject) fn who(votes: &[Vote], what: Vote) -> usize {
    let theirs = votes.iter().enumerate().filter(|&(_, &vote)| vote == what);
    theirs.fold(0, |nodes, (node, _)| nodes | 1 << node)
}

/// Waits for all of them at once.
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
