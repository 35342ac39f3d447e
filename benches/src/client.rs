//! The client of the comparison: plain sockets on one thread, requests encoded beforehand, and a check of
//! every reply. It is cheap, because on a small machine the client limits the requests per second.

use crate::workload::{Lane, Stream, encode};
use crate::{Error, Result};
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// Time without a reply after which a server is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Time per request that no server worth measuring needs.
const REQUEST_MAX: Duration = Duration::from_micros(100);
const READ_BYTES: usize = 16 * 1024;

/// Number of replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of replies of any kind.
    pub replies: u64,
    /// Number of replies that are neither nil nor 0.
    pub positive: u64,
}

impl Tally {
    /// Counts the complete replies at the start of `bytes`, and returns their length.
    ///
    /// # Errors
    /// For an error reply, or bytes that are not a reply to the requests of a comparison.
    pub fn take(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut at = 0;
        while let Some((len, positive)) = scan(&bytes[at..])? {
            self.replies += 1;
            self.positive += u64::from(positive);
            at += len;
        }
        Ok(at)
    }
}

/// Returns the length of the reply at the start of `bytes`, and whether it is neither nil nor 0.
fn scan(bytes: &[u8]) -> Result<Option<(usize, bool)>> {
    let Some(line) = bytes.iter().position(|byte| *byte == b'\n') else {
        return Ok(None);
    };
    let text = bytes[1.min(line)..line]
        .strip_suffix(b"\r")
        .unwrap_or_default();
    match bytes[0] {
        b'+' => Ok(Some((line + 1, true))),
        b':' => Ok(Some((line + 1, text != b"0"))),
        b'_' => Ok(Some((line + 1, false))),
        b'$' if text == b"-1" => Ok(Some((line + 1, false))),
        b'$' => {
            let len = std::str::from_utf8(text)
                .ok()
                .and_then(|digits| digits.parse::<usize>().ok());
            let len = len.ok_or_else(|| unexpected(bytes))?;
            let end = line.saturating_add(1).saturating_add(len).saturating_add(2);
            Ok((bytes.len() >= end).then_some((end, true)))
        }
        b'*' if text == b"-1" => Ok(Some((line + 1, false))),
        b'*' => {
            let digits = std::str::from_utf8(text).ok();
            let count = digits.and_then(|digits| digits.parse::<usize>().ok());
            let mut end = line + 1;
            for _ in 0..count.ok_or_else(|| unexpected(bytes))? {
                let Some(rest) = bytes.get(end..).filter(|rest| !rest.is_empty()) else {
                    return Ok(None);
                };
                let Some((len, _)) = scan(rest)? else {
                    return Ok(None);
                };
                end += len;
            }
            Ok(Some((end, true)))
        }
        b'-' => Err(format!("the server answered with an error: {}", text.escape_ascii()).into()),
        _ => Err(unexpected(bytes)),
    }
}

fn unexpected(bytes: &[u8]) -> Error {
    format!(
        "not a reply to the request: {}",
        bytes[..bytes.len().min(80)].escape_ascii()
    )
    .into()
}

/// Results of a lap.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Number of replies.
    pub tally: Tally,
    /// Time from the first request to the last reply.
    pub elapsed: Duration,
    /// Times from the write of each batch to the last of its replies, in nanoseconds.
    pub latency_nanos: Vec<u32>,
}

/// Connections to one server, driven by one thread.
#[derive(Debug)]
pub struct Clients {
    runtime: Runtime,
    sockets: Vec<TcpStream>,
    addr: SocketAddr,
}

