//! A stream to a server with the rules around it, driven by the tasks that read from it and write to it.

use super::SharedProxy;
use super::relay::Relay;
use crate::connection::Ending;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Bytes read from the server at once.
const READ_BYTES_MAX: usize = 16 * 1024;

/// Wakes the tasks that wait for a gate: at most a reader and a writer.
#[derive(Debug, Default)]
struct Bell(Mutex<Vec<Waker>>);

impl Bell {
    fn lock(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn register(&self, waker: &Waker) {
        let mut wakers = self.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            let from = wakers.len().saturating_sub(1);
            wakers.drain(..from);
            wakers.push(waker.clone());
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let wakers = std::mem::take(&mut *self.lock());
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A stream to a server as a client sees it through a [`Proxy`](super::Proxy). Its writer does not
/// wait for the server; replies arrive when a task reads. A shutdown passes on what was written
/// before, delayed messages too; dropping the stream does not.
///
/// # Cancel safety
/// Reads and writes are as cancel safe as those of a socket.
#[derive(Debug)]
pub struct Proxied<S> {
    shared: Arc<SharedProxy>,
    upstream: S,
    /// The server has ended the connection.
    is_lost: bool,
    relay: Relay,
    sleep: Option<Pin<Box<Sleep>>>,
    bell: Arc<Bell>,
    /// The task that waits until there is room for more requests.
    writer: Option<Waker>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Proxied<S> {
    pub(super) fn new(shared: Arc<SharedProxy>, id: u64, addr: String, upstream: S) -> Self {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(bell.clone());
        Self {
            relay: Relay::new(shared.clone(), id, addr, waker),
            shared,
            upstream,
            is_lost: false,
            sleep: None,
            bell,
            writer: None,
        }
    }

    /// Returns the stream to the server. Messages that were not passed on are lost.
    pub fn into_inner(self) -> S {
        self.upstream
    }

    /// Notes that the server has ended the connection.
    fn lose(&mut self) {
        if !self.is_lost {
            self.is_lost = true;
            self.relay.server_gone(self.shared.now());
        }
    }

    /// Passes on what can be passed on now. Reads from the server if `reads` is true.
    fn drive(&mut self, cx: &mut Context<'_>, reads: bool) {
        self.bell.register(cx.waker());
        loop {
            self.relay.release(self.shared.now());
            let mut has_progressed = self.write(cx);
            if reads {
                has_progressed |= self.read(cx);
            }
            has_progressed |= self.rest(cx);
            if !self.relay.is_full()
                && let Some(writer) = self.writer.take()
            {
                writer.wake();
            }
            if !has_progressed {
                return;
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_progressed = false;
        while !self.is_lost && !self.relay.server_bytes().is_empty() {
            match Pin::new(&mut self.upstream).poll_write(cx, self.relay.server_bytes()) {
                Poll::Ready(Ok(written)) if written > 0 => {
                    self.relay.server_bytes().drain(..written);
                    has_progressed = true;
                }
                Poll::Ready(_) => self.lose(),
                Poll::Pending => break,
            }
        }
        if !self.is_lost {
            // The reader notices a failure.
            let _flushed = Pin::new(&mut self.upstream).poll_flush(cx);
        }
        has_progressed
    }

    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        if self.is_lost || self.relay.output().is_full() {
            return false;
        }
        let mut bytes = [0; READ_BYTES_MAX];
        let mut buf = ReadBuf::new(&mut bytes);
        match Pin::new(&mut self.upstream).poll_read(cx, &mut buf) {
            Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                let now = self.shared.now();
                self.relay.on_server_bytes(buf.filled(), now);
                true
            }
            Poll::Ready(_) => {
                self.lose();
                true
            }
            Poll::Pending => false,
        }
    }

    /// Waits for the next delayed message. Returns true when it is due.
    fn rest(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(due) = self.relay.next_due() else {
            self.sleep = None;
            return false;
        };
        let due = self.shared.instant(due);
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                if sleep.deadline() != due {
                    sleep.as_mut().reset(due);
                }
                sleep
            }
            None => self.sleep.insert(Box::pin(tokio::time::sleep_until(due))),
        };
        sleep.as_mut().poll(cx).is_ready()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Proxied<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.drive(cx, true);
        let output = this.relay.output();
        let was_full = output.is_full();
        let count = output.read(buf.initialize_unfilled());
        if count > 0 {
            buf.advance(count);
            if was_full {
                // The server is read from again.
                cx.waker().wake_by_ref();
            }
            return Poll::Ready(Ok(()));
        }
        match output.ended() {
            Some(Ending::Close) => Poll::Ready(Ok(())),
            Some(Ending::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Proxied<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.relay.output().is_ending() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if this.relay.is_full() {
            this.drive(cx, false);
            if this.relay.is_full() {
                this.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        this.relay.on_client_bytes(bytes, this.shared.now());
        this.drive(cx, false);
        this.wake_reader(cx);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().drive(cx, false);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.relay.client_gone(this.shared.now());
        this.drive(cx, false);
        if this.is_lost || this.relay.output().is_ending() {
            return Poll::Ready(Ok(()));
        }
        if !this.relay.is_over() {
            return Poll::Pending;
        }
        Pin::new(&mut this.upstream).poll_shutdown(cx)
    }
}

impl<S> Proxied<S> {
    /// Wakes the reader if there is output for it, and other tasks so that they see new delays.
    fn wake_reader(&mut self, cx: &Context<'_>) {
        let has_news = self.relay.output().has_news();
        let mut wakers = self.bell.lock().clone();
        wakers.retain(|waker| has_news || !waker.will_wake(cx.waker()));
        wakers.into_iter().for_each(Waker::wake);
    }
}
