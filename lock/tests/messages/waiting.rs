//! Waiting for a lock that another client holds: which message wakes which waiter, and which keys remain.

use super::*;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// For how long a subscription outlives the last waiter.
const LINGER: Duration = Duration::from_millis(200);
/// A waiter asks at least this often.
const LOOK: Duration = Duration::from_secs(1);

fn count(node: &Fake, name: &str) -> usize {
    node.log().iter().filter(|entry| *entry == name).count()
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_by_the_release_and_asks_for_little_before() {
    let node = Fake::with_pushes();
    let (lock, holder) = (mutex(&node), mutex(&node));
    let guard = holder.try_lock().await.unwrap();
    let waiter = tokio::spawn(async move { (lock.lock().await.unwrap(), Instant::now()) });
    pass(Duration::from_secs(10)).await;
    let channels = node.channels();
    assert!(matches!(&*channels, [name] if name.starts_with("redouble-lock:")));
    let asked = count(&node, "acquire");
    assert!(
        (10..=22).contains(&asked),
        "once or twice a second: {asked}"
    );
    let freed = Instant::now();
    assert_eq!(guard.release().await, Release::Released);
    let (guard, granted) = waiter.await.unwrap();
    // The release arrives by its text at first; then the message, then a question and its answer.
    assert_eq!(node.waiting(), 0);
    assert!(
        granted - freed <= ROUND_TRIP * 3 + LATENCY,
        "{:?}",
        granted - freed
    );
    pass(LINGER).await;
    pass(ROUND_TRIP * 2).await;
    assert_eq!(node.channels(), [""; 0]);
    assert_eq!(tasks(), node.tasks());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_message_wakes_one_of_many() {
    const WAITERS: usize = 32;
    let node = Fake::with_pushes();
    let lock = mutex(&node);
    let guard = lock.try_lock().await.unwrap();
    let turn = Arc::new(Semaphore::new(0));
    let waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let (lock, turn) = (lock.clone(), Arc::clone(&turn));
            tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                turn.acquire().await.unwrap().forget();
                assert_eq!(guard.release().await, Release::Released);
            })
        })
        .collect();
    pass(LOOK * 3).await;
    assert_eq!(count(&node, "subscribe"), 1);
    assert_eq!(node.waiting(), WAITERS);
    let (asked, begun) = (count(&node, "acquire"), Instant::now());
    drop(guard);
    turn.add_permits(WAITERS);
    for waiter in waiters {
        waiter.await.unwrap();
    }
    let asked = count(&node, "acquire") - asked;
    // Besides, each waiter looks once or twice a second.
    let looks = (begun.elapsed().as_secs_f64() * 2.0 * WAITERS as f64) as usize;
    assert!(asked <= WAITERS + WAITERS / 4 + looks, "{asked} questions");
    assert!(begun.elapsed() < ROUND_TRIP * 8 * u32::try_from(WAITERS).unwrap());
    pass(LINGER).await;
    pass(ROUND_TRIP * 2).await;
    assert_eq!((node.channels(), tasks()), (Vec::new(), node.tasks()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_message_costs_no_more_than_a_look() {
    let node = Fake::with_pushes();
    let lock = mutex(&node);
    let guard = lock.try_lock().await.unwrap();
    let waiter = tokio::spawn(async move { lock.lock().await.map(|_guard| Instant::now()) });
    pass(Duration::from_secs(3)).await;
    node.set_pushes(Pushing::Lost);
    let freed = Instant::now();
    drop(guard);
    let granted = waiter.await.unwrap().unwrap();
    assert!(
        granted - freed <= LOOK + ROUND_TRIP * 3,
        "{:?}",
        granted - freed
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiter_has_the_lock_when_its_dead_holder_has_lost_it() {
    let node = Fake::with_pushes();
    node.set(KEY, "somebody", Duration::from_millis(10_300));
    let begun = Instant::now();
    let _guard = mutex(&node).lock().await.unwrap();
    assert!((10_300..10_320).contains(&begun.elapsed().as_millis()));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_subscribes_again_when_its_connection_ends() {
    for fate in [Fate::CutBefore, Fate::CutAfter, Fate::ReplyLost] {
        let node = Fake::with_pushes();
        let (lock, holder) = (mutex(&node), mutex(&node));
        let guard = holder.try_lock().await.unwrap();
        let waiter = tokio::spawn(async move { lock.lock().await.map(|_guard| Instant::now()) });
        pass(Duration::from_secs(5)).await;
        // The next look of the waiter.
        node.fate(0, fate);
        pass(LOOK * 3).await;
        assert_eq!((count(&node, "subscribe"), node.channels().len()), (2, 1));
        let freed = Instant::now();
        drop(guard);
        let granted = waiter.await.unwrap().unwrap();
        assert!(
            granted - freed <= ROUND_TRIP * 4,
            "{fate:?} {:?}",
            granted - freed
        );
    }
}

#[tokio::test(start_paused = true)]
async fn each_message_of_a_waiter_broken_in_each_way() {
    let fates = [
        Fate::RequestLost,
        Fate::ReplyLost,
        Fate::CutBefore,
        Fate::CutAfter,
        Fate::RequestLate(Duration::from_secs(2)),
        Fate::ReplyLate(Duration::from_secs(2)),
        Fate::Refused("LOADING"),
        Fate::Refused("NOPERM"),
    ];
    for fate in fates {
        // The first request of the waiter is its own, then it is the keeper's too.
        for n in 1.. {
            let node = Fake::with_pushes();
            let (lock, holder) = (mutex(&node), mutex(&node));
            let guard = holder.try_lock().await.unwrap();
            node.fate(n, fate);
            let waiter = tokio::spawn(async move {
                let guard = lock.lock_timeout(LEASE / 2).await?;
                let granted = Instant::now();
                let _ = guard.release().await;
                Ok::<_, LockError>(granted)
            });
            pass(Duration::from_millis(2_500)).await;
            if node.requests() <= n + 1 {
                // It would meet the release of the holder.
                break;
            }
            let freed = Instant::now();
            drop(guard);
            match waiter.await.unwrap() {
                Ok(granted) => assert!(granted - freed < LOOK * 3, "{fate:?} {n}"),
                Err(error) => assert!(
                    matches!(fate, Fate::Refused("NOPERM")) && !error.is_contended(),
                    "{fate:?} {n}: {error}"
                ),
            }
            pass(Duration::from_secs(5)).await;
            let log = node.log();
            assert_eq!(node.get(KEY), None, "{fate:?} {n}: {log:?}");
            assert_eq!(node.channels(), [""; 0], "{fate:?} {n}: {log:?}");
            assert_eq!(node.waiting(), 0, "{fate:?} {n}: {log:?}");
            assert_eq!(tasks(), node.tasks(), "{fate:?} {n}: {log:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_waiter_that_is_cancelled() {
    for polls in 0.. {
        let node = Fake::with_pushes();
        let lock = mutex(&node);
        node.set(KEY, "somebody", Duration::from_secs(2));
        let done = cancel_at(polls, lock.lock_timeout(LEASE)).await;
        let completed = done.is_some();
        drop(done);
        // What is under way, the subscription, its end.
        pass(LINGER).await;
        pass(ROUND_TRIP * 6).await;
        let log = node.log();
        assert_eq!(node.channels(), [""; 0], "await {polls}: {log:?}");
        assert_eq!(tasks(), node.tasks(), "await {polls}: {log:?}");
        assert_eq!(node.waiting(), 0, "await {polls}: {log:?}");
        if completed {
            assert!(log.contains(&"subscribe".to_owned()));
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_cancelled_takes_no_wake_up_along() {
    for polls in 0.. {
        let node = Fake::with_pushes();
        let (lock, holder) = (mutex(&node), mutex(&node));
        let guard = holder.try_lock().await.unwrap();
        // Both wait; the first one is polled from here on only until it is cancelled.
        let mut first = Box::pin(lock.lock());
        let waits = tokio::time::timeout(LOOK * 3, &mut first).await;
        assert!(waits.is_err());
        let second = tokio::spawn({
            let lock = lock.clone();
            async move { lock.lock().await.map(|_guard| Instant::now()) }
        });
        pass(Duration::from_millis(20)).await;
        drop(guard);
        let done = cancel_at(polls, first).await;
        let completed = done.is_some();
        drop(done);
        let cancelled = Instant::now();
        let granted = second.await.unwrap().unwrap();
        let late = granted - cancelled;
        assert!(late <= ROUND_TRIP * 5, "await {polls}: {late:?}");
        if completed {
            assert!(polls > 1);
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_subscribe_polls() {
    let node = Fake::with_pushes();
    let (lock, holder) = (mutex(&node), mutex(&node));
    let guard = holder.try_lock().await.unwrap();
    node.fate(1, Fate::Refused("NOPERM"));
    let waiter = tokio::spawn(async move { lock.lock().await.map(|_guard| Instant::now()) });
    pass(Duration::from_secs(3)).await;
    assert_eq!((count(&node, "subscribe"), node.channels().len()), (0, 0));
    let freed = Instant::now();
    drop(guard);
    let granted = waiter.await.unwrap().unwrap();
    assert!(granted - freed <= Duration::from_millis(120));
}

// Each waiter that came and left in the meantime doubled that time.
#[tokio::test(start_paused = true)]
async fn a_subscription_lingers_from_the_time_at_which_the_last_waiter_left() {
    let node = Fake::with_pushes();
    let lock = mutex(&node);
    node.set(KEY, "somebody", LEASE);
    for _ in 0..2 {
        assert!(lock.lock_timeout(LINGER / 2).await.is_err());
    }
    pass(LINGER - ROUND_TRIP * 2).await;
    assert_eq!(node.channels().len(), 1);
    pass(ROUND_TRIP * 4).await;
    assert_eq!((node.channels().len(), count(&node, "subscribe")), (0, 1));
}

// The task once gave up after 60 refusals: the server went on sending messages to a connection without waiters.
#[tokio::test(start_paused = true)]
async fn a_subscription_that_a_server_refuses_to_end_for_minutes_is_ended_afterwards() {
    let node = Fake::with_pushes();
    let lock = mutex(&node);
    node.set(KEY, "somebody", LEASE);
    assert!(lock.lock_timeout(LINGER / 2).await.is_err());
    for n in 0..200 {
        node.fate(n, Fate::Refused("LOADING"));
    }
    pass(Duration::from_secs(120)).await;
    assert_eq!((node.channels().len(), count(&node, "unsubscribe")), (1, 0));
    pass(Duration::from_secs(120)).await;
    assert_eq!((node.channels().len(), count(&node, "unsubscribe")), (0, 1));
}
