//! A backend that changes requests on their way to the servers.

use crate::{
    backend::{Backend, Later, Opened, Servers, View},
    scenario::{Capability, Fault, Scenario},
    simulation::Transport,
};
use redis::RedisConnectionInfo;
use redouble::TimeSource;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Changes the arguments of a request.
type Change = dyn Fn(&mut [Vec<u8>]) + Send + Sync;

/// Another backend, with changed requests.
pub(super) struct Intercept<B> {
    backend: B,
    change: Arc<Change>,
}

impl<B: Backend> Intercept<B> {
    pub(super) fn new(backend: B, change: impl Fn(&mut [Vec<u8>]) + Send + Sync + 'static) -> Self {
        let change = Arc::new(change);
        Self { backend, change }
    }
}

impl<B: Backend> Backend for Intercept<B> {
    fn name(&self) -> String {
        self.backend.name()
    }

    fn virtual_time(&self) -> bool {
        self.backend.virtual_time()
    }

    fn lease_ms(&self) -> Option<u64> {
        self.backend.lease_ms()
    }

    fn can(&self, capability: Capability) -> bool {
        self.backend.can(capability)
    }

    fn open<'a>(
        &'a self,
        scenario: &'a Scenario,
        time: Arc<dyn TimeSource>,
        epoch: Duration,
    ) -> Later<'a, io::Result<Opened>> {
        Box::pin(async move {
            let opened = self.backend.open(scenario, time, epoch).await?;
            let change = Arc::clone(&self.change);
            Ok(Opened {
                servers: Arc::new(Intercepted {
                    servers: opened.servers,
                    change,
                }),
                drivers: opened.drivers,
            })
        })
    }
}

struct Intercepted {
    servers: Arc<dyn Servers>,
    change: Arc<Change>,
}

impl Servers for Intercepted {
    fn key(&self) -> &str {
        self.servers.key()
    }

    fn login(&self) -> &RedisConnectionInfo {
        self.servers.login()
    }

    fn dial(&self, node: u8) -> Later<'_, io::Result<Box<dyn Transport>>> {
        Box::pin(async move {
            let stream = Stream {
                inner: self.servers.dial(node).await?,
                change: Arc::clone(&self.change),
                read: Vec::new(),
                to_write: Vec::new(),
            };
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }

    fn clean_up(&self) -> Later<'_, ()> {
        self.servers.clean_up()
    }

    fn observes(&self) -> bool {
        self.servers.observes()
    }

    fn view(&self, node: u8) -> Option<&dyn View> {
        self.servers.view(node)
    }

    fn master(&self) -> u8 {
        self.servers.master()
    }

    fn pauses(&self) -> bool {
        self.servers.pauses()
    }

    fn strike(&self, fault: Fault) {
        self.servers.strike(fault);
    }

    fn heal(&self, fault: Fault) {
        self.servers.heal(fault);
    }

    fn gap(&self) -> Duration {
        self.servers.gap()
    }

    fn failure(&self) -> Option<io::Error> {
        self.servers.failure()
    }
}

struct Stream {
    inner: Box<dyn Transport>,
    change: Arc<Change>,
    /// Start of a request.
    read: Vec<u8>,
    to_write: Vec<u8>,
}

impl Stream {
    /// Reads the client's bytes, and prepares the bytes for the server.
    fn take(&mut self, bytes: &[u8]) {
        self.read.extend_from_slice(bytes);
        while let Some((request, len)) = parse(&self.read) {
            let raw: Vec<u8> = self.read.drain(..len).collect();
            let mut changed = request.clone();
            (self.change)(&mut changed);
            if changed == request {
                self.to_write.extend(raw);
            } else {
                self.to_write.extend(encode(&changed));
            }
        }
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.to_write.is_empty() {
            let count = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.to_write))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.to_write.drain(..count);
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the arguments of the first request in `bytes` and its length, if it is complete. Clients send
/// arrays of bulk strings.
fn parse(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let (count, mut rest) = line(bytes.strip_prefix(b"*")?)?;
    let mut arguments = Vec::new();
    for _ in 0..count {
        let (len, behind) = line(rest.strip_prefix(b"$")?)?;
        let (argument, behind) = behind.split_at_checked(len)?;
        arguments.push(argument.to_vec());
        rest = behind.strip_prefix(b"\r\n")?;
    }
    Some((arguments, bytes.len() - rest.len()))
}

/// Parses a number, and returns the bytes after its line.
fn line(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let number = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
    Some((number, &bytes[end + 2..]))
}

fn encode(request: &[Vec<u8>]) -> Vec<u8> {
    let mut raw = format!("*{}\r\n", request.len()).into_bytes();
    for argument in request {
        raw.extend(format!("${}\r\n", argument.len()).into_bytes());
        raw.extend_from_slice(argument);
        raw.extend(b"\r\n");
    }
    raw
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_drain(cx))?;
        self.take(buf);
        match self.poll_drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(buf.len())),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn request(words: &[&str]) -> Vec<u8> {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        encode(&words)
    }

    #[tokio::test]
    async fn requests_are_changed_wherever_they_are_cut() {
        let (near, mut far) = tokio::io::duplex(4096);
        let mut stream = Stream {
            inner: Box::new(near),
            change: Arc::new(|request| {
                if request[0] == b"GET" {
                    request[1] = b"another key".to_vec();
                }
            }),
            read: Vec::new(),
            to_write: Vec::new(),
        };
        let sent = [
            request(&["PING"]),
            request(&["GET", "k"]),
            request(&["GETX", "k"]),
        ]
        .concat();
        for byte in &sent {
            stream.write_all(&[*byte]).await.unwrap();
        }
        stream.shutdown().await.unwrap();
        drop(stream);
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.unwrap();
        let expected = [
            request(&["PING"]),
            request(&["GET", "another key"]),
            request(&["GETX", "k"]),
        ];
        assert_eq!(got, expected.concat());
    }
}
