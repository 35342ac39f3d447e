//! Locks in their plain form: on tokio's own clock and tasks, over sockets that they open themselves.

use redis::{AsyncTypedCommands, ExistenceCheck::NX, SetExpiry::PX, SetOptions};
use redouble_conformance::{
    BoxError, Host, Promises, Subject,
    backend::{Double, View},
    check,
    checker::Property,
    history::{Actor, Stored, What},
    runner::{Plan, judge, run_trial},
    scenario::{
        Event, Fault, Happening, Op, Scenario, Schedule, Topology,
        generate::{Generator, Timing},
    },
    subject::{DynSubject, Expected, Plain, Refusal, SUBJECTS},
};
use redouble_lock::{BoxFuture, Environment, Guard, LockManager, NoRuntime, Release, Tokio};
use std::{
    sync::{Arc, Mutex as StdMutex},
    time::Duration,
};
use tokio::time::Instant;

const DRIFT_PPM: u32 = 10_000;
const POLLS_PER_LEASE: u32 = 12;

/// Our mutex as a program uses it: with a client of `redis`, and the default environment unless the test asks for
/// another one.
#[derive(Clone, Copy)]
struct Ours {
    watchdog: bool,
    /// The scenario provides random numbers, and nothing else.
    repeatable: bool,
}

struct OurLock {
    lock: redouble_lock::Mutex,
    host: Host,
    lease: Duration,
}

struct OurGrant {
    guard: Guard,
    host: Host,
}

/// Tokio's environment with other random numbers.
struct Repeatable(Host);

impl Environment for Repeatable {
    fn now(&self) -> Duration {
        Tokio.now()
    }

    fn sleep_until(&self, deadline: Duration) -> BoxFuture<'static, ()> {
        Tokio.sleep_until(deadline)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<(), NoRuntime> {
        Tokio.spawn(task)
    }

    fn random(&self) -> [u8; 16] {
        self.0.random()
    }
}

impl OurLock {
    fn told(
        &self,
        outcome: Result<Guard, redouble_lock::LockError>,
    ) -> Result<Option<OurGrant>, BoxError> {
        match outcome {
            Ok(guard) => Ok(Some(OurGrant {
                guard,
                host: self.host.clone(),
            })),
            Err(error) if error.is_contended() => Ok(None),
            Err(error) if error.is_lost() => Err(Refusal::Lost.into()),
            Err(error) if error.is_unknown() => Err(error.into()),
            Err(_) => Err(Refusal::Other.into()),
        }
    }
}

impl Subject for Ours {
    type Lock = OurLock;
    type Grant = OurGrant;

