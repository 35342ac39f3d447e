//! The thread that serves the sockets of a server. It is never the caller's thread, so a script can keep it for any
//! time.

#[cfg(feature = "script")]
use super::busy::SocketsBeside;
use super::event_loop::EventLoop;
use super::listener::Listener;
use super::socket_set::Acceptor;
use crate::node_handle::NodeHandle;
use std::io;
use std::sync::Arc;
use std::task::Waker;

/// Descriptors kept for other things than connections (`CONFIG_MIN_RESERVED_FDS`).
#[cfg(unix)]
const RESERVED_DESCRIPTORS: u64 = 32;
/// The clients of a test are usually in the same process and have a descriptor each as well.
#[cfg(unix)]
const DESCRIPTORS_PER_CONNECTION: u64 = 2;

/// Raises the limit of open descriptors as far as is allowed. Returns the number of connections for which it suffices
/// (`server.c: adjustOpenFilesLimit`).
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
    /// Accepts connections on `listeners` until dropped. With `timed`, the thread also handles the deadlines of the
    /// server.
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
