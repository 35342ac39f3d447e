//! Measures one lock: opens servers, runs the clients, and adds up their results.

use super::{
    client::{Client, Pace, Tally},
    contended_key::ContendedKey,
    latencies::Latencies,
    load::Load,
    lock_backend::{LockBackend, Servers},
    measured::{Failure, Measured, Overlaps, Round},
    metronome::Metronome,
    server_work::{self, ServerWork},
};
use crate::{
    scenario::chance,
    simulation::{Connection, Host, Machine, held},
    subject::DynSubject,
    vocabulary::{Kind, Mode, PROBE_HOST, REQUESTS_PER_LEASE},
};
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{sync::watch, task::JoinSet};

/// Interval between two checks of the elapsed time.
const LOOK: Duration = Duration::from_millis(10);
/// Shortest time for which clients may finish their releases at the end.
const GRACE: Duration = Duration::from_secs(1);
/// Largest number of SCAN calls when searching for leftover keys.
const SCANS_MAX: u32 = 10_000;

/// Reason why a lock could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The subject is a counter or a latch and has no holder.
    #[error("a counter or a latch has no holder, so there is nothing to measure")]
    NotALock,
    /// There are more keys than clients, or no key or no task.
    #[error(
        "there must be at least one key, at least as many clients as keys, and at least one task"
    )]
    NoClients,
    /// The servers cannot be reached, or are fewer than the lock needs.
    #[error("{0}")]
    OutOfReach(#[from] io::Error),
    /// A server does not reply.
    #[error("the server does not reply: {0}")]
    Silent(#[from] redis::RedisError),
    /// A client failed to acquire the lock without competition.
    #[error(
        "client {client} could not acquire and release the lock, although no other client used it: {why}"
    )]
    Unusable {
        /// Number of the client.
        client: u8,
        /// Its error.
        why: String,
    },
}

/// Measures a lock. `progress` is called with the elapsed time now and then. Setting `interrupted` ends the
/// measurement; the results so far count.
///
/// # Errors
/// If the lock cannot be measured on this backend.
pub fn measure(
    subject: &dyn DynSubject,
    place: &LockBackend,
    load: &Load,
    interrupted: &AtomicBool,
    progress: &dyn Fn(Duration),
) -> Result<Measured, BenchError> {
    let (mode, capacity) = match subject.promises().kind {
        Kind::Mutex | Kind::ReadWrite => (Mode::Exclusive, 1),
        Kind::Semaphore(permits) => (Mode::Permits(1), permits),
        Kind::Admission(_) | Kind::Latch(_) => return Err(BenchError::NotALock),
    };
    if load.keys == 0 || load.keys > load.clients || load.tasks == 0 {
        return Err(BenchError::NoClients);
    }
    let servers = place.open(subject.promises().topology)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        let mut stage = Stage::set(subject, &servers, load, mode, capacity).await?;
        let ran = stage.run(interrupted, progress).await?;
        if place.is_shared() {
            stage.clean_up().await?;
        }
        let name = format!("{}, Redis {}", place.name(), ran.version);
        Ok(stage.added_up(subject.name(), name, ran))
    });
    // Background tasks of the lock end here.
    runtime.shutdown_timeout(GRACE);
    outcome
}

/// The participants of a measurement.
struct Stage {
    machine: Machine,
    load: Arc<Load>,
    prefix: String,
    clients: Vec<Client>,
    tallies: Vec<Arc<Mutex<Tally>>>,
    spots: Vec<Arc<ContendedKey>>,
    observers: Vec<Connection>,
}

/// Raw results.
struct Ran {
    elapsed: Duration,
    interrupted: bool,
    work: ServerWork,
    version: String,
}

impl Stage {
    /// Opens all locks, and lets every client acquire its own once.
    async fn set(
        subject: &dyn DynSubject,
        servers: &Servers,
        load: &Load,
        mode: Mode,
        capacity: u32,
    ) -> Result<Self, BenchError> {
        let machine = Machine::new(servers.addresses.clone(), servers.login.clone());
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seed = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
        let observer = machine.host(PROBE_HOST, seed, load.lease);
        let mut observers = Vec::new();
        for node in 0..observer.nodes() {
            observers.push(observer.connect_to(node).await?);
        }
        let spots = (0..load.keys).map(|_| Arc::new(ContendedKey::new(capacity)));
        let mut stage = Self {
            prefix: format!("redouble-bench:{}:{seed}", std::process::id()),
            machine,
            load: Arc::new(load.clone()),
            clients: Vec::new(),
            tallies: Vec::new(),
            spots: spots.collect(),
            observers,
        };
        for nth in 0..load.clients {
            // Client numbers may repeat with this many clients; seeds do not.
            let seed = chance::draw([seed, u64::from(nth)]);
            let host = stage.machine.host(nth, seed, load.lease);
            stage.enlist(subject, nth, host, mode).await?;
        }
        Ok(stage)
    }

