//! A conformance suite for distributed locks on Redis.
//!
//! To check a lock, implement [`Subject`] for it: five methods. The lock takes its connections, its time and its random
//! numbers from [`Host`]. One call checks it:
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
//! // Panics with the broken properties, a minimal scenario, its timeline and a test that replays it.
//! check(BlindDel).quick().assert_sound();
//! ```
//!
//! `check(..).plain()` plays unmodified code, which connects by itself, sleeps with `tokio::time` and starts
//! tasks with `tokio::spawn`; see [`Plain`](subject::Plain). `check(..).threads()` plays blocking code; see
//! [`Threads`](subject::Threads).
//!
//! # How it works
//!
//! The suite plays many small scenarios with a lock, on an embedded double in virtual time or on a real
//! server. Clients contend, work past their lease, are paused, crash; links are slow or break; servers fail.
//! The suite judges each history, property by property:
//!
//! ```text
//! seed -> scenario::generate -> Scenario -> simulation -> History -> checker -> Finding -> verdict
//!                                               ^
//!                                     subject, backend
//! ```
//!
//! # Features
//!
//! None is on by default. `bench` adds the module `bench` and `redouble-check bench`: latency, hand-over and fairness of
//! locks under load. `mutants` adds the module `mutation` and `redouble-check mutants`: small mistakes in the scripts of
//! locks.

pub mod backend;
#[cfg(feature = "bench")]
pub mod bench;
mod check;
pub mod checker;
mod child;
pub mod coverage;
pub mod history;
#[cfg(feature = "mutants")]
pub mod mutation;
pub mod plan;
mod precision;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod simulation;
pub mod subject;
pub mod verdict;
mod vocabulary;

pub use check::{Check, check, check_listed};
pub use subject::{BoxError, Connection, Host, NotOffered, Promises, Subject};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
