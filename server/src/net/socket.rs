//! One socket of a client: a stream of some transport, with TLS around it or not. Reads and writes without
//! waiting. Knows no requests, only bytes.

use mio::event::Source;
use mio::net::TcpStream;
#[cfg(unix)]
use mio::net::UnixStream;
use mio::{Interest, Registry, Token};
#[cfg(feature = "tls")]
use rustls::ServerConnection;
use std::io::{self, Read, Write};
use std::time::Duration;

/// A stream of a transport.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            #[cfg(unix)]
            Self::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            #[cfg(unix)]
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream {
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            #[cfg(unix)]
            Self::Unix(stream) => stream,
        }
    }

    /// Makes the end of the stream a reset, if the transport has such a thing.
    fn reset(&self) {
        match self {
            Self::Tcp(stream) => {
                let _unsupported = socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO));
            }
            #[cfg(unix)]
            Self::Unix(_) => {}
        }
    }
}

/// The result of a read, with the number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// There may be more.
    More(usize),
    /// There is no more for now.
    Drained(usize),
    /// The client has gone.
    Gone(usize),
}

/// A socket of a client.
#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    #[cfg(feature = "tls")]
    tls: Option<Box<ServerConnection>>,
    /// True if the kernel has reported that the client has ended its side.
    is_ended: bool,
    /// True if the kernel reports when there is room to write.
    awaits_room: bool,
}

impl Socket {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            #[cfg(feature = "tls")]
            tls: None,
            is_ended: false,
            awaits_room: false,
        }
    }

    #[cfg(feature = "tls")]
    pub(super) fn with_tls(stream: Stream, tls: ServerConnection) -> Self {
        let mut socket = Self::new(stream);
        socket.tls = Some(Box::new(tls));
        socket
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(self.stream.source(), token, Interest::READABLE)
    }

    /// Notes that the client has ended its side: the socket is read to its end.
    pub(super) fn note_end(&mut self) {
        self.is_ended = true;
    }

    /// Reads at most one buffer.
    ///
    /// *Policy.* A read that does not fill the buffer has drained the stream, and later bytes are a new event. If the
    /// event already included the end of the stream, no other event follows, so the end is read at once.
    pub(super) fn read(&mut self, into: &mut [u8]) -> ReadOutcome {
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return self.read_tls(into);
        }
        let mut count = 0;
        loop {
            match self.stream.read(&mut into[count..]) {
                Ok(0) => return ReadOutcome::Gone(count),
                Ok(more) => {
                    count += more;
                    if count == into.len() {
                        return ReadOutcome::More(count);
                    }
                    if !self.is_ended {
                        return ReadOutcome::Drained(count);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return ReadOutcome::Drained(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return ReadOutcome::Gone(count),
            }
        }
    }

    #[cfg(feature = "tls")]
    fn read_tls(&mut self, into: &mut [u8]) -> ReadOutcome {
        let Some(tls) = &mut self.tls else {
            return ReadOutcome::Drained(0);
        };
        let mut count = 0;
        let outcome = loop {
            // Plaintext that is left over comes first.
            match tls.reader().read(&mut into[count..]) {
                Ok(0) => break ReadOutcome::Gone(count),
                Ok(more) => {
                    count += more;
                    if count == into.len() {
                        break ReadOutcome::More(count);
                    }
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break ReadOutcome::Gone(count),
            }
            match tls.read_tls(&mut self.stream) {
                Ok(0) => break ReadOutcome::Gone(count),
                Ok(_) => {
                    if let Err(error) = tls.process_new_packets() {
                        tracing::debug!(%error, "TLS failed");
                        break ReadOutcome::Gone(count);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    break ReadOutcome::Drained(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break ReadOutcome::Gone(count),
            }
        };
        // Handshake messages and alerts.
        let _later = self.flush_tls();
        outcome
    }

    /// Sends the bytes that TLS has encrypted. Returns false if the stream takes no more for now.
    #[cfg(feature = "tls")]
    fn flush_tls(&mut self) -> io::Result<bool> {
        let Some(tls) = &mut self.tls else {
            return Ok(true);
        };
        while tls.wants_write() {
            match tls.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// True if bytes can be sent: there is no TLS handshake, or it is over.
    pub(super) fn is_open(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return !tls.is_handshaking();
        }
        true
    }

    /// Sends a part of `bytes` and returns its length. If it is less than all, the stream takes no more for now.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < bytes.len() {
            match self.write_some(&bytes[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if self.tls.is_some() && !self.flush_tls()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &mut self.tls {
            // rustls takes no more than it has room for.
            let count = tls.writer().write(bytes)?;
            self.flush_tls()?;
            return Ok(count);
        }
        self.stream.write(bytes)
    }

    /// Returns true if everything that was written has left: TLS can keep some of it.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        return self.flush_tls();
        #[cfg(not(feature = "tls"))]
        Ok(true)
    }

    /// Asks the kernel to report when there is room to write, or stops that.
    pub(super) fn await_room(
        &mut self,
        registry: &Registry,
        token: Token,
        awaits_room: bool,
    ) -> io::Result<()> {
        if self.awaits_room == awaits_room {
            return Ok(());
        }
        self.awaits_room = awaits_room;
        let interest = if awaits_room {
            Interest::READABLE | Interest::WRITABLE
        } else {
            Interest::READABLE
        };
        registry.reregister(self.stream.source(), token, interest)
    }

    /// Ends the connection in order, without waiting.
    pub(super) fn close(&mut self) {
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls.as_mut().filter(|tls| !tls.is_handshaking()) {
            // The client can then distinguish the end from a broken connection, if it reads.
            tls.send_close_notify();
            let _sent_or_not = self.flush_tls();
        }
    }

    /// Ends the connection by a reset, if the transport has such a thing.
    pub(super) fn reset(&mut self) {
        self.stream.reset();
    }
}