impl Clients {
    /// Opens `count` connections.
    ///
    /// # Errors
    /// If the server refuses one.
    pub fn connect(addr: SocketAddr, count: usize) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let sockets = runtime.block_on(async {
            let mut sockets = Vec::new();
            for _ in 0..count {
                let socket = TcpStream::connect(addr).await?;
                socket.set_nodelay(true)?;
                sockets.push(socket);
            }
            Ok::<_, std::io::Error>(sockets)
        })?;
        Ok(Self {
            runtime,
            sockets,
            addr,
        })
    }

    /// Sends a stream, one lane per connection, and checks the replies.
    ///
    /// # Errors
    /// For an error reply, a surplus reply, too few positive replies, or a server that is down or silent.
    /// Afterwards the connections cannot be used.
    pub fn run(&mut self, stream: &Arc<Stream>) -> Result<Run> {
        if stream.lanes.len() > self.sockets.len() {
            return Err(format!(
                "{} lanes for {} connections",
                stream.lanes.len(),
                self.sockets.len()
            )
            .into());
        }
        let spare = self.sockets.split_off(stream.lanes.len());
        let sockets = std::mem::replace(&mut self.sockets, spare);
        let runtime = &self.runtime;
        let began = Instant::now();
        let all = async {
            let driven = sockets.into_iter().enumerate().map(|(index, socket)| {
                let stream = stream.clone();
                runtime.spawn(async move {
                    let lane = stream.lanes.get(index).ok_or("a lane is missing")?;
                    drive(socket, lane).await
                })
            });
            let driven: Vec<_> = driven.collect();
            let mut lanes = Vec::with_capacity(driven.len());
            for lane in driven {
                lanes.push(lane.await??);
            }
            Ok::<_, Error>(lanes)
        };
        // All batches share one deadline: a timer for each would cost as much as the batch.
        let deadline = SILENCE_MAX + stream.requests as u32 * REQUEST_MAX;
        let lanes = runtime
            .block_on(async { tokio::time::timeout(deadline, all).await })
            .map_err(|_elapsed| format!("{}: no end after {deadline:?}", self.addr))??;
        let mut run = Run {
            elapsed: began.elapsed(),
            ..Run::default()
        };
        let mut sockets = Vec::with_capacity(lanes.len());
        for (socket, tally, latency_nanos) in lanes {
            run.tally.replies += tally.replies;
            run.tally.positive += tally.positive;
            run.latency_nanos.extend(latency_nanos);
            sockets.push(socket);
        }
        sockets.append(&mut self.sockets);
        self.sockets = sockets;
        check(stream, run.tally).map_err(|error| format!("{}: {error}", self.addr))?;
        Ok(run)
    }
}

fn check(stream: &Stream, tally: Tally) -> Result<()> {
    if tally.replies != stream.requests {
        return Err(format!("{} requests got {} replies", stream.requests, tally.replies).into());
    }
    if let Some(positive) = stream
        .positive
        .filter(|positive| *positive != tally.positive)
    {
        return Err(format!(
            "{} requests must have an effect, {} had one",
            positive, tally.positive
        )
        .into());
    }
    Ok(())
}

