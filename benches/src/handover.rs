//! Locks in use: the cost of a lock over the two commands that it consists of, and the time from one holder
//! to the next under contention.

use crate::Result;
use crate::arithmetic::{median, quantile, ratio};
use crate::in_process::{mutex_cycles, scripted_cycles};
use redouble_lock::{Guard, Kind, Lock, LockManager};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Number of warm-up cycles.
const WARM: usize = 500;
/// Time for which a client holds the lock.
const HOLD: Duration = Duration::from_micros(200);
/// The lease of the contended locks. No client crashes here.
const LEASE: Duration = Duration::from_secs(10);

/// Cycles per second of one client on one connection.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The raw commands.
    pub raw: f64,
    /// A mutex of the lock crate.
    pub mutex: f64,
    /// A mutex with a watchdog.
    pub watched: f64,
    /// Time of a mutex cycle, as a multiple of the raw commands.
    pub over_raw: f64,
    /// Time of a mutex cycle with a watchdog, as a multiple of one without.
    pub over_mutex: f64,
}

/// Measures the cost of a cycle: the medians of all rounds, A B C A B C.
///
/// # Errors
/// If the server cannot be reached, or a lock is not free although it must be.
pub fn cost(url: &str, rounds: usize) -> Result<Cost> {
    let runtime = one_thread()?;
    runtime.block_on(async {
        let client = redis::Client::open(url)?;
        let mut raw = client.get_multiplexed_async_connection().await?;
        let locks = LockManager::new(raw.clone());
        let mutex = locks.mutex("lock:bench").build()?;
        let watched = locks.mutex("lock:bench").watchdog(true).build()?;
        let mut seen = Vec::with_capacity(rounds);
        let mut cycles = WARM;
        for round in 0..=rounds {
            let began = Instant::now();
            scripted_cycles(&mut raw, cycles).await?;
            let raw = rate(cycles, began);
            let began = Instant::now();
            mutex_cycles(&mutex, cycles).await?;
            let mutex = rate(cycles, began);
            let began = Instant::now();
            mutex_cycles(&watched, cycles).await?;
            let watched = rate(cycles, began);
            if round == 0 {
                cycles = (raw as usize / 2).max(WARM);
                continue;
            }
            seen.push(Cost {
                raw,
                mutex,
                watched,
                over_raw: ratio(raw, mutex),
                over_mutex: ratio(mutex, watched),
            });
        }
        let middle = |of: fn(&Cost) -> f64| median(&seen.iter().map(of).collect::<Vec<_>>());
        Ok(Cost {
            raw: middle(|round| round.raw),
            mutex: middle(|round| round.mutex),
            watched: middle(|round| round.watched),
            over_raw: middle(|round| round.over_raw),
            over_mutex: middle(|round| round.over_mutex),
        })
    })
}

fn rate(cycles: usize, began: Instant) -> f64 {
    cycles as f64 / began.elapsed().as_secs_f64()
}

/// A way to pass a lock on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The mutex of redouble-lock; messages wake waiters; all in one process.
    Woken,
    /// The same, but each waiter has connections of its own, as in separate processes.
    WokenApart,
    /// The mutex of redouble-lock; waiters poll.
    Polling,
    /// The fair mutex of redouble-lock; messages wake waiters.
    Fair,
    /// `rslock`, polling every 5 ms.
    Rslock,
}

impl Way {
    /// All ways, in the order of the table.
    pub const ALL: [Self; 5] = [
        Self::Woken,
        Self::WokenApart,
        Self::Polling,
        Self::Fair,
        Self::Rslock,
    ];

    /// Returns the name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Woken => "mutex, pub/sub, one process",
            Self::WokenApart => "mutex, pub/sub, a process each",
            Self::Polling => "mutex, polling",
            Self::Fair => "fair mutex, pub/sub",
            Self::Rslock => "rslock 0.10, polling at 5 ms",
        }
    }
}

/// Results of a contest.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Grants per second.
    pub per_second: f64,
    /// Median time from a release to the next grant, in microseconds.
    pub p50_us: u32,
    /// 99th percentile of this time, in microseconds.
    pub p99_us: u32,
    /// Jain's index of the grants of all waiters: 1 if all had the same number, 1/n if one had them all.
    pub fairness: f64,
}

