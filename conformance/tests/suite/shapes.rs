//! Scenarios of every shape: several nodes, replicas, semaphores, counters, latches, the resource.

use redis::{AsyncCommands, ExistenceCheck::NX, SetExpiry::PX, SetOptions};
use redouble_conformance::{
    BoxError, Connection, Host, NotOffered, Promises, Subject,
    backend::{Backend, Double, Real},
    checker::Property,
    history::{Access, Call, Kind, Mode, Refusal, What},
    runner::{Plan, run_trial},
    scenario::{Capability, Scenario, Topology, generate::Generator},
    subject::{DynSubject, Expected},
};
use std::{sync::Arc, time::Duration};

/// `SET NX PX` on a majority of all nodes, a counter and a latch, all without any clean-up.
struct Simple(Promises);

struct Handle {
    nodes: Vec<Connection>,
    host: Host,
    key: String,
    lease: Duration,
}

const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                       return redis.call('del', KEYS[1]) else return 0 end";

impl Subject for Simple {
    type Lock = Handle;
    type Grant = (String, Duration);

    fn name(&self) -> &'static str {
        "simple"
    }

    fn promises(&self) -> Promises {
        self.0
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
        let mut nodes = Vec::new();
        for node in 0..host.nodes() {
            nodes.push(host.connect_to(node).await?);
        }
        Ok(Handle {
            nodes,
            host: host.clone(),
            key: key.to_owned(),
            lease,
        })
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Self::Grant>, BoxError> {
        let lease_ms = u64::try_from(lock.lease.as_millis())?;
        let once = SetOptions::default()
            .conditional_set(NX)
            .with_expiration(PX(lease_ms));
        let (token, sent) = (lock.host.random_token(), lock.host.now());
        let (mut votes, mut unknown) = (0, None);
        for node in &lock.nodes {
            let reply = node
                .clone()
                .set_options(&lock.key, &token, once.clone())
                .await;
            match reply {
                Ok(set) => votes += usize::from(Option::<String>::is_some(&set)),
                Err(error) => unknown = Some(error),
            }
        }
        let deadline = sent + lock.lease.mul_f64(0.98);
        if 2 * votes > lock.nodes.len() && lock.host.now() < deadline {
            return Ok(Some((token, deadline)));
        }
        let _ = self.release(lock, (token, deadline)).await;
        unknown.map_or(Ok(None), |error| Err(error.into()))
    }

    async fn release(&self, lock: &Handle, (token, _): Self::Grant) -> Result<bool, BoxError> {
        let (mut freed, mut unknown) = (0, None);
        for node in &lock.nodes {
            let mut eval = redis::cmd("EVAL");
            eval.arg(RELEASE).arg(1).arg(&lock.key).arg(&token);
            match eval.query_async::<usize>(&mut node.clone()).await {
                Ok(count) => freed += count,
                Err(error) => unknown = Some(error),
            }
        }
        let freed = 2 * freed > lock.nodes.len();
        unknown
            .filter(|_| !freed)
            .map_or(Ok(freed), |error| Err(error.into()))
    }

    fn deadline(&self, &(_, deadline): &Self::Grant) -> Option<Duration> {
        Some(deadline)
    }

    async fn try_mode(&self, lock: &Handle, mode: Mode) -> Result<Option<Self::Grant>, BoxError> {
        match mode {
            Mode::Exclusive | Mode::Permits(_) => self.try_lock(lock).await,
            Mode::Shared => Err(NotOffered.into()),
        }
    }

    async fn admit(&self, lock: &Handle) -> Result<bool, BoxError> {
        let nth: u64 = lock.nodes[0].clone().incr("admitted", 1).await?;
        Ok(nth <= 2)
    }

    async fn count_down(&self, lock: &Handle) -> Result<bool, BoxError> {
        let counted: u64 = lock.nodes[0].clone().incr("counted", 1).await?;
        Ok(counted <= 2)
    }

    async fn await_zero(&self, _: &Handle, _: Duration) -> Result<bool, BoxError> {
        Err(Refusal::TimedOut.into())
    }
}

fn promises() -> Promises {
    Promises::mutex_on_one_node()
        .with_deadline()
        .with_drift_ppm(10_000)
}

/// Returns the histories of some seeds. Each seed is played twice and must give the same history.
fn histories(
    promises: Promises,
    nemesis: Option<&str>,
    seeds: u64,
) -> Vec<redouble_conformance::history::History> {
    let (subject, generator) = (Arc::new(Simple(promises)), Generator::of(promises, nemesis));
    let play = |seed| {
        let scenario = generator.scenario(seed);
        assert_eq!(
            Scenario::from_json(&scenario.to_json()).expect("JSON"),
            scenario,
            "the JSON form says everything"
        );
        let [one, other] = [(), ()].map(|()| {
            subject
                .play(&Double, &scenario)
                .expect("the double is there")
        });
        assert_eq!(one, other, "seed {seed}");
        assert!(!one.endless && one.stray_tasks == 0, "seed {seed}");
        one.history
    };
    (0..seeds).map(play).collect()
}

