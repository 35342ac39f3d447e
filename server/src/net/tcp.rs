//! The sockets of a server: a thread with a runtime of its own, an accept loop, a task per
//! connection. Never the caller's runtime, so a script may keep a thread as long as it likes.

#[cfg(feature = "script")]
use super::long_script::LongScript;
use super::{Driver, Hub};
use crate::link::{Ending, Link};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Bytes read from a socket at once (`PROTO_IOBUF_LEN` is 16 KiB).
const READ_BYTES_MAX: usize = 64 * 1024;
/// How long the runtime may take to end; nothing in it waits for anything.
const SHUTDOWN: Duration = Duration::from_secs(5);

thread_local! {
    /// One read buffer for all connections of a thread.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES_MAX]);
}

/// Descriptors kept for other things than connections (`CONFIG_MIN_RESERVED_FDS`).
#[cfg(unix)]
const RESERVED_DESCRIPTORS: u64 = 32;

/// Raises the limit of open descriptors as far as is allowed, and gives the number of connections
/// for which it suffices (`server.c: adjustOpenFilesLimit`).
pub(crate) fn connections_max(wanted: usize) -> usize {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        let enough = wanted as u64 + RESERVED_DESCRIPTORS;
        if limit.current.is_some_and(|current| current < enough) {
            let raised = limit.maximum.map_or(enough, |maximum| maximum.min(enough));
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

/// The thread that serves sockets; ends when dropped.
#[derive(Debug)]
pub(crate) struct Sockets {
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sockets {
    /// Accepts connections on `listener` until dropped. With `timed`, the thread also fires what
    /// is due on the server.
    pub(crate) fn start(
        hub: Arc<Hub>,
        listener: std::net::TcpListener,
        timed: bool,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
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
                    tokio::spawn(Driver::new(hub.clone()));
                }
                tokio::select! {
                    biased;
                    _ = stopped.wait_for(|stop| *stop) => {}
                    () = accept(hub, listener, worker.handle()) => {}
                }
            });
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

async fn accept(hub: Arc<Hub>, listener: std::net::TcpListener, worker: &Handle) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot listen"),
    };
    #[cfg(feature = "script")]
    let bystanders = LongScript::beside(hub.clone());
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "cannot set TCP_NODELAY");
                }
                let connection = Connection {
                    hub: hub.clone(),
                    link: Arc::new(Link::new(peer.to_string())),
                    #[cfg(feature = "script")]
                    bystanders: bystanders.clone(),
                };
                // Its readiness is then polled by the worker, not by this thread.
                match stream.into_std() {
                    Ok(stream) => drop(worker.spawn(connection.run(stream, peer))),
                    Err(error) => tracing::warn!(%error, "cannot hand over a connection"),
                }
            }
            Err(error) => {
                // Out of descriptors: connections that end make room.
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

struct Connection {
    hub: Arc<Hub>,
    link: Arc<Link>,
    #[cfg(feature = "script")]
    bystanders: Arc<dyn crate::engine::Bystanders>,
}

enum Event {
    /// New input was fed.
    Input,
    /// There is output, or the connection has ended.
    Output,
    /// The client has gone.
    Gone,
}

impl Connection {
    async fn run(self, stream: std::net::TcpStream, peer: SocketAddr) {
        let mut stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => return tracing::warn!(%error, "cannot watch a connection"),
        };
        tracing::debug!(%peer, "connected");
        self.poke();
        let mut out = Vec::new();
        loop {
            let (ended, was_full) = {
                let mut output = self.link.output();
                let was_full = output.is_full();
                (
                    if output.take(&mut out) {
                        None
                    } else {
                        output.ended()
                    },
                    was_full,
                )
            };
            if let Some(ending) = ended {
                if ending == Ending::Reset {
                    // A reset instead of an orderly end.
                    let _unsupported =
                        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
                }
                break;
            }
            if !out.is_empty() {
                if stream.write_all(&out).await.is_err() {
                    break;
                }
                out.clear();
                out.shrink_to(READ_BYTES_MAX);
                if was_full {
                    // Requests that waited for room go on.
                    self.poke();
                }
                continue;
            }
            match self.next(&mut stream).await {
                Event::Input => self.poke(),
                Event::Output => {}
                Event::Gone => break,
            }
        }
        tracing::debug!(%peer, "disconnected");
    }

    #[inline]
    fn poke(&self) {
        self.hub.poke(&self.link, |_engine| {
            #[cfg(feature = "script")]
            _engine.set_bystanders(Some(&self.bystanders));
        });
    }

    /// Waits for input or output, whichever comes first.
    async fn next(&self, stream: &mut TcpStream) -> Event {
        poll_fn(|cx| {
            if !self.link.is_full() {
                let read = SCRATCH.with_borrow_mut(|scratch| {
                    let mut buf = ReadBuf::new(scratch);
                    let read = Pin::new(&mut *stream).poll_read(cx, &mut buf);
                    read.map_ok(|()| self.link.feed(buf.filled()))
                        .map_ok(|()| !buf.filled().is_empty())
                });
                if let Poll::Ready(read) = read {
                    return Poll::Ready(if matches!(read, Ok(true)) {
                        Event::Input
                    } else {
                        Event::Gone
                    });
                }
            }
            let mut output = self.link.output();
            if output.has_news() {
                output.on_readable(None);
                return Poll::Ready(Event::Output);
            }
            output.on_readable(Some(cx.waker()));
            Poll::Pending
        })
        .await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.link.close_input();
        self.poke();
    }
}
