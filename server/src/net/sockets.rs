//! The thread that serves the sockets of a server, with a runtime of its own: an accept loop for
//! each listening socket, a task per connection. Never the caller's runtime, so a script may keep a
//! thread as long as it likes.

use super::Driver;
#[cfg(feature = "script")]
use super::long_script::LongScript;
use super::peer::{Peer, Wire};
use crate::client_connection::ClientConnection;
use crate::node_handle::NodeHandle;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// How long the runtime may take to end; nothing in it waits for anything.
const SHUTDOWN: Duration = Duration::from_secs(5);
/// How long to wait for a free descriptor before a connection is accepted again.
const NO_DESCRIPTOR: Duration = Duration::from_millis(10);
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

    /// Accepts connections for as long as it is polled.
    async fn accept(self, door: Acceptor) -> io::Result<Infallible> {
        match self {
            Self::Tcp(listener) => super::tcp::accept(listener, &door).await,
            #[cfg(unix)]
            Self::Unix(socket) => super::unix::accept(socket, &door).await,
            #[cfg(feature = "tls")]
            Self::Tls(listener, acceptor) => super::tls::accept(listener, &acceptor, &door).await,
        }
    }
}

/// The thread that serves sockets; ends when dropped.
#[derive(Debug)]
pub(crate) struct Sockets {
    stop: watch::Sender<bool>,
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
        let (stop, stopped) = watch::channel(false);
        // Connections have a worker to themselves: no timers there, nothing but their sockets.
        let worker = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("redouble-worker")
            .enable_io()
            .build()?;
        // This thread accepts, and calls the node when something is due.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let run = move || {
            let mut stopped = stopped;
            runtime.block_on(async {
                if timed {
                    tokio::spawn(Driver::new(handle.clone()));
                }
                let door = Acceptor::new(handle, worker.handle().clone());
                for listener in listeners {
                    let door = door.clone();
                    tokio::spawn(async move {
                        let Err(error) = listener.accept(door).await;
                        tracing::error!(%error, "cannot listen");
                    });
                }
                let _dropped = stopped.wait_for(|stop| *stop).await;
            });
            // The listening sockets go first: nobody connects to a server that is ending.
            drop(runtime);
            worker.shutdown_timeout(SHUTDOWN);
        };
        let thread = std::thread::Builder::new()
            .name("redouble".to_owned())
            .spawn(run)?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the socket thread panicked");
        }
    }
}

/// Through which accepted connections come to the worker.
#[derive(Clone)]
pub(super) struct Acceptor {
    handle: Arc<NodeHandle>,
    worker: Handle,
    #[cfg(feature = "script")]
    busy_handler: Arc<dyn crate::engine::BusyHandler>,
}

impl Acceptor {
    fn new(handle: Arc<NodeHandle>, worker: Handle) -> Self {
        Self {
            #[cfg(feature = "script")]
            busy_handler: LongScript::beside(handle.clone()),
            handle,
            worker,
        }
    }

    /// What was accepted; `None` after a failure, when it is time to try again.
    pub(super) async fn accepted<T>(&self, accepted: io::Result<T>) -> Option<T> {
        match accepted {
            Ok(connection) => Some(connection),
            Err(error) => {
                // Out of descriptors: connections that end make room.
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(NO_DESCRIPTOR).await;
                None
            }
        }
    }

    /// Serves the connection of the client at `addr`, which has reached us at `laddr`. `open` runs on the worker, so that the
    /// stream's readiness is polled there.
    pub(super) fn open<S: Wire>(
        &self,
        addr: String,
        laddr: String,
        open: impl Future<Output = io::Result<S>> + Send + 'static,
    ) {
        let peer = Peer {
            handle: self.handle.clone(),
            link: Arc::new(ClientConnection::new(addr, laddr)),
            #[cfg(feature = "script")]
            busy_handler: self.busy_handler.clone(),
        };
        drop(self.worker.spawn(peer.run(open)));
    }
}
