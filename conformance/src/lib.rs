//! A conformance suite for distributed locks on Redis.
//!
//! It plays many small scenarios with a lock (clients that contend, work too long, are paused,
//! die; links that are slow or break), on an embedded double in virtual time or on a real server,
//! and judges what happened, property by property:
//!
//! ```text
//! seed -> scenario::generate -> Scenario -> simulation -> History -> checker -> Finding -> verdict
//!                                               ^
//!                                     subject, backend
//! ```
//!
//! # Checking one's own lock
//!
//! A lock becomes a [`Subject`] with four methods. What it needs from the outside comes from the
//! [`Host`]: connections, a clock, randomness. Then one call judges it:
//!
//! ```should_panic
//! use redis::{AsyncTypedCommands, ExistenceCheck::NX, SetExpiry::PX, SetOptions};
//! use redouble_conformance::{BoxError, Connection, Host, Promises, Subject, check};
//! use std::time::Duration;
//!
//! struct BlindDel;
//! struct Handle { redis: Connection, host: Host, key: String, lease_ms: u64 }
//!
//! impl Subject for BlindDel {
//!     type Lock = Handle; // one per client process, shared by all its tasks
//!     type Grant = ();
//!     fn name(&self) -> &'static str { "blind-del" }
//!     fn promises(&self) -> Promises { Promises::mutex_on_one_node() }
//!     async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
//!         let lease_ms = lease.as_millis() as u64;
//!         Ok(Handle { redis: host.connection().await?, host: host.clone(), key: key.into(), lease_ms })
//!     }
//!     async fn try_lock(&self, lock: &Handle) -> Result<Option<()>, BoxError> { // Err = outcome unknown
//!         let once = SetOptions::default().conditional_set(NX).with_expiration(PX(lock.lease_ms));
//!         let token = lock.host.random_token();
//!         Ok(lock.redis.clone().set_options(&lock.key, token, once).await?.map(drop))
//!     }
//!     async fn release(&self, lock: &Handle, (): ()) -> Result<bool, BoxError> {
//!         Ok(lock.redis.clone().del(&lock.key).await? == 1) // the bug
//!     }
//!     // optional: deadline, lock_timeout, extend, lost
//! }
//!
//! // Panics with the property, a minimal script and a test that replays it.
//! check(BlindDel).quick().assert_sound();
//! ```
//!
//! Code that dials by itself, sleeps with `tokio::time` and starts tasks with `tokio::spawn` is played as it is by
//! `check(..).plain()`, see [`Plain`](subject::Plain); code that blocks by `check(..).threads()`, see
//! [`Threads`](subject::Threads).

pub mod backend;
pub mod bench;
mod check;
pub mod checker;
pub mod coverage;
pub mod differential;
pub mod fuzzing;
pub mod history;
pub mod mutation;
pub mod plan;
mod precision;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod simulation;
pub mod subject;
pub mod verdict;

pub use check::{Check, check};
pub use subject::{BoxError, Connection, Host, NotOffered, Promises, Subject};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
