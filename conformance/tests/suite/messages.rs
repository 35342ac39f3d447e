//! Messages for a user whose own lock cannot be judged or breaks its promises.

use redis::{AsyncTypedCommands as _, ExistenceCheck::NX, Script, SetExpiry::PX, SetOptions};
use redouble_conformance::{
    BoxError, Check, Connection, Host, NotOffered, Promises, Subject, check, history::Kind,
    report::Saved, scenario::Topology,
};
use std::{panic::AssertUnwindSafe, time::Duration};

/// Returns the panic message of `assert_sound`.
fn panic_of(check: Check) -> String {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| check.assert_sound()));
    let payload = outcome.expect_err("the lock is broken");
    payload
        .downcast_ref::<String>()
        .cloned()
        .unwrap_or_default()
}

/// `SET NX PX` with a random token. Each lock type below has a release of its own.
struct Handle {
    redis: Connection,
    host: Host,
    key: String,
    lease_ms: u64,
}

impl Handle {
    async fn open(host: &Host, key: &str, lease: Duration) -> Result<Self, BoxError> {
        Ok(Self {
            redis: host.connection().await?,
            host: host.clone(),
            key: key.into(),
            lease_ms: u64::try_from(lease.as_millis())?,
        })
    }

    async fn set(&self) -> Result<Option<String>, BoxError> {
        let token = self.host.random_token();
        let once = SetOptions::default()
            .conditional_set(NX)
            .with_expiration(PX(self.lease_ms));
        let mut redis = self.redis.clone();
        let set = redis.set_options(&self.key, &token, once).await?;
        Ok(set.map(|_| token))
    }
}

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

macro_rules! lock {
    ($name:ident, $open:expr, $try_lock:expr, $release:expr, $promises:expr) => {
        struct $name;

        impl Subject for $name {
            type Lock = Handle;
            type Grant = String;
            fn name(&self) -> &'static str {
                stringify!($name)
            }
            fn promises(&self) -> Promises {
                $promises
            }
            async fn open(
                &self,
                host: &Host,
                key: &str,
                lease: Duration,
            ) -> Result<Handle, BoxError> {
                $open(host)?;
                Handle::open(host, key, lease).await
            }
            async fn try_lock(&self, lock: &Handle) -> Result<Option<String>, BoxError> {
                let set = lock.set().await?;
                Ok(set.filter(|_| $try_lock))
            }
            async fn release(&self, lock: &Handle, token: String) -> Result<bool, BoxError> {
                let mut redis = lock.redis.clone();
                if $release {
                    Ok(redis.del(&lock.key).await? == 1)
                } else {
                    let script = Script::new(COMPARE_AND_DELETE);
                    let count: i64 = script
                        .key(&lock.key)
                        .arg(token)
                        .invoke_async(&mut redis)
                        .await?;
                    Ok(count == 1)
                }
            }
        }
    };
}

fn opens(_: &Host) -> Result<(), BoxError> {
    Ok(())
}

fn fails(_: &Host) -> Result<(), BoxError> {
    Err("no configuration file at /etc/lock.toml".into())
}

const MUTEX: Promises = Promises::mutex_on_one_node();
const RENEWS: Promises = MUTEX.with_deadline().renewing();

lock!(WithoutDeadline, opens, true, false, RENEWS);
lock!(DoesNotOpen, fails, true, false, MUTEX);
lock!(NeverGrants, opens, false, false, MUTEX);
lock!(ScriptedRelease, opens, true, false, MUTEX);
lock!(BareDel, opens, true, true, MUTEX);
lock!(WithoutRelease, opens, true, not_offered()?, MUTEX);
lock!(
    WithoutServer,
    opens,
    true,
    false,
    MUTEX.on(Topology::Nodes(0))
);
lock!(
    WithoutReaders,
    opens,
    true,
    false,
    Promises::of(Kind::ReadWrite)
);

fn not_offered() -> Result<bool, BoxError> {
    Err(NotOffered.into())
}