    async fn enlist(
        &mut self,
        subject: &dyn DynSubject,
        nth: u8,
        host: Host,
        mode: Mode,
    ) -> Result<(), BenchError> {
        let key = nth % self.load.keys;
        let tasks = self.load.tasks;
        let name = format!("{}:{key}", self.prefix);
        let unusable = |why: String| BenchError::Unusable { client: nth, why };
        let opened = subject.open(&host, &name, self.load.lease).await;
        let lock = opened.map_err(|error| unusable(error.to_string()))?;
        for task in 0..tasks {
            let tally = Arc::new(Mutex::new(Tally::default()));
            let client = Client {
                caller: u16::from(nth) * u16::from(tasks) + u16::from(task),
                host: host.clone(),
                lock: lock.of_task().unwrap_or_else(|| Arc::clone(&lock)),
                mode,
                contended_key: Arc::clone(&self.spots[usize::from(key)]),
                load: Arc::clone(&self.load),
                tally: Arc::clone(&tally),
            };
            client.warm_up().await.map_err(unusable)?;
            self.clients.push(client);
            self.tallies.push(tally);
        }
        Ok(())
    }

    /// Runs all clients until the time is over.
    async fn run(
        &mut self,
        interrupted: &AtomicBool,
        progress: &dyn Fn(Duration),
    ) -> Result<Ran, BenchError> {
        let version = match self.observers.first_mut() {
            Some(observer) => server_work::version(observer).await?,
            None => String::new(),
        };
        let before = self.worked().await?;
        let (tell, over) = watch::channel(false);
        let start = self.machine.now();
        let metronome = Metronome::start(&self.load, &self.machine, start);
        let mut running = JoinSet::new();
        let mut names = BTreeMap::new();
        for client in std::mem::take(&mut self.clients) {
            let caller = client.caller;
            let pace = Pace {
                start,
                slots: self.load.begins(caller),
                tick: metronome.of(caller),
            };
            let task = running.spawn(client.run(pace, over.clone()));
            names.insert(task.id(), caller);
        }
        while self.machine.now() < start + self.load.time && !interrupted.load(Ordering::Relaxed) {
            let left = (start + self.load.time).saturating_sub(self.machine.now());
            tokio::time::sleep(left.min(LOOK)).await;
            progress(self.machine.now().saturating_sub(start));
        }
        let elapsed = self.machine.now().saturating_sub(start);
        tell.send_replace(true);
        let grace = GRACE.max(self.load.lease / REQUESTS_PER_LEASE);
        let ended = async {
            while let Some(ended) = running.join_next_with_id().await {
                if let Err(error) = ended
                    && error.is_panic()
                    && let Some(caller) = names.get(&error.id())
                {
                    let why = format!("caller {caller} panicked");
                    held(&self.tallies[usize::from(*caller)]).fail(Failure::Panicked, why);
                }
            }
        };
        // A client that does not end in time is aborted; its results count.
        let _ = tokio::time::timeout(grace, ended).await;
        running.shutdown().await;
        let interrupted = elapsed < self.load.time;
        let after = self.worked().await?;
        Ok(Ran {
            elapsed,
            interrupted,
            work: after.since(&before),
            version,
        })
    }

    /// Returns the work that all servers together have done.
    async fn worked(&mut self) -> Result<ServerWork, BenchError> {
        let mut sum = ServerWork::default();
        for observer in &mut self.observers {
            sum += ServerWork::of(observer).await?;
        }
        Ok(sum)
    }

    /// Deletes the keys under the bench's prefix.
    async fn clean_up(&mut self) -> Result<(), BenchError> {
        let pattern = format!("*{}*", self.prefix);
        for observer in &mut self.observers {
            let mut cursor: u64 = 0;
            for _ in 0..SCANS_MAX {
                let (next, keys): (u64, Vec<Vec<u8>>) = redis::cmd("SCAN")
                    .arg(cursor)
                    .arg("MATCH")
                    .arg(&pattern)
                    .arg("COUNT")
                    .arg(1_000)
                    .query_async(observer)
                    .await?;
                if !keys.is_empty() {
                    let mut delete = redis::cmd("DEL");
                    delete.arg(keys);
                    delete.query_async::<()>(observer).await?;
                }
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    fn added_up(&self, lock: &'static str, place: String, ran: Ran) -> Measured {
        let mut measured = Measured {
            lock,
            place,
            load: (*self.load).clone(),
            elapsed: ran.elapsed,
            interrupted: ran.interrupted,
            asked: 0,
            cycles: Vec::new(),
            acquire: Latencies::default(),
            hand_over: Latencies::default(),
            overtaken: 0,
            failures: BTreeMap::new(),
            complaints: BTreeMap::new(),
            unserved: 0,
            work: ran.work,
            overlaps: Overlaps::default(),
            rounds: Vec::new(),
        };
        for (caller, tally) in (0..).zip(&self.tallies) {
            let tally = held(tally);
            measured.asked += tally.asked;
            measured.cycles.push(tally.cycles);
            measured.acquire.merge(&tally.acquire);
            for (how, count) in &tally.failures {
                *measured.failures.entry(*how).or_default() += count;
            }
            for (how, why) in &tally.complaints {
                let first = measured.complaints.entry(*how);
                first.or_insert_with(|| why.clone());
            }
            let due = self.load.begins(caller).map(|it| it.before(ran.elapsed));
            measured.unserved += due.unwrap_or(0).saturating_sub(tally.asked);
        }
        for seen in self.spots.iter().map(|contended_key| contended_key.seen()) {
            measured.hand_over.merge(&seen.hand_overs);
            measured.overtaken += seen.overtaken;
            measured.overlaps.count += seen.overlaps;
            measured.overlaps.first = measured.overlaps.first.take().or(seen.first);
        }
        measured.rounds = vec![Round::of(&measured)];
        measured
    }
}
