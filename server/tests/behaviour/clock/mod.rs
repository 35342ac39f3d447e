//! The clock of a server: its modes, its offset and drift, and everything that depends on it.

mod bent;
mod beside;
mod hang;
mod modes;
mod one_clock;
mod order;

use redouble::{Clock, Connection, InProcess, Server};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

type Test = Result<(), Box<dyn std::error::Error>>;

/// Limit in real time for anything that could hang.
const PATIENCE: Duration = Duration::from_secs(30);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn manual() -> Result<Server, redouble::StartError> {
    Server::builder().clock(Clock::Manual).start().await
}

/// A connection without a timeout.
async fn patient(server: &Server) -> redis::RedisResult<Connection> {
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    server.connection_builder().config(config).open().await
}

/// A connection on which this request was sent.
async fn sent(server: &Server, request: &str) -> std::io::Result<InProcess> {
    let mut stream = server.connect();
    stream.write_all(request.as_bytes()).await?;
    stream.write_all(b"\r\n").await?;
    Ok(stream)
}

/// The bytes that are ready for a client. `waker` is called when there are more.
fn heard_by(stream: &mut InProcess, waker: &Waker) -> String {
    let mut bytes = [0; 4096];
    let mut buf = ReadBuf::new(&mut bytes);
    let mut all = String::new();
    while let Poll::Ready(Ok(())) =
        Pin::new(&mut *stream).poll_read(&mut Context::from_waker(waker), &mut buf)
    {
        if buf.filled().is_empty() {
            all.push_str("(closed)");
            break;
        }
        all.push_str(&String::from_utf8_lossy(buf.filled()));
        buf.clear();
    }
    all
}

/// The bytes that are ready for a client.
fn heard(stream: &mut InProcess) -> String {
    heard_by(stream, Waker::noop())
}
