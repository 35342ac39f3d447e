//! Each message of a grant broken in each way, each call cancelled at each of its awaits.

use super::*;

#[tokio::test(start_paused = true)]
async fn one_round_trip_each() {
    let node = Fake::default();
    let lock = mutex(&node);
    drop(lock.try_lock().await.unwrap().release().await);
    let sent = node.requests();
    let begun = Instant::now();
    let guard = lock.try_lock().await.unwrap();
    assert_eq!(begun.elapsed(), ROUND_TRIP);
    assert_eq!(node.get(KEY).unwrap(), guard.token().as_bytes());
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(
        (begun.elapsed(), node.requests() - sent),
        (ROUND_TRIP * 2, 2)
    );
    assert_eq!(node.get(KEY), None);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_drawn_for_each_acquisition() {
    let node = Fake::default();
    let lock = mutex(&node);
    let old = lock.try_lock().await.unwrap();
    node.del(KEY);
    let new = lock.try_lock().await.unwrap();
    assert_ne!(old.token(), new.token());
    assert_eq!(
        old.extend(LEASE).await,
        Err(LockError::Lost(LossReason::Gone))
    );
    assert_eq!(old.release().await, Release::AlreadyLost);
    assert_eq!(node.get(KEY).unwrap(), new.token().as_bytes());
    assert_eq!(new.release().await, Release::Released);
}

#[tokio::test(start_paused = true)]
async fn a_stale_release_does_not_free_the_lock_of_another() {
    let node = Fake::default();
    let lock = mutex(&node);
    let stale = lock.try_lock().await.unwrap();
    pass(LEASE).await;
    let next = lock.lock().await.unwrap();
    assert!(!stale.is_valid());
    assert_eq!(stale.release().await, Release::AlreadyLost);
    assert_eq!(node.get(KEY).unwrap(), next.token().as_bytes());
    assert!(next.is_valid());
}

#[tokio::test(start_paused = true)]
async fn contention_is_told_apart_from_failure() {
    let node = Fake::default();
    let lock = mutex(&node);
    node.set(KEY, "somebody", LEASE);
    assert_eq!(lock.try_lock().await.unwrap_err(), LockError::Contended);
    let begun = Instant::now();
    let error = lock.lock_timeout(Duration::from_secs(3)).await.unwrap_err();
    assert!(error.is_contended() && error.is_timed_out(), "{error}");
    assert!((3_000..=3_010).contains(&begun.elapsed().as_millis()));
    node.set_down(true);
    node.fate(0, Fate::CutBefore);
    let error = lock.try_lock().await.unwrap_err();
    assert!(!error.is_contended() && error.is_retryable(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_has_the_lock_soon_after_its_holder_died_or_released() {
    let node = Fake::default();
    let lock = mutex(&node);
    node.set(KEY, "somebody", Duration::from_secs(10));
    let begun = Instant::now();
    let guard = lock.lock().await.unwrap();
    assert!((10_000..10_020).contains(&begun.elapsed().as_millis()));
    let waiter = tokio::spawn(async move { lock.lock().await });
    pass(Duration::from_secs(3)).await;
    let freed = Instant::now();
    assert_eq!(guard.release().await, Release::Released);
    assert!(waiter.await.unwrap().is_ok());
    assert!(freed.elapsed() < Duration::from_millis(120));
}

/// Every single fault of every message of acquire, extend and release.
#[tokio::test(start_paused = true)]
async fn each_message_broken_in_each_way() {
    let late = REPLY_TIMEOUT * 3;
    let fates = [
        Fate::RequestLost,
        Fate::ReplyLost,
        Fate::CutBefore,
        Fate::CutAfter,
        Fate::RequestLate(late),
        Fate::ReplyLate(late),
        Fate::Refused("LOADING"),
        Fate::Refused("NOSCRIPT"),
    ];
    for fate in fates {
        for n in 0.. {
            let node = Fake::default();
            let lock = mutex(&node);
            node.fate(n, fate);
            let begun = Instant::now();
            let guard = lock.lock_timeout(Duration::from_secs(5)).await.unwrap();
            let silent = !matches!(fate, Fate::CutBefore | Fate::CutAfter | Fate::Refused(_));
            let patience = ROUND_TRIP * 20
                + if silent {
                    REPLY_TIMEOUT
                } else {
                    Duration::ZERO
                };
            assert!(
                begun.elapsed() <= patience,
                "{fate:?} {n}: {:?}",
                begun.elapsed()
            );
            assert_eq!(node.get(KEY).unwrap(), guard.token().as_bytes());
            let deadline = guard.deadline();
            match guard.extend(LEASE * 2).await {
                Ok(()) => assert!(guard.remaining() > LEASE),
                Err(error) => {
                    assert!(
                        error.is_retryable() && guard.is_valid(),
                        "{fate:?} {n}: {error}"
                    );
                    assert_eq!(guard.deadline(), deadline, "a failure changes nothing");
                }
            }
            assert!(node.pttl(KEY).unwrap() >= guard.remaining(), "{fate:?} {n}");
            let outcome = guard.release().await;
            if outcome == Release::Released {
                assert_eq!(node.get(KEY), None);
            } else {
                assert!(
                    matches!(outcome, Release::Unknown(_)),
                    "{fate:?} {n}: {outcome:?}"
                );
            }
            // Whatever was late has arrived by then, and was undone.
            pass(late + REPLY_TIMEOUT * 3).await;
            assert_eq!(node.get(KEY), None, "{fate:?} {n}: {:?}", node.log());
            assert_eq!(tasks(), node.tasks(), "{fate:?} {n}: only drivers");
            assert!(node.open() <= 1, "{fate:?} {n}");
            if node.requests() <= n {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_that_is_cut_off_is_repeated_at_once_with_the_same_token() {
    for fate in [Fate::CutBefore, Fate::CutAfter] {
        let node = Fake::default();
        node.fate(0, fate);
        let begun = Instant::now();
        let guard = mutex(&node).try_lock().await.unwrap();
        assert!(begun.elapsed() <= ROUND_TRIP * 5);
        assert_eq!(guard.release().await, Release::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_redis_does_not_hang_a_try_and_leaves_nothing() {
    let node = Fake::default();
    let lock = mutex(&node);
    node.fate(0, Fate::RequestLate(Duration::from_secs(2)));
    let begun = Instant::now();
    let error = lock.try_lock().await.unwrap_err();
    assert!(error.is_unknown(), "{error}");
    assert!(begun.elapsed() <= REPLY_TIMEOUT + ROUND_TRIP);
    pass(Duration::from_secs(5)).await;
    assert_eq!(node.get(KEY), None, "{:?}", node.log());
}

#[tokio::test(start_paused = true)]
async fn a_try_that_was_undone_is_not_reported_as_unknown() {
    let node = Fake::default();
    node.fate(0, Fate::CutAfter);
    node.fate(1, Fate::Refused("NOPERM"));
    let error = mutex(&node).try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Redis(_)), "{error:?}");
    assert!(!error.is_retryable());
    assert_eq!(node.get(KEY), None, "{:?}", node.log());
}

#[tokio::test(start_paused = true)]
async fn a_release_on_its_way_does_not_hit_the_next_acquisition() {
    let node = Fake::default();
    let lease = Duration::from_millis(100);
    let lock = locks(&node).mutex(KEY).lease(lease).build().unwrap();
    // So that the script is known and its digest enough.
    let _ = lock.try_lock().await.unwrap().release().await;
    node.fate(0, Fate::ReplyLate(Duration::from_millis(98)));
    node.fate(1, Fate::RequestLate(Duration::from_millis(580)));
    let guard = lock.lock_timeout(Duration::from_secs(5)).await.unwrap();
    let releases = || {
        node.log()
            .iter()
            .filter(|entry| *entry == "release")
            .count()
    };
    let before = releases();
    pass(Duration::from_millis(90)).await;
    assert!(
        releases() > before,
        "it arrived after the grant: {:?}",
        node.log()
    );
    assert!(guard.is_valid());
    assert_eq!(node.get(KEY).unwrap(), guard.token().as_bytes());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_its_deadline_is_given_back() {
    let node = Fake::default();
    let lock = locks(&node)
        .mutex(KEY)
        .lease(Duration::from_millis(100))
        .build()
        .unwrap();
    node.fate(0, Fate::ReplyLate(Duration::from_millis(200)));
    assert_eq!(
        lock.try_lock().await.unwrap_err(),
        LockError::Lost(LossReason::Expired)
    );
    node.fate(0, Fate::ReplyLate(Duration::from_millis(98)));
    assert_eq!(
        lock.try_lock().await.unwrap_err(),
        LockError::Lost(LossReason::Expired)
    );
    assert_eq!(node.get(KEY), None);
    node.fate(0, Fate::ReplyLate(Duration::from_millis(98)));
    let guard = lock.lock_timeout(Duration::from_secs(1)).await.unwrap();
    assert!(guard.is_valid());
}

#[tokio::test(start_paused = true)]
async fn the_loss_is_signalled_by_the_deadline_though_redis_is_silent() {
    for watchdog in [false, true] {
        let node = Fake::default();
        let begun = Instant::now();
        let lock = locks(&node)
            .mutex(KEY)
            .lease(LEASE)
            .watchdog(watchdog)
            .build()
            .unwrap();
        let guard = lock.try_lock().await.unwrap();
        (0..100).for_each(|n| node.fate(n, Fate::RequestLost));
        assert_eq!(guard.lost().await, LossReason::Expired);
        let elapsed = begun.elapsed();
        assert!(elapsed <= LEASE && elapsed > LEASE * 9 / 10, "{elapsed:?}");
        assert!(!guard.is_valid());
        assert_eq!(guard.lost().await, LossReason::Expired);
        assert!(guard.extend(LEASE).await.unwrap_err().is_lost());
    }
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_is_confirmed_after_the_deadline_revives_nothing() {
    let node = Fake::default();
    let lock = locks(&node)
        .mutex(KEY)
        .lease(Duration::from_millis(300))
        .build()
        .unwrap();
    let guard = lock.try_lock().await.unwrap();
    pass(Duration::from_millis(200)).await;
    node.fate(0, Fate::Refused("NOSCRIPT"));
    node.fate(1, Fate::ReplyLate(Duration::from_millis(150)));
    let outcome = guard.extend(LEASE).await;
    assert_eq!(outcome, Err(LockError::Lost(LossReason::Expired)));
    assert!(!guard.is_valid());
    drop(guard);
    pass(ROUND_TRIP * 2).await;
    assert_eq!(node.get(KEY), None, "the key that was extended is removed");
}

#[tokio::test(start_paused = true)]
async fn an_extension_never_shortens() {
    let node = Fake::default();
    let guard = mutex(&node).try_lock().await.unwrap();
    let deadline = guard.deadline();
    guard.extend(Duration::from_secs(1)).await.unwrap();
    assert_eq!(guard.deadline(), deadline);
    assert!(node.pttl(KEY).unwrap() > LEASE - ROUND_TRIP * 4);
    let invalid = guard.extend(Duration::from_micros(10)).await.unwrap_err();
    assert!(
        matches!(invalid, LockError::InvalidLease { .. }),
        "{invalid}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_keeps_the_lock_through_single_failures_and_stops_with_the_release() {
    let fates = [
        Fate::RequestLost,
        Fate::ReplyLost,
        Fate::CutBefore,
        Fate::CutAfter,
        Fate::Refused("NOSCRIPT"),
        Fate::Refused("LOADING"),
        Fate::ReplyLate(Duration::from_secs(2)),
    ];
    for lease in [Duration::from_millis(300), LEASE] {
        for fate in fates {
            let node = Fake::default();
            let lock = locks(&node)
                .mutex(KEY)
                .lease(lease)
                .watchdog(true)
                .build()
                .unwrap();
            let guard = lock.try_lock().await.unwrap();
            // Every third message fails.
            (0..60).step_by(3).for_each(|n| node.fate(n, fate));
            tokio::select! {
                reason = guard.lost() => panic!("{fate:?}: {reason}"),
                () = pass(lease * 8) => {}
            }
            assert!(guard.is_valid());
            // As the fates may hit the release too: its outcome is not the point here.
            let _ = guard.release().await;
            pass(lease + REPLY_TIMEOUT * 8).await;
            assert_eq!(node.get(KEY), None, "{fate:?}");
            let log = node.log();
            let first = log.iter().position(|entry| entry == "release").unwrap();
            assert!(
                !log[first..].contains(&"extend".to_owned()),
                "{fate:?} {log:?}"
            );
            assert_eq!(tasks(), node.tasks());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_renews_after_each_third() {
    let node = Fake::default();
    let lock = locks(&node)
        .mutex(KEY)
        .lease(LEASE)
        .watchdog(true)
        .build()
        .unwrap();
    let guard = lock.try_lock().await.unwrap();
    pass(LEASE * 10).await;
    let extensions = node.log().iter().filter(|entry| *entry == "extend").count();
    assert!((30..=31).contains(&extensions), "{extensions}");
    guard.extend(LEASE * 4).await.unwrap();
    let sent = node.requests();
    pass(LEASE * 3).await;
    assert_eq!(
        node.requests(),
        sent,
        "there is nothing to renew for a while"
    );
    pass(LEASE).await;
    assert!(guard.is_valid() && node.requests() > sent);
}

#[tokio::test(start_paused = true)]
async fn a_watchdog_sees_that_the_key_is_gone() {
    let node = Fake::default();
    let lock = locks(&node)
        .mutex(KEY)
        .lease(LEASE)
        .watchdog(true)
        .build()
        .unwrap();
    let guard = lock.try_lock().await.unwrap();
    node.del(KEY);
    assert_eq!(guard.lost().await, LossReason::Gone);
    pass(LATENCY).await;
    assert_eq!(tasks(), node.tasks());
    let other = lock.try_lock().await.unwrap();
    assert_eq!(guard.release().await, Release::AlreadyLost);
    assert!(other.is_valid());
}

#[tokio::test(start_paused = true)]
async fn work_ends_with_the_lock() {
    let node = Fake::default();
    let guard = mutex(&node).try_lock().await.unwrap();
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    let begun = Instant::now();
    let endless = guard.run(std::future::pending::<()>()).await;
    assert_eq!(endless, Err(LockError::Lost(LossReason::Expired)));
    assert!(begun.elapsed() < LEASE);
    assert_eq!(
        guard.run(async { 7 }).await,
        Err(LockError::Lost(LossReason::Expired))
    );
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_frees_its_lock() {
    let node = Fake::default();
    let lock = locks(&node)
        .mutex(KEY)
        .lease(LEASE)
        .watchdog(true)
        .build()
        .unwrap();
    drop(lock.try_lock().await.unwrap());
    pass(ROUND_TRIP * 3).await;
    assert_eq!((node.get(KEY), tasks()), (None, node.tasks()));
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_dropped_on_a_thread_without_a_runtime_frees_its_lock() {
    let node = Fake::default();
    let guard = mutex(&node).try_lock().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    pass(ROUND_TRIP * 3).await;
    assert_eq!((node.get(KEY), tasks()), (None, node.tasks()));
}

#[test]
fn a_guard_that_outlives_its_runtime_leaves_the_rest_to_the_lease() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let node = Fake::default();
    let guard = runtime.block_on(async { mutex(&node).try_lock().await.unwrap() });
    drop(runtime);
    drop(guard);
    assert!(node.get(KEY).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_kept_is_refused() {
    let node = Fake::default();
    for lease in [Duration::ZERO, Duration::from_micros(500), Duration::MAX] {
        let error = locks(&node).mutex(KEY).lease(lease).build().unwrap_err();
        assert_eq!(error, LockError::InvalidLease { lease });
        let locks = LockManager::builder_on(node.clone()).default_lease(lease);
        let error = locks.build().mutex(KEY).build().unwrap_err();
        assert_eq!(error, LockError::InvalidLease { lease });
    }
    assert_eq!(node.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_without_a_bound_ends_when_redis_is_gone_for_a_lease() {
    let node = Fake::default();
    node.set_down(true);
    let begun = Instant::now();
    let error = mutex(&node).lock().await.unwrap_err();
    assert!(matches!(error, LockError::Redis(_)), "{error}");
    assert!(begun.elapsed() >= LEASE && begun.elapsed() < LEASE + Duration::from_secs(2));
}

/// Cancels one kind of call at each of its awaits in turn, until it completes untouched.
async fn cancelled<F>(what: &str, warm: bool, call: impl Fn(Mutex, Option<Guard>) -> F, hold: bool)
where
    F: Future<Output = Option<Guard>>,
{
    for polls in 0.. {
        let node = Fake::default();
        let lock = locks(&node)
            .mutex(KEY)
            .lease(LEASE)
            .watchdog(true)
            .build()
            .unwrap();
        if warm {
            let _ = lock.try_lock().await.unwrap().release().await;
        }
        let guard = match hold {
            true => Some(lock.try_lock().await.unwrap()),
            false => None,
        };
        let done = cancel_at(polls, call(lock, guard)).await;
        let completed = done.is_some();
        drop(done);
        // The request, the release by its digest and by its text: the fake serves them one by one.
        pass(ROUND_TRIP * 3 + LATENCY).await;
        let log = node.log();
        assert_eq!(node.get(KEY), None, "{what}, await {polls}: {log:?}");
        assert_eq!(tasks(), node.tasks(), "{what}, await {polls}: {log:?}");
        if completed {
            assert!(polls > 0, "{what} was never pending");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_call_that_is_cancelled() {
    for warm in [false, true] {
        cancelled(
            "try_lock",
            warm,
            |lock, _| async move { lock.try_lock().await.ok() },
            false,
        )
        .await;
        cancelled(
            "release",
            warm,
            |_, guard| async move {
                assert_eq!(guard.unwrap().release().await, Release::Released);
                None
            },
            true,
        )
        .await;
        cancelled(
            "extend",
            warm,
            |_, guard| async move {
                guard.as_ref().unwrap().extend(LEASE * 2).await.unwrap();
                guard
            },
            true,
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_waiter_that_is_cancelled() {
    for polls in 0.. {
        let node = Fake::default();
        let lock = mutex(&node);
        node.set(KEY, "somebody", Duration::from_millis(300));
        let done = cancel_at(polls, lock.lock_timeout(Duration::from_secs(1))).await;
        let completed = done.is_some();
        drop(done);
        pass(Duration::from_millis(300) + ROUND_TRIP * 3).await;
        assert_eq!(node.get(KEY), None, "await {polls}: {:?}", node.log());
        assert_eq!(tasks(), node.tasks());
        if completed {
            return;
        }
    }
}

// Each call cut off its own attempt: a server that took longer to reach than a call may last was never reached.
#[tokio::test(start_paused = true)]
async fn a_connection_that_takes_long_is_there_for_the_next_call() {
    let node = Fake::default();
    node.set_slow(REPLY_TIMEOUT * 2);
    let lock = mutex(&node);
    let begun = Instant::now();
    let error = lock.try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::Redis(_)), "{error:?}");
    assert_eq!(begun.elapsed(), REPLY_TIMEOUT);
    assert!(lock.lock_timeout(LEASE).await.is_ok());
    assert!(begun.elapsed() < REPLY_TIMEOUT * 2 + ROUND_TRIP * 20);
    assert_eq!(node.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_to_connect_ends() {
    let node = Fake::default();
    node.set_slow(Duration::from_secs(3600));
    let locks = LockManager::builder_on(node.clone()).connect_timeout(Duration::from_secs(2));
    let lock = locks.build().mutex(KEY).lease(LEASE).build().unwrap();
    assert!(lock.try_lock().await.is_err());
    node.set_slow(Duration::ZERO);
    pass(Duration::from_secs(2)).await;
    assert_eq!(tasks(), node.tasks());
    assert!(lock.try_lock().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_connections_is_not_asked_all_the_time() {
    let node = Fake::default();
    node.set_down(true);
    let lock = mutex(&node);
    for _ in 0..100 {
        assert!(lock.try_lock().await.is_err());
        pass(Duration::from_millis(1)).await;
    }
    assert!(node.attempts() < 10, "{}", node.attempts());
    node.set_down(false);
    pass(Duration::from_millis(100)).await;
    assert!(lock.try_lock().await.is_ok());
}

// Every slow reply of one node among several cost its connection.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_late_for_a_majority_costs_no_connection() {
    let nodes = [(); 3].map(|()| Fake::default());
    let redlock = Redlock::new(nodes.iter().map(locks)).unwrap();
    let redlock = redlock.node_timeout(Duration::from_millis(20));
    let lock = redlock.mutex(KEY).lease(LEASE).build().unwrap();
    assert_eq!(
        lock.try_lock().await.unwrap().release().await,
        Release::Released
    );
    pass(ROUND_TRIP * 10).await;
    nodes[0].fate(0, Fate::ReplyLate(Duration::from_millis(50)));
    assert_eq!(
        lock.try_lock().await.unwrap().release().await,
        Release::Released
    );
    pass(REPLY_TIMEOUT * 2).await;
    assert_eq!(nodes[0].connections(), 1);
    // One that is silent for good is replaced.
    nodes[0].fate(0, Fate::ReplyLost);
    for _ in 0..3 {
        assert_eq!(
            lock.try_lock().await.unwrap().release().await,
            Release::Released
        );
        pass(REPLY_TIMEOUT).await;
    }
    assert_eq!(nodes[0].connections(), 2);
}
