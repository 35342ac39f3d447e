//! Locks for programs without tokio.
//!
//! The same locks, run by a thread of their own: its runtime keeps connections, watchdogs and releases going while
//! the program's threads do something else or block. The thread ends with the last manager, lock and guard
//! that came from it, as soon as what they left to the background is done.
//!
//! ```no_run
//! # fn settle() {}
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use redouble_lock::{Release, blocking::LockManager};
//! use std::time::Duration;
//!
//! let locks = LockManager::from_client(redis::Client::open("redis://127.0.0.1")?)?;
//! let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).watchdog(true).build()?;
//! let lock = locks.adapt(lock);
//!
//! let guard = lock.lock_timeout(Duration::from_secs(3))?;
//! settle();
//! if !guard.is_valid() || guard.release() != Release::Released {
//!     eprintln!("settled, but the lock was not held to the end");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Panics
//!
//! Every call that asks Redis panics inside a tokio runtime, where it would block the other tasks: use the asynchronous locks there.

use crate::{
    BoxFuture, DetachedLock, Environment, Kind, LockError, LockManagerBuilder, LossReason,
    NoRuntime, Release, Tokio, environment::within,
};
use std::{fmt, ops::Deref, sync::Arc, thread, time::Duration};
use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// The thread that everything runs on. Every task that runs there owns it, so it ends after them.
struct Engine {
    handle: Handle,
    _running: oneshot::Sender<()>,
}

impl Engine {
    fn start() -> Result<Arc<Self>, NoRuntime> {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().build().map_err(|_| NoRuntime)?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        let run = move || drop(runtime.block_on(ended));
        let thread = thread::Builder::new().name("redouble-lock".into());
        thread.spawn(run).map_err(|_| NoRuntime)?;
        Ok(Arc::new(Self {
            handle,
            _running: running,
        }))
    }
}

/// [`Tokio`] on that thread, whichever thread asks.
struct OnEngine(Arc<Engine>);

impl Environment for OnEngine {
    fn now(&self) -> Duration {
        Tokio.now()
    }

    fn sleep_until(&self, deadline: Duration) -> BoxFuture<'static, ()> {
        Tokio.sleep_until(deadline)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<(), NoRuntime> {
        let engine = Arc::clone(&self.0);
        drop(self.0.handle.spawn(async move {
            task.await;
            drop(engine);
        }));
        Ok(())
    }

    fn random(&self) -> [u8; 16] {
        Tokio.random()
    }
}

/// Makes locks for programs without tokio: see the [module](self). Cheap to clone.
///
/// It is a [`LockManager`](crate::LockManager), whose methods make locks of all kinds; [`adapt`](Self::adapt) makes
/// them block.
#[derive(Clone)]
pub struct LockManager {
    inner: crate::LockManager,
    engine: Arc<Engine>,
}

impl LockManager {
    /// Makes a manager with connections of its own. Connects when a lock is first used.
    ///
    /// # Errors
    ///
    /// [`NoRuntime`] if no thread can be started.
    #[cfg(feature = "redis")]
    pub fn from_client(client: redis::Client) -> Result<Self, NoRuntime> {
        Self::new(crate::LockManager::builder(client))
    }

    /// Makes a manager of what was set up, except for its environment, which is the thread.
    ///
    /// # Errors
    ///
    /// [`NoRuntime`] if no thread can be started.
    pub fn new(builder: LockManagerBuilder) -> Result<Self, NoRuntime> {
        let engine = Engine::start()?;
        let env = OnEngine(Arc::clone(&engine));
        let inner = builder.environment(env).build();
        Ok(Self { inner, engine })
    }

    /// Makes a lock of this manager block.
    pub fn adapt<K: Kind>(&self, lock: crate::Lock<K>) -> Lock<K> {
        Lock {
            inner: lock,
            engine: Arc::clone(&self.engine),
        }
    }

    /// Waits for anything else that this manager's locks offer, such as a latch.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.engine.handle.block_on(future)
    }
}

impl Deref for LockManager {
    type Target = crate::LockManager;

    fn deref(&self) -> &crate::LockManager {
        &self.inner
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockManager").finish_non_exhaustive()
    }
}

/// A [`Lock`](crate::Lock) that blocks.
#[derive(Clone)]
pub struct Lock<K: Kind> {
    inner: crate::Lock<K>,
    engine: Arc<Engine>,
}

impl<K: Kind> Lock<K> {
    /// Takes the lock if it is free; as [`Lock::try_lock`](crate::Lock::try_lock).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn try_lock(&self) -> Result<Guard<K>, LockError> {
        self.wait(self.inner.try_lock())
    }

    /// Takes the lock, and waits for as long as other clients hold it; as [`Lock::lock`](crate::Lock::lock).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn lock(&self) -> Result<Guard<K>, LockError> {
        self.wait(self.inner.lock())
    }

    /// Takes the lock, and waits at most for `wait`; as [`Lock::lock_timeout`](crate::Lock::lock_timeout).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn lock_timeout(&self, wait: Duration) -> Result<Guard<K>, LockError> {
        self.wait(self.inner.lock_timeout(wait))
    }

    /// Goes on with a grant of another process; as [`Lock::adopt`](crate::Lock::adopt).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn adopt(&self, detached: &DetachedLock) -> Result<Guard<K>, LockError> {
        self.wait(self.inner.adopt(detached))
    }

    fn wait(
        &self,
        grant: impl Future<Output = Result<K::Guard, LockError>>,
    ) -> Result<Guard<K>, LockError> {
        let inner = self.engine.handle.block_on(grant)?;
        Ok(Guard {
            inner,
            engine: Arc::clone(&self.engine),
        })
    }
}

impl<K: Kind> fmt::Debug for Lock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A lock that was granted: the guard of its kind, whose methods that wait block here.
///
/// Dropping it releases the lock in the background.
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard<K: Kind> {
    inner: K::Guard,
    engine: Arc<Engine>,
}

impl<K: Kind> Guard<K> {
    /// Extends the lock; as [`Guard::extend`](crate::Guard::extend).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn extend(&self, lease: Duration) -> Result<(), LockError> {
        let guard: &crate::Guard = self.inner.as_ref();
        self.engine.handle.block_on(guard.extend(lease))
    }

    /// Gives the lock back; as [`Guard::release`](crate::Guard::release).
    pub fn release(self) -> Release {
        let guard: crate::Guard = self.inner.into();
        self.engine.handle.block_on(guard.release())
    }

    /// Waits until the lock is lost, at most for so long; as [`Guard::lost`](crate::Guard::lost).
    pub fn wait_until_lost(&self, at_most: Duration) -> Option<LossReason> {
        let guard: &crate::Guard = self.inner.as_ref();
        let until = Tokio.now().saturating_add(at_most);
        let lost = within(&Tokio, until, guard.lost());
        self.engine.handle.block_on(lost)
    }

    /// Takes the guard apart; as [`Guard::detach`](crate::Guard::detach).
    ///
    /// # Errors
    ///
    /// As there.
    pub fn detach(self) -> Result<DetachedLock, LockError> {
        let guard: crate::Guard = self.inner.into();
        guard.detach()
    }
}

impl<K: Kind> Deref for Guard<K> {
    type Target = K::Guard;

    fn deref(&self) -> &K::Guard {
        &self.inner
    }
}

impl<K: Kind> fmt::Debug for Guard<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
