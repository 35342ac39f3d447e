//! The sockets of a server before they are served, and the thread that serves them. Never the caller's
//! thread, so a script may keep it as long as it likes.

#[cfg(feature = "script")]
use super::busy::SocketsBeside;
use super::event_loop::EventLoop;
use super::socket_set::Acceptor;
use crate::node_handle::NodeHandle;
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;

/// Descriptors kept for other things than connections (`CONFIG_MIN_RESERVED_FDS`).
#[cfg(unix)]
const RESERVED_DESCRIPTORS: u64 = 32;
/// A test's clients usually sit in its own process, and have a descriptor each too.
#[cfg(unix)]
const DESCRIPTORS_PER_CONNECTION: u64 = 2;

/// Raises the limit of open descriptors as far as is allowed, and gives the number of connections
/// for which it suffices (`server.c: adjustOpenFilesLimit`).
pub(crate) fn connections_max(wanted: usize) -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        let plenty = (wanted as u64).saturating_mul(DESCRIPTORS_PER_CONNECTION);
        let plenty = plenty.saturating_add(RESERVED_DESCRIPTORS);
        let enough = (wanted as u64).saturating_add(RESERVED_DESCRIPTORS);
        if limit.current.is_some_and(|current| current < plenty) {
            let raised = limit.maximum.map_or(plenty, |maximum| maximum.min(plenty));
            limit.current = Some(raised);
            if let Err(error) = setrlimit(Resource::Nofile, limit) {
                tracing::debug!(%error, "cannot raise the limit of open descriptors");
            }
            let current = getrlimit(Resource::Nofile).current.unwrap_or(enough);
            if current < enough {
                tracing::warn!(
                    current,
                    wanted,
                    "maxclients is lowered to what the limit of open descriptors allows"
                );
                return usize::try_from(current.saturating_sub(RESERVED_DESCRIPTORS))
                    .unwrap_or(wanted)
                    .min(wanted);
            }
        }
    }
    wanted
}

/// A bound socket, before the thread has it. Dropping it frees its address.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(std::net::TcpListener),
    #[cfg(unix)]
    Unix(super::unix::UnixSocket),
    #[cfg(feature = "tls")]
    Tls(std::net::TcpListener, super::tls::TlsHandshake),
}

impl Listener {
    /// Binds a TCP socket; port 0 takes a free one.
    pub(crate) fn tcp(addr: SocketAddr) -> io::Result<(Self, SocketAddr)> {
        let listener = super::tcp::bind(addr)?;
        let addr = listener.local_addr()?;
        Ok((Self::Tcp(listener), addr))
    }

    /// Binds a Unix socket at an absolute path. A `mode` of 0 leaves the permissions to the umask.
    #[cfg(unix)]
    pub(crate) fn unix(path: &Path, mode: u32) -> io::Result<Self> {
        super::unix::UnixSocket::bind(path, mode).map(Self::Unix)
    }

    /// Binds a TCP socket for TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn tls(
        addr: SocketAddr,
        acceptor: super::tls::TlsHandshake,
    ) -> io::Result<(Self, SocketAddr)> {
        let listener = super::tcp::bind(addr)?;
        let addr = listener.local_addr()?;
        Ok((Self::Tls(listener, acceptor), addr))
    }
}

impl From<Listener> for Acceptor {
    fn from(listener: Listener) -> Self {
        match listener {
            Listener::Tcp(listener) => Self::Tcp(mio::net::TcpListener::from_std(listener)),
            #[cfg(unix)]
            Listener::Unix(socket) => {
                let (listener, file, addr) = socket.into_parts();
                let listener = mio::net::UnixListener::from_std(listener);
                Self::Unix {
                    listener,
                    file,
                    addr,
                }
            }
            #[cfg(feature = "tls")]
            Listener::Tls(listener, handshake) => {
                Self::Tls(mio::net::TcpListener::from_std(listener), handshake)
            }
        }
    }
}

/// The thread that serves sockets; ends when dropped.
#[derive(Debug)]
pub(crate) struct Sockets {
    event_loop: Arc<EventLoop>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sockets {
    /// Accepts connections on `listeners` until dropped. With `timed`, the thread also fires what
    /// is due on the server.
    pub(crate) fn start(
        handle: Arc<NodeHandle>,
        listeners: Vec<Listener>,
        timed: bool,
    ) -> io::Result<Self> {
        let event_loop = EventLoop::new(listeners)?;
        handle
            .shared
            .wake_sockets_by(Waker::from(event_loop.clone()));
        #[cfg(feature = "script")]
        {
            let busy_handler = SocketsBeside::handler(event_loop.clone(), &handle);
            handle.shared.node().engine.set_busy_handler(busy_handler);
        }
        if timed {
            handle
                .timer
                .leave_to_event_loop(Waker::from(event_loop.clone()));
        }
        let served = event_loop.clone();
        let thread = std::thread::Builder::new()
            .name("redouble".to_owned())
            .spawn(move || served.run(&handle))?;
        Ok(Self {
            event_loop,
            thread: Some(thread),
        })
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.event_loop.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the sockets panicked");
        }
    }
}