    fn name(&self) -> &'static str {
        "mutex"
    }

    fn promises(&self) -> Promises {
        let promises = Promises::mutex_on_one_node()
            .with_deadline()
            .with_drift_ppm(DRIFT_PPM)
            .waiting(Some(POLLS_PER_LEASE))
            .lingering()
            .signalling();
        if self.watchdog {
            promises.renewing()
        } else {
            promises
        }
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<OurLock, BoxError> {
        let client = redis::Client::open(host.url(0)?)?;
        let mut builder = LockManager::builder(client);
        if self.repeatable {
            builder = builder.environment(Repeatable(host.clone()));
        }
        let lock = builder.build().mutex(key);
        let lock = lock.lease(lease).watchdog(self.watchdog);
        let lock = lock.reply_timeout(host.request_timeout());
        Ok(OurLock {
            lock: lock.max_poll_interval(lease / POLLS_PER_LEASE).build()?,
            host: host.clone(),
            lease,
        })
    }

    async fn try_lock(&self, lock: &OurLock) -> Result<Option<OurGrant>, BoxError> {
        lock.told(lock.lock.try_lock().await)
    }

    async fn lock_timeout(
        &self,
        lock: &OurLock,
        wait: Duration,
    ) -> Result<Option<OurGrant>, BoxError> {
        lock.told(lock.lock.lock_timeout(wait).await)
    }

    async fn extend(&self, lock: &OurLock, grant: &OurGrant) -> Result<bool, BoxError> {
        match grant.guard.extend(lock.lease).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_lost() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    async fn release(&self, _: &OurLock, grant: OurGrant) -> Result<bool, BoxError> {
        match grant.guard.release().await {
            Release::Released => Ok(true),
            Release::AlreadyLost => Ok(false),
            outcome @ (Release::StillHeld | Release::Unknown(_) | _) => {
                Err(format!("{outcome:?}").into())
            }
        }
    }

    // A release reserves the mutex for the waiter that it wakes: with `?` and the token of this waiter.
    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        let held = view.string(key).into_iter();
        held.filter(|it| !it.token.starts_with(b"?")).collect()
    }

    fn reserved(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        let kept = view.string(key).into_iter();
        kept.filter_map(|it| it.token.strip_prefix(b"?").map(<[u8]>::to_vec))
            .collect()
    }

    fn deadline(&self, grant: &OurGrant) -> Option<Duration> {
        let (until, now) = (grant.guard.deadline()?, Tokio.now());
        let here = grant.host.now();
        Some((here + until.saturating_sub(now)).saturating_sub(now.saturating_sub(until)))
    }

    async fn lost(&self, grant: &OurGrant) {
        grant.guard.lost().await;
    }
}

#[test]
fn our_mutex_keeps_its_promises() {
    let (watchdog, repeatable) = (false, false);
    check(Ours {
        watchdog,
        repeatable,
    })
    .plain()
    .seeds(0..200)
    .assert_sound();
}

#[test]
fn the_watchdog_of_our_mutex_keeps_its_promises() {
    let (watchdog, repeatable) = (true, false);
    check(Ours {
        watchdog,
        repeatable,
    })
    .plain()
    .seeds(0..120)
    .assert_sound();
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    let (watchdog, repeatable) = (true, true);
    let plain = Plain::new(Ours {
        watchdog,
        repeatable,
    });
    let generator = Generator::of(plain.promises(), None).timed(Timing::Lease(3_000));
    let mut played = 0;
    for seed in 0..40 {
        let scenario = generator.scenario(seed);
        let Ok(first) = plain.play(&Double, &scenario) else {
            continue; // a wall clock that is set
        };
        let second = plain.play(&Double, &scenario).unwrap();
        same(&first.history.entries, &second.history.entries, seed);
        same(&first.history.messages, &second.history.messages, seed);
        assert!(first == second, "seed {seed}: beside entries and messages");
        played += 1;
    }
    assert!(played > 30, "{played} runs");
}

/// Fails with the first difference only: a whole history is too long to read.
fn same<T: PartialEq + std::fmt::Debug>(first: &[T], second: &[T], seed: u64) {
    let at = first.iter().zip(second).position(|(a, b)| a != b);
    let at = at.unwrap_or_else(|| first.len().min(second.len()));
    let around = |list: &[T]| {
        format!(
            "{:#?}",
            list.iter()
                .skip(at.saturating_sub(2))
                .take(5)
                .collect::<Vec<_>>()
        )
    };
    assert!(
        first == second,
        "seed {seed}, at {at} of {} and {}: {}\n\nand in the second run: {}",
        first.len(),
        second.len(),
        around(first),
        around(second),
    );
}

/// A lock that takes connections, time and tasks from its host has a plain form as well.
#[test]
fn all_our_locks_keep_their_promises_on_tokio_itself() {
    let sound = SUBJECTS
        .iter()
        .filter(|row| row.expected == Expected::Sound);
    for row in sound {
        let lock = Plain::from((row.make)());
        let plan = Plan {
            seeds: 0..6,
            ..Plan::quick(&Double)
        };
        let trial = run_trial(&lock, Expected::Sound, &Double, &plan, &|_| {}).unwrap();
        let told: Vec<_> = trial
            .counterexamples
            .iter()
            .map(|it| it.judged.witness(it.property))
            .collect();
        assert_eq!(trial.broken(), [], "{}: {told:?}", trial.name);
        assert!(trial.coverage.runs > 3, "{}", trial.name);
    }
}

