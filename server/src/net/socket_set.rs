//! The sockets of a server: which of them are ready, and in which order they are read. Knows no node: it fills the
//! input of connections and sends their output.
//!
//! *Order of arrival.* The kernel reports sockets in the order in which they became ready, and each is read in
//! that order, once per turn. The next poll reports bytes that arrive during the turn, behind earlier bytes on
//! other sockets. A socket that has more than one buffer comes before the sockets of the next poll, which
//! became ready later. A new socket is read when it is accepted, since its data may be older than that of
//! the socket that is reported next.

use super::listener::Listener;
use super::socket::{ReadOutcome, Socket, Stream};
use crate::client_connection::ClientConnection;
use crate::connection::Ending;
use crate::engine::ConnId;
use mio::event::Source;
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Bytes read from a socket at once (`PROTO_IOBUF_LEN` is 16 KiB).
const READ_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a long argument that are read in one turn, so that the others have theirs.
const TURN_BYTES_MAX: usize = 1024 * 1024;
/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1024;
/// Connections accepted in one turn (`MAX_ACCEPTS_PER_CALL`).
const ACCEPTS_MAX: usize = 1000;
/// How long to wait for a free descriptor before a connection is accepted again.
const NO_DESCRIPTOR: Duration = Duration::from_millis(10);
/// The event of the waker.
const WAKER: Token = Token(usize::MAX);
/// Tokens of listening sockets count from here.
const FIRST_LISTENER: usize = usize::MAX / 2;

/// A socket that listens, as the event loop sees it.
#[derive(Debug)]
pub(super) enum Acceptor {
    Tcp(mio::net::TcpListener),
    #[cfg(unix)]
    Unix {
        listener: mio::net::UnixListener,
        /// Removes the file when it is dropped.
        #[expect(dead_code, reason = "acts when it is dropped")]
        file: super::unix::SocketFile,
        addr: String,
    },
    #[cfg(feature = "tls")]
    Tls(mio::net::TcpListener, super::tls::TlsHandshake),
}

impl Acceptor {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(listener) => listener,
            #[cfg(unix)]
            Self::Unix { listener, .. } => listener,
            #[cfg(feature = "tls")]
            Self::Tls(listener, _) => listener,
        }
    }

    /// The next connection, with the addresses of the client and of the server.
    fn accept(&self) -> io::Result<(Socket, String, String)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, addr, laddr) = super::tcp::accept(listener)?;
                Ok((Socket::new(Stream::Tcp(stream)), addr, laddr))
            }
            #[cfg(unix)]
            Self::Unix { listener, addr, .. } => {
                let (stream, _nameless) = listener.accept()?;
                let socket = Socket::new(Stream::Unix(stream));
                Ok((socket, addr.clone(), addr.clone()))
            }
            #[cfg(feature = "tls")]
            Self::Tls(listener, handshake) => {
                let (stream, addr, laddr) = super::tcp::accept(listener)?;
                let tls = handshake.begin().map_err(io::Error::other)?;
                Ok((Socket::with_tls(Stream::Tcp(stream), tls), addr, laddr))
            }
        }
    }
}

/// A socket with the connection that it carries.
#[derive(Debug)]
struct Slot {
    socket: Socket,
    connection: Arc<ClientConnection>,
    /// True if it is in a queue of sockets to read.
    is_queued: bool,
    /// True if it may have something to read, once its connection has room again.
    is_readable: bool,
    /// True if the client has gone.
    is_gone: bool,
}

/// All sockets of a server.
#[derive(Debug)]
pub(super) struct SocketSet {
    poll: Poll,
    events: Events,
    acceptors: Vec<Acceptor>,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    /// Tokens to read in this turn.
    ready: VecDeque<usize>,
    /// Tokens to read in the next turn, before those that the next poll reports.
    again: Vec<usize>,
    /// Tokens of listening sockets for whose connections there was no descriptor.
    starved: Vec<usize>,
    /// Tokens of sockets that have room to write again.
    writable: Vec<usize>,
    /// Tokens of sockets that were read in this turn: there may be output.
    served: Vec<usize>,
    accepted: usize,
    /// Connections whose socket has failed. The node has to end their sessions.
    departed: Vec<Arc<ClientConnection>>,
    scratch: Vec<u8>,
}

