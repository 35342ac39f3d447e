//! A caller in a bench: a client, or one of its tasks. It acquires the lock, holds it, releases it, and counts the results.

use super::{
    contended_key::{ContendedKey, Waiting},
    latencies::Latencies,
    load::{Load, Slots},
    measured::Failure,
};
use crate::{
    simulation::{Host, held},
    subject::{AnyGrant, AnyLock, BoxError, NotOffered},
    vocabulary::{Mode, Refusal},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::{Notify, watch};

/// Pause after a failed request, so that the client does not spin while a server is down.
const AFTER_TROUBLE: Duration = Duration::from_millis(10);

/// Timers of the runtime are exact to a millisecond; shorter holding times are spent in a busy loop.
const TIMER: Duration = Duration::from_millis(2);

/// Results of a client.
#[derive(Clone, Default)]
pub(super) struct Tally {
    pub(super) asked: u64,
    pub(super) cycles: u64,
    pub(super) acquire: Latencies,
    pub(super) failures: BTreeMap<Failure, u64>,
    pub(super) complaints: BTreeMap<Failure, String>,
}

impl Tally {
    pub(super) fn fail(&mut self, how: Failure, why: String) {
        *self.failures.entry(how).or_default() += 1;
        self.complaints.entry(how).or_insert(why);
    }
}

pub(super) struct Client {
    /// Number of this caller among the tasks of all clients.
    pub(super) caller: u16,
    pub(super) host: Host,
    pub(super) lock: Arc<dyn AnyLock>,
    pub(super) mode: Mode,
    pub(super) contended_key: Arc<ContendedKey>,
    pub(super) load: Arc<Load>,
    pub(super) tally: Arc<Mutex<Tally>>,
}

/// Start times of a client's cycles.
pub(super) struct Pace {
    /// The start of the measurement, on the clock of all clients.
    pub(super) start: Duration,
    /// Start times of an open loop.
    pub(super) slots: Option<Slots>,
    /// Ticks at the start times.
    pub(super) tick: Arc<Notify>,
}

impl Pace {
    /// Waits for the n-th cycle and returns its intended start; `None` if the load is over.
    async fn begin(&self, n: u64, host: &Host) -> Option<Duration> {
        let Some(slots) = &self.slots else {
            return Some(host.now());
        };
        let at = self.start + slots.nth(n)?;
        while host.now() < at {
            self.tick.notified().await;
        }
        Some(at)
    }
}

/// Outcome of an acquisition.
type Asked = Result<(Arc<dyn AnyGrant>, Duration), (Failure, String)>;

impl Client {
    /// Runs one cycle that is not counted: it connects, loads scripts, and shows that the lock can be
    /// acquired.
    pub(super) async fn warm_up(&self) -> Result<(), String> {
        let (grant, _) = self.acquire().await.map_err(|(_, why)| why)?;
        match grant.release().await {
            Ok(true) => Ok(()),
            Ok(false) => Err("the lock was lost before its release".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Runs cycles until the bench stops it.
    pub(super) async fn run(self, pace: Pace, mut over: watch::Receiver<bool>) {
        for n in 0.. {
            tokio::select! {
                biased;
                _ = over.wait_for(|it| *it) => return,
                more = self.cycle(n, &pace) => if !more { return },
            }
        }
    }

    /// Runs a cycle. Returns true if there may be another one.
    async fn cycle(&self, n: u64, pace: &Pace) -> bool {
        let Some(intended) = pace.begin(n, &self.host).await else {
            return false;
        };
        held(&self.tally).asked += 1;
        let waiting = self.contended_key.wait(self.host.now());
        let Some(grant) = self.granted(intended, waiting).await else {
            return true;
        };
        self.hold().await;
        self.give_back(grant).await;
        true
    }

    async fn granted(&self, intended: Duration, waiting: Waiting<'_>) -> Option<Arc<dyn AnyGrant>> {
        match self.acquire().await {
            Ok((grant, lease_end)) => {
                let now = self.host.now();
                self.contended_key
                    .enter(self.caller, waiting, &grant, lease_end, now);
                held(&self.tally).acquire.add(now.saturating_sub(intended));
                Some(grant)
            }
            Err((how, why)) => {
                drop(waiting);
                held(&self.tally).fail(how, why);
                if how != Failure::Contended {
                    self.host.sleep(AFTER_TROUBLE).await;
                }
                None
            }
        }
    }

    /// Tries until the lock is granted or the wait is over. Returns the grant and the earliest end of its
    /// lease.
    async fn acquire(&self) -> Asked {
        let until = self.host.now() + self.load.wait;
        let lease_end = self.host.now() + self.load.lease;
        match self.lock.lock_mode(self.mode, self.load.wait).await {
            Err(error) if error.is::<NotOffered>() => {}
            Ok(Some(grant)) => return Ok((grant, lease_end)),
            Ok(None) => return Err(contended()),
            Err(error) => return Err(failed(error)),
        }
        // The lock does not wait by itself.
        loop {
            let lease_end = self.host.now() + self.load.lease;
            match self.lock.try_mode(self.mode).await {
                Ok(Some(grant)) => return Ok((grant, lease_end)),
                Ok(None) if self.host.now() >= until => return Err(contended()),
                Ok(None) => {}
                Err(error) => return Err(failed(error)),
            }
            // The pause is between a half and one and a half of the interval, so that clients do not stay in
            // step.
            let [byte, ..] = self.host.random();
            let pause = self.load.poll.mul_f64(0.5 + f64::from(byte) / 255.0);
            self.host.sleep(pause).await;
        }
    }

    async fn hold(&self) {
        let until = self.host.now() + self.load.hold;
        if self.load.hold >= TIMER {
            self.host.sleep_until(until).await;
        }
        while self.host.now() < until {
            tokio::task::yield_now().await;
        }
    }

    async fn give_back(&self, grant: Arc<dyn AnyGrant>) {
        // From here on the holder no longer counts as a holder.
        self.contended_key.leave(self.caller, self.host.now());
        let outcome = grant.release().await;
        let mut tally = held(&self.tally);
        match outcome {
            Ok(true) => tally.cycles += 1,
            Ok(false) => {
                let why = "the lock was lost before its release".to_owned();
                tally.fail(Failure::Lost, why);
            }
            Err(error) => tally.fail(Failure::ReleaseUnknown, error.to_string()),
        }
    }
}

fn contended() -> (Failure, String) {
    let why = "other clients held the lock for the whole wait".to_owned();
    (Failure::Contended, why)
}

/// Converts an error to a kind of failure and its message.
fn failed(error: BoxError) -> (Failure, String) {
    let how = match error.downcast_ref::<Refusal>() {
        Some(Refusal::Contended | Refusal::TimedOut) => Failure::Contended,
        Some(Refusal::Lost | Refusal::Fenced | Refusal::NotOffered | Refusal::Other) => {
            Failure::Refused
        }
        None => Failure::Unknown,
    };
    (how, error.to_string())
}
