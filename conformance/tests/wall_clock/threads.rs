//! Locks whose code blocks, played on threads in real time.

use redouble_conformance::{
    BoxError, Host, Promises, Subject,
    backend::{Double, WallClock},
    check,
    checker::Property,
    history::{Actor, Call, What},
    runner::judge,
    scenario::{Event, Happening, Op, Scenario, Schedule, Topology},
    subject::{DynSubject, Plain, Threads},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A lock whose code blocks, with the blocking client of `redis`.
#[derive(Clone, Copy, Default)]
struct Blocking {
    panics: bool,
    /// It sets the end of its lease by the wall clock of the machine.
    ends_by_wall_clock: bool,
}

struct BlockingLock {
    client: redis::Client,
    host: Host,
    key: String,
    lease: Duration,
}

impl BlockingLock {
    fn connect(&self) -> redis::RedisResult<redis::Connection> {
        let patience = self.host.request_timeout();
        let connection = self.client.get_connection_with_timeout(patience)?;
        connection.set_read_timeout(Some(patience))?;
        Ok(connection)
    }
}

impl Subject for Blocking {
    type Lock = BlockingLock;
    type Grant = (String, Duration, Host);

    fn name(&self) -> &'static str {
        "blocking"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline().untidy()
    }

    async fn open(
        &self,
        host: &Host,
        key: &str,
        lease: Duration,
    ) -> Result<BlockingLock, BoxError> {
        Ok(BlockingLock {
            client: redis::Client::open(host.url(0)?)?,
            host: host.clone(),
            key: key.to_owned(),
            lease,
        })
    }

    async fn try_lock(&self, lock: &BlockingLock) -> Result<Option<Self::Grant>, BoxError> {
        assert!(!self.panics, "it does not like to be asked");
        let until = lock.host.now() + lock.lease;
        let token = lock.host.random_token();
        let lease_ms = u64::try_from(lock.lease.as_millis())?;
        let mut set = redis::cmd("SET");
        set.arg(&lock.key).arg(&token).arg("NX");
        if self.ends_by_wall_clock {
            let ends = SystemTime::now() + lock.lease;
            let ends = ends.duration_since(UNIX_EPOCH)?;
            set.arg("PXAT").arg(u64::try_from(ends.as_millis())?);
        } else {
            set.arg("PX").arg(lease_ms);
        }
        let set: Option<String> = set.query(&mut lock.connect()?)?;
        let grant = (token, until, lock.host.clone());
        Ok(Some(grant).filter(|it| set.is_some() && lock.host.now() < it.1))
    }

    async fn release(&self, lock: &BlockingLock, grant: Self::Grant) -> Result<bool, BoxError> {
        let script = redis::Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
        );
        let mut call = script.key(&lock.key);
        Ok(call.arg(grant.0).invoke::<i32>(&mut lock.connect()?)? == 1)
    }

    fn deadline(&self, grant: &Self::Grant) -> Option<Duration> {
        Some(grant.1)
    }
}

#[test]
fn code_that_blocks_is_played_on_threads() {
    let trial = check(Blocking::default()).threads().seeds(0..24).trial();
    assert_eq!(trial.broken(), [], "{:?}", trial.counterexamples);
    let probes: Vec<_> = trial.coverage.probes().collect();
    let seen = |what| probes.iter().find(|it| it.0 == what).map_or(0, |it| it.1);
    assert!(
        seen("contended") > 5 && seen("death of a holder") > 0,
        "{probes:?}"
    );
    assert!(trial.unsupported > 0, "pauses and clocks");
}

/// The clocks of the servers show the time of the machine, where threads and processes read their clocks.
#[test]
fn in_real_time_servers_and_clients_share_the_wall_clock() {
    let lock = Blocking {
        ends_by_wall_clock: true,
        ..Blocking::default()
    };
    let trial = check(lock).threads().seeds(0..12).trial();
    assert_eq!(trial.broken(), [], "{:?}", trial.counterexamples);
    let probes: Vec<_> = trial.coverage.probes().collect();
    assert!(
        probes.iter().any(|it| it.0 == "contended" && it.1 > 0),
        "{probes:?}"
    );
}

