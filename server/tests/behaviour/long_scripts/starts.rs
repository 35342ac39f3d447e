//! Every way in which a script can start, over every transport, with every ending: other connections are
//! answered -BUSY meanwhile, and then the caller gets its result.

use super::Test;
use redouble::fault::{Delay, Gate, Hold};
use redouble::{Clock, InProcess, Server};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

/// Longest time that a step can take before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);
pub(super) const BUSY: &str =
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// How the script of the caller starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The caller sends it.
    Sent,
    /// As part of a transaction.
    Exec,
    /// CLIENT PAUSE has put it off, and ends by itself.
    PauseEnds,
    /// CLIENT PAUSE has put it off, and another client ends it.
    Unpause,
    /// It waits until a sleeping node wakes up.
    Sleep,
    /// A fault has delayed the request.
    Delay,
    /// A gate has held the request, and another thread opens it.
    Gate,
    /// A fault has delayed the request, and another thread moves a manual clock.
    Advance,
    /// The node was paused, and another thread resumes it.
    Resume,
}

const WAYS: [Way; 9] = [
    Way::Sent,
    Way::Exec,
    Way::PauseEnds,
    Way::Unpause,
    Way::Sleep,
    Way::Delay,
    Way::Gate,
    Way::Advance,
    Way::Resume,
];

/// How the script ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    ByItself,
    Kill,
    /// The caller disconnects; then another client kills the script.
    CallerGone,
}

const ENDS: [End; 3] = [End::ByItself, End::Kill, End::CallerGone];

/// The transport of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    #[cfg(unix)]
    Unix,
    #[cfg(feature = "tls")]
    Tls,
    InProcess,
}

pub(super) trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// A stream in process for code that blocks. Each write has a thread of its own: it takes as long as the
/// requests.
struct Blocking {
    runtime: Arc<tokio::runtime::Runtime>,
    reader: ReadHalf<InProcess>,
    writer: Option<WriteHalf<InProcess>>,
    writing: Option<std::thread::JoinHandle<WriteHalf<InProcess>>>,
}

impl Blocking {
    fn of(stream: InProcess) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let (reader, writer) = tokio::io::split(stream);
        Ok(Self {
            runtime: Arc::new(runtime),
            reader,
            writer: Some(writer),
            writing: None,
        })
    }
}

impl Read for Blocking {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(into);
        let read = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, read).await });
        read.map_err(io::Error::other)?
    }
}

impl Write for Blocking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut writer = match (self.writer.take(), self.writing.take()) {
            (Some(writer), _) => writer,
            (None, Some(writing)) => writing.join().map_err(|_| io::Error::other("panicked"))?,
            (None, None) => return Err(io::Error::other("no writer")),
        };
        let (runtime, owned) = (self.runtime.clone(), bytes.to_vec());
        self.writing = Some(std::thread::spawn(move || {
            let _noticed_by_the_reader = runtime.block_on(writer.write_all(&owned));
            writer
        }));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn open(
    server: &Server,
    transport: Transport,
) -> Result<Box<dyn Stream>, Box<dyn std::error::Error>> {
    Ok(match transport {
        Transport::Tcp => Box::new(tcp(server)?),
        #[cfg(unix)]
        Transport::Unix => {
            let url = server.unix_url().ok_or("a Unix socket")?;
            let path = url.trim_start_matches("unix://");
            let stream = std::os::unix::net::UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Box::new(stream)
        }
        #[cfg(feature = "tls")]
        Transport::Tls => {
            use rustls::pki_types::{CertificateDer, pem::PemObject as _};
            let ca = server.tls_ca_pem().ok_or("a throw-away certificate")?;
            let mut roots = rustls::RootCertStore::empty();
            roots.add_parsable_certificates(CertificateDer::from_pem_slice(ca.as_bytes()));
            let config = rustls::ClientConfig::builder()
                .with_root_certificates(roots)
                .with_no_client_auth();
            let session = rustls::ClientConnection::new(Arc::new(config), "localhost".try_into()?)?;
            let stream = TcpStream::connect(server.tls_addr().ok_or("TLS")?)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Box::new(rustls::StreamOwned::new(session, stream))
        }
        Transport::InProcess => Box::new(Blocking::of(server.connect())?),
    })
}

pub(super) fn tcp(server: &Server) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server.addr())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

pub(super) fn send(stream: &mut impl Write, args: &[&str]) -> io::Result<()> {
    let mut request = format!("*{}\r\n", args.len());
    args.iter()
        .for_each(|arg| request.push_str(&format!("${}\r\n{arg}\r\n", arg.len())));
    stream.write_all(request.as_bytes())?;
    stream.flush()
}

