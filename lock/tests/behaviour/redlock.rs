//! Redlock on several doubles, in virtual time.

use super::cancel::cancel_at;
use super::rig::{KEY, LEASE, REPLY_TIMEOUT, Test, ask, keys, locks, pass, server};
use redouble::{
    Server,
    fault::{AnswerError, Delay, Disconnect},
};
use redouble_lock::{Guard, LockError, LossReason, NodeErrorKind, Redlock, RedlockMutex, Release};
use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::Instant;

/// What a node may take for one request.
const NODE_TIMEOUT: Duration = Duration::from_millis(150);

async fn servers(number: usize) -> Vec<Arc<Server>> {
    let mut servers = Vec::new();
    for _ in 0..number {
        servers.push(server().await);
    }
    servers
}

fn redlock(servers: &[Arc<Server>]) -> Redlock {
    Redlock::new(servers.iter().map(locks)).unwrap()
}

fn mutex(servers: &[Arc<Server>]) -> RedlockMutex {
    redlock(servers).mutex(KEY).lease(LEASE).build().unwrap()
}

/// How many nodes have the lock for this guard.
fn held(servers: &[Arc<Server>], guard: &Guard) -> usize {
    let token = guard.token().as_bytes();
    let holds = |server: &&Arc<Server>| server.get(KEY).as_deref() == Some(token);
    servers.iter().filter(holds).count()
}

async fn all_free(servers: &[Arc<Server>]) -> bool {
    for server in servers {
        if !keys(server).await.is_empty() {
            return false;
        }
    }
    true
}

