//! The mutex on several independent nodes.

use super::{
    Asked, Kind,
    sealed::{Fenceable, Sealed},
};
use crate::{
    algorithm::{
        self, Acquisition, around, fenced, redlock::Identities, scripted::Scripted, single,
    },
    builder::LockBuilder,
    core::Core,
    error::LockError,
    guard::Guard,
    lock::Lock,
    manager::LockManager,
};
use std::{fmt, sync::Arc, time::Duration};

/// A mutex on several independent Redis nodes, granted by more than half of them.
///
/// Made by [`Redlock::mutex`].
///
/// **Guarantee.** No two guards of one key are valid at the same time: holds as with a [`Mutex`](crate::Mutex), and
/// while nodes forget the lock too, as long as more than half of all nodes still have it: with five
/// nodes, two may forget a lock that all five granted, and none may forget a lock that three granted. A node that restarts without its
/// data must stay away from clients for one lease. Lost when more forget it while its
/// lease runs (restart without data, eviction, a clock that jumps ahead). Nodes must not replicate each
/// other, and no two managers may lead to the same server, also not to two of its databases: where the servers tell their
/// `run_id` by INFO, attempts to lock then fail with [`NodeErrorKind::SameServer`](crate::NodeErrorKind::SameServer). A quorum is more than half of *all* nodes; an even number of them tolerates no more failures than the
/// odd number below.
///
/// **How.** All nodes are asked at once, with a time limit for each. The lease counts from before the first request. A
/// node that is down costs a call at most as much time as the others took. After the quorum, the
/// missing nodes are asked again in the background until all have granted. A call that finds no quorum gives back
/// what it got, also where no answer came, and tries again after a random pause.
/// [`LockError::NoQuorum`] says that too few nodes answered.
///
/// **Extension** needs a quorum of nodes that have had the lock all the time. If that fails, the lock is held as
/// before, until the old deadline.
///
/// **Order.** None. **Cost.** One request to each node to take it, one to give it back, all at the same time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redouble::{Clock, Server};
/// use redouble_lock::{LockManager, Redlock, Release};
///
/// let mut servers = Vec::new();
/// let mut managers = Vec::new();
/// for _ in 0..3 {
///     let server = Server::builder().clock(Clock::Tokio).start().await?;
///     managers.push(LockManager::new(server.connection().await?));
///     servers.push(server);
/// }
/// let lock = Redlock::new(managers)?.mutex("order:17").build()?;
///
/// let _pause = servers[0].pause(); // one of three is silent
/// let guard = lock.lock().await?;
/// assert!(lock.try_lock().await.unwrap_err().is_contended());
/// assert_eq!(guard.release().await, Release::Released);
/// # Ok(())
/// # }
/// ```
pub type RedlockMutex = Lock<Quorum>;

/// Makes locks on several independent Redis nodes. Cheap to clone.
#[derive(Clone)]
pub struct Redlock {
    cores: Arc<[Arc<Core>]>,
    node_timeout: Option<Duration>,
    identities: Arc<Identities>,
}

impl Redlock {
    /// Takes one manager per node. All of them should be in the same environment; the first one's is used.
    ///
    /// # Errors
    ///
    /// [`LockError::NothingToLock`] if there are no nodes.
    pub fn new(nodes: impl IntoIterator<Item = LockManager>) -> Result<Self, LockError> {
        let cores: Arc<[_]> = nodes.into_iter().map(|node| node.core()).collect();
        if cores.is_empty() {
            return Err(LockError::NothingToLock);
        }
        Ok(Self {
            identities: Arc::new(Identities::new(cores.len())),
            cores,
            node_timeout: None,
        })
    }

    /// Sets how long one node may take for one request, connecting included. Default: the two hundredth part of the
    /// lease (50 ms of 10 s), at least 5 ms; in no case longer than the
    /// [reply timeout](LockBuilder::reply_timeout).
    #[must_use]
    pub fn node_timeout(mut self, node_timeout: Duration) -> Self {
        self.node_timeout = Some(node_timeout.max(Duration::from_millis(1)));
        self
    }

    /// Starts to build a mutex on `key`, on all nodes.
    pub fn mutex(&self, key: impl AsRef<[u8]>) -> LockBuilder<Quorum> {
        let kind = Quorum(self.clone());
        LockBuilder::new(Arc::clone(&self.cores[0]), key.as_ref(), kind)
    }

    fn acquisition(&self, asked: Asked<'_>) -> Arc<dyn Acquisition> {
        let Asked {
            key,
            options,
            token,
            fenced,
            ..
        } = asked;
        let by_default = (options.lease / 200).max(Duration::from_millis(5));
        let node_timeout = self.node_timeout.unwrap_or(by_default);
        let node_timeout = node_timeout.min(options.reply_timeout);
        let mut scripts = match fenced {
            true => fenced::scripts(key),
            false => single::scripts(key),
        };
        // Each round has a token of its own; the plain SET would never tell a waiter how long to wait.
        scripts.begins_with_set = false;
        let scripts = Arc::new(around::with_options(scripts, options, &token));
        // A slow reply is a missing vote, no reason to connect anew.
        let silence = (options.reply_timeout / 2).min(options.lease / 6);
        let nodes = self.cores.iter().map(|core| {
            let (node, scripts) = (core.node.clone(), Arc::clone(&scripts));
            node.link.bears_silence(silence);
            Arc::new(Scripted::new(node, scripts, token, node_timeout))
        });
        let env = Arc::clone(self.cores[0].node.env());
        let (nodes, identities) = (nodes.collect(), Arc::clone(&self.identities));
        let acquisition =
            algorithm::redlock::Redlock::new(env, nodes, fenced, node_timeout, identities);
        Arc::new(acquisition)
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("nodes", &self.cores.len())
            .field("node_timeout", &self.node_timeout)
            .finish()
    }
}

/// The kind of a [`RedlockMutex`].
#[derive(Clone, Debug)]
pub struct Quorum(Redlock);

impl Kind for Quorum {
    type Guard = Guard;
}

impl Fenceable for Quorum {}

impl Sealed for Quorum {
    #[expect(private_interfaces, reason = "sealed")]
    fn acquisition(&self, asked: Asked<'_>) -> Arc<dyn Acquisition> {
        self.0.acquisition(asked)
    }
}
