//! Distributed locks on Redis. Each kind states what it guarantees, and tests show it under faults of the network, the servers and
//! the clients.
//!
//! * One server is enough, and duplicate work is only a waste: [`Mutex`].
//! * Duplicate work does damage: a lock that is [`fenced`](LockBuilder::fenced), and a resource that follows the rule of [`FencingToken`].
//! * The lock must survive the failure of a server: [`Redlock`] on five independent servers.
//! * No waiter may starve: [`FairMutex`].
//! * Many clients may enter: [`Semaphore`] or [`RwLock`]. Only the first N clients may enter: [`Admission`], which is no lock.
//!
//! ```no_run
//! use redouble_lock::{LockError, LockManager, Release};
//! use std::time::Duration;
//!
//! # async fn work() {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let locks = LockManager::from_client(redis::Client::open("redis://127.0.0.1")?).await?;
//! let lock = locks.mutex("order:17").lease(Duration::from_secs(10)).watchdog(true).build()?;
//!
//! match lock.lock_timeout(Duration::from_secs(3)).await {
//!     Ok(guard) => {
//!         guard.run(work()).await?; // stopped when the lock is lost
//!         if guard.release().await != Release::Released {
//!             eprintln!("done, but the lock was not held to the end");
//!         }
//!     }
//!     Err(error) if error.is_contended() => eprintln!("another client held the lock for all 3 s"),
//!     Err(error) => return Err(error.into()),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Kinds
//!
//! | kind | holders | round trips | nodes |
//! |---|---|---|---|
//! | [`Mutex`] | one guard | 1 + 1 | 1 |
//! | [`FairMutex`] | one guard, in the order of arrival | 1 + 1 | 1 |
//! | [`ReentrantMutex`], [`Owner`] | one *owner*, which may take the lock again | 1 + 1, and 1 for each inner level | 1 |
//! | [`RwLock`] | one writer, or any number of readers | 1 + 1 | 1 |
//! | [`Semaphore`] | guards of a limited number of permits | 1 + 1 | 1 |
//! | [`MultiKeyMutex`] | one guard of each of several keys, all or none | 1 + 1 | 1 |
//! | [`lock_all`] | one guard of each of several locks of one kind, on any nodes | 1 + 1 for each | any |
//! | [`RedlockMutex`] | one guard, granted by a majority of independent nodes | 1 + 1, to all nodes at once | N |
//! | [`Admission`], [`Stock`] | not locks: they admit the first N clients, or hand out N items | 1 | 1 |
//! | [`CountDownLatch`] | not a lock: clients wait until N tasks are done | 1 | 1 |
//!
//! The round trips are those without contention: to take the lock and to release it. A watchdog needs one more for each third of the
//! lease. A waiting client needs one for each wake-up, and at least one a second. A waiting client that gives up needs one more, to leave
//! the queue.
//!
//! # Guarantees
//!
//! *Holds* means: no two guards that exclude each other are valid at once. A replica is no independent node: it may be promoted without
//! the key. [`replicas`](LockBuilder::replicas) makes that rarer, but does not exclude it.
//!
//! | event | one node | Redlock on 2f + 1 nodes | with a resource that checks fencing tokens |
//! |---|---|---|---|
//! | messages are late, lost or repeated; connections break | holds; the lock may be hard to get | holds; the lock may be hard to get | accesses exclude each other too |
//! | a client pauses or crashes | holds; the lock is free when its lease ends | holds; the lock is free when its lease ends | accesses exclude each other too |
//! | work takes longer than the lease | holds: the holder learns of the loss, or its watchdog extends the lease | holds: the holder learns of the loss, or its watchdog extends the lease | accesses exclude each other too |
//! | clocks run apart, within [`drift_ppm`](LockBuilder::drift_ppm) | holds | holds | holds |
//! | the wall clock of a client jumps | holds | holds | holds |
//! | the virtual machine of a client is suspended | **may be broken** | **may be broken** | accesses exclude each other |
//! | a server restarts with its data, pauses or answers errors | holds; the lock may be hard to get | holds; the lock may be hard to get | accesses exclude each other too |
//! | a server loses the key early: failover to a lagging replica, restart without data, eviction, a clock that jumps ahead | **broken** | holds while at most *g - f - 1* nodes have lost the key, where *g* is the number of nodes that granted the lock, and a node that restarted without data stays away for a lease | holds unless its clock is behind by more than the time since the last grant |
//!
//! Each kind also promises that
//!
//! * **a crashed holder blocks the other clients for one lease at most**, or for the time of
//!   [`hold_at_least`](LockBuilder::hold_at_least) if that is longer;
//! * **a holder learns of a loss in time**: [`Guard::lost`] completes by the deadline of the lease, even if Redis does not reply. A lost
//!   guard stays lost;
//! * **only the owner releases and extends a lock**: every acquisition has its own random [`Token`], and scripts compare it in the same
//!   step in which they act. A lease is never shortened;
//! * **an unknown outcome is not reported as a failure**: a request without a reply may have been executed. The call repeats it with
//!   the same token, and the script recognises a grant of that token. If no reply comes in time, the crate undoes the request, and the call
//!   returns [`LockError::Unknown`];
//! * **cancelling is safe** at every await, in `select!` and under timeouts: the crate undoes what was sent, in the background and over the same
//!   connection, so the release cannot overtake the request. Only if that connection breaks before the request arrives, the server
//!   may keep the lock until its lease ends.
//!
//! # Leases
//!
//! Redis keeps a lock for the time of its *lease*, whatever happens to the holder. The holder relies on
//! it for a little less, until its *deadline*:
//!
//! ```text
//! local monotonic clock before the request is sent + lease x (1 - drift) - safety margin
//! ```
//!
//! A slow reply does not make the deadline later, and a reply that arrives after the deadline is no grant. If a holder crashes, the other
//! clients wait for its lease: some seconds are usual. For work that may take longer,
//! [`watchdog`](LockBuilder::watchdog) extends the lease as long as the guard lives, and [`Guard::extend`] extends it once.
//!
//! # What a lock cannot do
//!
//! A lease ends by time, and a holder can notice that too late: a process that pauses just before
//! a write will write when it resumes, and a message that it has sent may arrive at any time later.
//! So no lock with a lease makes *accesses* exclusive by itself, whatever its algorithm. Where that
//! matters, the resource must reject outdated accesses: every access, read or write, carries the grant's
//! [`FencingToken`], and the resource refuses a token that is lower than the highest that it has seen, or equal and of
//! another grant. Where the lock only saves duplicate work, stop when the lock is lost ([`Guard::run`] does that) and
//! check the outcome of [`Guard::release`].
//!
//! # Waiting
//!
//! A release wakes one waiter in all processes, or as many as can enter: waiting readers, or waiters for the free permits. So its cost does
//! not grow with the number of waiters. A node keeps the names of up to 1000 waiters of a lock; the others ask again at least once a
//! second. A [`FairMutex`] keeps the places of all its waiters. The message comes over the same connection if that speaks RESP3, else over a second one
//! ([`from_client`](LockManager::from_client) opens it, [`with_subscriber`](LockManager::with_subscriber) takes yours).
//! If a message is lost, a woken process crashes, or another program frees the key without a message, a waiter notices the free lock
//! after at most [`max_poll_interval`](LockBuilder::max_poll_interval). Waiters of a [`RedlockMutex`] get no message and ask again after pauses:
//! a release would publish on each node at another time, and a waiter that asks after the first message would find the other nodes still
//! locked.
//!
//! A lock that stays taken after its release ([`hold_at_least`](LockBuilder::hold_at_least)) tells its first waiter when that time ends. A
//! semaphore and the readers of a [`RwLock`] do not: other holders may stay for longer.
//!
//! The builder sets how long a call waits, the pauses of a waiter that no message wakes, and the pauses after failed requests:
//!
//! ```
//! # fn f(locks: redouble_lock::LockManager) -> Result<(), redouble_lock::LockError> {
//! # use std::time::Duration;
//! # let ms = Duration::from_millis;
//! let lock = locks.mutex("order:17").wait(ms(3_000)).poll_pauses(ms(2), ms(50)).retry_pauses(ms(20), ms(500)).build()?;
//! # Ok(())
//! # }
//! ```
//!
//! # Time, tasks and tests
//!
//! Clock, timers, background tasks and randomness come through [`Environment`]. With [`Tokio`], the
//! default, a test with a paused clock (`start_paused = true`) runs a lease of thirty seconds in
//! milliseconds. Over a real socket a paused clock makes every request time out at once. Such a test
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
//! // The server takes the lock, but the reply is lost. The next request has the same token and gets the lock.
//! let fault = server.inject(Disconnect::after_execution().key("order:17").nth(1));
//! let guard = locks.mutex("order:17").build()?.lock().await?;
//! assert_eq!(fault.fired(), 1);
//!
//! // Redis does not reply any more. The holder learns of the loss in time.
//! let _pause = server.pause();
//! assert_eq!(guard.lost().await, LossReason::Expired);
//! # Ok(())
//! # }
//! ```
//!
//! # Tracing and metrics
//!
//! The crate emits these spans and events of [`tracing`], all with the target `redouble_lock`. Their names, levels and fields change only
//! with a major version. `key` is the key of the lock with escaped bytes, `error` a [`NodeError`], `reason` a [`LossReason`].
//!
//! | what | name | level | fields | when |
//! |---|---|---|---|---|
//! | span | `lock.wait` | debug | `key` | a call asks for a lock, from its start to its outcome |
//! | span | `lock.hold` | debug | `key` | a guard holds its lock; parent of the next ones |
//! | span | `lock.renew` | debug | | a watchdog extends the lease |
//! | event | `lock.renewal_failed` | debug | `error` | a watchdog could not extend the lease, and tries again until the deadline |
//! | event | `lock.lost` | warn | `key`, `reason` | a lock is lost |
//! | event | `lock.no_runtime` | warn | `key` | a guard was dropped without a runtime: its lock stands until its lease is over |
//! | event | `lock.left` | debug | `key` | the release in the background did not succeed before the lease was over |
//! | event | `lock.request_failed` | debug | `error` | one request to Redis failed |
//! | event | `lock.not_subscribed` | debug | `error` | Redis refuses the subscription: waiters poll |
//!
//! [`Metrics`] is called at each change of a lock. Exporters that agree on names can share dashboards, so these are proposed:
//!
//! | method | metric |
//! |---|---|
//! | `granted` | counter `redouble_lock_granted_total`, histogram `redouble_lock_wait_seconds` |
//! | `not_granted` | counter `redouble_lock_not_granted_total`, label `reason`: `contended`, `unknown` or `failed` |
//! | `released`, `dropped`, `lost` | counter `redouble_lock_ended_total`, label `how`; histogram `redouble_lock_hold_seconds` |
//! | `renewed` | counter `redouble_lock_renewed_total` |
//! | `failed` | counter `redouble_lock_failed_requests_total` |
//!
//! The key of a lock is no label: there are too many of them. A label for the kind of work is.
//!
//! # Features
//!
//! * `redis` (default): [`LockManager::new`], [`from_client`](LockManager::from_client) and
//!   [`builder`](LockManager::builder) for the `redis` crate. No other client library is supported yet.
//! * `blocking` (default): [`blocking`], for programs without tokio. Programs that do not use it pay nothing for it.
//! * `sentinel`, `cluster`: `LockManager::from_sentinel` and `from_cluster`.
//! * `serde`: serialization of [`DetachedLock`] and [`FencingToken`].
//! * `tokio-util`: `Guard::cancellation_token`.
//!
//! # Servers
//!
//! The locks need Redis 3.2 or later, or a server with the same protocol and scripts. [`Admission`] and [`Stock`] need 2.6,
//! [`track_key`](LockBuilder::track_key) needs 6.

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
#[doc(hidden)]
pub mod wire;