#[tokio::test(start_paused = true)]
async fn one_holder_on_all_nodes() -> Test {
    for number in 1..=6 {
        let servers = servers(number).await;
        let (lock, other) = (mutex(&servers), mutex(&servers));
        let guard = lock.try_lock().await?;
        assert_eq!(held(&servers, &guard), number);
        assert!(guard.remaining() < LEASE);
        assert_eq!(other.try_lock().await.unwrap_err(), LockError::Contended);
        assert_eq!(guard.release().await, Release::Released);
        assert!(all_free(&servers).await);
        assert_eq!(other.try_lock().await?.release().await, Release::Released);
    }
    assert_eq!(Redlock::new([]).unwrap_err(), LockError::NothingToLock);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_quorum_is_more_than_half_of_all() -> Test {
    for (number, spare) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)] {
        for down in 0..=number {
            let servers = servers(number).await;
            let lock = mutex(&servers);
            let _pauses: Vec<_> = servers[..down].iter().map(|it| it.pause()).collect();
            let begun = Instant::now();
            let outcome = lock.try_lock().await;
            assert_eq!(outcome.is_ok(), down <= spare, "{down} of {number}");
            match outcome {
                Ok(guard) => {
                    assert!(
                        begun.elapsed() < Duration::from_millis(5),
                        "{:?}",
                        begun.elapsed()
                    );
                    let begun = Instant::now();
                    assert_eq!(guard.release().await, Release::Released);
                    assert!(
                        begun.elapsed() < Duration::from_millis(5),
                        "{:?}",
                        begun.elapsed()
                    );
                }
                Err(error) => {
                    assert!(matches!(error, LockError::NoQuorum(_)), "{error:?}");
                    assert!(error.is_retryable() && !error.is_contended());
                    assert!(begun.elapsed() <= NODE_TIMEOUT + REPLY_TIMEOUT);
                }
            }
            // What the silent ones were sent is undone as soon as they are back.
            servers.iter().for_each(|server| server.resume());
            pass(Duration::from_secs(2)).await;
            assert!(all_free(&servers).await, "{down} of {number}");
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grant_grows_to_all_nodes() -> Test {
    let servers = servers(5).await;
    let lock = mutex(&servers);
    let pauses = [servers[0].pause(), servers[1].pause()];
    let begun = Instant::now();
    let guard = lock.try_lock().await?;
    assert_eq!(held(&servers, &guard), 3);
    pass(Duration::from_secs(5)).await;
    drop(pauses);
    pass(Duration::from_secs(2)).await;
    assert_eq!(held(&servers, &guard), 5);
    for server in &servers {
        assert!(server.pttl(KEY).unwrap() <= LEASE - begun.elapsed() + Duration::from_secs(2));
    }
    assert_eq!(guard.release().await, Release::Released);
    pass(Duration::from_secs(2)).await;
    assert!(all_free(&servers).await);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_node_is_asked_after_the_release() -> Test {
    let servers = servers(3).await;
    let lock = mutex(&servers);
    let pause = servers[0].pause();
    let guard = lock.try_lock().await?;
    for _ in 0..7 {
        pass(Duration::from_millis(101)).await;
    }
    assert_eq!(guard.release().await, Release::Released);
    pause.resume();
    pass(Duration::from_secs(2)).await;
    assert!(all_free(&servers).await, "{}", servers[0].history());
    Ok(())
}

/// The object that had taken the lock went on asking the missing node for it when another object had released it.
#[tokio::test(start_paused = true)]
async fn no_node_is_asked_for_a_grant_that_was_handed_over() -> Test {
    let servers = servers(3).await;
    let lock = mutex(&servers);
    let rule = servers[2].inject(AnswerError::loading());
    let parts = lock.try_lock().await?.detach()?;
    let guard = mutex(&servers).adopt(&parts).await?;
    assert_eq!(guard.release().await, Release::Released);
    drop(rule);
    pass(LEASE / 2).await;
    assert!(all_free(&servers).await);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn votes_that_are_split_are_given_back() -> Test {
    let servers = servers(5).await;
    let lock = mutex(&servers);
    for server in &servers[..3] {
        let _: String = ask(server, &["SET", KEY, "other", "PX", "2000"]).await;
    }
    let error = lock.try_lock().await.unwrap_err();
    assert_eq!(error, LockError::Contended);
    assert!(!servers[3].exists(KEY) && !servers[4].exists(KEY));
    let begun = Instant::now();
    let guard = lock.lock().await?;
    let waited = begun.elapsed();
    assert!(
        waited < Duration::from_millis(2_020),
        "{waited:?} {}",
        servers[0].history()
    );
    assert_eq!(held(&servers, &guard), 5);
    Ok(())
}

/// Gives the lock to another client on these nodes.
async fn take_away(servers: &[Arc<Server>]) {
    for server in servers {
        let _: String = ask(server, &["SET", KEY, "other", "PX", "60000"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_majority_of_refusals_is_an_answer_even_if_one_node_is_silent() -> Test {
    let servers = servers(3).await;
    take_away(&servers[..2]).await;
    let _pause = servers[2].pause();
    let begun = Instant::now();
    let error = mutex(&servers).try_lock().await.unwrap_err();
    assert_eq!(error, LockError::Contended);
    assert!(begun.elapsed() < NODE_TIMEOUT, "{:?}", begun.elapsed());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn slower_votes_are_waited_for_as_long_as_they_may_decide() -> Test {
    let servers = servers(5).await;
    take_away(&servers[..2]).await;
    let slow = NODE_TIMEOUT / 4;
    let slow_down = |server: &Arc<Server>| server.inject(Delay::request(slow).key(KEY));
    let _slow: Vec<_> = servers[3..].iter().map(slow_down).collect();
    let begun = Instant::now();
    let guard = mutex(&servers).try_lock().await?;
    assert!(begun.elapsed() >= slow && held(&servers, &guard) == 3);
    guard.extend(LEASE * 2).await?;
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_node_that_is_a_little_slower_than_the_quorum() -> Test {
    let servers = servers(3).await;
    let millis = Duration::from_millis;
    let slow_down = |(server, by): (&Arc<Server>, u64)| {
        server.inject(Delay::reply(millis(by)).key(KEY).nth(2)) // behind NOSCRIPT
    };
    let _slow: Vec<_> = servers.iter().zip([50, 50, 80]).map(slow_down).collect();
    let begun = Instant::now();
    let guard = mutex(&servers).try_lock().await?;
    assert!(begun.elapsed() >= millis(80), "{:?}", begun.elapsed());
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_at_too_many_nodes_is_not_called_contended() -> Test {
    let servers = servers(5).await;
    take_away(&servers[..1]).await;
    let fail = |server: &Arc<Server>| server.inject(AnswerError::readonly());
    let _failing: Vec<_> = servers[1..4].iter().map(fail).collect();
    let error = mutex(&servers).try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error:?}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_round_has_a_token_of_its_own() -> Test {
    let servers = servers(3).await;
    take_away(&servers[..2]).await;
    let error = mutex(&servers).lock_timeout(LEASE).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { .. }), "{error:?}");
    let history = servers[2].history();
    let requests = history.entries().filter_map(|it| it.request.as_request());
    let scripts = requests.filter(|it| it.arg(3) == Some(KEY.as_bytes()));
    let tokens: BTreeSet<_> = scripts.map(|it| it.arg(5).unwrap().to_vec()).collect();
    assert!(tokens.len() > 1, "{history}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_tells_what_most_of_the_nodes_said() -> Test {
    for (gone, silent, expected) in [(0, 1, Some(true)), (2, 0, Some(false)), (1, 1, None)] {
        let servers = servers(3).await;
        let guard = mutex(&servers).try_lock().await?;
        assert_eq!(guard.key(), KEY.as_bytes());
        for server in &servers[..gone] {
            let _: i64 = ask(server, &["DEL", KEY]).await;
        }
        let _pauses: Vec<_> = servers[3 - silent..].iter().map(|it| it.pause()).collect();
        let outcome = guard.release().await;
        let known = [Release::Released, Release::AlreadyLost];
        let told = known.contains(&outcome).then(|| outcome == known[0]);
        assert_eq!(told, expected, "gone at {gone}, {silent} silent");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_may_stand_on_a_quorum_is_not_lost() -> Test {
    let servers = servers(5).await;
    let guard = mutex(&servers).try_lock().await?;
    take_away(&servers[..2]).await;
    let pause = servers[2].pause();
    let error = guard.extend(LEASE).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error:?}");
    assert!(guard.is_valid());
    pause.resume();
    guard.extend(LEASE).await?;
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

/// A key stood until its lease was over: the answer to an extension, sent before, was taken for that of the request that
/// asked a node for the lock again.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_just_asked_again_is_given_back_too() -> Test {
    let servers = servers(3).await;
    let guard = mutex(&servers).try_lock().await?;
    // By then all nodes know the scripts.
    guard.extend(LEASE).await?;
    pass(NODE_TIMEOUT).await;
    let _: i64 = ask(&servers[0], &["DEL", KEY]).await;
    // Its answers take 60 ms. That to the first extension says that it has forgotten the lock; the third has it asked for
    // the lock again; then the answer to the second comes.
    let _slow = servers[0].inject(Delay::reply(Duration::from_millis(60)).key(KEY));
    for pause in [30, 40, 40] {
        guard.extend(LEASE).await?;
        pass(Duration::from_millis(pause)).await;
    }
    assert!(servers[0].exists(KEY));
    assert_eq!(guard.release().await, Release::Released);
    pass(LEASE / 2).await;
    assert!(all_free(&servers).await);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn no_node_is_asked_to_release_a_grant_that_all_nodes_have_forgotten() -> Test {
    let servers = servers(3).await;
    let guard = mutex(&servers).try_lock().await?;
    take_away(&servers).await;
    let lost = LockError::Lost(LossReason::Gone);
    assert_eq!(guard.extend(LEASE).await, Err(lost));
    let _pauses: Vec<_> = servers.iter().map(|it| it.pause()).collect();
    let begun = Instant::now();
    assert_eq!(guard.release().await, Release::AlreadyLost);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grant_on_several_nodes_goes_to_another_process() -> Test {
    let servers = servers(3).await;
    let lock = redlock(&servers).mutex(KEY).fenced().lease(LEASE).build()?;
    let guard = lock.try_lock().await?;
    let fence = guard.fencing_token();
    let parts = Guard::from(guard).detach()?;
    let other = redlock(&servers).mutex(KEY).fenced().lease(LEASE).build()?;
    let adopted = other.adopt(&parts).await?;
    assert_eq!(adopted.fencing_token(), fence);
    adopted.extend(LEASE * 2).await?;
    assert_eq!(Guard::from(adopted).release().await, Release::Released);
    assert!(servers.iter().all(|server| !server.exists(KEY)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_at_a_time() -> Test {
    let servers = servers(5).await;
    let taken = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (lock, taken) = (mutex(&servers), Arc::clone(&taken));
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = lock.lock().await.unwrap();
                    assert!(!taken.swap(true, Ordering::Relaxed), "two at a time");
                    pass(Duration::from_millis(20)).await;
                    taken.store(false, Ordering::Relaxed);
                    assert_eq!(guard.release().await, Release::Released);
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(LEASE * 2, task).await??;
    }
    pass(Duration::from_millis(10)).await;
    assert!(all_free(&servers).await);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_late_request_leaves_no_ghost_and_hits_no_later_grant() -> Test {
    let servers = servers(3).await;
    let lock = mutex(&servers);
    let late = Duration::from_secs(3);
    // Two of three get the first request late, so the first round fails.
    let faults: Vec<_> = servers[..2]
        .iter()
        .map(|server| server.inject(Delay::request(late).key(KEY).nth(1)))
        .collect();
    let guard = lock.lock().await?;
    assert!(faults.iter().all(|fault| fault.fired() == 1));
    pass(late + REPLY_TIMEOUT).await;
    assert!(held(&servers, &guard) >= 2 && guard.is_valid());
    pass(Duration::from_secs(2)).await;
    assert_eq!(held(&servers, &guard), 3);
    assert_eq!(guard.release().await, Release::Released);
    pass(Duration::from_secs(1)).await;
    assert!(all_free(&servers).await);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_a_vote_that_is_asked_for_again() -> Test {
    for executed in [false, true] {
        let servers = servers(3).await;
        let rule = match executed {
            true => Disconnect::after_execution(),
            false => Disconnect::before_execution(),
        };
        let lost = servers[0].inject(rule.key(KEY).nth(1));
        let guard = mutex(&servers).try_lock().await?;
        assert_eq!(lost.fired(), 1);
        pass(Duration::from_secs(1)).await;
        assert_eq!(held(&servers, &guard), 3);
        assert_eq!(guard.release().await, Release::Released);
        assert!(all_free(&servers).await);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_extension_needs_a_quorum_and_its_failure_forfeits_nothing() -> Test {
    let servers = servers(3).await;
    let guard = mutex(&servers).try_lock().await?;
    pass(LEASE / 2).await;
    guard.extend(LEASE).await?;
    assert!(servers.iter().all(|server| server.pttl(KEY) == Some(LEASE)));
    let deadline = guard.deadline();
    // One has forgotten it, one is silent.
    let _: i64 = ask(&servers[0], &["DEL", KEY]).await;
    let pause = servers[1].pause();
    let error = guard.extend(LEASE * 2).await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error:?}");
    assert!(guard.is_valid());
    assert_eq!(guard.deadline(), deadline);
    pause.resume();
    guard.extend(LEASE * 2).await?;
    pass(Duration::from_secs(2)).await;
    assert_eq!(held(&servers, &guard), 3, "also where it was forgotten");
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

/// A lease ran out although a majority could have extended it: the extension waited for a silent node while another one
/// became free.
#[tokio::test(start_paused = true)]
async fn an_extension_counts_a_node_that_becomes_free_meanwhile() -> Test {
    let servers = servers(3).await;
    let _: String = ask(&servers[0], &["SET", KEY, "other", "PX", "60000"]).await;
    let patient = redlock(&servers).node_timeout(REPLY_TIMEOUT);
    let guard = patient.mutex(KEY).lease(LEASE).build()?.try_lock().await?;
    assert_eq!(held(&servers, &guard), 2);
    let pause = servers[1].pause();
    let begun = Instant::now();
    let freed = async {
        pass(REPLY_TIMEOUT / 10).await;
        ask::<i64>(&servers[0], &["DEL", KEY]).await
    };
    let (extended, _) = tokio::join!(guard.extend(LEASE * 2), freed);
    extended?;
    assert!(begun.elapsed() < REPLY_TIMEOUT, "{:?}", begun.elapsed());
    pause.resume();
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_too_many_nodes_forgot_is_lost() -> Test {
    let servers = servers(5).await;
    let guard = mutex(&servers).try_lock().await?;
    for server in &servers[..2] {
        let _: i64 = ask(server, &["DEL", KEY]).await;
    }
    guard.extend(LEASE).await?;
    let other = mutex(&servers);
    for server in &servers[..3] {
        let _: String = ask(server, &["SET", KEY, "other", "PX", "60000"]).await;
    }
    assert_eq!(
        guard.extend(LEASE).await,
        Err(LockError::Lost(LossReason::Gone))
    );
    assert_eq!(guard.release().await, Release::AlreadyLost);
    pass(Duration::from_millis(10)).await;
    assert!(!servers[3].exists(KEY) && !servers[4].exists(KEY));
    assert!(other.try_lock().await.unwrap_err().is_contended());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_outlives_failures_of_a_minority() -> Test {
    let servers = servers(5).await;
    let lock = redlock(&servers).mutex(KEY).lease(LEASE);
    let guard = lock.watchdog(true).build()?.try_lock().await?;
    for round in 0..20 {
        let down = &servers[round % 5];
        let pause = down.pause();
        pass(LEASE / 2).await;
        assert!(guard.is_valid(), "{round}");
        assert!(held(&servers, &guard) >= 3, "{round}");
        pause.resume();
        pass(LEASE / 2).await;
        assert_eq!(held(&servers, &guard), 5, "{round}: the grant grows again");
    }
    assert_eq!(guard.release().await, Release::Released);
    pass(Duration::from_secs(1)).await;
    assert!(all_free(&servers).await);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_over_before_the_quorum_is_no_grant() -> Test {
    let servers = servers(3).await;
    let lock = redlock(&servers).node_timeout(Duration::from_millis(400));
    let lock = lock.mutex(KEY).lease(Duration::from_millis(200)).build()?;
    drop(lock.try_lock().await?.release().await); // the scripts are known from then on
    let _slow: Vec<_> = servers
        .iter()
        .map(|server| server.inject(Delay::reply(Duration::from_millis(250)).key(KEY)))
        .collect();
    let error = lock.try_lock().await.unwrap_err();
    assert_eq!(error, LockError::Lost(LossReason::Expired));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn fencing_tokens_grow_whatever_quorum_grants() -> Test {
    let servers = servers(5).await;
    let lock = redlock(&servers).mutex(KEY).fenced().lease(LEASE).build()?;
    // One node has seen higher fencing tokens than the others.
    let ahead: u64 = 4_000_000_000_000_000;
    let fence = "{coupon:7}:fence";
    let _: String = ask(&servers[2], &["SET", fence, &ahead.to_string()]).await;
    let mut last = None;
    // Quorums that share the third node only.
    for down in [[3, 4], [0, 1], [3, 4], [0, 1]] {
        let _pauses = down.map(|n: usize| servers[n].pause());
        let guard = lock.try_lock().await?;
        assert!(guard.fencing_token().get() > ahead);
        assert!(Some(guard.fencing_token()) > last);
        last = Some(guard.fencing_token());
        let token = guard.fencing_token().to_string();
        let stored = servers
            .iter()
            .filter(|server| server.get(fence).as_deref() == Some(token.as_bytes()));
        assert!(stored.count() >= 3);
        assert_eq!(guard.release().await, Release::Released);
        servers.iter().for_each(|server| server.resume());
        pass(Duration::from_secs(2)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_fencing_token_that_no_quorum_has_stored_is_not_offered() -> Test {
    let servers = servers(3).await;
    let lock = redlock(&servers).mutex(KEY).fenced().lease(LEASE).build()?;
    drop(lock.try_lock().await?.release().await);
    // The second request to two nodes, which is the one that stores the fencing token.
    let _faults: Vec<_> = servers[..2]
        .iter()
        .map(|server| server.inject(Disconnect::before_execution().key(KEY).nth(2)))
        .collect();
    let error = lock.try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum(_)), "{error:?}");
    assert!(servers.iter().all(|server| !server.exists(KEY)));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_call_that_is_cancelled() -> Test {
    for down in [false, true] {
        for polls in 0.. {
            let servers = servers(3).await;
            let lock = mutex(&servers);
            let pause = down.then(|| servers[1].pause());
            let outcome = cancel_at(polls, lock.try_lock()).await;
            let completed = outcome.is_some();
            drop(outcome);
            drop(pause);
            pass(Duration::from_secs(2)).await;
            assert!(all_free(&servers).await, "{polls}");
            if completed {
                assert!(polls > 0);
                break;
            }
        }
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn one_server_has_one_vote() -> Test {
    let three = servers(3).await;
    let places = |indices: &[usize]| indices.iter().map(|&n| Arc::clone(&three[n])).collect();
    for indices in [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 0]] {
        let nodes: Vec<_> = places(&indices);
        let error = mutex(&nodes).try_lock().await.unwrap_err();
        let LockError::Redis(error) = error else {
            panic!("{indices:?}: {error}");
        };
        assert_eq!(error.kind(), &NodeErrorKind::SameServer);
        pass(REPLY_TIMEOUT).await;
        assert!(all_free(&three).await, "{indices:?}");
    }
    // These have one seed, and so one run id; they are three servers all the same.
    let guard = mutex(&three).try_lock().await?;
    assert_eq!(held(&three, &guard), 3);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_tell_what_it_is_has_its_vote() -> Test {
    let three = servers(3).await;
    let refused = AnswerError::new("NOPERM no permission").command("INFO");
    let _refusals: Vec<_> = three.iter().map(|it| it.inject(refused.clone())).collect();
    let guard = mutex(&three).try_lock().await?;
    assert_eq!(held(&three, &guard), 3);
    Ok(())
}
