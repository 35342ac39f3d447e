//! Distributed locks on Redis whose guarantees are stated, and shown by tests that break everything
//! around them.
//!
//! ```no_run
//! use redouble_lock::{LockError, LockManager, Release};
//! use std::time::Duration;
//!
//! # async fn work() {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = LockManager::from_client(redis::Client::open("redis://127.0.0.1")?).await?;
//! let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).watchdog(true).build();
//!
//! match lock.lock_timeout(Duration::from_secs(3)).await {
//!     Ok(guard) => {
//!         guard.run(work()).await?; // stopped when the lock is lost
//!         if guard.release().await != Release::Released {
//!             eprintln!("done, but the lock was not ours to the end");
//!         }
//!     }
//!     Err(error) if error.is_contended() => eprintln!("busy: another one had it for all 3 s"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The locks
//!
//! | kind | guarantee | cost without contention | nodes |
//! |---|---|---|---|
//! | [`Mutex`] | one valid [`Guard`] per key at a time | 1 + 1 | 1 |
//! | [`FencedMutex`] | the same, and a number that grows from grant to grant | 1 + 1 | 1 |
//! | [`ReentrantMutex`] | the same among *owners*; an owner may take it again | 1 + 1; 1 for each inner level | 1 |
//! | [`FairMutex`] | the same, in order of arrival | 1 + 1 | 1 |
//! | [`RwLock`] | one writer, or any number of readers | 1 + 1 | 1 |
//! | [`Semaphore`] | no more permits out than there are | 1 + 1 | 1 |
//! | [`MultiKeyMutex`] | a mutex on several keys, all or none | 1 + 1 | 1 |
//! | [`FencedMultiKeyMutex`] | the same, and one number for all keys | 1 + 1 | 1 |
//! | [`lock_all`] | several locks, of any kinds and nodes | 1 + 1 for each | any |
//! | [`RedlockMutex`] | a mutex on a majority of independent nodes | 1 + 1, to all at once | N |
//! | [`Admission`], [`Stock`] | no more than so many are let in; not a lock | 1 | 1 |
//! | [`CountDownLatch`] | opens when a number of things are done; not a lock | 1 | 1 |
//!
//! The cost is in round trips, to take it and to give it back, and one more for each third of the lease with a
//! watchdog. Numbered grants ([`FencedGuard`]) exist of all that have one holder at a time; [`lock_all`] has a number for each
//! of its locks.
//!
//! ## What they survive
//!
//! | what happens | one node | Redlock of 2f + 1 nodes | with a resource that checks the number |
//! |---|---|---|---|
//! | messages are late, lost, repeated; links break | holds; may be hard to get | the same | accesses exclude each other too |
//! | a client is paused or dies | holds; its lock is free after the lease | the same | the same |
//! | work takes longer than the lease | it is told, or the watchdog extends | the same | the same |
//! | clocks run apart, within [`drift_ppm`](LockBuilder::drift_ppm) | holds | holds | holds |
//! | a client's wall clock jumps | holds | holds | holds |
//! | a client's virtual machine is suspended | **may be broken** | **may be broken** | accesses exclude each other |
//! | a server restarts with its data, is paused, answers errors | holds; may be hard to get | the same | the same |
//! | a server forgets the key early: failover to a lagging replica, restart without data, eviction, a clock that jumps ahead | **broken** | holds while no more than *granted - f - 1* nodes have forgotten | holds while its clock is not behind by more than the time since the last grant |
//!
//! *Holds* is meant of guards: no two that exclude each other are valid at once.
//!
//! ## Which one
//!
//! * To save double work, a [`Mutex`] with a lease that the work fits in, or with a watchdog.
//! * Where double work does damage, a [`FencedMutex`], and a resource that follows the rule of
//!   [`FencingToken`]. Nothing else protects against a paused holder.
//! * Where one Redis may fail and the lock shall not: [`RedlockMutex`] on five nodes that share nothing. A
//!   replica is no such node: it may be promoted without the key. [`replicas`](LockBuilder::replicas) narrows that gap
//!   and does not close it.
//! * Where some waiters starve: [`FairMutex`]. It costs nothing more, but a waiter that stalls holds up the others until
//!   it is given up.
//! * For the first hundred of anything, no lock: [`Admission`].
//!
//! Each kind also promises that
//!
//! * **a dead holder does not block others**: its lock is free when its lease is over;
//! * **the loss is told**: [`Guard::lost`] completes by the deadline of the lease, even if Redis is
//!   silent. A lock that is lost stays lost; nothing brings that guard back to life;
//! * **only the owner releases and extends**: every acquisition has its own random [`Token`], and
//!   scripts compare it where they act. A lease is never shortened;
//! * **what is not known is not called a failure**: a request without an answer may have been
//!   executed. It is repeated with the same token, which recognises its own grant. When that leads
//!   nowhere, it is undone, and [`LockError::Unknown`] is returned as long as that is not confirmed;
//! * **cancelling is safe** at every await, in `select!` and under timeouts: what was sent is undone
//!   in the background, over the same connection, where it cannot be overtaken.
//!
//! # Leases
//!
//! Redis keeps a lock for the time of its *lease*, whatever happens to the holder. The holder trusts
//! it for a little less, until its *deadline*:
//!
//! ```text
//! local monotonic clock before the request is sent + lease x (1 - drift) - safety margin
//! ```
//!
//! Nothing that Redis answers makes it later, and an answer that arrives after it is no grant. The
//! lease is thus also the time for which everybody waits when a holder dies: some seconds are
//! usual. For work that may take longer there is [`watchdog`](LockBuilder::watchdog), which extends
//! the lease as long as the guard lives, or [`Guard::extend`].
//!
//! # What a lock cannot do
//!
//! A lease ends by time, and a holder can be late to notice: a process that is paused just before
//! it writes will write when it wakes up, and a message that it has sent may arrive any time later.
//! So no lock of this kind makes *accesses* exclusive by itself, whatever its algorithm. Where that
//! matters, the resource must reject what is outdated: every access, read or write, carries the grant's
//! [`FencingToken`], and the resource refuses what is lower than the highest that it has seen, or equal and of
//! another grant. Where the lock only saves double work, stop at the loss ([`Guard::run`] does) and look at the
//! outcome of [`Guard::release`].
//!
//! # Waiting
//!
//! A release wakes one waiter of all processes, or as many as can be served: readers, permits. So its cost does not grow with the
//! number of waiters. The message comes over the same connection where that speaks RESP3, over a second one where it does not
//! ([`from_client`](LockManager::from_client) opens it by itself, [`with_subscriber`](LockManager::with_subscriber) takes yours).
//! A message that is lost, a woken process that dies, and other programs that use the same keys and publish nothing, cost at most
//! [`max_poll_interval`](LockBuilder::max_poll_interval). Who waits for a [`RedlockMutex`] is told nothing, and asks again after pauses:
//! the messages of a release arrive node by node, and who asked at the first one would find the others still taken.
//!
//! How long to wait, and how to pause where nothing wakes a waiter and after failures, is for the builder to say:
//!
//! ```
//! # fn f(locks: redouble_lock::LockManager) {
//! # use std::time::Duration;
//! # let ms = Duration::from_millis;
//! let lock = locks.mutex("order:17").wait(ms(3_000)).poll_pauses(ms(2), ms(50)).retry_pauses(ms(20), ms(500)).build();
//! # }
//! ```
//!
//! # Time, tasks and tests
//!
//! Clock, timers, background tasks and randomness come through [`Environment`]; with [`Tokio`], the
//! default, a test with a paused clock (`start_paused = true`) runs a lease of thirty seconds in no
//! time. Over a real socket a paused clock makes every request time out at once, so such a test
//! needs a connection in process, as the test double [`redouble`](https://docs.rs/redouble) has:
//!
//! ```
//! use redouble::{Clock, Server, fault::Disconnect};
//! use redouble_lock::{LockManager, LossReason};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().clock(Clock::Tokio).start().await?;
//! let locks = LockManager::new(server.connection().await?);
//!
//! // The lock is taken, but the reply is lost: the next request recognises it.
//! let fault = server.inject(Disconnect::after_execution().key("order:17").nth(1));
//! let guard = locks.mutex("order:17").build().lock().await?;
//! assert_eq!(fault.fired(), 1);
//!
//! // Redis is silent from here on. The holder is told in time.
//! let _pause = server.pause();
//! assert_eq!(guard.lost().await, LossReason::Expired);
//! # Ok(())
//! # }
//! ```
//!
//! [`tracing`] has spans for waiting, holding and extending (`lock.wait`, `lock.hold`, `lock.renew`), and events: losses
//! and locks that cannot be released as warnings, failed requests at debug level. [`Metrics`] are told the same to count.
//!
//! # Features
//!
//! * `redis` (default): [`LockManager::new`], [`from_client`](LockManager::from_client) and
//!   [`builder`](LockManager::builder) for the `redis` crate. Without it, [`wire`] is the way to
//!   connect another client library.
//! * `blocking` (default): [`blocking`], for programs without tokio. It costs nothing but its code.
//!
//! Redis 3.2 or later, or a server that speaks its protocol and runs its scripts; 2.6 for [`Admission`] and [`Stock`], 6 for
//! [`track_key`](LockBuilder::track_key).

