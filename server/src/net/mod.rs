//! Transports and timers: sockets on an event loop of their own, the in-process stream, tokio's clock, the driver.

#[cfg(feature = "script")]
mod busy;
mod driver;
mod event_loop;
mod in_process;
mod listener;
mod socket;
mod socket_set;
mod sockets;
mod tcp;
#[cfg(feature = "tls")]
mod tls;
mod tokio_time;
#[cfg(unix)]
mod unix;

#[cfg(feature = "redis")]
mod connection;

#[cfg(feature = "redis")]
pub use connection::{Connection, ConnectionBuilder, Spawn};
pub use driver::Driver;
pub(crate) use driver::DriverTask;
pub use in_process::InProcess;
pub(crate) use listener::Listener;
pub(crate) use sockets::{Sockets, connections_max};
#[cfg(feature = "tls")]
pub use tls::ClientCertificates;
#[cfg(feature = "tls")]
pub(crate) use tls::{ThrowAway, TlsSettings};
pub(crate) use tokio_time::source;
#[cfg(unix)]
pub(crate) use unix::url as unix_url;
