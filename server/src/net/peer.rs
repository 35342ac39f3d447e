//! One connection over a stream of bytes: feeds what comes to its link, writes what the link has.
//! Knows no transport but what [`Wire`] says.

use crate::client_connection::{ClientConnection, Ending};
use crate::node_handle::NodeHandle;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Bytes read from a socket at once (`PROTO_IOBUF_LEN` is 16 KiB).
const READ_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    /// One read buffer for all connections of a thread.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES_MAX]);
}

/// A stream of a transport.
pub(super) trait Wire: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Makes its end a reset, if the transport has such a thing.
    fn reset(&self) {}

    /// Says good-bye before its orderly end, without waiting; most transports need not.
    fn farewell(&mut self, _cx: &mut Context<'_>) {}
}

/// A client at the other end of a stream.
pub(super) struct Peer {
    pub(super) handle: Arc<NodeHandle>,
    pub(super) link: Arc<ClientConnection>,
    #[cfg(feature = "script")]
    pub(super) busy_handler: Arc<dyn crate::engine::BusyHandler>,
}

enum Event {
    /// New input was fed.
    Input,
    /// There is output, or the connection has ended.
    Output,
    /// The client has gone.
    Gone,
}

impl Peer {
    /// Serves the client until one side ends. `open` gives the stream, after a handshake where there
    /// is one; the connection counts from the beginning, as in `networking.c: createClient`.
    pub(super) async fn run<S: Wire>(self, open: impl Future<Output = io::Result<S>>) {
        let addr = &*self.link.addr;
        tracing::debug!(addr, "connected");
        self.poke();
        match self.opened(open).await {
            Some(Ok(mut stream)) => self.serve(&mut stream).await,
            Some(Err(error)) => tracing::debug!(addr, %error, "cannot open a connection"),
            None => {}
        }
        tracing::debug!(addr, "disconnected");
    }

    /// The stream; `None` when the server ends the connection first.
    async fn opened<S>(&self, open: impl Future<Output = io::Result<S>>) -> Option<io::Result<S>> {
        let mut open = pin!(open);
        poll_fn(|cx| {
            if let Poll::Ready(stream) = open.as_mut().poll(cx) {
                return Poll::Ready(Some(stream));
            }
            let mut output = self.link.output();
            if output.ended().is_some() {
                return Poll::Ready(None);
            }
            output.on_readable(Some(cx.waker()));
            Poll::Pending
        })
        .await
    }

    async fn serve(&self, stream: &mut impl Wire) {
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
            match ended {
                Some(Ending::Reset) => return stream.reset(),
                Some(Ending::Close) => {
                    return poll_fn(|cx| {
                        stream.farewell(cx);
                        Poll::Ready(())
                    })
                    .await;
                }
                None => {}
            }
            if !out.is_empty() {
                if stream.write_all(&out).await.is_err() || stream.flush().await.is_err() {
                    return;
                }
                out.clear();
                out.shrink_to(READ_BYTES_MAX);
                if was_full {
                    // Requests that waited for room go on.
                    self.poke();
                }
                continue;
            }
            match self.next(stream).await {
                Event::Input => self.poke(),
                Event::Output => {}
                Event::Gone => return,
            }
        }
    }

    #[inline]
    fn poke(&self) {
        self.handle.poke(&self.link, |_engine| {
            #[cfg(feature = "script")]
            _engine.set_bystanders(Some(&self.busy_handler));
        });
    }

    /// Waits for input or output, whichever comes first.
    async fn next(&self, stream: &mut impl Wire) -> Event {
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

impl Drop for Peer {
    fn drop(&mut self) {
        self.link.close_input();
        self.poke();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Config;
    use crate::node::SharedNode;
    use crate::node_handle::{Clock, Source, TrueTime};
    use tokio::io::{AsyncReadExt, BufStream, DuplexStream, duplex};

    /// A transport that keeps what is written until it is told to send it, as TLS may.
    impl Wire for BufStream<DuplexStream> {}

    fn peer() -> Peer {
        let start = Clock::START.micros();
        let time = TrueTime::new(Source::manual(start));
        let handle = NodeHandle::new(SharedNode::new(Config::default(), 0, start), Arc::new(time));
        Peer {
            #[cfg(feature = "script")]
            busy_handler: crate::net::long_script::LongScript::beside(handle.clone()),
            handle,
            link: Arc::new(ClientConnection::new(
                "test:0".to_owned(),
                "test:0".to_owned(),
            )),
        }
    }

    #[tokio::test]
    async fn a_reply_does_not_stay_in_the_transport() -> io::Result<()> {
        let (mut client, server) = duplex(READ_BYTES_MAX);
        let served = peer().run(async { Ok(BufStream::new(server)) });
        let asked = async {
            client.write_all(b"PING\r\n").await?;
            let mut reply = [0; 7];
            client.read_exact(&mut reply).await?;
            assert_eq!(&reply, b"+PONG\r\n");
            Ok(())
        };
        tokio::select! {
            biased;
            () = served => Err(io::ErrorKind::UnexpectedEof.into()),
            () = tokio::time::sleep(std::time::Duration::from_secs(30)) => Err(io::ErrorKind::TimedOut.into()),
            asked = asked => asked,
        }
    }

    /// A handshake that never ends is given up when the server ends.
    #[tokio::test]
    async fn a_connection_ends_with_its_server_before_it_is_open() {
        let peer = peer();
        let handle = peer.handle.clone();
        let never = std::future::pending::<io::Result<BufStream<DuplexStream>>>();
        let ended = tokio::join!(peer.run(never), async { handle.shut_down() });
        assert_eq!(ended, ((), ()));
    }
}