impl SocketSet {
    pub(super) fn new(listeners: Vec<Listener>) -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let mut acceptors: Vec<Acceptor> = listeners.into_iter().map(Acceptor::from).collect();
        for (at, acceptor) in acceptors.iter_mut().enumerate() {
            let token = Token(FIRST_LISTENER + at);
            poll.registry()
                .register(acceptor.source(), token, Interest::READABLE)?;
        }
        let set = Self {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            acceptors,
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            again: Vec::new(),
            starved: Vec::new(),
            writable: Vec::new(),
            served: Vec::new(),
            accepted: 0,
            departed: Vec::new(),
            scratch: vec![0; READ_BYTES_MAX],
        };
        Ok((set, waker))
    }

    /// Waits for events, at most for `timeout`, and queues their sockets.
    pub(super) fn poll(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = if !self.again.is_empty() || self.has_ready() {
            Some(Duration::ZERO)
        } else if self.starved.is_empty() {
            timeout
        } else {
            Some(timeout.map_or(NO_DESCRIPTOR, |timeout| timeout.min(NO_DESCRIPTOR)))
        };
        self.accepted = 0;
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.events.clear(),
            Err(error) => return Err(error),
        }
        self.ready.extend(self.again.drain(..));
        self.ready.extend(self.starved.drain(..));
        for event in &self.events {
            let Token(token) = event.token();
            if token == WAKER.0 {
                continue;
            }
            if token >= FIRST_LISTENER {
                if !self.ready.contains(&token) {
                    self.ready.push_back(token);
                }
                continue;
            }
            let Some(Some(slot)) = self.slots.get_mut(token) else {
                continue;
            };
            if event.is_writable() {
                self.writable.push(token);
            }
            let has_ended = event.is_read_closed() || event.is_error();
            if has_ended {
                slot.socket.note_end();
            }
            if (event.is_readable() || has_ended) && !slot.is_queued {
                slot.is_queued = true;
                self.ready.push_back(token);
            }
        }
        while let Some(token) = self.writable.pop() {
            self.flush_token(token);
        }
        Ok(())
    }

    /// True if the node has something to serve.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.departed.is_empty()
    }

    /// Takes the connections whose sockets have failed.
    pub(super) fn take_departed(&mut self) -> Vec<Arc<ClientConnection>> {
        std::mem::take(&mut self.departed)
    }

    /// Reads the next socket that is ready, and returns its connection, whose input may have become longer. A
    /// connection whose input is in use, or that is `busy`, is left for the next turn.
    pub(super) fn next(&mut self, busy: Option<ConnId>) -> Option<Arc<ClientConnection>> {
        while let Some(token) = self.ready.pop_front() {
            let token = if token < FIRST_LISTENER {
                token
            } else if let Some(new) = self.accept(token) {
                new
            } else {
                continue;
            };
            let Some(Some(slot)) = self.slots.get_mut(token) else {
                continue;
            };
            slot.is_queued = false;
            slot.is_readable = true;
            let connection = &slot.connection;
            if connection.is_full() || slot.is_gone {
                continue;
            }
            let is_busy = busy.is_some() && connection.conn.get() == busy.as_ref();
            let Some(mut input) = connection.try_input().filter(|_| !is_busy) else {
                slot.is_queued = true;
                self.again.push(token);
                continue;
            };
            let was_open = slot.socket.is_open();
            let mut count = 0;
            loop {
                let wanted = input.requests.missing_bytes();
                let outcome = slot.socket.read(&mut self.scratch);
                let (ReadOutcome::More(read)
                | ReadOutcome::Drained(read)
                | ReadOutcome::Gone(read)) = outcome;
                connection.feed_into(&mut input, &self.scratch[..read]);
                count += read;
                match outcome {
                    // Redis reads a long argument at once, as far as it has arrived.
                    ReadOutcome::More(_) if read < wanted && count < TURN_BYTES_MAX => {}
                    ReadOutcome::More(_) => {
                        slot.is_queued = true;
                        self.again.push(token);
                        break;
                    }
                    ReadOutcome::Drained(_) => {
                        slot.is_readable = false;
                        break;
                    }
                    ReadOutcome::Gone(_) => {
                        slot.is_gone = true;
                        break;
                    }
                }
            }
            if slot.is_gone {
                input.requests.close();
            }
            if count > 0 || slot.is_gone || !was_open || connection.conn.get().is_none() {
                drop(input);
                self.served.push(token);
                return Some(connection.clone());
            }
        }
        None
    }

    /// Accepts a connection and returns its token.
    fn accept(&mut self, listener: usize) -> Option<usize> {
        let acceptor = self.acceptors.get(listener - FIRST_LISTENER)?;
        let (mut socket, addr, laddr) = loop {
            match acceptor.accept() {
                Ok(accepted) => break accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error)
                    if error.kind() == io::ErrorKind::Interrupted
                        || error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of descriptors: connections that end make room.
                    tracing::warn!(%error, "cannot accept");
                    self.starved.push(listener);
                    return None;
                }
            }
        };
        self.accepted += 1;
        if self.accepted < ACCEPTS_MAX {
            self.ready.push_front(listener);
        } else {
            self.again.push(listener);
        }
        let token = self.free.pop().unwrap_or(self.slots.len());
        if let Err(error) = socket.register(self.poll.registry(), Token(token)) {
            tracing::warn!(%error, "cannot watch a connection");
            self.free
                .extend((token < self.slots.len()).then_some(token));
            return None;
        }
        tracing::debug!(addr, "connected");
        let slot = Slot {
            socket,
            connection: Arc::new(ClientConnection::over_socket(addr, laddr, token)),
            is_queued: true,
            is_readable: true,
            is_gone: false,
        };
        if token == self.slots.len() {
            self.slots.push(Some(slot));
        } else {
            self.slots[token] = Some(slot);
        }
        Some(token)
    }

    /// Sends the output of a connection, ends its socket if the connection has ended, and reads on if there is
    /// room again.
    pub(super) fn flush(&mut self, connection: &Arc<ClientConnection>) {
        connection.forget_note();
        if let Some(token) = connection.token()
            && let Some(Some(slot)) = self.slots.get(token)
            && Arc::ptr_eq(&slot.connection, connection)
        {
            self.flush_token(token);
        }
    }

    /// Number of sockets that were read in this turn.
    #[cfg(feature = "script")]
    pub(super) fn served_count(&self) -> usize {
        self.served.len()
    }

    /// Sends the output of all connections that were served in this turn. The turn remembers the first `kept`
    /// of them: it is still serving them.
    pub(super) fn flush_served(&mut self, kept: usize) {
        for at in 0..self.served.len() {
            self.flush_token(self.served[at]);
        }
        self.served.truncate(kept);
    }

    fn flush_token(&mut self, token: usize) {
        let Some(Some(slot)) = self.slots.get_mut(token) else {
            return;
        };
        match slot.send(self.poll.registry(), Token(token)) {
            FlushResult::GoesOn => {
                if slot.is_readable && !slot.is_queued && !slot.connection.is_full() {
                    slot.is_queued = true;
                    self.again.push(token);
                }
            }
            FlushResult::Ends(ending) => self.remove(token, Some(ending)),
            FlushResult::Failed => self.remove(token, None),
        }
    }

    /// Removes a socket. Without an `ending` it has failed.
    fn remove(&mut self, token: usize, ending: Option<Ending>) {
        let Some(mut slot) = self.slots.get_mut(token).and_then(Option::take) else {
            return;
        };
        match ending {
            Some(Ending::Reset) => slot.socket.reset(),
            Some(Ending::Close) => slot.socket.close(),
            None => {}
        }
        tracing::debug!(addr = slot.connection.addr, "disconnected");
        self.free.push(token);
        if !slot.is_gone {
            self.departed.push(slot.connection);
        }
    }

    /// Closes the listening sockets: the kernel refuses connections.
    pub(super) fn stop_listening(&mut self) {
        self.acceptors.clear();
        self.starved.clear();
    }

    /// Ends all connections, as far as that is possible without waiting, and stops listening.
    pub(super) fn end(&mut self, ending: Ending) {
        self.stop_listening();
        for slot in &mut self.slots {
            let Some(mut slot) = slot.take() else {
                continue;
            };
            if ending == Ending::Close {
                let _sent = slot.send(self.poll.registry(), WAKER);
                slot.socket.close();
            } else {
                slot.socket.reset();
            }
        }
    }
}

