//! The sockets of unmodified code: Unix sockets, because bytes written there can be read at once. Both ends
//! belong to the same reactor, so polling it once covers both. Tasks of the scheduler carry the bytes over
//! the links of the scenario.

use crate::simulation::{held, machine::Address, network::Network, stream::ClientEnd};
use std::{
    future::Future,
    io::{self, ErrorKind},
    net::Shutdown,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream},
};

/// Size of one read, in bytes.
const CHUNK: usize = 4_096;

/// The sockets of a client process: a listener for each server, and the connections.
pub(super) struct Sockets {
    listeners: Vec<UnixListener>,
    connected: Vec<Arc<Socket>>,
    chunk: Vec<u8>,
}

/// The suite's end of a connection.
pub(super) struct Socket(Mutex<Wire>);

struct Wire {
    /// `None` after one side has closed it.
    stream: Option<UnixStream>,
    /// Written by the client, not on its link yet.
    sent: Vec<u8>,
    /// Arrived over the link, not written to the socket yet, because it was full.
    arrived: Vec<u8>,
    carrier: Option<Waker>,
}

impl Wire {
    fn wake(&mut self) {
        if let Some(carrier) = self.carrier.take() {
            carrier.wake();
        }
    }

    fn close(&mut self) {
        if let Some(Ok(stream)) = self.stream.take().map(UnixStream::into_std) {
            // Also ends a connection whose socket a child process has inherited. An error means that it has
            // ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.wake();
    }

    /// Reads bytes of the client; false if there are none.
    fn read(&mut self, chunk: &mut [u8]) -> bool {
        let mut news = false;
        while let Some(stream) = &self.stream {
            match stream.try_read(chunk) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(count @ 1..) => {
                    self.sent.extend_from_slice(&chunk[..count]);
                    news = true;
                }
                Ok(0) | Err(_) => {
                    self.stream = None;
                    news = true;
                }
            }
        }
        news
    }

    /// Writes arrived bytes, as far as there is room; true if anything was written.
    fn write(&mut self) -> bool {
        let mut written = 0;
        while written < self.arrived.len()
            && let Some(stream) = &self.stream
        {
            match stream.try_write(&self.arrived[written..]) {
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.stream = None,
            }
        }
        self.arrived.drain(..written);
        written > 0
    }
}

impl Sockets {
    /// Opens a listener per address in a folder, on the current runtime. The name keeps processes apart.
    pub(super) fn listen(
        folder: &Path,
        name: u32,
        network: &Network,
    ) -> io::Result<(Self, Vec<Address>)> {
        let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
        for node in 0..network.addresses() {
            let path = folder.join(format!("{name}-{node}"));
            listeners.push(UnixListener::bind(&path)?);
            addresses.push(Address::Unix(path));
        }
        let sockets = Self {
            listeners,
            connected: Vec::new(),
            chunk: vec![0; CHUNK],
        };
        Ok((sockets, addresses))
    }

    /// Reads the client's bytes, and passes new connections with the numbers of their servers to `made`. True
    /// if there was anything.
    pub(super) fn look(&mut self, mut made: impl FnMut(u8, Arc<Socket>)) -> bool {
        let mut news = false;
        let mut cx = Context::from_waker(Waker::noop()); // the next check polls again anyway
        for (node, listener) in (0..).zip(&self.listeners) {
            while let Poll::Ready(accepted) = listener.poll_accept(&mut cx) {
                let Ok((stream, _)) = accepted else { break };
                news = true;
                let wire = Wire {
                    stream: Some(stream),
                    sent: Vec::new(),
                    arrived: Vec::new(),
                    carrier: None,
                };
                let socket = Arc::new(Socket(Mutex::new(wire)));
                self.connected.push(Arc::clone(&socket));
                made(node, socket);
            }
        }
        let chunk = &mut self.chunk;
        self.connected.retain(|socket| {
            let mut wire = held(&socket.0);
            let read = wire.read(chunk);
            if read || !wire.arrived.is_empty() {
                wire.wake();
            }
            news |= read;
            wire.stream.is_some()
        });
        news
    }

    /// Ends all connections after the bytes that were already read.
    pub(super) fn cut(&mut self) {
        self.listeners.clear();
        for socket in self.connected.drain(..) {
            held(&socket.0).close();
        }
    }
}

/// Carries bytes between a socket and a link until one side has closed.
pub(super) struct Carrier {
    pub(super) socket: Arc<Socket>,
    pub(super) end: ClientEnd,
    /// Tells the process that its socket has news.
    pub(super) tell: Box<dyn Fn() + Send>,
}

impl Socket {
    /// Closes the socket: the server is gone, or could not be reached.
    pub(super) fn close(&self) {
        held(&self.0).close();
    }
}

impl Future for Carrier {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { socket, end, tell } = self.get_mut();
        let mut wire = held(&socket.0);
        wire.carrier = Some(cx.waker().clone());
        let sent = std::mem::take(&mut wire.sent);
        if !sent.is_empty()
            && !matches!(
                Pin::new(&mut *end).poll_write(cx, &sent),
                Poll::Ready(Ok(_))
            )
        {
            wire.close();
        }
        let (mut chunk, mut news) = ([0; CHUNK], false);
        while wire.stream.is_some() {
            news |= wire.write();
            if !wire.arrived.is_empty() {
                break; // polled again when the code has read
            }
            let mut buf = ReadBuf::new(&mut chunk);
            match Pin::new(&mut *end).poll_read(cx, &mut buf) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    wire.arrived.extend_from_slice(buf.filled());
                }
                Poll::Ready(_) => {
                    wire.close();
                    news = true;
                }
            }
        }
        if news {
            tell();
        }
        match wire.stream {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        }
    }
}