/// A scenario with one client that asks for the lock once.
fn one_try() -> Scenario {
    let actor = Actor::on(0);
    let op = Op::TRY;
    Scenario {
        seed: 1,
        lease_ms: 300,
        schedule: Schedule::Random,
        latency_ms: 0,
        timeout_ms: None,
        topology: Topology::ONE,
        events: vec![Event {
            id: 0,
            at_ms: 10,
            happening: Happening::Op { actor, op },
        }],
    }
}

#[test]
fn a_panic_on_a_thread_is_a_finding() {
    let panicking = Threads::new(Blocking {
        panics: true,
        ..Blocking::default()
    });
    let judged = judge(&panicking, &WallClock::new(Double, 300), &one_try()).unwrap();
    let witness = judged.witness(Property::NoPanics).map(|it| &*it.message);
    assert!(
        witness.is_some_and(|it| it.contains("does not like")),
        "{witness:?}"
    );
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A lock whose thread extends each grant, until it is released.
struct Renewing;

struct Renewed {
    token: String,
    /// The deadline, in milliseconds.
    until: Arc<AtomicU64>,
    released: Arc<AtomicBool>,
}

impl Subject for Renewing {
    type Lock = BlockingLock;
    type Grant = Renewed;

    fn name(&self) -> &'static str {
        "renewing"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .renewing()
            .untidy()
    }

    async fn open(
        &self,
        host: &Host,
        key: &str,
        lease: Duration,
    ) -> Result<BlockingLock, BoxError> {
        Blocking::default().open(host, key, lease).await
    }

    async fn try_lock(&self, lock: &BlockingLock) -> Result<Option<Renewed>, BoxError> {
        let Some((token, until, host)) = Blocking::default().try_lock(lock).await? else {
            return Ok(None);
        };
        let grant = Renewed {
            token,
            until: Arc::new(AtomicU64::new(millis(until))),
            released: Arc::default(),
        };
        let (until, released) = (Arc::clone(&grant.until), Arc::clone(&grant.released));
        let (mut connection, key, lease) = (lock.connect()?, lock.key.clone(), lock.lease);
        std::thread::spawn(move || {
            while !released.load(Ordering::Relaxed) {
                std::thread::sleep(lease / 4);
                let ends = host.now() + lease;
                let mut expire = redis::cmd("PEXPIRE");
                expire.arg(&key).arg(millis(lease));
                if expire.query::<i64>(&mut connection) == Ok(1) {
                    until.store(millis(ends), Ordering::Relaxed);
                }
            }
        });
        Ok(Some(grant))
    }

    async fn release(&self, lock: &BlockingLock, grant: Renewed) -> Result<bool, BoxError> {
        grant.released.store(true, Ordering::Relaxed);
        let grant = (grant.token, Duration::ZERO, lock.host.clone());
        Blocking::default().release(lock, grant).await
    }

    fn deadline(&self, grant: &Renewed) -> Option<Duration> {
        Some(Duration::from_millis(grant.until.load(Ordering::Relaxed)))
    }
}

/// No call runs while the holder works, and its thread moves the deadline.
#[test]
fn the_suite_reads_the_deadline_of_a_holder_that_makes_no_call() {
    let mut scenario = one_try();
    scenario.events.push(Event {
        id: 1,
        at_ms: 900,
        happening: Happening::Op {
            actor: Actor::on(0),
            op: Op::Release,
        },
    });
    let backend = WallClock::new(Double, 300);
    let judged = judge(&Threads::new(Renewing), &backend, &scenario).unwrap();
    let released = judged.run.history.iter().find_map(|(at, what)| {
        let asks = matches!(
            what,
            What::Invoke {
                call: Call::Release { .. },
                ..
            }
        );
        asks.then_some(at)
    });
    let before = judged.run.history.iter().filter(|(at, what)| {
        matches!(what, What::Deadline { .. }) && released.is_some_and(|released| *at < released)
    });
    assert!(before.count() >= 2);
}

#[test]
fn each_form_has_its_kind_of_time() {
    let scenario = one_try();
    let threads = Threads::new(Blocking::default());
    let error = threads.play(&Double, &scenario).unwrap_err().to_string();
    assert!(error.contains("real time"), "{error}");
    let plain = Plain::new(Blocking::default());
    let error = plain
        .play(&WallClock::new(Double, 300), &scenario)
        .unwrap_err()
        .to_string();
    assert!(error.contains("virtual time"), "{error}");
}