async fn drive(mut socket: TcpStream, lane: &Lane) -> Result<(TcpStream, Tally, Vec<u32>)> {
    let batches = lane.batches();
    let mut latency_nanos = Vec::with_capacity(batches.len());
    let (mut tally, mut sent) = (Tally::default(), 0);
    let mut buf = vec![0; READ_BYTES];
    let mut filled = 0;
    for (bytes, requests) in batches {
        let began = Instant::now();
        socket.write_all(bytes).await?;
        sent += u64::from(requests);
        while tally.replies < sent {
            let read = socket.read(&mut buf[filled..]).await?;
            if read == 0 {
                return Err("the server closed the connection".into());
            }
            filled += read;
            let taken = tally.take(&buf[..filled])?;
            buf.copy_within(taken..filled, 0);
            filled -= taken;
            if filled == buf.len() {
                buf.resize(2 * filled, 0);
            }
        }
        if tally.replies > sent || filled > 0 {
            return Err("the server sent more replies than requests".into());
        }
        latency_nanos.push(u32::try_from(began.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Ok((socket, tally, latency_nanos))
}

/// One connection for single requests that are not measured.
#[derive(Debug)]
pub struct Control(std::net::TcpStream);

impl Control {
    /// Connects.
    ///
    /// # Errors
    /// If no server listens there.
    pub fn connect(addr: SocketAddr) -> Result<Self> {
        let socket = std::net::TcpStream::connect_timeout(&addr, SILENCE_MAX)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self(socket))
    }

    /// Sends one request and returns the bytes of its reply.
    ///
    /// # Errors
    /// For an error reply, an array, or a server that is down or silent.
    pub fn call(&mut self, args: &[&str]) -> Result<Vec<u8>> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let mut request = Vec::new();
        encode(&args, &mut request);
        self.0.write_all(&request)?;
        let mut reply = Vec::new();
        let mut buf = [0; 4096];
        loop {
            if scan(&reply)?.is_some() {
                return Ok(reply);
            }
            match self.0.read(&mut buf)? {
                0 => return Err("the server closed the connection".into()),
                read => reply.extend_from_slice(&buf[..read]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn replies_are_counted_wherever_they_are_cut() {
        let replies = b"+OK\r\n$-1\r\n:0\r\n:1\r\n$4\r\na\r\nb\r\n$0\r\n\r\n_\r\n";
        for cut in 0..=replies.len() {
            let mut tally = Tally::default();
            let taken = tally.take(&replies[..cut]).expect("well formed");
            let rest = tally.take(&replies[taken..]).expect("well formed");
            assert_eq!(taken + rest, replies.len(), "cut at {cut}");
            assert_eq!(
                tally,
                Tally {
                    replies: 7,
                    positive: 4
                },
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn error_replies_and_nonsense_are_not_counted() {
        for (input, expected) in [
            (&b"+OK\r\n-ERR no such thing\r\n"[..], "ERR no such thing"),
            (b"-OOM command not allowed\r\n", "OOM"),
            (b"*x\r\n", "not a reply"),
            (b"$x\r\n", "not a reply"),
            (b"\n", "not a reply"),
        ] {
            let error = Tally::default()
                .take(input)
                .expect_err("refused")
                .to_string();
            assert!(
                error.contains(expected),
                "{}: {error}",
                input.escape_ascii()
            );
        }
    }

    /// Runs a stream of two requests against a server that sends `answer` on each connection.
    fn run_against(answer: &'static [u8], positive: Option<u64>) -> Result<Tally> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let addr = listener.local_addr()?;
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("a client comes");
            let mut buf = [0; 1024];
            let _asked = socket.read(&mut buf).expect("it asks");
            socket.write_all(answer).expect("it listens");
        });
        let mut stream = Stream::new(1, 2, 2, |out| encode(&[b"PING"], out));
        stream.positive = positive;
        let run = Clients::connect(addr, 1)?.run(&Arc::new(stream));
        server.join().expect("the server ends well");
        Ok(run?.tally)
    }

    #[test]
    fn a_run_fails_on_wrong_replies() {
        let tally = run_against(b"+PONG\r\n:0\r\n", Some(1)).expect("well answered");
        assert_eq!(
            tally,
            Tally {
                replies: 2,
                positive: 1
            }
        );
        for (answer, positive, expected) in [
            (&b"+PONG\r\n-BUSY\r\n"[..], None, "BUSY"),
            (
                b"+PONG\r\n+PONG\r\n",
                Some(1),
                "1 requests must have an effect, 2 had one",
            ),
            (b"+PONG\r\n", None, "closed the connection"),
            (
                b"+PONG\r\n+PONG\r\n+PONG\r\n",
                None,
                "more replies than requests",
            ),
        ] {
            let error = run_against(answer, positive)
                .expect_err("refused")
                .to_string();
            assert!(
                error.contains(expected),
                "{}: {error}",
                answer.escape_ascii()
            );
        }
    }
}
