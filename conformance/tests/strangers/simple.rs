//! A string with a token, in the ways in which people write it without a background task that extends the lease.

use crate::{is_cleared, is_convicted};
use redis::{ExistenceCheck::NX, Script, SetExpiry::PX, SetOptions, Value, cmd};
use redouble_conformance::{BoxError, Connection, Host, Promises, Subject, checker::Property};
use std::{sync::Arc, time::Duration};

pub(crate) const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// Way to release a grant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Release {
    /// WATCH, GET, MULTI, DEL, EXEC, each time on a new connection.
    Watch,
    /// The same without WATCH.
    GetMultiDel,
    /// A script.
    Script,
}

/// Way to wait for the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// None: the suite repeats `try_lock`.
    Not,
    /// The call asks again every tenth of a second, and sleeps no longer than until the end of its wait.
    ToTheEnd,
    /// The call asks again every tenth of a lease, and finishes each sleep even past the end of its wait.
    PastTheEnd,
}

/// Handling of a connection that a request found broken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// The next request connects again.
    Redialled,
    /// The next call reports the same error without a request to the server.
    ReportedTwice,
}

/// Handling of a grant whose guard is dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dropped {
    /// The grant stays until its lease ends.
    Left,
    /// A task releases the grant, and retries until replies say that the grant is gone.
    GivenBack,
    /// The same task starts one second later.
    GivenBackLater,
}

struct Plain {
    name: &'static str,
    release: Release,
    wait: Wait,
    broken: Broken,
    dropped: Dropped,
}

struct Handle {
    redis: Connection,
    host: Host,
    key: String,
    lease: Duration,
    in_error: std::sync::Mutex<Option<String>>,
}

struct Guard {
    token: Option<String>,
    lock: Arc<Handle>,
    dropped: Dropped,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(token) = self.token.take().filter(|_| self.dropped != Dropped::Left) else {
            return;
        };
        let (lock, late) = (
            Arc::clone(&self.lock),
            self.dropped == Dropped::GivenBackLater,
        );
        let host = lock.host.clone();
        host.spawn(async move {
            if late {
                lock.host.sleep(Duration::from_secs(1)).await;
            }
            // A request in flight on a closed connection arrives within a lease. The lock need not wait longer for it.
            let begun = lock.host.now();
            let mut gone = 0;
            while lock.host.now() < begun + lock.lease {
                match lock.remove(&token).await {
                    Ok(true) => return,
                    Ok(false) if gone == 5 => return,
                    Ok(false) => gone += 1,
                    Err(_) => {}
                }
                lock.host.sleep(Duration::from_millis(20)).await;
            }
        });
    }
}

impl Handle {
    async fn remove(&self, token: &str) -> redis::RedisResult<bool> {
        let script = Script::new(COMPARE_AND_DELETE);
        let mut call = script.key(&self.key);
        let freed: u64 = call
            .arg(token)
            .invoke_async(&mut self.redis.clone())
            .await?;
        Ok(freed == 1)
    }

    async fn take(&self, token: &str) -> redis::RedisResult<bool> {
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap();
        let once = SetOptions::default()
            .conditional_set(NX)
            .with_expiration(PX(lease_ms));
        let mut set = cmd("SET");
        set.arg(&self.key).arg(token).arg(once);
        let set: Option<String> = set.query_async(&mut self.redis.clone()).await?;
        Ok(set.is_some())
    }

    async fn transaction(&self, token: &str, watch: bool) -> Result<bool, BoxError> {
        loop {
            let mut redis = self.host.connection().await?;
            if watch {
                let _: Value = cmd("WATCH").arg(&self.key).query_async(&mut redis).await?;
            }
            let stored: Option<String> = cmd("GET").arg(&self.key).query_async(&mut redis).await?;
            if stored.as_deref() != Some(token) {
                return Ok(false);
            }
            let _: Value = cmd("MULTI").query_async(&mut redis).await?;
            let _: Value = cmd("DEL").arg(&self.key).query_async(&mut redis).await?;
            let done: Option<(u64,)> = cmd("EXEC").query_async(&mut redis).await?;
            if let Some((deleted,)) = done {
                return Ok(deleted == 1);
            }
        }
    }
}

impl Plain {
    fn guard(&self, lock: &Arc<Handle>) -> Guard {
        Guard {
            token: Some(lock.host.random_token()),
            lock: Arc::clone(lock),
            dropped: self.dropped,
        }
    }
}