/// Records of all waiters.
#[derive(Default)]
struct Notes {
    released: Option<Instant>,
    gaps_us: Vec<u32>,
    grants: Vec<u64>,
}

/// Makes several clients contend for one lock for a while.
///
/// # Errors
/// If the server cannot be reached or a lock fails.
pub fn contest(url: &str, way: Way, waiters: usize, time: Duration) -> Result<Outcome> {
    let runtime = one_thread()?;
    runtime.block_on(async {
        let key = format!("lock:contest:{way:?}:{waiters}");
        let notes = Arc::new(Mutex::new(Notes {
            grants: vec![0; waiters],
            ..Notes::default()
        }));
        let until = Instant::now() + time;
        let mut tasks: JoinSet<Result<()>> = JoinSet::new();
        let client = redis::Client::open(url)?;
        let shared = match way {
            Way::Polling => LockManager::new(client.get_multiplexed_async_connection().await?),
            Way::Woken | Way::WokenApart | Way::Fair | Way::Rslock => {
                LockManager::from_client(client.clone()).await?
            }
        };
        for waiter in 0..waiters {
            let notes = Arc::clone(&notes);
            match way {
                Way::Woken | Way::Polling => {
                    tasks.spawn(fight(
                        shared.mutex(&key).lease(LEASE).build()?,
                        waiter,
                        until,
                        notes,
                    ));
                }
                Way::WokenApart => {
                    let own = LockManager::from_client(client.clone()).await?;
                    tasks.spawn(fight(
                        own.mutex(&key).lease(LEASE).build()?,
                        waiter,
                        until,
                        notes,
                    ));
                }
                Way::Fair => {
                    tasks.spawn(fight(
                        shared.fair_mutex(&key).lease(LEASE).build()?,
                        waiter,
                        until,
                        notes,
                    ));
                }
                Way::Rslock => {
                    let mut theirs = rslock::LockManager::from_clients(vec![client.clone()]);
                    theirs.set_retry(u32::MAX, Duration::from_millis(5));
                    tasks.spawn(fight_with_rslock(theirs, key.clone(), waiter, until, notes));
                }
            }
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        let Notes {
            gaps_us, grants, ..
        } = &mut *notes;
        let sum: u64 = grants.iter().sum();
        let squares: f64 = grants.iter().map(|grants| (*grants as f64).powi(2)).sum();
        Ok(Outcome {
            per_second: sum as f64 / time.as_secs_f64(),
            p50_us: quantile(gaps_us, 0.5),
            p99_us: quantile(gaps_us, 0.99),
            fairness: (sum as f64).powi(2) / (waiters as f64 * squares),
        })
    })
}

async fn fight<K: Kind<Guard = Guard>>(
    lock: Lock<K>,
    waiter: usize,
    until: Instant,
    notes: Arc<Mutex<Notes>>,
) -> Result<()> {
    while Instant::now() < until {
        let guard = lock.lock().await?;
        granted(&notes, waiter);
        hold().await;
        released(&notes);
        let _ = guard.release().await;
    }
    Ok(())
}

async fn fight_with_rslock(
    locks: rslock::LockManager,
    key: String,
    waiter: usize,
    until: Instant,
    notes: Arc<Mutex<Notes>>,
) -> Result<()> {
    while Instant::now() < until {
        let lock = match locks.lock(key.as_bytes(), LEASE).await {
            Ok(lock) => lock,
            Err(rslock::LockError::Unavailable) => continue,
            Err(error) => return Err(error.into()),
        };
        granted(&notes, waiter);
        hold().await;
        released(&notes);
        locks.unlock(&lock).await;
    }
    Ok(())
}

/// Holds the lock in a busy loop that yields to other tasks of the thread.
async fn hold() {
    let until = Instant::now() + HOLD;
    while Instant::now() < until {
        tokio::task::yield_now().await;
    }
}

fn granted(notes: &Mutex<Notes>, waiter: usize) {
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    notes.grants[waiter] += 1;
    if let Some(released) = notes.released.take() {
        let gap = u32::try_from(released.elapsed().as_micros()).unwrap_or(u32::MAX);
        notes.gaps_us.push(gap);
    }
}

fn released(notes: &Mutex<Notes>) {
    notes
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .released = Some(Instant::now());
}

fn one_thread() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