#[test]
fn an_error_of_open_is_shown() {
    let message = panic_of(check(DoesNotOpen).quick());
    assert!(
        message.starts_with("DoesNotOpen cannot be judged"),
        "{message}"
    );
    let error = "`open` failed: no configuration file at /etc/lock.toml";
    assert!(message.contains(error), "{message}");
}

#[test]
fn a_lock_that_is_never_granted_is_told_so() {
    let message = panic_of(check(NeverGrants).quick());
    assert!(message.contains("asked for a free lock"), "{message}");
    assert!(
        message.contains("the call answered: held by another"),
        "{message}"
    );
}

#[test]
fn a_promised_deadline_that_is_missing_is_told() {
    let message = panic_of(check(WithoutDeadline).quick());
    assert!(
        message.starts_with("WithoutDeadline cannot be judged"),
        "{message}"
    );
    assert!(
        message.contains("but `Subject::deadline` returns none"),
        "{message}"
    );
}

#[test]
fn a_lock_that_lacks_what_it_declares_is_told_so() {
    let says = |check: fn() -> Check, why: &str| {
        let trial = check().seeds(0..2).trial();
        assert!(!trial.as_expected(), "{why}");
        assert!(trial.refused.is_some_and(|it| it.contains(why)), "{why}");
        let message = panic_of(check().seeds(0..2));
        assert!(message.contains("cannot be judged: "), "{message}");
        assert!(message.contains(why), "{message}");
    };
    says(|| check(WithoutRelease), "`release` returns `NotOffered`");
    says(|| check(WithoutServer), "no server");
    says(|| check(WithoutReaders), "`NotOffered` for `Mode::Shared`");
}

#[test]
fn a_broken_promise_of_tidiness_names_the_way_out() {
    let message = panic_of(check(ScriptedRelease).seeds(0..128));
    assert!(message.contains("P12 cancellation"), "{message}");
    assert!(message.contains("add `.untidy()`"), "{message}");
}

#[test]
fn a_missing_owner_check_is_p5_first_and_p1_after_it() {
    let message = panic_of(check(BareDel).seeds(0..128));
    let place = |part: &str| {
        let at = message.find(part);
        at.unwrap_or_else(|| panic!("no {part} in {message}"))
    };
    assert!(place("\n  P5 owner-only: ") < place("\n  P1 lease exclusion: "));
    assert!(place("BareDel breaks P5 owner-only: seed") > place("\n  P1 lease exclusion: "));
    // The timeline, and the test that replays it.
    assert!(
        message.contains("server stores") && message.contains("┃ LOCKED"),
        "{message}"
    );
    assert!(
        message.contains("check(BareDel)\n        .scenario("),
        "{message}"
    );
}

#[test]
fn a_counterexample_of_a_trial_draws_itself() {
    let trial = check(BareDel).seeds(0..32).trial();
    let example = trial.counterexamples.first().unwrap();
    let drawn = example.timeline();
    assert!(
        drawn.contains("server stores") && drawn.contains("┃ LOCKED"),
        "{drawn}"
    );
}

/// A client works past its lease, and its release removes the lock of the next client.
const SAVED: &str = r#"{"lock":"BareDel","property":"ownership","scenario":{"seed":1,"lease_ms":30000,"schedule":"fifo","latency_ms":0,"events":[
    {"id":0,"at_ms":0,"op":{"actor":{"host":0,"task":0},"op":"try"}},
    {"id":1,"at_ms":1250,"op":{"actor":{"host":1,"task":0},"op":"acquire","wait_ms":60000}},
    {"id":2,"at_ms":31250,"op":{"actor":{"host":0,"task":0},"op":"release"}}
]}}"#;

#[test]
fn the_test_that_replays_a_counterexample_compiles() {
    let saved = Saved::from_json(SAVED).unwrap();
    let this_file = include_str!("messages.rs");
    for code in [Some("check(BareDel)"), None] {
        let saved = Saved {
            lock: if code.is_some() { "BareDel" } else { "B02" }.to_owned(),
            ..saved.clone()
        };
        // The generated code stands below, where the compiler reads it.
        let generated = saved.rust_test(code);
        let generated = generated.replace("#[test]", "#[test]\n#[should_panic(expected = \"P5\")]");
        assert!(this_file.contains(&generated), "{generated}");
    }
}