pub use admission::{Admission, Stock};
pub use all::{AllGuards, lock_all};
pub use builder::LockBuilder;
#[cfg(feature = "sentinel")]
pub use connector::BySentinel;
#[cfg(feature = "redis")]
pub use connector::{
    ByConnected, ByConnection, ByConnector, Connected, ConnectionSource, Connector, Fixed,
};
pub use detached::DetachedLock;
pub use environment::{BoxFuture, Environment, NoRuntime, Spawner, Tokio};
pub use error::{DetachedLockError, LockError, LossReason, NodeError, NodeErrorKind};
pub use guard::Guard;
pub use kind::{
    Capacity, Exclusive, Fair, FairMutex, Fenceable, Fenced, FencedGuard, FencedMutex, Kind,
    MultiKey, MultiKeyMutex, Mutex, Permits, Quorum, Read, ReadWrite, Redlock, RedlockMutex,
    RwLock, Semaphore, Write,
};
pub use latch::CountDownLatch;
pub use lock::Lock;
pub use manager::{LockManager, LockManagerBuilder};
pub use observe::Metrics;
pub use operator::Holder;
pub use owner::{Owner, ReentrantGuard, ReentrantMutex};
#[cfg(feature = "redis")]
#[doc(no_inline)]
pub use redis;
pub use release::Release;
pub use token::{FencingToken, Token};