fn any(histories: &[redouble_conformance::history::History], of: fn(&What) -> bool) -> bool {
    let mut entries = histories.iter().flat_map(|history| &history.entries);
    entries.any(|entry| of(&entry.what))
}

/// True if the lock of these tests keeps the property: it cleans nothing up, and its answers may be wrong.
fn is_kept_by_a_simple_lock(property: &Property) -> bool {
    matches!(
        property,
        Property::NoPanics
            | Property::Exclusion
            | Property::Ownership
            | Property::Progress
            | Property::GroundedBelief
    )
}

#[test]
fn several_nodes_each_have_their_say() {
    let promises = promises().on(Topology::Nodes(3));
    let plan = Plan {
        seeds: 0..100,
        ..Plan::quick(&Double)
    };
    let trial = run_trial(
        &Arc::new(Simple(promises)),
        Expected::Sound,
        &Double,
        &plan,
        &|_| {},
    );
    let trial = trial.unwrap();
    let broken = trial.broken();
    assert!(!broken.iter().any(is_kept_by_a_simple_lock), "{broken:?}");
    let all = histories(promises, None, 30);
    for node in 0..3 {
        let seen = all
            .iter()
            .flat_map(|history| &history.entries)
            .any(|entry| matches!(entry.what, What::Server { node: of, .. } if of == node));
        assert!(seen, "node {node}");
    }
}

#[test]
fn a_failover_hands_the_lock_out_twice_and_that_is_outside_of_one_nodes_guarantee() {
    let promises = promises().on(Topology::Replicated { replicas: 1 });
    for nemesis in ["failover", "split-brain"] {
        let plan = Plan {
            seeds: 0..60,
            faults: vec![nemesis.to_owned()],
            ..Plan::quick(&Double)
        };
        let trial = run_trial(
            &Arc::new(Simple(promises)),
            Expected::Sound,
            &Double,
            &plan,
            &|_| {},
        );
        let trial = trial.unwrap();
        let broken = trial.broken();
        assert!(
            !broken.iter().any(is_kept_by_a_simple_lock),
            "{nemesis}: {broken:?}"
        );
        assert!(trial.total(Property::Exclusion).outside > 0, "{nemesis}");
        let all = histories(promises, Some(nemesis), 10);
        assert!(
            any(&all, |what| matches!(what, What::Promoted { node: 1 })),
            "{nemesis}"
        );
    }
}

#[test]
fn counters_latches_and_semaphores_are_asked_for_what_they_offer() {
    let admission = Promises {
        kind: Kind::Admission(2),
        ..promises()
    };
    let all = histories(admission, None, 10);
    assert!(any(&all, |what| matches!(
        what,
        What::Fail {
            why: Refusal::Contended,
            ..
        }
    )));
    let asks = |what: &What| {
        matches!(
            what,
            What::Invoke {
                call: Call::Admit,
                ..
            }
        )
    };
    assert!(any(&all, asks));
    let latch = Promises {
        kind: Kind::Latch(2),
        ..promises()
    };
    let all = histories(latch, None, 10);
    assert!(any(&all, |what| matches!(
        what,
        What::Invoke {
            call: Call::CountDown,
            ..
        }
    )));
    assert!(any(&all, |what| matches!(
        what,
        What::Fail {
            why: Refusal::TimedOut,
            ..
        }
    )));
    let semaphore = Promises {
        kind: Kind::Semaphore(2),
        ..promises()
    };
    let all = histories(semaphore, None, 10);
    let two = |what: &What| {
        matches!(
            what,
            What::Invoke {
                call: Call::Try {
                    mode: Mode::Permits(2)
                } | Call::Acquire {
                    mode: Mode::Permits(2),
                    ..
                },
                ..
            }
        )
    };
    assert!(any(&all, two));
}

#[test]
fn without_a_fence_an_access_comes_between_a_read_and_its_write() {
    let all = histories(promises(), Some("pause"), 400);
    let torn = all.iter().any(|history| {
        let mut reading = None;
        history.entries.iter().any(|entry| {
            let What::Resource { grant, access, .. } = entry.what else {
                return false;
            };
            let torn = access == Access::Write && reading != Some(grant);
            reading = Some(grant);
            torn
        })
    });
    assert!(torn, "unfenced locks must be seen to fail at the resource");
}

#[test]
fn a_real_server_says_what_it_cannot_do() {
    let Some(real) = Real::from_environment().unwrap() else {
        eprintln!("no redis-server: only the double was asked");
        return;
    };
    // The clock of the server is the machine's, and the server may have data of other programs.
    assert!(!real.can(Capability::NodeClock) && real.can(Capability::SeveralNodes));
    let foreign = Real::at("redis://127.0.0.1:1").unwrap();
    for lacking in [Capability::SeveralNodes, Capability::Forgetting] {
        assert!(!foreign.can(lacking), "{}", lacking.name());
    }
    let plan = Plan {
        seeds: 0..2,
        faults: vec!["node-freeze".to_owned()],
        ..Plan::quick(&real)
    };
    let trial = run_trial(
        &Arc::new(Simple(promises())),
        Expected::Sound,
        &real,
        &plan,
        &|_| {},
    );
    assert_eq!(trial.unwrap().unsupported, 2);
}