impl Subject for Plain {
    type Lock = Arc<Handle>;
    type Grant = Guard;

    fn name(&self) -> &'static str {
        self.name
    }

    fn promises(&self) -> Promises {
        let mut promises = Promises::mutex_on_one_node();
        if self.dropped == Dropped::Left {
            promises = promises.untidy();
        }
        if self.wait != Wait::Not {
            promises = promises.waiting(None);
        }
        if self.broken == Broken::ReportedTwice {
            promises = promises.answering();
        }
        promises
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Arc<Handle>, BoxError> {
        Ok(Arc::new(Handle {
            redis: host.connection().await?,
            host: host.clone(),
            key: key.to_owned(),
            lease,
            in_error: std::sync::Mutex::default(),
        }))
    }

    async fn try_lock(&self, lock: &Arc<Handle>) -> Result<Option<Guard>, BoxError> {
        if let Some(error) = lock.in_error.lock().unwrap().take() {
            return Err(error.into());
        }
        let mut guard = self.guard(lock);
        let token = guard.token.clone().unwrap();
        match lock.take(&token).await {
            Ok(true) => Ok(Some(guard)),
            Ok(false) => {
                guard.token = None;
                Ok(None)
            }
            Err(error) => {
                if self.broken == Broken::ReportedTwice {
                    *lock.in_error.lock().unwrap() = Some(error.to_string());
                }
                Err(error.into())
            }
        }
    }

    async fn lock_timeout(
        &self,
        lock: &Arc<Handle>,
        wait: Duration,
    ) -> Result<Option<Guard>, BoxError> {
        let until = lock.host.now() + wait;
        loop {
            if let Some(guard) = self.try_lock(lock).await? {
                return Ok(Some(guard));
            }
            let left = until.saturating_sub(lock.host.now());
            match self.wait {
                Wait::Not => return Err(redouble_conformance::NotOffered.into()),
                _ if left.is_zero() => return Ok(None),
                Wait::ToTheEnd => lock.host.sleep(left.min(Duration::from_millis(100))).await,
                Wait::PastTheEnd => lock.host.sleep(lock.lease / 10).await,
            }
        }
    }

    async fn release(&self, lock: &Arc<Handle>, mut guard: Guard) -> Result<bool, BoxError> {
        let token = guard.token.clone().unwrap();
        let released = match self.release {
            Release::Watch => lock.transaction(&token, true).await?,
            Release::GetMultiDel => lock.transaction(&token, false).await?,
            Release::Script => lock.remove(&token).await?,
        };
        guard.token = None;
        Ok(released)
    }
}

const SOUND: Plain = Plain {
    name: "a-sound-string",
    release: Release::Script,
    wait: Wait::Not,
    broken: Broken::Redialled,
    dropped: Dropped::Left,
};

#[test]
fn a_release_by_watch_is_sound_and_one_without_it_is_not() {
    is_cleared(Plain {
        name: "watch-multi",
        release: Release::Watch,
        ..SOUND
    });
    let unwatched = Plain {
        name: "get-multi-del",
        release: Release::GetMultiDel,
        ..SOUND
    };
    is_convicted(unwatched, Property::Ownership);
}

#[test]
fn a_poll_ends_with_the_wait_or_it_is_late() {
    is_cleared(Plain {
        name: "polls-to-the-end",
        wait: Wait::ToTheEnd,
        ..SOUND
    });
    let late = Plain {
        name: "polls-past-the-end",
        wait: Wait::PastTheEnd,
        ..SOUND
    };
    is_convicted(late, Property::Timeouts);
}

#[test]
fn one_call_may_find_a_connection_broken_and_the_next_may_not() {
    let twice = Plain {
        name: "tells-an-error-twice",
        broken: Broken::ReportedTwice,
        ..SOUND
    };
    is_convicted(twice, Property::Liveness);
}

#[test]
fn a_dropped_guard_is_cleaned_up_at_once() {
    is_cleared(Plain {
        name: "gives-back-at-once",
        dropped: Dropped::GivenBack,
        ..SOUND
    });
    let late = Plain {
        name: "gives-back-after-a-second",
        dropped: Dropped::GivenBackLater,
        ..SOUND
    };
    is_convicted(late, Property::Cancellation);
}
