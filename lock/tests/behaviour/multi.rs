//! Locks on several keys on the test double, in virtual time.

use super::rig::{LEASE, Test, ask, keys, locks, pass, server};
use redouble::{
    Server,
    fault::{Disconnect, DropReply},
};
use redouble_lock::{
    Fenced, FencedGuard, FencingToken, Kind, Lock, LockError, LossReason, MultiKey, MultiKeyMutex,
    Release,
};
use std::{sync::Arc, time::Duration};

fn multi(server: &Arc<Server>, keys: &[&str]) -> MultiKeyMutex {
    locks(server)
        .multi_key_mutex(keys)
        .unwrap()
        .lease(LEASE)
        .build()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn all_or_nothing() -> Test {
    let server = server().await;
    let mutex = |key: &str| locks(&server).mutex(key).lease(LEASE).build().unwrap();
    let guard = multi(&server, &["b", "a", "c", "a"]).try_lock().await?;
    for key in ["a", "b", "c"] {
        assert_eq!(server.get(key).as_deref(), Some(guard.token().as_bytes()));
        assert_eq!(server.pttl(key), Some(LEASE));
        assert_eq!(
            mutex(key).try_lock().await.unwrap_err(),
            LockError::Contended
        );
    }
    let other = multi(&server, &["d", "c"]);
    assert_eq!(other.try_lock().await.unwrap_err(), LockError::Contended);
    assert!(!server.exists("d"));
    assert_eq!(guard.release().await, Release::Released);
    assert!(keys(&server).await.is_empty());
    let plain = mutex("d").try_lock().await?;
    assert!(other.try_lock().await.is_err());
    assert!(!server.exists("c"));
    assert_eq!(plain.release().await, Release::Released);
    assert_eq!(other.try_lock().await?.release().await, Release::Released);
    assert_eq!(
        locks(&server).multi_key_mutex([""; 0]).unwrap_err(),
        LockError::NothingToLock
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn crosswise_waiters_do_not_block_each_other_for_ever() -> Test {
    let server = server().await;
    let tasks: Vec<_> = [["a", "b"], ["b", "a"], ["b", "c"], ["c", "a"]]
        .into_iter()
        .map(|keys| {
            let lock = multi(&server, &keys);
            tokio::spawn(async move {
                for _ in 0..10 {
                    let guard = lock.lock().await.unwrap();
                    pass(Duration::from_millis(10)).await;
                    assert_eq!(guard.release().await, Release::Released);
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(LEASE, task).await??;
    }
    assert!(keys(&server).await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_is_the_loss_of_all() -> Test {
    let server = server().await;
    let guard = multi(&server, &["a", "b", "c"]).try_lock().await?;
    let _: i64 = ask(&server, &["DEL", "b"]).await;
    pass(LEASE / 2).await;
    assert_eq!(
        guard.extend(LEASE).await,
        Err(LockError::Lost(LossReason::Gone))
    );
    assert!(keys(&server).await.is_empty(), "the others are given back");
    let thief = locks(&server).mutex("b").build()?.try_lock().await?;
    assert_eq!(guard.release().await, Release::AlreadyLost);
    pass(Duration::from_millis(1)).await;
    assert_eq!(keys(&server).await, ["b"]);
    assert!(thief.is_valid());
    let guard = multi(&server, &["a", "c"]).try_lock().await?;
    let _: i64 = ask(&server, &["DEL", "c"]).await;
    assert_eq!(guard.release().await, Release::AlreadyLost);
    assert_eq!(keys(&server).await, ["b"]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn extension_and_repetition() -> Test {
    let server = server().await;
    let lock = multi(&server, &["a", "b"]);
    drop(lock.try_lock().await?.release().await);
    let fault = server.inject(Disconnect::after_execution().key("b").nth(1));
    let guard = lock.try_lock().await?;
    assert_eq!(fault.fired(), 1);
    guard.extend(LEASE * 2).await?;
    guard.extend(LEASE).await?;
    assert_eq!(
        (server.pttl("a"), server.pttl("b")),
        (Some(LEASE * 2), Some(LEASE * 2))
    );
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

fn fenced(server: &Arc<Server>, keys: &[&str]) -> Lock<Fenced<MultiKey>> {
    let lock = locks(server).multi_key_mutex(keys).unwrap().fenced();
    lock.lease(LEASE).build().unwrap()
}

/// Takes a lock and releases it; returns its fencing token.
async fn fence<K: Kind<Guard = FencedGuard>>(lock: &Lock<K>) -> FencingToken {
    let guard = lock.try_lock().await.unwrap();
    let fence = guard.fencing_token();
    assert_eq!(guard.release().await, Release::Released);
    fence
}

#[tokio::test(start_paused = true)]
async fn fencing_tokens_are_in_order_where_keys_are_shared() -> Test {
    let server = server().await;
    // Ahead of the server's clock, so that nothing but the counters brings order.
    let ahead = "8000000000000000";
    ask::<String>(&server, &["SET", "{b}:fence", ahead, "EX", "90000"]).await;
    let alone = |key: &str| {
        locks(&server)
            .mutex(key)
            .fenced()
            .lease(LEASE)
            .build()
            .unwrap()
    };
    let far = fence(&fenced(&server, &["a", "b"])).await;
    assert_eq!(far.get(), 8_000_000_000_000_001);
    let mut last = far;
    for keys in [&["a", "c"][..], &["c", "d", "e"], &["e"], &["f", "e", "a"]] {
        let next = fence(&fenced(&server, keys)).await;
        assert!(next > last, "{keys:?}: {next} after {last}");
        last = next;
    }
    for key in ["f", "e", "a"] {
        assert!(fence(&alone(key)).await > last, "{key}");
    }
    for key in ["b", "d"] {
        assert!(fence(&alone(key)).await > far, "{key}");
    }
    let last = fence(&alone("c")).await;
    assert!(fence(&fenced(&server, &["z", "c"])).await > last);
    assert!(fence(&alone("y")).await < far, "it has met none of them");
    let nothing = locks(&server).multi_key_mutex([""; 0]).unwrap_err();
    assert_eq!(nothing, LockError::NothingToLock);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_has_the_fencing_token_that_is_stored() -> Test {
    let server = server().await;
    let lock = fenced(&server, &["a", "b"]);
    let before = fence(&lock).await;
    let fault = server.inject(Disconnect::after_execution().key("b").nth(1));
    let guard = lock.try_lock().await?;
    assert_eq!(fault.fired(), 1);
    let stored: String = ask(&server, &["GET", "{a}:fence"]).await;
    assert_eq!(stored, guard.fencing_token().to_string());
    // No time has passed: what was minted first has become of no use.
    assert_eq!(guard.fencing_token().get(), before.get() + 2);
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn fencing_tokens_grow_on_after_a_loss_of_counters() -> Test {
    let server = server().await;
    let lock = fenced(&server, &["a", "b"]);
    let mut last = fence(&lock).await;
    for lost in [
        &["{a}:fence"][..],
        &["{b}:fence"],
        &["{a}:fence", "{b}:fence"],
    ] {
        pass(Duration::from_millis(1)).await;
        let words = [&["DEL"][..], lost].concat();
        ask::<i64>(&server, &words).await;
        let next = fence(&lock).await;
        assert!(next > last, "{lost:?}");
        last = next;
    }
    Ok(())
}

// A repetition that was refused left the keys taken that its first request got.
async fn keeps_no_key_while_it_waits<K: Kind>(server: &Server, lock: Lock<K>) -> Test {
    // The server knows the script then.
    drop(lock.try_lock().await?.into().release().await);
    let lost = server.inject(DropReply::new().key("a").nth(1));
    let waiter = tokio::spawn(async move { lock.lock().await.map(drop) });
    pass(Duration::from_millis(100)).await;
    assert_eq!(lost.fired(), 1);
    assert!(server.exists("a") && server.exists("b"));
    // The second key is evicted, and another client takes it.
    let _: String = ask(server, &["SET", "b", "another"]).await;
    pass(Duration::from_secs(1)).await;
    assert!(!server.exists("a"), "{}", server.history());
    let _: u32 = ask(server, &["DEL", "b"]).await;
    waiter.await??;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_keeps_no_key_that_an_unanswered_request_took() -> Test {
    let server = server().await;
    let lock = || locks(&server).multi_key_mutex(["a", "b"]).unwrap();
    keeps_no_key_while_it_waits(&server, lock().lease(LEASE).build()?).await?;
    pass(Duration::from_millis(100)).await;
    keeps_no_key_while_it_waits(&server, lock().lease(LEASE).fenced().build()?).await
}
