//! How a lock of one's own is checked: four methods make it a subject, and one call judges it.

use own_lock::{Guard, Lock, Release, Surroundings};
use redouble_conformance::{BoxError, Connection, Host, Promises, Subject, check};
use std::{future::Future, time::Duration};

/// The client process of a scenario is what surrounds the lock.
#[derive(Clone)]
struct Simulated(Host);

impl Surroundings for Simulated {
    fn token(&self) -> String {
        self.0.random_token()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(task);
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        self.0.sleep(duration)
    }
}

struct Own(Release);

impl Subject for Own {
    type Lock = Lock<Connection, Simulated>; // one per client process, shared by all its tasks
    type Grant = Guard<Connection, Simulated>;

    fn name(&self) -> &'static str {
        match self.0 {
            Release::Atomic => "own-lock",
            Release::GetThenDel => "get-then-del",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Self::Lock, BoxError> {
        let redis = host.connection().await?;
        Ok(Lock::new(redis, Simulated(host.clone()), key, lease))
    }

    async fn try_lock(&self, lock: &Self::Lock) -> Result<Option<Self::Grant>, BoxError> {
        Ok(lock.try_lock().await?) // an error means that the outcome is unknown
    }

    async fn release(&self, _: &Self::Lock, guard: Self::Grant) -> Result<bool, BoxError> {
        Ok(guard.release(self.0).await?)
    }
}

#[test]
fn it_keeps_what_it_promises() {
    let report = concat!(env!("CARGO_TARGET_TMPDIR"), "/own-lock.html");
    check(Own(Release::Atomic))
        .quick()
        .report(report)
        .assert_sound();
}

#[test]
#[should_panic(expected = "get-then-del breaks P5 owner-only")]
fn a_release_in_two_steps_does_not() {
    check(Own(Release::GetThenDel)).quick().assert_sound();
}