/// Usual mistakes of a lock that was written in a hurry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// The task that extends the lease does not learn of the release.
    RenewerStays,
    /// The deadline counts from the reply.
    DeadlineFromReply,
    /// A task of the lock panics.
    TaskPanics,
    /// A call panics.
    CallPanics,
}

/// A lock that connects for each request. A key that a failed call leaves stays until its lease ends.
struct Hasty(Mistake);

#[derive(Clone)]
struct HastyLock {
    client: redis::Client,
    host: Host,
    key: String,
    lease: Duration,
}

struct HastyGrant {
    token: String,
    until: Instant,
    host: Host,
}

impl HastyLock {
    fn lease_ms(&self) -> u64 {
        self.lease.as_millis().try_into().unwrap_or(u64::MAX)
    }

    /// Extends the lease of any holder, for ever.
    async fn renew(self) {
        loop {
            tokio::time::sleep(self.lease / 3).await;
            if let Ok(mut redis) = self.client.get_multiplexed_async_connection().await {
                let _ = redis
                    .pexpire(&self.key, i64::try_from(self.lease_ms()).unwrap_or(0))
                    .await;
            }
        }
    }
}

impl Subject for Hasty {
    type Lock = HastyLock;
    type Grant = HastyGrant;

    fn name(&self) -> &'static str {
        "hasty"
    }

    fn promises(&self) -> Promises {
        let promises = Promises::mutex_on_one_node().untidy();
        match self.0 {
            Mistake::RenewerStays => promises,
            Mistake::DeadlineFromReply | Mistake::TaskPanics | Mistake::CallPanics => {
                promises.with_deadline()
            }
        }
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<HastyLock, BoxError> {
        Ok(HastyLock {
            client: redis::Client::open(host.url(0)?)?,
            host: host.clone(),
            key: key.to_owned(),
            lease,
        })
    }

    async fn try_lock(&self, lock: &HastyLock) -> Result<Option<HastyGrant>, BoxError> {
        let asked = Instant::now();
        let mut redis = lock.client.get_multiplexed_async_connection().await?;
        let token = lock.host.random_token();
        let once = SetOptions::default()
            .conditional_set(NX)
            .with_expiration(PX(lock.lease_ms()));
        if redis.set_options(&lock.key, &token, once).await?.is_none() {
            return Ok(None);
        }
        let mut from = asked;
        match self.0 {
            Mistake::RenewerStays => drop(tokio::spawn(lock.clone().renew())),
            Mistake::DeadlineFromReply => from = Instant::now(),
            Mistake::TaskPanics => {
                drop(tokio::spawn(async { panic!("no task waits for this one") }))
            }
            Mistake::CallPanics => panic!("it was granted"),
        }
        let grant = HastyGrant {
            token,
            until: from + lock.lease,
            host: lock.host.clone(),
        };
        Ok(Some(grant).filter(|it| it.until > Instant::now()))
    }

    async fn release(&self, lock: &HastyLock, grant: HastyGrant) -> Result<bool, BoxError> {
        let mut redis = lock.client.get_multiplexed_async_connection().await?;
        let script = redis::Script::new(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
        );
        let mut call = script.key(&lock.key);
        Ok(call
            .arg(grant.token)
            .invoke_async::<i32>(&mut redis)
            .await?
            == 1)
    }

    fn deadline(&self, grant: &HastyGrant) -> Option<Duration> {
        self.promises()
            .deadline
            .then(|| grant.host.time_of(grant.until))
    }
}

