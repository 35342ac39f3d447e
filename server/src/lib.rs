//! A test double for Redis: a server in your test's own process, with the real protocol, real Lua 5.1
//! scripts, one clock that the test can move, and faults that a real server cannot give on demand.
//!
//! ```
//! use redis::AsyncTypedCommands;
//! use redouble::{Clock, Server, fault::Disconnect};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().clock(Clock::Manual).start().await?; // own port and data, gone on drop
//! server.set("stock:7", "3"); // data without a client
//! let client = redis::Client::open(server.url())?; // any client of any language may connect
//! let mut redis = client.get_multiplexed_async_connection().await?;
//!
//! redis.set_ex("coupon:7", "first", 30).await?;
//! server.clock().advance(Duration::from_secs(30)); // time moves when the test says so
//! assert_eq!(server.ttl("coupon:7"), Some(Duration::ZERO));
//! server.clock().advance(Duration::from_millis(1));
//! server.assert_missing("coupon:7"); // a key expires once now > deadline
//!
//! // The server executes the request (the `redis` crate sends DECRBY), and its reply is lost.
//! let lost = server.inject(Disconnect::after_execution().command("DECRBY")).expect(1);
//! assert!(redis.decr("stock:7", 1).await.unwrap_err().is_connection_dropped());
//! server.assert_get("stock:7", "2");
//! lost.remove(); // checks that it hit exactly one message
//! # Ok(()) }
//! ```
//!
//! # What it has
//!
//! | for | look at |
//! |---|---|
//! | starting a server | [`Server`], [`ServerBuilder`]; [`Server::start_blocking`] without tokio |
//! | time: the wall clock, a manual one, tokio's, that of a simulation | [`Clock`], [`ClockControl`] |
//! | connections: TCP, Unix sockets, TLS, and in process for a paused tokio clock | [`Server::url`], [`Server::connection`], [`ConnectionBuilder`] |
//! | faults of messages: lost, late, cut, held, answered with an error | [`fault`], [`FaultGuard`] |
//! | faults of a server: paused, crashed, its clock wrong, its keys evicted | [`Server::pause`], [`Server::crash`], [`Server::evict`] |
//! | data without a client | [`Server::set`], [`Server::command`], [`Server::snapshot`] |
//! | assertions about data and requests | [`Server::assert_get`], [`Server::assert_history`] |
//! | tests that hang | [`Server::within`], [`Server::diagnosis`] |
//! | replicas, sentinels, clusters, failovers, split networks | [`Deployment`] |
//! | the same message faults in front of a real Redis | [`proxy`] |
//! | the bare state machine, without sockets and without a clock | [`engine`] |
//!
//! # Which clock
//!
//! Locks, leases and everything else that measures time *in the client* need [`Clock::Tokio`] in a
//! `#[tokio::test(start_paused = true)]`, and [`Server::connection`]: client and server then live in the
//! same virtual time. With [`Clock::Manual`] the client's timers stand still while the server's clock moves,
//! so a lock's guard stays valid past its lease. A request over a real socket times out at once while
//! tokio's clock is paused: use [`Server::connection`] there.
//!
//! # Setup
//!
//! ```toml
//! [dev-dependencies]
//! redouble = "0.1" # or { git = "https://github.com/redouble-rs/redouble" }
//! redis = { version = "1.8", features = ["aio", "tokio-comp"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util", "time"] }
//! ```
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `net` | yes | servers, sockets, deployments, the proxy; brings tokio. Without it there is the pure [`engine`] |
//! | `script` | yes | EVAL, EVALSHA, SCRIPT in real Lua 5.1; needs a C compiler |
//! | `redis` | yes | [`Server::connection`] for the `redis` crate |
//! | `tls` | no | TLS sockets and throw-away certificates; needs a C compiler |
//! | `cli` | no | the program `redouble`: a server, or a proxy, for programs in other languages |
//!
//! # Limits
//!
//! * The double answers as Redis 7.0.15 does ([`REDIS_VERSION`]); tests compare most replies byte for byte.
//!   [`ServerBuilder::compat`] chooses another server to imitate.
//! * [`command_names`] lists the commands: all of Redis 7.0.15. The double answers `unknown command` to commands of modules and of
//!   later versions.
//! * Data lives in memory. [`Persistence`] decides the part that survives a [`Server::crash`]. With a folder
//!   ([`ServerBuilder::dir`]) a server reads and writes an RDB file as Redis does; it writes no append-only file.
//! * Deployments model replication, sentinels and cluster messages by their effects on clients. A real Redis can be
//!   the replica of a server (`REPLICAOF`), but no server copies data from a real Redis, and there is no cluster bus.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "net")]
mod client_connection;
#[cfg(feature = "net")]
mod clock;
#[cfg(feature = "net")]
mod connection;
#[cfg(feature = "net")]
mod control_queue;
#[cfg(feature = "net")]
mod disk;
pub mod engine;
pub mod fault;
#[cfg(feature = "net")]
mod history;
#[cfg(feature = "net")]
mod node;
pub mod resp;

#[cfg(feature = "net")]
mod acl_file;
#[cfg(feature = "net")]
mod address;
#[cfg(feature = "net")]
mod clock_control;
#[cfg(feature = "net")]
mod control;
#[cfg(feature = "net")]
mod deployment;
#[cfg(feature = "net")]
mod error;
#[cfg(feature = "net")]
mod fault_guard;
#[cfg(feature = "net")]
mod inspect;
#[cfg(feature = "net")]
mod listen;
#[cfg(feature = "net")]
mod net;
#[cfg(feature = "net")]
mod node_handle;
#[cfg(feature = "net")]
pub mod proxy;
#[cfg(feature = "net")]
mod server;
#[cfg(feature = "net")]
mod storage;
#[cfg(feature = "net")]
mod topology;

#[cfg(feature = "net")]
pub mod diagnosis {
    //! The parts of a [`Diagnosis`](crate::Diagnosis).
    pub use crate::inspect::{Held, Reason, Unserved};
}

#[cfg(feature = "net")]
pub use clock_control::ClockControl;
#[cfg(feature = "net")]
pub use deployment::{
    CutLink, Deployment, DeploymentBuilder, DeploymentSnapshot, Partitioned, Split,
};
#[cfg(feature = "net")]
pub use disk::{Loss, Persistence};
#[cfg(feature = "net")]
pub use error::StartError;
#[cfg(feature = "net")]
pub use fault_guard::FaultGuard;
#[cfg(feature = "net")]
pub use history::{Entry, HISTORY_BYTES_MAX, HISTORY_MAX, History};
#[cfg(feature = "net")]
pub use inspect::{
    Data, Database, Diagnosis, LazyExpiry, PauseGuard, PendingEntry, Snapshot, Stored, Within,
};
#[cfg(feature = "tls")]
pub use net::ClientCertificates;
#[cfg(feature = "redis")]
pub use net::{Connection, ConnectionBuilder, Spawn};
#[cfg(feature = "net")]
pub use net::{Driver, InProcess};
#[cfg(feature = "net")]
pub use node_handle::{Clock, ClockKind, TimeSource};
pub use redouble_core::{
    Profile, REDIS_VERSION, command_names, command_names_of, missing_command_names,
    parameters_without_effect,
};
#[cfg(feature = "net")]
pub use server::{Server, ServerBuilder};
#[cfg(feature = "net")]
pub use topology::Lag;
