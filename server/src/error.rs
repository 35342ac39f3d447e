//! Why a server does not start or does not listen.

use std::error::Error;
use std::{fmt, io};

/// The reason why a server, a deployment or a proxy cannot start or listen.
///
/// It converts into [`io::Error`], which keeps it as its source.
///
/// ```
/// use redouble::{Server, StartError};
///
/// let first = Server::start_blocking()?;
/// let port = first.addr().port();
/// let second = Server::builder().port(port).start_blocking(); // the port is taken
/// let error = second.expect_err("two servers cannot share a port");
/// assert!(matches!(error, StartError::Listen { .. }));
/// assert!(error.to_string().starts_with(&format!("cannot listen on 127.0.0.1:{port}: ")));
/// assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::AddrInUse);
/// # Ok::<(), StartError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The operating system does not give the server this socket.
    #[non_exhaustive]
    Listen {
        /// The address with its port, or the path of the Unix socket.
        place: String,
        /// The operating system's reason.
        source: io::Error,
    },
    /// A certificate or a key for TLS cannot be read or made.
    #[non_exhaustive]
    Tls {
        /// The certificate or key, and the reason.
        source: io::Error,
    },
    /// The folder of [`dir`](crate::ServerBuilder::dir) does not exist, or the file in it is no RDB file.
    #[non_exhaustive]
    Load {
        /// The folder, or the file.
        place: String,
        /// The reason.
        source: io::Error,
    },
    /// The thread that serves the sockets cannot start.
    #[non_exhaustive]
    Thread {
        /// The operating system's reason.
        source: io::Error,
    },
    /// [`Clock::Tokio`](crate::Clock::Tokio) follows a tokio runtime, and there is none.
    NoRuntime,
    /// The server listens neither on TCP nor on TLS, so it has no address.
    NoAddress,
    /// The users that the server is to have are not defined as Redis wants them.
    #[non_exhaustive]
    Users {
        /// The rule or the line of the ACL file that is wrong.
        reason: String,
    },
    /// The ports behind [`first_port`](crate::DeploymentBuilder::first_port) end at 65535.
    #[non_exhaustive]
    TooFewPorts {
        /// The port of the first server.
        first: u16,
        /// Number of servers in the deployment.
        servers: usize,
    },
}

// Written out: a derive would make each user build a procedural macro for these lines.
impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen { place, source } => write!(f, "cannot listen on {place}: {source}"),
            Self::Tls { source } => write!(f, "cannot set up TLS: {source}"),
            Self::Load { place, source } => write!(f, "cannot load {place}: {source}"),
            Self::Thread { source } => {
                write!(
                    f,
                    "cannot start the thread that serves the sockets: {source}"
                )
            }
            Self::NoRuntime => f.write_str(
                "Clock::Tokio follows a tokio runtime, and the server was started without one",
            ),
            Self::NoAddress => {
                f.write_str("the server listens neither on TCP nor on TLS, so it has no address")
            }
            Self::Users { reason } => write!(f, "cannot start with these users: {reason}"),
            Self::TooFewPorts { first, servers } => {
                write!(
                    f,
                    "{servers} servers from port {first} on need ports above 65535"
                )
            }
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Listen { source, .. }
            | Self::Tls { source }
            | Self::Load { source, .. }
            | Self::Thread { source } => Some(source),
            Self::NoRuntime | Self::NoAddress | Self::Users { .. } | Self::TooFewPorts { .. } => {
                None
            }
        }
    }
}

impl StartError {
    pub(crate) fn listen(place: impl ToString) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Listen {
            place: place.to_string(),
            source,
        }
    }
}

impl From<StartError> for io::Error {
    fn from(error: StartError) -> Self {
        let kind = match &error {
            StartError::Listen { source, .. }
            | StartError::Load { source, .. }
            | StartError::Tls { source }
            | StartError::Thread { source } => source.kind(),
            StartError::NoRuntime | StartError::NoAddress => io::ErrorKind::Unsupported,
            StartError::TooFewPorts { .. } | StartError::Users { .. } => {
                io::ErrorKind::InvalidInput
            }
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_error_keeps_the_kind_and_the_source() {
        let taken = io::Error::from(io::ErrorKind::AddrInUse);
        let error = io::Error::from(StartError::listen("127.0.0.1:7")(taken));
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(
            error
                .to_string()
                .starts_with("cannot listen on 127.0.0.1:7: ")
        );
        let inner = error.into_inner().expect("the start error is inside");
        let inner = inner.downcast::<StartError>().expect("its type is kept");
        let source = Error::source(&*inner).expect("the system's reason is kept");
        assert!(source.is::<io::Error>());
    }
}
