//! The same server for tests without a runtime.

use crate::node_handle::Clock;
use crate::server::ServerBuilder;
use std::io;
use std::ops::Deref;

/// A server that needs no tokio runtime: its own thread does everything.
///
/// ```
/// use redis::TypedCommands;
///
/// let server = redouble::blocking::Server::start()?;
/// let mut connection = redis::Client::open(server.url())?.get_connection()?;
/// connection.set("k", "v")?;
/// assert!(server.exists("k"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server(crate::Server);

impl Server {
    /// Starts a server with the wall clock on a free port.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start() -> io::Result<Self> {
        Self::start_with(ServerBuilder::default())
    }

    /// Starts a server with other settings. [`Clock::Tokio`] is refused: there
    /// is no runtime to follow. What [`Clock::External`] makes due is done when a request meets it.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub fn start_with(builder: ServerBuilder) -> io::Result<Self> {
        let server = builder.make()?;
        if server.handle.time.source.mode() == Clock::Tokio {
            let why = "a server without a runtime cannot follow the clock of one";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        server.serve()?;
        Ok(Self(server))
    }
}

impl Deref for Server {
    type Target = crate::Server;

    fn deref(&self) -> &crate::Server {
        &self.0
    }
}
