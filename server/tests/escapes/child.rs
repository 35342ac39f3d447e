//! The child process: starts a server, runs a script, and checks that other clients are served
//! afterwards.

#![expect(clippy::print_stdout, reason = "how a child tells its parent")]

use super::table::{ESCAPES, End, Escape};
use super::{Canary, PEAK_KIB_MAX, Role, SCRIPT_BYTES_MAX};
use redouble::{Server, ServerBuilder};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Printed before the reply to the script.
pub(crate) const REPLY: &str = "reply to the script: ";
/// Printed before the peak memory of the process, in KiB.
pub(crate) const PEAK: &str = "peak in KiB: ";
/// Number of bytes that are shown of each end of a reply.
const SHOWN_MAX: usize = 200;

pub(crate) fn act(role: Role) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let reply = match role {
        Role::Canary(canary) => return sing(canary),
        Role::Sockets(index) => runtime.block_on(sockets(&ESCAPES[index])),
        Role::InProcess(index) => runtime.block_on(in_process(&ESCAPES[index])),
    };
    let reply = reply.expect("the server lives");
    let shown = match reply.len() {
        0..=SHOWN_MAX => reply,
        len => [&reply[..SHOWN_MAX], b" ... ", &reply[len - SHOWN_MAX..]].concat(),
    };
    let shown = String::from_utf8_lossy(&shown).replace("\r\n", " ");
    println!("\n{REPLY}{shown}");
    show_peak();
}

fn sing(canary: Canary) {
    match canary {
        Canary::Aborts => std::process::abort(),
        Canary::SaysNothing => {}
        Canary::TakesMemory => {
            let memory = vec![1_u8; (PEAK_KIB_MAX as usize + 1) << 10];
            println!("\n{REPLY}{}", std::hint::black_box(memory).len());
            show_peak();
        }
        Canary::Hangs => loop {
            std::thread::park();
        },
    }
}

/// The peak memory, if the operating system reports it.
fn show_peak() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    if let Some(peak) = peak {
        println!("{PEAK}{}", peak.trim().trim_end_matches(" kB"));
    }
}

fn builder(escape: &Escape) -> ServerBuilder {
    let is_endless = matches!(escape.end, End::Killed);
    Server::builder().configure(move |config| {
        config.busy_reply_threshold = Duration::from_millis(20);
        config.script_memory_bytes_max = SCRIPT_BYTES_MAX;
        // Only in process: a script that ends by itself gets all the time it needs.
        config.script_instructions_max = if is_endless { 1_000_000 } else { u64::MAX };
    })
}

async fn sockets(escape: &Escape) -> io::Result<Vec<u8>> {
    let server = builder(escape).start_blocking()?;
    let open = || tokio::net::TcpStream::connect(server.addr());
    play(open().await?, open().await?, escape).await
}

async fn in_process(escape: &Escape) -> io::Result<Vec<u8>> {
    let server = builder(escape).start().await?;
    play(server.connect(), server.connect(), escape).await
}

/// The reply to the script, after other clients have been served again.
async fn play<S>(caller: S, other: S, escape: &Escape) -> io::Result<Vec<u8>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut caller, mut other) = (Client::new(caller), Client::new(other));
    caller.send(&["EVAL", escape.script, "0"]).await?;
    let reply = match escape.end {
        End::With(_) => caller.reply().await?,
        End::Killed => loop {
            if other.ask(&["PING"]).await?.starts_with(b"-BUSY") {
                assert_eq!(other.ask(&["SCRIPT", "KILL"]).await?, b"+OK\r\n");
                break caller.reply().await?;
            }
            tokio::select! {
                biased;
                reply = caller.reply() => break reply?,
                () = tokio::task::yield_now() => {}
            }
        },
    };
    assert_eq!(other.ask(&["PING"]).await?, b"+PONG\r\n");
    // Nothing that the script may have changed remains for the next script.
    let sound =
        "return {KEYS[1], ('x'):rep(3), ('x'):upper(), #redis.call('ECHO', 'four'), ARGV[1]}";
    let expected = b"*5\r\n$1\r\nk\r\n$3\r\nxxx\r\n$1\r\nX\r\n:4\r\n$1\r\na\r\n";
    assert_eq!(other.ask(&["EVAL", sound, "1", "k", "a"]).await?, expected);
    Ok(reply)
}

struct Client<S> {
    stream: S,
    input: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    fn new(stream: S) -> Self {
        let input = Vec::new();
        Self { stream, input }
    }

    async fn ask(&mut self, args: &[&str]) -> io::Result<Vec<u8>> {
        self.send(args).await?;
        self.reply().await
    }

    async fn send(&mut self, args: &[&str]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", args.len());
        for arg in args {
            request.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
        }
        self.stream.write_all(request.as_bytes()).await
    }

    /// Cancel safe: received bytes are kept.
    async fn reply(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(len) = frame_len(&self.input) {
                let rest = self.input.split_off(len);
                return Ok(std::mem::replace(&mut self.input, rest));
            }
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The length of the first RESP2 frame, if it is complete.
fn frame_len(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut missing) = (0, 1_usize);
    while missing > 0 {
        let line = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let head = &bytes[at..at + line];
        let count = || std::str::from_utf8(&head[1..]).ok()?.parse::<usize>().ok();
        at += line + 2;
        missing -= 1;
        match head.first()? {
            b'$' => at += count().map_or(0, |len| len + 2),
            b'*' => missing += count().unwrap_or(0),
            _ => {}
        }
        if at > bytes.len() {
            return None;
        }
    }
    Some(at)
}
