//! A real Redis, on the wall clock: one that is started for the purpose, or one that is there.

use super::{Backend, Later, Node, Opened};
use crate::simulation::Transport;
use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, aio::MultiplexedConnection};
use std::{
    env,
    ffi::OsStr,
    io,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream as BlockingStream},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;
use tokio::net::TcpStream;

/// The lease on a real server, in milliseconds: long against the machine's scheduling gaps, short
/// against the patience of whoever waits.
const LEASE_MS: u64 = 300;

/// How long a started server may take to answer.
const START_MAX: Duration = Duration::from_secs(10);

/// A real Redis server. A started one ends with this value.
pub struct Real {
    name: String,
    address: (String, u16),
    login: RedisConnectionInfo,
    prefix: String,
    runs: AtomicU64,
    _server: Option<Server>,
}

/// A server of our own, in a directory of its own.
struct Server {
    child: Child,
    _directory: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Real {
    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If the program cannot be run or does not answer.
    pub fn spawn(program: impl AsRef<OsStr>) -> io::Result<Self> {
        let program = program.as_ref();
        let directory = TempDir::new()?;
        // The port is free now and may be taken a moment later; the server then does not start.
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let child = Command::new(program)
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string()])
            .arg("--dir")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                let text = format!("cannot run {}: {error}", program.display());
                io::Error::new(error.kind(), text)
            })?;
        let mut server = Server {
            child,
            _directory: directory,
        };
        let began = Instant::now();
        while let Err(error) = ping(port) {
            let ended = server.child.try_wait()?.is_some();
            if ended || began.elapsed() > START_MAX {
                let text = format!(
                    "{} does not answer on port {port}: {error}",
                    program.display()
                );
                return Err(io::Error::new(error.kind(), text));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Self {
            name: program.display().to_string(),
            address: ("127.0.0.1".to_owned(), port),
            login: RedisConnectionInfo::default().set_skip_set_lib_name(),
            prefix: prefix(),
            runs: AtomicU64::new(0),
            _server: Some(server),
        })
    }

    /// Starts the server that the variable `REDOUBLE_REDIS` names: a path, or `off` for none. Unset
    /// means the `redis-server` of the PATH, if there is one; under `CI=true` there must be.
    ///
    /// # Errors
    /// If the server cannot be started although it is there or demanded.
    pub fn from_environment() -> io::Result<Option<Self>> {
        match env::var_os("REDOUBLE_REDIS") {
            Some(off) if off == "off" => Ok(None),
            Some(path) => Self::spawn(path).map(Some),
            None => match Self::spawn("redis-server") {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !in_ci() => Ok(None),
                started => started.map(Some),
            },
        }
    }

    /// Uses a server that is there. Only keys under a prefix of our own are touched.
    ///
    /// # Errors
    /// If the URL is not one of a Redis server over plain TCP.
    pub fn at(url: &str) -> io::Result<Self> {
        let unusable = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let info = url
            .into_connection_info()
            .map_err(|error| unusable(error.to_string()))?;
        let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
            return Err(unusable(format!("{url} is not a server over plain TCP")));
        };
        Ok(Self {
            name: format!("redis://{host}:{port}"),
            address: (host, port),
            login: info.redis_settings().clone().set_skip_set_lib_name(),
            prefix: prefix(),
            runs: AtomicU64::new(0),
            _server: None,
        })
    }
}

fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|ci| ci == "true")
}

/// Keys of different runs of the suite on one server must not meet.
fn prefix() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!("redouble-check:{}:{}", std::process::id(), now.as_nanos())
}

fn ping(port: u16) -> io::Result<()> {
    let mut stream = BlockingStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    if answer == *b"+PONG\r\n" {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

impl Backend for Real {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn virtual_time(&self) -> bool {
        false
    }

    fn lease_ms(&self) -> Option<u64> {
        Some(LEASE_MS)
    }

    fn open(&self, _seed: u64) -> Later<'_, io::Result<Opened>> {
        let nth = self.runs.fetch_add(1, Ordering::Relaxed);
        let node = RealNode {
            key: format!("{}:{nth}", self.prefix),
            address: self.address.clone(),
            login: self.login.clone(),
        };
        Box::pin(async {
            Ok(Opened {
                node: Arc::new(node),
                driver: None,
            })
        })
    }
}

struct RealNode {
    key: String,
    address: (String, u16),
    login: RedisConnectionInfo,
}

impl RealNode {
    async fn delete_key(&self) -> redis::RedisResult<()> {
        let stream = TcpStream::connect((&*self.address.0, self.address.1)).await?;
        let (mut connection, driver) = MultiplexedConnection::new(&self.login, stream).await?;
        let mut delete = redis::cmd("DEL");
        delete.arg(&self.key);
        tokio::select! {
            biased;
            () = driver => Ok(()),
            deleted = delete.query_async(&mut connection) => deleted,
        }
    }
}

impl Node for RealNode {
    fn key(&self) -> &str {
        &self.key
    }

    fn login(&self) -> &RedisConnectionInfo {
        &self.login
    }

    fn dial(&self) -> Later<'_, io::Result<Box<dyn Transport>>> {
        Box::pin(async {
            let stream = TcpStream::connect((&*self.address.0, self.address.1)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }

    fn clean_up(&self) -> Later<'_, ()> {
        Box::pin(async {
            // What cannot be deleted expires, unless a broken lock left it without an expiry.
            let _ = self.delete_key().await;
        })
    }
}
