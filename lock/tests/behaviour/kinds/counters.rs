//! Latch, admission and stock, and the owner that takes a lock again: cancelled, and on a real server.

use super::cancellation::LINGER;
use crate::cancel::cancel_at;
use crate::rig::{KEY, LEASE, Test, ask, keys, locks, pass, real::RealServer, server};
use redouble_lock::{LockManager, Release};
use std::time::Duration;
use tokio::runtime::Handle;

const SOON: Duration = Duration::from_millis(5);

/// What all of them do on every server.
async fn each_counts(locks: &LockManager) {
    let latch = locks.count_down_latch("latch");
    assert!(latch.set_count(2).await.unwrap());
    assert!(!latch.set_count(5).await.unwrap(), "it is set already");
    assert_eq!(latch.count_down().await.unwrap(), Some(1));
    let waiter = tokio::spawn({
        let latch = latch.clone();
        async move { latch.wait(LEASE).await }
    });
    pass(Duration::from_millis(50)).await;
    assert!(!waiter.is_finished());
    assert_eq!(latch.count_down().await.unwrap(), Some(0));
    waiter.await.unwrap().unwrap();
    assert_eq!(latch.count_down().await.unwrap(), None);

    let admission = locks.admission("admission", 2);
    assert_eq!(admission.enter().await.unwrap(), Some(1));
    assert_eq!(admission.enter().await.unwrap(), Some(2));
    assert_eq!(admission.enter().await.unwrap(), None);

    let by_name = locks.admission("names", 1);
    assert_eq!(by_name.enter_as("a").await.unwrap(), Some(1));
    assert_eq!(by_name.enter_as("b").await.unwrap(), None);
    assert_eq!(by_name.enter_as("a").await.unwrap(), Some(1));

    let stock = locks.stock("stock");
    assert!(stock.fill(2, LEASE).await.unwrap());
    assert_eq!(stock.take().await.unwrap(), Some(1));
    assert_eq!(stock.take().await.unwrap(), Some(0));
    assert_eq!(stock.take().await.unwrap(), None);

    let owner = locks
        .mutex("owned")
        .fenced()
        .lease(LEASE)
        .build()
        .unwrap()
        .owner();
    let (outer, inner) = (owner.lock().await.unwrap(), owner.lock().await.unwrap());
    assert_eq!(outer.fencing_token(), inner.fencing_token());
    assert_eq!(outer.release().await, Release::StillHeld);
    assert_eq!(inner.release().await, Release::Released);
}

#[tokio::test(start_paused = true)]
async fn they_count_on_the_double() -> Test {
    each_counts(&locks(&server().await)).await;
    Ok(())
}

#[tokio::test]
async fn they_count_on_a_real_server() -> Test {
    let Some(server) = RealServer::start().await else {
        return Ok(());
    };
    each_counts(&LockManager::from_client(server.client("?protocol=resp3")).await?).await;
    Ok(())
}

/// Drops `call` at each of its awaits until it ends, and looks at what is left.
async fn dropped_everywhere<F: Future>(
    what: &str,
    call: impl Fn(LockManager) -> F,
    left: impl AsyncFn(&redouble::Server),
) {
    for awaits in 0.. {
        let server = server().await;
        let locks = locks(&server);
        let ended = cancel_at(awaits, call(locks.clone())).await.is_some();
        drop(locks);
        pass(SOON).await;
        left(&server).await;
        pass(LINGER).await;
        let channels: Vec<String> = ask(&server, &["PUBSUB", "CHANNELS"]).await;
        assert!(channels.is_empty(), "{what}, await {awaits}");
        pass(SOON).await;
        let tasks = Handle::current().metrics().num_alive_tasks();
        assert_eq!(tasks, 1, "{what}, await {awaits}: that of the server");
        if ended {
            assert!(awaits > 0, "{what} was never pending");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_counts_once_or_not_at_all() -> Test {
    let at_most = |most: i64| {
        async move |server: &redouble::Server| {
            let kind: String = ask(server, &["TYPE", KEY]).await;
            let count: Option<i64> = match &*kind {
                "hash" => ask(server, &["HGET", KEY, "count"]).await,
                _ => ask(server, &["GET", KEY]).await,
            };
            assert!(count.unwrap_or(0) <= most, "{}", server.history());
        }
    };
    let enters = async |locks: LockManager| locks.admission(KEY, 9).enter().await.unwrap();
    dropped_everywhere("enter", enters, at_most(1)).await;
    let sets = async |locks: LockManager| locks.count_down_latch(KEY).set_count(3).await.unwrap();
    dropped_everywhere("set_count", sets, at_most(3)).await;
    let counts_down = async |locks: LockManager| {
        let latch = locks.count_down_latch(KEY);
        latch.set_count(2).await.unwrap();
        latch.count_down().await.unwrap()
    };
    dropped_everywhere("count_down", counts_down, at_most(2)).await;
    let waits = async |locks: LockManager| {
        let latch = locks.count_down_latch(KEY);
        latch.set_count(1).await.unwrap();
        latch.wait(Duration::from_secs(1)).await.unwrap_err()
    };
    dropped_everywhere("wait", waits, at_most(1)).await;
    let fills = async |locks: LockManager| locks.stock(KEY).fill(4, LEASE).await.unwrap();
    dropped_everywhere("fill", fills, at_most(4)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_is_dropped_on_its_way_in_or_out_holds_nothing() -> Test {
    let nothing = async |server: &redouble::Server| {
        assert_eq!(keys(server).await, [""; 0], "{}", server.history());
    };
    let first = async |locks: LockManager| {
        let owner = locks
            .mutex(KEY)
            .lease(LEASE)
            .watchdog(true)
            .build()
            .unwrap()
            .owner();
        drop(owner.lock().await.unwrap());
    };
    dropped_everywhere("the first level", first, nothing).await;
    let again = async |locks: LockManager| {
        let owner = locks
            .mutex(KEY)
            .lease(LEASE)
            .watchdog(true)
            .build()
            .unwrap()
            .owner();
        let outer = owner.lock().await.unwrap();
        let inner = owner.lock().await.unwrap();
        assert_eq!(inner.release().await, Release::StillHeld);
        assert_eq!(outer.release().await, Release::Released);
    };
    dropped_everywhere("two levels", again, nothing).await;
    Ok(())
}
