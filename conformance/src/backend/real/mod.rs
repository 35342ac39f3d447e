//! A real Redis in real time: one that the suite starts, or a running one.

mod dial;
mod fleet;

use super::{
    Backend, Later, Opened, Servers, Transport,
    redis_server::{self, RedisServer},
};
use crate::{
    scenario::{Fault, Scenario, fixed},
    vocabulary::{Capability, Topology},
};
use dial::dialled;
use fleet::Fleet;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo,
    aio::MultiplexedConnection,
};
use redouble::TimeSource;
use std::{
    ffi::{OsStr, OsString},
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::net::TcpStream;

/// One or several real Redis servers. Those that the suite starts end with this value, or with their run.
pub struct Real {
    name: String,
    address: (String, u16),
    login: RedisConnectionInfo,
    prefix: String,
    runs: AtomicU64,
    own: Option<Own>,
}

/// The program, and the server that runs share because they do not disturb it.
struct Own {
    program: OsString,
    _server: RedisServer,
}

impl Real {
    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If the program cannot be run or the server does not reply.
    pub fn spawn(program: impl AsRef<OsStr>) -> io::Result<Self> {
        let program = program.as_ref();
        let server = RedisServer::start(program, &[])?;
        Ok(Self {
            name: program.display().to_string(),
            address: ("127.0.0.1".to_owned(), server.port()),
            login: RedisConnectionInfo::default().set_skip_set_lib_name(),
            prefix: prefix(),
            runs: AtomicU64::new(0),
            own: Some(Own {
                program: program.to_owned(),
                _server: server,
            }),
        })
    }

    /// Starts the server that [`redis_server::find`] finds, if there is one.
    ///
    /// # Errors
    /// If the server exists but cannot be started, or is required and missing.
    pub fn from_environment() -> io::Result<Option<Self>> {
        redis_server::find()?.map(Self::spawn).transpose()
    }

    /// Returns the port of the server that runs share.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.1
    }

    /// Uses a running server. Only keys under the suite's own prefix are touched.
    ///
    /// # Errors
    /// If the URL does not name a Redis server over plain TCP.
    pub fn at(url: &str) -> io::Result<Self> {
        let unusable = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let info = url
            .into_connection_info()
            .map_err(|error| unusable(error.to_string()))?;
        let ConnectionAddr::Tcp(host, port) = info.addr().clone() else {
            return Err(unusable(format!(
                "{url} is not the URL of a Redis server over plain TCP"
            )));
        };
        Ok(Self {
            name: format!("redis://{host}:{port}"),
            address: (host, port),
            login: info.redis_settings().clone().set_skip_set_lib_name(),
            prefix: prefix(),
            runs: AtomicU64::new(0),
            own: None,
        })
    }
}

/// Returns a unique prefix, so that keys of different runs of the suite on one server differ.
fn prefix() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    format!("redouble-check:{}:{}", std::process::id(), now.as_nanos())
}

impl Backend for Real {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn virtual_time(&self) -> bool {
        false
    }

    fn lease_ms(&self) -> Option<u64> {
        Some(fixed::LEASE_MS)
    }

    fn observes(&self) -> bool {
        false
    }

    // Faults of clients and of the network are applied on the client side. Faults of servers need servers
    // that the suite has started. Real servers use the machine's clock, and their replies cannot be replaced.
    fn can(&self, capability: Capability) -> bool {
        match capability {
            Capability::ClientPause | Capability::ClientClock | Capability::ClientWallClock => true,
            Capability::SeveralNodes
            | Capability::Replicas
            | Capability::NodeCrash
            | Capability::Forgetting => self.own.is_some(),
            Capability::ErrorReplies | Capability::NodeClock => false,
        }
    }

    fn open<'a>(
        &'a self,
        scenario: &'a Scenario,
        _: Arc<dyn TimeSource>,
        _: Duration,
    ) -> Later<'a, io::Result<Opened>> {
        let nth = self.runs.fetch_add(1, Ordering::Relaxed);
        let key = format!("{}:{nth}", self.prefix);
        Box::pin(async move {
            let servers: Arc<dyn Servers> = match &self.own {
                Some(own) if !bears_company(scenario) => {
                    let login = self.login.clone();
                    Arc::new(Fleet::start(&own.program, key, login, scenario)?)
                }
                _ => Arc::new(self.shared(key).await?),
            };
            Ok(Opened {
                servers,
                drivers: vec![],
            })
        })
    }
}

/// Returns true if the scenario can be played on a server that other runs use at the same time.
fn bears_company(scenario: &Scenario) -> bool {
    let mut faults = scenario.faults();
    scenario.topology == Topology::ONE && !faults.any(|(.., fault)| strikes_servers(fault))
}

/// Returns true if a fault is applied at the servers.
fn strikes_servers(fault: Fault) -> bool {
    match fault {
        Fault::NodePause { .. }
        | Fault::NodeCrash { .. }
        | Fault::AnswerError { .. }
        | Fault::FlushScripts { .. }
        | Fault::NodeClock { .. }
        | Fault::NodeDrift { .. }
        | Fault::NodeFreeze { .. }
        | Fault::Evict { .. }
        | Fault::FailOver
        | Fault::SplitBrain { .. } => true,
        Fault::Pause { .. }
        | Fault::Suspend { .. }
        | Fault::Delay { .. }
        | Fault::Hold { .. }
        | Fault::Cut { .. }
        | Fault::Partition { .. }
        | Fault::Crash { .. }
        | Fault::Drift { .. }
        | Fault::WallClock { .. } => false,
    }
}

impl Real {
    /// Makes a key of its own on the shared server.
    async fn shared(&self, key: String) -> io::Result<RealNode> {
        let node = RealNode {
            key,
            address: self.address.clone(),
            login: self.login.clone(),
        };
        // An unreachable server must not count as a finding about a lock.
        node.call(&redis::cmd("PING"))
            .await
            .map_err(|error| io::Error::other(format!("{} does not reply: {error}", self.name)))?;
        Ok(node)
    }
}

/// Longest time until a server replies to a request of the suite, on a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(10);

struct RealNode {
    key: String,
    address: (String, u16),
    login: RedisConnectionInfo,
}

impl RealNode {
    /// Sends a command over a separate connection, without links and faults.
    async fn call(&self, command: &redis::Cmd) -> redis::RedisResult<redis::Value> {
        let stream = TcpStream::connect((&*self.address.0, self.address.1)).await?;
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER_MAX));
        let (mut connection, driver) =
            MultiplexedConnection::new_with_config(&self.login, stream, config).await?;
        tokio::select! {
            biased;
            value = connection.send_packed_command(command) => value,
            () = driver => Err(io::Error::from(io::ErrorKind::ConnectionReset).into()),
        }
    }
}

impl Servers for RealNode {
    fn key(&self) -> &str {
        &self.key
    }

    fn login(&self) -> &RedisConnectionInfo {
        &self.login
    }

    fn dial(&self, _: u8) -> Later<'_, io::Result<Box<dyn Transport>>> {
        let (host, port) = &self.address;
        Box::pin(dialled(host, *port))
    }

    fn clean_up(&self) -> Later<'_, ()> {
        Box::pin(async {
            // If the deletion fails, the key expires, unless a broken lock left it without an expiry.
            let _ = self.call(redis::cmd("DEL").arg(&self.key)).await;
        })
    }
}