#[rustfmt::skip]
mod generated {
use super::BareDel;

#[test]
#[should_panic(expected = "P5")]
fn baredel_keeps_p5() {
    use redouble_conformance::check;
    check(BareDel)
        .scenario(r#"{"seed":1,"lease_ms":30000,"schedule":"fifo","latency_ms":0,"events":[
    {"id":0,"at_ms":0,"op":{"actor":{"host":0,"task":0},"op":"try"}},
    {"id":1,"at_ms":1250,"op":{"actor":{"host":1,"task":0},"op":"acquire","wait_ms":60000}},
    {"id":2,"at_ms":31250,"op":{"actor":{"host":0,"task":0},"op":"release"}}
]}"#)
        .assert_sound();
}

#[test]
#[should_panic(expected = "P5")]
fn b02_keeps_p5() {
    use redouble_conformance::check_listed;
    check_listed("B02")
        .scenario(r#"{"seed":1,"lease_ms":30000,"schedule":"fifo","latency_ms":0,"events":[
    {"id":0,"at_ms":0,"op":{"actor":{"host":0,"task":0},"op":"try"}},
    {"id":1,"at_ms":1250,"op":{"actor":{"host":1,"task":0},"op":"acquire","wait_ms":60000}},
    {"id":2,"at_ms":31250,"op":{"actor":{"host":0,"task":0},"op":"release"}}
]}"#)
        .assert_sound();
}
}

/// A lock that waits, and whose `open` asks the server. With `LATE` it waits for a lease longer than its caller asked.
struct AsksInOpen<const LATE: bool>;

impl<const LATE: bool> Subject for AsksInOpen<LATE> {
    type Lock = Handle;
    type Grant = String;
    fn name(&self) -> &'static str {
        "AsksInOpen"
    }
    fn promises(&self) -> Promises {
        MUTEX.untidy().waiting(None)
    }
    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
        let lock = Handle::open(host, key, lease).await?;
        lock.redis.clone().ping().await?;
        Ok(lock)
    }
    async fn try_lock(&self, lock: &Handle) -> Result<Option<String>, BoxError> {
        lock.set().await
    }
    async fn lock_timeout(
        &self,
        lock: &Handle,
        wait: Duration,
    ) -> Result<Option<String>, BoxError> {
        let lease = Duration::from_millis(lock.lease_ms);
        let late = if LATE { lease } else { Duration::ZERO };
        let end = lock.host.now() + wait + late;
        loop {
            let token = lock.set().await?;
            let now = lock.host.now();
            if token.is_some() || end <= now {
                return Ok(token);
            }
            lock.host.sleep((lease / 20).min(end - now)).await;
        }
    }
    async fn release(&self, lock: &Handle, token: String) -> Result<bool, BoxError> {
        ScriptedRelease.release(lock, token).await
    }
}

/// The server is paused for more than a lease, so `open` of the first client returns 161 ms after its call has begun.
const OPENS_LATE: &str = r#"{"seed": 1, "lease_ms": 1336, "latency_ms": 1, "timeout_ms": 1825, "events": [
    {"id": 0, "at_ms": 0, "fault": {"for_ms": 1551, "fault": "node_pause", "node": 0}},
    {"id": 1, "at_ms": 55, "op": {"actor": {"host": 0, "task": 0}, "op": "acquire", "wait_ms": 1320}},
    {"id": 2, "at_ms": 847, "op": {"actor": {"host": 1, "task": 0}, "op": "try"}}
]}"#;

#[test]
fn a_call_whose_open_takes_longer_than_a_lease_gets_what_is_left_of_its_wait() {
    let drawn = check(AsksInOpen::<false>).scenario(OPENS_LATE).timeline();
    assert!(drawn.contains("not granted"), "{drawn}");
    check(AsksInOpen::<false>)
        .scenario(OPENS_LATE)
        .assert_sound();
    let message = panic_of(check(AsksInOpen::<true>).scenario(OPENS_LATE));
    assert!(message.contains("P13"), "{message}");
}