/// The example of the README compiles.
#[cfg(all(doctest, feature = "redis"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod acquire;
mod admission;
mod algorithm;
mod all;
#[cfg(feature = "blocking")]
pub mod blocking;
mod builder;
mod cleanup;
mod connection;
#[cfg(feature = "redis")]
mod connector;
mod core;
mod counter;
mod detached;
mod early_loss;
mod environment;
mod error;
mod grant;
mod guard;
mod kind;
mod latch;
mod lease;
mod lock;
mod manager;
mod node;
mod observe;
mod operator;
mod options;
mod owner;
mod release;
mod renewal;
mod retry;
mod script;
mod signal;
mod token;
mod tracking;
mod waiters;
pub mod wire;

pub use admission::{Admission, Stock};
pub use all::{AllGuards, lock_all};
pub use builder::LockBuilder;
#[cfg(feature = "redis")]
pub use connector::{ByConnection, ByConnector, Connected, ConnectionSource, Connector, Fixed};
pub use detached::DetachedLock;
pub use environment::{BoxFuture, Environment, NoRuntime, Spawner, Tokio};
pub use error::{DetachedLockError, LockError, LossReason, NodeError, NodeErrorKind};
pub use guard::{CancellationToken, Guard};
pub use kind::{
    Capacity, Exclusive, Fair, FairMutex, Fenced, FencedFair, FencedFairMutex, FencedGuard,
    FencedMultiKey, FencedMultiKeyMutex, FencedMutex, FencedQuorum, FencedRedlockMutex,
    FencedWrite, Kind, MultiKey, MultiKeyMutex, Mutex, Permits, Quorum, Read, ReadWrite, Redlock,
    RedlockMutex, RwLock, Semaphore, Write,
};
pub use latch::CountDownLatch;
pub use lock::Lock;
pub use manager::{LockManager, LockManagerBuilder};
pub use observe::Metrics;
pub use operator::Holder;
pub use owner::{FencedReentrantMutex, Owner, ReentrantGuard, ReentrantMutex};
#[cfg(feature = "redis")]
#[doc(no_inline)]
pub use redis;
pub use release::Release;
pub use token::{FencingToken, Token};
