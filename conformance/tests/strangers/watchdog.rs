//! A string with a background task that extends its lease.

use crate::{is_cleared, is_convicted, simple::COMPARE_AND_DELETE};
use redis::{ExistenceCheck::NX, RedisResult, Script, SetExpiry::PX, SetOptions, cmd};
use redouble_conformance::{BoxError, Connection, Host, Promises, Subject, checker::Property};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Notify;

const COMPARE_AND_EXTEND: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return \
     redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";

/// Reaction of the task to a failed request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterAFailure {
    /// The task retries until the deadline.
    TriesAgain,
    /// The task ends, and reports nothing.
    Ends,
    /// The task does not load the script again: it ends and reports the loss, as it should.
    EndsWithoutItsScript,
}

struct Watchdog(AfterAFailure, &'static str);

struct Handle {
    redis: Connection,
    host: Host,
    key: String,
    lease: Duration,
}

/// State that the holder and the task share.
struct Shared {
    deadline: Mutex<Duration>,
    lost: Notify,
}

struct Grant {
    token: String,
    shared: Arc<Shared>,
}

impl Handle {
    async fn extend(&self, token: &str, by_hash: bool) -> RedisResult<bool> {
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap();
        let mut redis = self.redis.clone();
        let script = Script::new(COMPARE_AND_EXTEND);
        let extended: u64 = if by_hash {
            let mut call = cmd("EVALSHA");
            call.arg(script.get_hash())
                .arg(1)
                .arg(&self.key)
                .arg(token)
                .arg(lease_ms);
            call.query_async(&mut redis).await?
        } else {
            let mut call = cmd("EVAL");
            call.arg(COMPARE_AND_EXTEND)
                .arg(1)
                .arg(&self.key)
                .arg(token)
                .arg(lease_ms);
            call.query_async(&mut redis).await?
        };
        Ok(extended == 1)
    }
}

async fn renew(
    lock: Arc<Handle>,
    token: String,
    shared: std::sync::Weak<Shared>,
    after: AfterAFailure,
) {
    let mut pause = lock.lease / 3;
    loop {
        lock.host.sleep(pause).await;
        let Some(known) = shared.upgrade() else {
            return;
        };
        let deadline = *known.deadline.lock().unwrap();
        let asked = lock.host.now();
        if deadline <= asked {
            known.lost.notify_one();
            return;
        }
        drop(known);
        let by_hash = after == AfterAFailure::EndsWithoutItsScript;
        let extended = lock.extend(&token, by_hash).await;
        let Some(known) = shared.upgrade() else {
            return;
        };
        let left = deadline.saturating_sub(lock.host.now());
        let in_time = !left.is_zero();
        match (extended, after) {
            (Ok(true), _) if in_time => {
                *known.deadline.lock().unwrap() = asked + lock.lease;
                pause = lock.lease / 3;
            }
            (Err(_), AfterAFailure::TriesAgain) if in_time => {
                pause = left.min(lock.lease / 20);
            }
            (Err(_), AfterAFailure::Ends) => {
                drop(known);
                lock.host.sleep(left).await;
                if let Some(known) = shared.upgrade() {
                    known.lost.notify_one();
                }
                return;
            }
            (Ok(_) | Err(_), _) => {
                *known.deadline.lock().unwrap() = deadline.min(lock.host.now());
                known.lost.notify_one();
                return;
            }
        }
    }
}

/// Reports the loss at the deadline, whatever the task that extends the lease waits for.
async fn watch(host: Host, shared: std::sync::Weak<Shared>) {
    loop {
        let Some(known) = shared.upgrade() else {
            return;
        };
        let deadline = *known.deadline.lock().unwrap();
        if deadline <= host.now() {
            known.lost.notify_one();
            return;
        }
        drop(known);
        host.sleep_until(deadline).await;
    }
}

impl Subject for Watchdog {
    type Lock = Arc<Handle>;
    type Grant = Grant;

    fn name(&self) -> &'static str {
        self.1
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .untidy()
            .with_deadline()
            .renewing()
            .signalling()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Arc<Handle>, BoxError> {
        let mut redis = host.connection().await?;
        Script::new(COMPARE_AND_EXTEND)
            .load_async(&mut redis)
            .await?;
        Ok(Arc::new(Handle {
            redis,
            host: host.clone(),
            key: key.to_owned(),
            lease,
        }))
    }

    async fn try_lock(&self, lock: &Arc<Handle>) -> Result<Option<Grant>, BoxError> {
        let token = lock.host.random_token();
        let lease_ms = u64::try_from(lock.lease.as_millis())?;
        let once = SetOptions::default()
            .conditional_set(NX)
            .with_expiration(PX(lease_ms));
        let asked = lock.host.now();
        let mut set = cmd("SET");
        set.arg(&lock.key).arg(&token).arg(once);
        let set: Option<String> = set.query_async(&mut lock.redis.clone()).await?;
        let deadline = asked + lock.lease;
        if set.is_none() {
            return Ok(None);
        }
        if deadline <= lock.host.now() {
            return Err("the lease ended before the reply came".into());
        }
        let shared = Arc::new(Shared {
            deadline: Mutex::new(deadline),
            lost: Notify::new(),
        });
        let task = renew(
            Arc::clone(lock),
            token.clone(),
            Arc::downgrade(&shared),
            self.0,
        );
        lock.host.spawn(task);
        lock.host
            .spawn(watch(lock.host.clone(), Arc::downgrade(&shared)));
        Ok(Some(Grant { token, shared }))
    }

    async fn release(&self, lock: &Arc<Handle>, grant: Grant) -> Result<bool, BoxError> {
        let Grant { token, shared } = grant;
        drop(shared); // ends the task
        let script = Script::new(COMPARE_AND_DELETE);
        let mut call = script.key(&lock.key);
        let freed: u64 = call
            .arg(token)
            .invoke_async(&mut lock.redis.clone())
            .await?;
        Ok(freed == 1)
    }

    fn deadline(&self, grant: &Grant) -> Option<Duration> {
        Some(*grant.shared.deadline.lock().unwrap())
    }

    async fn lost(&self, grant: &Grant) {
        grant.shared.lost.notified().await;
    }
}

#[test]
fn a_watchdog_that_tries_again_is_sound() {
    is_cleared(Watchdog(AfterAFailure::TriesAgain, "tries-again"));
}

#[test]
fn a_watchdog_that_ends_with_the_first_failure_is_not() {
    let ends = Watchdog(AfterAFailure::Ends, "ends-with-a-failure");
    is_convicted(ends, Property::Renewal);
    let dies = Watchdog(
        AfterAFailure::EndsWithoutItsScript,
        "ends-without-its-script",
    );
    is_convicted(dies, Property::Renewal);
}