/// The state of a socket after the output of its connection was sent.
enum FlushResult {
    GoesOn,
    /// The connection has ended, and its socket ends in this way.
    Ends(Ending),
    Failed,
}

impl Slot {
    fn send(&mut self, registry: &Registry, token: Token) -> FlushResult {
        let mut output = self.connection.output();
        let is_open = self.socket.is_open();
        let chunk = if is_open { output.chunk() } else { &[] };
        let mut is_sent = true;
        if !chunk.is_empty() {
            let Ok(count) = self.socket.write(chunk) else {
                return FlushResult::Failed;
            };
            is_sent = count == chunk.len();
            output.advance(count);
        }
        let ended = output.ended();
        drop(output);
        if ended == Some(Ending::Reset) {
            return FlushResult::Ends(Ending::Reset);
        }
        let Ok(is_flushed) = self.socket.flush() else {
            return FlushResult::Failed;
        };
        if self.is_gone {
            return FlushResult::Ends(Ending::Close);
        }
        if ended.is_some() && (is_flushed || !is_open) {
            return FlushResult::Ends(Ending::Close);
        }
        match self
            .socket
            .await_room(registry, token, !is_sent || !is_flushed)
        {
            Ok(()) => FlushResult::GoesOn,
            Err(_) => FlushResult::Failed,
        }
    }
}
