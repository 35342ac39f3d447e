//! A test double for Redis: the real protocol, real Lua 5.1 scripts, one clock that can be
//! controlled, and faults that a real server cannot give on demand.

#![cfg_attr(
    not(all(feature = "net", feature = "script")),
    allow(dead_code, reason = "parts of the core serve features that are off")
)]

mod client_connection;
mod clock;
mod command;
mod control_queue;
mod disk;
pub mod engine;
pub mod fault;
mod history;
mod node;
mod release_condition;
pub mod resp;

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
mod topology;

#[cfg(feature = "net")]
pub mod diagnosis {
    //! What a [`Diagnosis`](crate::Diagnosis) is made of.
    pub use crate::inspect::{Held, Reason, Unserved};
}

#[cfg(feature = "net")]
pub use clock_control::ClockControl;
pub use command::command_names;
#[cfg(feature = "net")]
pub use deployment::{
    CutLink, Deployment, DeploymentBuilder, DeploymentSnapshot, Partitioned, Split,
};
pub use disk::{Loss, Persistence};
#[cfg(feature = "net")]
pub use error::StartError;
#[cfg(feature = "net")]
pub use fault_guard::FaultGuard;
pub use history::{Entry, HISTORY_MAX, History};
#[cfg(feature = "net")]
pub use inspect::{Data, Database, Diagnosis, LazyExpiry, PauseGuard, Snapshot, Stored, Within};
#[cfg(feature = "tls")]
pub use net::ClientCertificates;
#[cfg(feature = "redis")]
pub use net::{Connection, ConnectionBuilder, Spawn};
#[cfg(feature = "net")]
pub use net::{Driver, InProcess};
#[cfg(feature = "net")]
pub use node_handle::{Clock, ClockKind, TimeSource};
#[cfg(feature = "net")]
pub use server::{Server, ServerBuilder};
#[cfg(feature = "net")]
pub use topology::Lag;

/// The version of Redis that is implemented and was compared with, byte for byte.
pub const REDIS_VERSION: &str = "7.0.15";
