//! The quick tests: the suite clears the locks that keep their promises and convicts those that do not, on the double
//! and, if there is one, on a real Redis.

use redis::{AsyncCommands, ExistenceCheck::NX, SetExpiry::PX, SetOptions};
use redouble_conformance::{
    BoxError, Connection, Host, Promises, Subject,
    backend::{Backend, Double, Real},
    check,
    checker::Property,
    history::Kind,
    runner::{Plan, SURVEY, Trial, run_trial},
    scenario::generate::Generator,
    subject::{Expected, Row, SUBJECTS},
};
use std::time::Duration;

fn run(row: &Row, backend: &dyn Backend, plan: &Plan) -> Trial {
    let subject = (row.make)();
    run_trial(&*subject, row.expected, backend, plan, &|_| {}).expect("the backend is there")
}

#[test]
fn verdicts_on_the_double_are_as_expected() {
    let plan = Plan {
        seeds: 0..SURVEY,
        ..Plan::quick(&Double)
    };
    for row in SUBJECTS {
        let trial = run(row, &Double, &plan);
        let broken: Vec<_> = trial
            .counterexamples
            .iter()
            .map(|it| (it.property, it.seed))
            .collect();
        assert!(trial.as_expected(), "{}: {broken:?}", trial.name);
        if row.expected == Expected::Sound {
            let rows: std::collections::BTreeSet<_> =
                trial.cells.keys().map(|&(row, _)| row).collect();
            // A counter or a latch has no holder that could work past its lease.
            let counts = matches!(trial.promises.kind, Kind::Admission(_) | Kind::Latch(_));
            assert_eq!(
                rows.len() + usize::from(counts),
                Generator::nemeses(trial.promises.topology).count() + 2,
                "{}: each nemesis alone, none, several",
                trial.name
            );
            assert_eq!(trial.missed(), [], "{}: {:?}", trial.name, trial.coverage);
        }
    }
}

#[test]
fn the_canary_is_convicted_soon_and_its_counterexample_is_small() {
    let row = SUBJECTS
        .iter()
        .find(|row| (row.make)().name() == "canary")
        .unwrap();
    let trial = run(
        row,
        &Double,
        &Plan {
            seeds: 0..128,
            ..Plan::quick(&Double)
        },
    );
    for property in [Property::Exclusion, Property::Ownership] {
        let found = trial
            .counterexamples
            .iter()
            .find(|example| example.property == property);
        let steps = found.map(|example| example.scenario.events.len());
        assert!(
            steps.is_some_and(|steps| steps <= 4),
            "{property}: {steps:?} steps"
        );
    }
}

#[test]
fn the_findings_do_not_depend_on_the_number_of_threads() {
    let mut rows = SUBJECTS.iter();
    let canary = rows.find(|row| (row.make)().name() == "canary").unwrap();
    let found = |jobs| {
        let plan = Plan {
            jobs,
            ..Plan::quick(&Double)
        };
        let trial = run(canary, &Double, &plan);
        let examples = trial.counterexamples.into_iter();
        let examples: Vec<_> = examples
            .map(|it| (it.property, it.seed, it.scenario.to_json()))
            .collect();
        (trial.coverage.runs, examples)
    };
    let alone = found(1);
    assert!(!alone.1.is_empty());
    assert_eq!(found(3), alone);
}

#[test]
fn verdicts_on_a_real_server_are_as_expected() {
    let Some(real) = Real::from_environment().unwrap() else {
        eprintln!("no redis-server: only the double was asked");
        return;
    };
    eprintln!("a real server: {}", real.name());
    let plan = Plan {
        seeds: 0..6,
        ..Plan::quick(&real)
    };
    for row in SUBJECTS {
        let trial = run(row, &real, &plan);
        let told = trial.counterexamples.iter().map(|it| {
            let witness = it.judged.witness(it.property);
            (it.property, it.seed, witness.map(|it| &it.message))
        });
        let told: Vec<_> = told.collect();
        assert!(
            trial.as_expected(),
            "{} on {}: {told:?}",
            trial.name,
            trial.backend
        );
    }
}

/// A lock on one key with one of several mistakes.
struct Faulty(Fault);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// `SET NX` without an expiry.
    NoExpiry,
    /// The deadline counts from the reply.
    DeadlineFromReply,
    /// Starts a task outside of the scheduler.
    Spawns,
    /// Expects that every request gets a reply, and panics otherwise.
    Panics,
    /// Compares the token in one command and deletes the key in the next one.
    GetThenDel,
}

struct Handle {
    redis: Connection,
    host: Host,
    key: String,
    lease: Duration,
}

impl Subject for Faulty {
    type Lock = Handle;
    type Grant = (String, Duration);

    fn name(&self) -> &'static str {
        "faulty"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
        let redis = host.connection().await?;
        Ok(Handle {
            redis,
            host: host.clone(),
            key: key.to_owned(),
            lease,
        })
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Self::Grant>, BoxError> {
        let mut once = SetOptions::default().conditional_set(NX);
        if self.0 != Fault::NoExpiry {
            once = once.with_expiration(PX(u64::try_from(lock.lease.as_millis())?));
        }
        if self.0 == Fault::Spawns {
            tokio::spawn(std::future::pending::<()>());
        }
        let (mut redis, token) = (lock.redis.clone(), lock.host.random_token());
        let sent = lock.host.now();
        let reply = redis.set_options(&lock.key, &token, once).await;
        let set: Option<String> = if self.0 == Fault::Panics {
            reply.expect("redis always answers")
        } else {
            reply?
        };
        let from = if self.0 == Fault::DeadlineFromReply {
            lock.host.now()
        } else {
            sent
        };
        Ok(set.map(|_| (token, from + lock.lease)))
    }

    async fn release(&self, lock: &Handle, (token, _): Self::Grant) -> Result<bool, BoxError> {
        let mut redis = lock.redis.clone();
        if self.0 == Fault::GetThenDel {
            let stored: Option<String> = redis.get(&lock.key).await?;
            return Ok(stored == Some(token) && redis.del::<_, u64>(&lock.key).await? == 1);
        }
        let script = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                      return redis.call('del', KEYS[1]) else return 0 end";
        let mut eval = redis::cmd("EVAL");
        let freed: u64 = eval
            .arg(script)
            .arg(1)
            .arg(&lock.key)
            .arg(token)
            .query_async(&mut redis)
            .await?;
        Ok(freed == 1)
    }

    fn deadline(&self, &(_, deadline): &Self::Grant) -> Option<Duration> {
        Some(deadline)
    }
}

#[test]
fn each_fault_is_convicted_of_what_it_breaks() {
    for (fault, property) in [
        (Fault::NoExpiry, Property::Progress),
        (Fault::DeadlineFromReply, Property::GroundedBelief),
        (Fault::Spawns, Property::NoPanics),
        (Fault::Panics, Property::NoPanics),
        (Fault::GetThenDel, Property::Ownership),
    ] {
        let trial = check(Faulty(fault)).seeds(0..2_048).trial();
        let found = trial
            .counterexamples
            .iter()
            .find(|example| example.property == property);
        if let Some(example) = found {
            eprintln!(
                "{property}: seed {}, {} steps",
                example.seed,
                example.scenario.events.len()
            );
        }
        assert!(
            trial.broken().contains(&property),
            "{property}: {:?}",
            trial.broken()
        );
    }
}