pub(super) fn line(stream: &mut impl Read) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

pub(super) fn ask(stream: &mut (impl Read + Write), args: &[&str]) -> io::Result<String> {
    send(stream, args)?;
    line(stream)
}

#[expect(clippy::disallowed_methods, reason = "a test that hangs has to end")]
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Has the caller's script start, and returns what has to live until it has ended.
fn start(
    way: Way,
    server: &Arc<Server>,
    caller: &mut dyn Stream,
    script: &str,
) -> Result<Vec<Box<dyn std::any::Any>>, Box<dyn std::error::Error>> {
    let eval = ["EVAL", script, "0"];
    let mut admin = tcp(server)?;
    let own = server.clone();
    let mut kept: Vec<Box<dyn std::any::Any>> = Vec::new();
    let has_arrived = || {
        until("the script's request has arrived", || {
            server
                .history()
                .entries()
                .any(|entry| entry.request.to_string().starts_with("EVAL"))
        });
    };
    match way {
        Way::Sent => send(&mut &mut *caller, &eval)?,
        Way::Exec => {
            assert_eq!(ask(&mut &mut *caller, &["MULTI"])?, "+OK");
            assert_eq!(ask(&mut &mut *caller, &eval)?, "+QUEUED");
            send(&mut &mut *caller, &["EXEC"])?;
        }
        Way::PauseEnds => {
            assert_eq!(
                ask(&mut admin, &["CLIENT", "PAUSE", "100", "WRITE"])?,
                "+OK"
            );
            send(&mut &mut *caller, &eval)?;
        }
        Way::Unpause => {
            assert_eq!(
                ask(&mut admin, &["CLIENT", "PAUSE", "1000000", "WRITE"])?,
                "+OK"
            );
            send(&mut &mut *caller, &eval)?;
            has_arrived();
            send(&mut admin, &["CLIENT", "UNPAUSE"])?;
        }
        Way::Sleep => {
            send(&mut admin, &["DEBUG", "SLEEP", "0.1"])?;
            send(&mut &mut *caller, &eval)?;
        }
        Way::Delay => {
            let rule = server.inject(Delay::request(Duration::from_millis(50)).command("EVAL"));
            send(&mut &mut *caller, &eval)?;
            kept.push(Box::new(rule));
        }
        Way::Gate => {
            let gate = Gate::new();
            let rule = server.inject(Hold::request(&gate).command("EVAL"));
            send(&mut &mut *caller, &eval)?;
            until("the request is held", || gate.waiting() == 1);
            kept.push(Box::new(rule));
            kept.push(Box::new(std::thread::spawn(move || gate.open())));
        }
        Way::Advance => {
            let rule = server.inject(Delay::request(Duration::from_secs(50)).command("EVAL"));
            send(&mut &mut *caller, &eval)?;
            until("the request is delayed", || rule.fired() == 1);
            kept.push(Box::new(rule));
            let advance = move || own.clock().advance(Duration::from_secs(60));
            kept.push(Box::new(std::thread::spawn(advance)));
        }
        Way::Resume => {
            // A connection that the node has not met is in no diagnosis.
            assert_eq!(ask(&mut &mut *caller, &["PING"])?, "+PONG");
            let pause = server.pause();
            send(&mut &mut *caller, &eval)?;
            until("the request waits", || {
                !server.diagnosis().unserved.is_empty()
            });
            kept.push(Box::new(std::thread::spawn(move || drop(pause))));
        }
    }
    kept.push(Box::new(admin));
    Ok(kept)
}

