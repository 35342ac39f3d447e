//! A connection without a socket. Writing to it executes the requests at once, on the writer's
//! own thread; there is no task behind it.

use crate::client_connection::ClientConnection;
use crate::connection::Ending;
use crate::node_handle::NodeHandle;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Both ends of a connection without a socket, as CLIENT LIST shows them unless told otherwise.
const IN_PROCESS: &str = "in-process:0";

/// One end of a connection to a server in this process; bytes of RESP go in and come out.
///
/// # Cancel safety
/// Reads and writes are as cancel safe as those of a socket. Dropping it disconnects.
pub struct InProcess {
    handle: Arc<NodeHandle>,
    connection: Arc<ClientConnection>,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess")
            .field("addr", &self.connection.addr)
            .finish_non_exhaustive()
    }
}

impl InProcess {
    /// Opens a connection from `addr`, which can be any text, or from the default address.
    pub(crate) fn open(handle: Arc<NodeHandle>, addr: Option<&str>) -> Self {
        let addr = addr.unwrap_or(IN_PROCESS).to_owned();
        let stream = Self {
            handle,
            connection: Arc::new(ClientConnection::new(addr, IN_PROCESS.to_owned())),
        };
        stream.serve();
        stream
    }

    #[inline]
    fn serve(&self) {
        self.handle.serve_connection(&self.connection);
    }

    /// True if the server has ended this connection.
    pub fn is_closed(&self) -> bool {
        self.connection.output().is_ending()
    }
}

/// The error of a client whose node went down by a panic.
fn failed() -> io::Error {
    let why = "the node is down: a request made it panic, see the message of the panic";
    io::Error::new(io::ErrorKind::BrokenPipe, why)
}

impl AsyncWrite for InProcess {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.handle.shared.has_failed() {
            return Poll::Ready(Err(failed()));
        }
        if self.connection.output().is_ending() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if self.connection.is_full() {
            self.connection.output().on_writable(cx.waker());
            if self.connection.is_full() {
                return Poll::Pending;
            }
        }
        self.connection.feed(bytes);
        self.serve();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.close_input();
        self.serve();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for InProcess {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut output = self.connection.output();
        let count = output.read(buf.initialize_unfilled());
        if count > 0 {
            buf.advance(count);
            return Poll::Ready(Ok(()));
        }
        match output.ended() {
            Some(Ending::Close) => Poll::Ready(Ok(())),
            Some(Ending::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => {
                output.on_readable(cx.waker());
                Poll::Pending
            }
        }
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        self.connection.close_input();
        self.serve();
    }
}