/// Returns the size of the smallest scenario in which the lock breaks a property, and the message of the violation.
fn convicted(mistake: Mistake, property: Property) -> (usize, String) {
    let trial = check(Hasty(mistake)).plain().seeds(0..60).trial();
    let found = trial
        .counterexamples
        .iter()
        .find(|it| it.property == property);
    let example = found.unwrap_or_else(|| panic!("only {:?} broke", trial.broken()));
    let witness = example.judged.witness(property).expect("it broke");
    (example.scenario.events.len(), witness.message.clone())
}

#[test]
fn a_renewer_that_stays_extends_the_locks_of_others() {
    let (events, told) = convicted(Mistake::RenewerStays, Property::Ownership);
    assert!(events <= 6, "{events} events: {told}");
    eprintln!("{told}");
}

#[test]
fn a_deadline_that_counts_from_the_reply_is_too_late() {
    let (events, told) = convicted(Mistake::DeadlineFromReply, Property::GroundedBelief);
    assert!(events <= 4, "{events} events: {told}");
    eprintln!("{told}");
}

#[test]
fn a_panic_is_a_finding() {
    let (_, told) = convicted(Mistake::TaskPanics, Property::NoPanics);
    assert!(told.contains("no task waits for this one"), "{told}");
    let (_, told) = convicted(Mistake::CallPanics, Property::NoPanics);
    assert!(told.contains("it was granted"), "{told}");
}

/// A lock that every client gets at once. Every tenth of a second a task records the time on its clock.
#[derive(Clone, Default)]
struct Ticking(Arc<StdMutex<Vec<(u8, u32, Duration)>>>);

impl Subject for Ticking {
    type Lock = ();
    type Grant = ();

    fn name(&self) -> &'static str {
        "ticking"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
    }

    async fn open(&self, host: &Host, _: &str, _: Duration) -> Result<(), BoxError> {
        let (log, host) = (Arc::clone(&self.0), host.clone());
        tokio::spawn(async move {
            loop {
                log.lock().expect("no holder of this mutex panics").push((
                    host.id(),
                    host.process_id(),
                    host.now(),
                ));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Ok(())
    }

    async fn try_lock(&self, (): &()) -> Result<Option<()>, BoxError> {
        Ok(Some(()))
    }

    async fn release(&self, (): &(), (): ()) -> Result<bool, BoxError> {
        Ok(true)
    }
}

/// A lock that sleeps with `tokio::time` before its first request.
struct Sleeping;

impl Subject for Sleeping {
    type Lock = ();
    type Grant = ();

    fn name(&self) -> &'static str {
        "sleeping"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
    }

    async fn open(&self, _: &Host, _: &str, _: Duration) -> Result<(), BoxError> {
        Ok(())
    }

    async fn try_lock(&self, (): &()) -> Result<Option<()>, BoxError> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok(None)
    }

    async fn release(&self, (): &(), (): ()) -> Result<bool, BoxError> {
        Ok(true)
    }
}

#[test]
fn a_lock_that_uses_tokio_itself_is_told_to_use_its_plain_form() {
    let said = |subject: &dyn DynSubject| {
        let judged = judge(subject, &Double, &struck(None)).expect("the double is there");
        let (property, finding) = &judged.findings[0];
        assert_eq!(*property, Property::NoPanics);
        finding.witness().expect("it is accused").message.clone()
    };
    let strays = said(&Arc::new(Ticking::default()));
    assert!(strays.contains("plain form"), "{strays}");
    let sleeps = said(&Arc::new(Sleeping));
    assert!(sleeps.contains("Host::sleep"), "{sleeps}");
    let plain = judge(&Plain::new(Sleeping), &Double, &struck(None)).expect("the double is there");
    assert!(plain.findings[0].1.witness().is_none());
}

