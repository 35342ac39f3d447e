//! Unmodified locks: their code connects to URLs, sleeps with `tokio::time` and starts tasks with
//! `tokio::spawn`.

use super::{AnyLock, BoxError, DynSubject, Host, Observed, Promises, Subject, proxy};
use crate::{
    backend::{Backend, Later, View},
    scenario::Scenario,
    simulation::{self, Run, RunError, held, plain},
    vocabulary::Capability,
};
use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tempfile::TempDir;

/// A lock whose code runs unmodified.
///
/// The [`Subject`] uses its [`Host`] only for the [`url`](Host::url) of each server. Each client process of a
/// scenario has a tokio runtime of its own, with a paused clock. The scenario moves this clock, millisecond
/// by millisecond, at the rate of the process's clock. So the scenario controls, in virtual time:
/// * `tokio::time`: sleeps, timeouts, intervals, [`tokio::time::Instant`];
/// * `tokio::spawn`: tasks stop while the process is paused and end with it;
/// * the traffic of `redis` or another client that connects to a Unix socket.
///
/// The scenario does not control:
/// * `std::time::Instant` and `SystemTime`. They hardly move during a scenario, so a scenario that sets a
///   client's wall clock is [unsupported](Capability::ClientWallClock).
/// * Threads (`futures_timer`, `spawn_blocking`, `std::thread`). They run in real time while the scenario
///   goes on. Blocking code cannot be played in this form at all.
/// * Randomness of the operating system, and the branch order of a `select!` without `biased`. Such a run is
///   not reproducible. For reproducible tokens call [`Host::random_token`].
///
/// A panic is a finding, in a task too. Tasks that outlive the lock are not counted (P15), because the suite
/// does not know how many tasks a client library needs; their requests are judged. A call that the scenario
/// cancels at its k-th poll is dropped when it has been pending k times.
///
/// Leases take three seconds by default: the timeouts of client libraries suit leases of this length, and
/// each millisecond of a scenario costs time.
///
/// ```
/// use redis::{AsyncTypedCommands, ExistenceCheck::NX, SetExpiry::PX, SetOptions};
/// use redouble_conformance::{BoxError, Host, Promises, Subject, check};
/// use std::time::Duration;
/// use tokio::time::Instant;
///
/// /// As in a program: a client that connects by itself, and tokio's clock.
/// struct PlainLock { client: redis::Client, host: Host, key: String, lease: Duration }
/// struct Grant { host: Host, token: String, until: Instant }
///
/// struct Mine;
/// impl Subject for Mine {
///     type Lock = PlainLock;
///     type Grant = Grant;
///     fn name(&self) -> &'static str { "mine" }
///     fn promises(&self) -> Promises { Promises::mutex_on_one_node().with_deadline().untidy() }
///     async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<PlainLock, BoxError> {
///         let client = redis::Client::open(host.url(0)?)?;
///         Ok(PlainLock { client, host: host.clone(), key: key.into(), lease })
///     }
///     async fn try_lock(&self, lock: &PlainLock) -> Result<Option<Grant>, BoxError> {
///         let until = Instant::now() + lock.lease.mul_f64(0.98);
///         let mut redis = lock.client.get_multiplexed_async_connection().await?;
///         let token = lock.host.random_token();
///         let once = SetOptions::default().conditional_set(NX).with_expiration(PX(lock.lease.as_millis() as u64));
///         let taken = redis.set_options(&lock.key, &token, once).await?.is_some();
///         let grant = Grant { host: lock.host.clone(), token, until };
///         Ok(Some(grant).filter(|it| taken && Instant::now() < it.until))
///     }
///     async fn release(&self, lock: &PlainLock, grant: Grant) -> Result<bool, BoxError> {
///         let mut redis = lock.client.get_multiplexed_async_connection().await?;
///         let script = redis::Script::new(
///             "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end");
///         Ok(script.key(&lock.key).arg(grant.token).invoke_async::<i32>(&mut redis).await? == 1)
///     }
///     fn deadline(&self, grant: &Grant) -> Option<Duration> { Some(grant.host.time_of(grant.until)) }
/// }
///
/// check(Mine).plain().seeds(0..40).assert_sound();
/// ```
#[derive(Clone)]
pub struct Plain {
    subject: Arc<dyn DynSubject>,
    lease_ms: u64,
    /// Sockets of the run that is being played.
    site: Option<Arc<Site>>,
}

/// The lease in milliseconds to which scenarios are scaled.
const LEASE_MS: u64 = 3_000;

/// Folder of a run's sockets, and the first error when creating them.
struct Site {
    folder: TempDir,
    names: AtomicU32,
    failure: Mutex<Option<io::Error>>,
}

impl Plain {
    /// Makes the plain form of a lock.
    #[must_use]
    pub fn new(subject: impl Subject) -> Self {
        Self::of(Arc::new(Arc::new(subject)))
    }

    /// Scales scenarios to leases of this many milliseconds.
    #[must_use]
    pub fn with_lease_ms(mut self, lease_ms: u64) -> Self {
        self.lease_ms = lease_ms;
        self
    }

    fn of(subject: Arc<dyn DynSubject>) -> Self {
        Self {
            subject,
            lease_ms: LEASE_MS,
            site: None,
        }
    }
}

/// Every subject has a plain form: its host then uses tokio's clock and tasks, and connects over sockets.
impl From<Box<dyn DynSubject>> for Plain {
    fn from(subject: Box<dyn DynSubject>) -> Self {
        Self::of(Arc::from(subject))
    }
}

impl DynSubject for Plain {
    fn name(&self) -> &'static str {
        self.subject.name()
    }

    fn promises(&self) -> Promises {
        self.subject.promises()
    }

    fn open<'a>(
        &'a self,
        host: &'a Host,
        key: &'a str,
        lease: Duration,
    ) -> Later<'a, Result<Arc<dyn AnyLock>, BoxError>> {
        Box::pin(async move {
            let site = self
                .site
                .as_deref()
                .ok_or("bug: the lock was opened outside of a run")?;
            let name = site.names.fetch_add(1, Ordering::Relaxed);
            let started = plain::Process::start(host, site.folder.path(), name);
            let (process, inside) = started.map_err(|error| {
                let told = error.to_string();
                held(&site.failure).get_or_insert(error);
                told
            })?;
            proxy::open(process, Arc::clone(&self.subject), inside, key, lease).await
        })
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        self.subject.observe(view, key)
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        self.subject.outlasts(key)
    }

    fn ends(&self, key: &[u8]) -> bool {
        self.subject.ends(key)
    }

    fn fences_reads(&self) -> bool {
        self.subject.fences_reads()
    }

    fn can(&self, capability: Capability) -> bool {
        capability != Capability::ClientWallClock && self.subject.can(capability)
    }

    fn lease_ms(&self) -> Option<u64> {
        Some(self.lease_ms)
    }

    fn play(&self, backend: &dyn Backend, scenario: &Scenario) -> Result<Run, RunError> {
        if !backend.virtual_time() {
            let text = "the plain form of a lock needs virtual time";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text).into());
        }
        plain::listen_for_panics();
        let site = Arc::new(Site {
            folder: tempfile::Builder::new().prefix("rd").tempdir()?,
            names: AtomicU32::new(0),
            failure: Mutex::default(),
        });
        let run = Self {
            site: Some(Arc::clone(&site)),
            ..self.clone()
        };
        let played = simulation::run(Arc::new(run), backend, scenario)?;
        match held(&site.failure).take() {
            Some(failure) => Err(failure.into()),
            None => Ok(played),
        }
    }
}
