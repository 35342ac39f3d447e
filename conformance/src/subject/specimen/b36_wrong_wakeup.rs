//! B36: a release pushes signals to a list, and a waiter pops one. A crashed waiter takes it, or it expires,
//! or it never comes, or the waiter restarts its timeout at each signal.

use super::{Held, Site, SoundLock, Specimen, exhibit};
use crate::{
    checker::Property::{Timeouts, WakeUp},
    subject::{
        BoxError,
        Expected::{self, Convicted},
        Host, Row,
    },
    vocabulary::Promises,
};
use std::time::Duration;

/// Mistake in the signals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signals {
    /// There is one signal, and a crashed waiter may take it.
    One,
    /// Signals expire soon.
    Fleeting,
    /// No signal comes when a lease ends.
    NotOfExpiry,
    /// The waiter restarts its timeout at each signal.
    Restarting,
}

const SLEEPS: Expected = Convicted(&[WakeUp]);

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "wakes-one-dead-waiter",
        make: || exhibit(Signals::One),
        expected: SLEEPS,
        summary: "a release wakes one waiter, which may have crashed",
    },
    Row {
        name: "release-signal-expires",
        make: || exhibit(Signals::Fleeting),
        expected: SLEEPS,
        summary: "the release signal expires before a waiter takes it",
    },
    Row {
        name: "no-wakeup-at-expiry",
        make: || exhibit(Signals::NotOfExpiry),
        expected: SLEEPS,
        summary: "waits for a release message; none comes when a lease ends",
    },
    Row {
        name: "wake-restarts-timeout",
        make: || exhibit(Signals::Restarting),
        expected: Convicted(&[Timeouts]),
        summary: "restarts its timeout at each wake-up",
    },
];

/// Pushes one signal, which lasts for a minute.
const TELL_ONE: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('DEL', KEYS[1]) \
redis.call('DEL', KEYS[1] .. ':signal') redis.call('RPUSH', KEYS[1] .. ':signal', 1) \
redis.call('PEXPIRE', KEYS[1] .. ':signal', 60000) return 1";
/// Pushes a signal for each possible waiter.
const TELL_ALL: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('DEL', KEYS[1]) \
redis.call('DEL', KEYS[1] .. ':signal') redis.call('RPUSH', KEYS[1] .. ':signal', 1, 2, 3, 4, 5) \
redis.call('PEXPIRE', KEYS[1] .. ':signal', 60000) return 1";
/// Pushes the same signals for a twentieth of a second.
const TELL_FLEETINGLY: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('DEL', KEYS[1]) \
redis.call('DEL', KEYS[1] .. ':signal') redis.call('RPUSH', KEYS[1] .. ':signal', 1, 2, 3, 4, 5) \
redis.call('PEXPIRE', KEYS[1] .. ':signal', 50) return 1";

/// Waits for a signal, up to `nap`; true if one came.
async fn signal(ears: &Site, nap: Duration) -> bool {
    let (host, signal) = (&ears.host, format!("{}:signal", ears.key));
    let seconds = format!("{:.3}", nap.as_secs_f64().max(0.001));
    let words = ["BLPOP", &signal, &seconds];
    let told = async {
        match ears.ask::<Option<redis::Value>>(&words).await {
            Ok(told) => told.is_some(),
            Err(_) => {
                host.sleep(ears.lease / 60).await;
                false
            }
        }
    };
    tokio::select! {
        biased;
        told = told => told,
        () = host.sleep(nap) => false,
    }
}

impl Specimen for Signals {
    fn id(&self) -> &'static str {
        match self {
            Self::One => "B36a",
            Self::Fleeting => "B36b",
            Self::NotOfExpiry => "B36c",
            Self::Restarting => "B36d",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .waiting(Some(12))
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Site, BoxError> {
        let site = <Site as SoundLock>::open(host, key, lease, host.request_timeout()).await?;
        Ok(site.releasing_by(match self {
            Self::One => TELL_ONE, // the mistake
            Self::Fleeting => TELL_FLEETINGLY,
            Self::NotOfExpiry | Self::Restarting => TELL_ALL,
        }))
    }

    async fn wait(&self, site: &Site, wait: Duration) -> Result<Option<Held>, BoxError> {
        let mut until = site.host.now() + wait;
        let mut ears = None;
        loop {
            if let Some(held) = site.acquire().await? {
                return Ok(Some(held));
            }
            let left: i64 = site.ask(&["PTTL", &site.key]).await?;
            let lease_left = Duration::from_millis(u64::try_from(left).unwrap_or(0) + 1);
            let wait_left = until.saturating_sub(site.host.now());
            if wait_left.is_zero() {
                return Ok(None);
            }
            let nap = match self {
                Self::NotOfExpiry => wait_left, // the mistake
                Self::One | Self::Fleeting | Self::Restarting => wait_left.min(lease_left),
            };
            let ears = match &mut ears {
                Some(ears) => ears,
                // A blocking command needs a connection of its own.
                None => {
                    ears.insert(Site::on(0, &site.host, &site.key, site.lease, 2 * wait).await?)
                }
            };
            let told = signal(ears, nap).await;
            if *self == Self::Restarting && told {
                until = site.host.now() + wait; // the mistake
            }
        }
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        key.ends_with(b":signal")
    }
}