/// Plays one cell. Returns false if the script ended before another client got -BUSY.
fn play(
    server: &Arc<Server>,
    way: Way,
    transport: Transport,
    end: End,
    rounds: u64,
) -> Result<bool, Box<dyn std::error::Error>> {
    let mut caller = open(server, transport)?;
    let mut other = tcp(server)?;
    let script = if end == End::ByItself {
        format!("local t = 0 for i = 1, {rounds} do t = t + i % 2 end return t")
    } else {
        "while true do end".to_owned()
    };
    let kept = start(way, server, &mut *caller, &script)?;
    let mut was_busy = false;
    let mut ended = None;
    if end == End::ByItself {
        let reader = std::thread::spawn(move || {
            let first = line(&mut caller);
            if way == Way::Exec && first.is_ok() {
                return (line(&mut caller), caller);
            }
            (first, caller)
        });
        while !reader.is_finished() && !was_busy {
            was_busy = ask(&mut other, &["GET", "k"])? == BUSY;
        }
        let (result, _caller) = reader.join().map_err(|_| "the reader panicked")?;
        assert_eq!(result?, format!(":{}", rounds.div_ceil(2)));
    } else {
        until(
            "another client gets -BUSY",
            || matches!(ask(&mut other, &["GET", "k"]), Ok(reply) if reply == BUSY),
        );
        was_busy = true;
        if end == End::CallerGone {
            drop(caller);
        } else {
            ended = Some(caller);
        }
        let mut late = tcp(server)?;
        assert_eq!(
            ask(&mut late, &["PING"])?,
            BUSY,
            "a new connection is served too"
        );
        assert_eq!(ask(&mut late, &["SCRIPT", "KILL"])?, "+OK");
    }
    if let Some(mut caller) = ended {
        if way == Way::Exec {
            assert_eq!(line(&mut caller)?, "*1");
        }
        let killed = line(&mut caller)?;
        assert!(killed.starts_with("-ERR Script killed by user"), "{killed}");
        assert_eq!(ask(&mut caller, &["PING"])?, "+PONG");
    }
    for any in kept {
        // Those threads end with the script.
        if let Ok(thread) = any.downcast::<std::thread::JoinHandle<()>>() {
            thread.join().map_err(|_| "the starting thread panicked")?;
        }
    }
    assert_eq!(ask(&mut other, &["GET", "k"])?, "$-1", "no longer busy");
    drop(other);
    until("all connections have gone", || server.connections() == 0);
    Ok(was_busy)
}

fn has_cell(way: Way, transport: Transport, end: End) -> bool {
    // The script runs on the thread that would have to drop the caller.
    let runs_on_caller = matches!(way, Way::Sent | Way::Exec);
    !(transport == Transport::InProcess && runs_on_caller && end == End::CallerGone)
}

fn settings() -> redouble::ServerBuilder {
    Server::builder().history(1000).configure(|config| {
        config.busy_reply_threshold = Duration::from_millis(20);
        config.script_instructions_max = u64::MAX;
    })
}

/// All ways and endings over one transport. `build` makes a server of the settings.
fn check(
    transport: Transport,
    build: impl Fn(redouble::ServerBuilder) -> Result<Arc<Server>, Box<dyn std::error::Error>>,
) -> Test {
    for way in WAYS {
        let clock = if way == Way::Advance {
            Clock::Manual
        } else {
            Clock::System
        };
        for end in ENDS {
            if !has_cell(way, transport, end) {
                continue;
            }
            let cell = format!("{way:?} {transport:?} {end:?}");
            eprintln!("{cell}");
            let mut rounds = 4_000_000;
            loop {
                let server = build(settings().clock(clock.clone()))?;
                let played = play(&server, way, transport, end, rounds);
                if played.map_err(|error| format!("{cell}: {error}"))? {
                    break;
                }
                rounds *= 4;
            }
        }
    }
    Ok(())
}

fn in_runtime(
    transport: Transport,
    change: impl Fn(redouble::ServerBuilder) -> redouble::ServerBuilder,
) -> Test {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    check(transport, |builder| {
        let server = runtime.block_on(change(builder).start())?;
        server.listen()?;
        Ok(Arc::new(server))
    })
}

#[test]
fn over_tcp_however_it_starts() -> Test {
    in_runtime(Transport::Tcp, |builder| builder)
}

#[cfg(unix)]
#[test]
fn over_a_unix_socket_however_it_starts() -> Test {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("redis.sock");
    in_runtime(Transport::Unix, |builder| builder.unix_socket(&path))
}

#[cfg(feature = "tls")]
#[test]
fn over_tls_however_it_starts() -> Test {
    in_runtime(Transport::Tls, |builder| builder.tls())
}

#[test]
fn in_process_however_it_starts() -> Test {
    in_runtime(Transport::InProcess, |builder| builder)
}

#[test]
fn of_a_blocking_server_however_it_starts() -> Test {
    check(Transport::Tcp, |builder| {
        Ok(Arc::new(builder.start_blocking()?))
    })
}

#[cfg(unix)]
#[test]
fn of_a_blocking_server_over_a_unix_socket_however_it_starts() -> Test {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("redis.sock");
    check(Transport::Unix, |builder| {
        Ok(Arc::new(builder.unix_socket(&path).start_blocking()?))
    })
}