/// Client 0 opens its lock at 0 s and uses it again at 9 s. In between a fault strikes it for 2 s.
fn struck(fault: Option<Fault>) -> Scenario {
    let op = |at_ms, op| {
        let actor = Actor::on(0);
        (at_ms, Happening::Op { actor, op })
    };
    let fault = fault.map(|fault| {
        (
            2_050,
            Happening::Fault {
                for_ms: 2_000,
                fault,
            },
        )
    });
    let happenings = [op(0, Op::TRY), op(9_000, Op::TRY)]
        .into_iter()
        .chain(fault);
    let events = (0..).zip(happenings);
    let mut events: Vec<Event> = events
        .map(|(id, (at_ms, happening))| Event {
            id,
            at_ms,
            happening,
        })
        .collect();
    events.sort_by_key(|event| event.at_ms);
    Scenario {
        seed: 1,
        lease_ms: 3_000,
        schedule: Schedule::Random,
        latency_ms: 0,
        timeout_ms: None,
        topology: Topology::ONE,
        events,
    }
}

/// Returns the times on client 0's clock when its task ran, each with its process, in milliseconds since the first one.
fn ticks(fault: Option<Fault>) -> Vec<(u32, u128)> {
    let ticking = Ticking::default();
    let run = Plain::new(ticking.clone())
        .play(&Double, &struck(fault))
        .expect("the double is there");
    assert!(!run.endless);
    assert_eq!(run.stray_tasks, 0, "none is on the scheduler's runtime");
    let log = ticking.0.lock().expect("no holder of this mutex panics");
    let first = log[0].2;
    let ours = log.iter().filter(|it| it.0 == 0);
    ours.map(|&(_, process, at)| (process, (at - first).as_millis()))
        .collect()
}

#[test]
fn its_tasks_stand_still_in_a_pause_and_see_all_of_it_afterwards() {
    let healthy = ticks(None);
    let every_tenth: Vec<_> = (0..90).map(|nth| (1, nth * 100)).collect();
    assert_eq!(healthy[..90], every_tenth);
    let paused = ticks(Some(Fault::Pause { host: 0, after: 0 }));
    assert_eq!(paused[..21], every_tenth[..21]);
    assert_eq!(paused[21..24], [(1, 4_050), (1, 4_150), (1, 4_250)]);
    // A suspended machine does not know of the suspension.
    assert_eq!(
        ticks(Some(Fault::Suspend { host: 0 }))[..70],
        every_tenth[..70]
    );
}

#[test]
fn a_slow_clock_ticks_more_slowly() {
    let ppm = -500_000;
    let slow = ticks(Some(Fault::Drift { host: 0, ppm }));
    let healthy = ticks(None);
    // For two seconds the clock ran at half the rate, so it shows one second less.
    assert_eq!(healthy.len() - slow.len(), 10);
    assert_eq!(slow[..80], healthy[..80]);
}

#[test]
fn its_tasks_die_with_it_and_begin_anew() {
    let crashed = ticks(Some(Fault::Crash { host: 0 }));
    let (before, after): (Vec<_>, Vec<_>) = crashed.into_iter().partition(|it| it.0 == 1);
    assert_eq!(before.len(), 21);
    // A restarted process opens the lock when it needs it.
    assert_eq!(after[0], (2, 9_000));
}

#[test]
fn a_lock_in_its_plain_form_reports_a_loss_on_the_clock_of_its_host() {
    let plain = Plain::new(Ours {
        watchdog: true,
        repeatable: true,
    });
    let away = Fault::Partition {
        host: 0,
        node: None,
        direction: None,
    };
    let judged = judge(&plain, &Double, &struck(Some(away))).unwrap();
    let history = &judged.run.history;
    let renewed = history
        .iter()
        .filter(|(_, it)| matches!(it, What::Deadline { .. }));
    assert!(renewed.count() > 2, "{history:?}");
    for (property, finding) in &judged.findings {
        assert!(finding.witness().is_none(), "{property}: {finding:?}");
    }
}

#[test]
fn a_wall_clock_that_is_set_is_counted_as_unsupported() {
    let trial = check(Ticking::default()).plain().seeds(0..40).trial();
    assert!(
        trial.unsupported > 0 && trial.unsupported < 15,
        "{}",
        trial.unsupported
    );
    assert!(trial.coverage.runs > 20);
}
