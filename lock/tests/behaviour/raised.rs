//! Commands that fail inside a script: no lock is left behind. On the double, whose users may not use all commands.

use super::rig::{KEY, LEASE, Test, ask, keys, locks, pass, server};
use redouble::Server;
use redouble_lock::{LockError, LockManager, NodeErrorKind};
use std::{sync::Arc, time::Duration};

async fn forbid(server: &Arc<Server>, command: &str) {
    let rule = format!("-{command}");
    ask::<String>(server, &["ACL", "SETUSER", "default", &rule]).await;
}

fn is_raised(error: &LockError) -> bool {
    let LockError::Redis(error) = error else {
        return false;
    };
    matches!(error.kind(), NodeErrorKind::RaisedInScript { code } if code == "ERR")
}

/// Asks for a lock of each kind whose script reads the server's clock.
async fn ask_for_each_kind(locks: &LockManager) -> Result<[LockError; 6], LockError> {
    let wait = Duration::from_secs(1);
    let mutex = locks.mutex(KEY).fenced().lease(LEASE).build()?;
    let fair = locks.fair_mutex(KEY).fenced().lease(LEASE).build()?;
    let multi = locks.multi_key_mutex([KEY, "b"])?.fenced();
    let multi = multi.lease(LEASE).build()?;
    let fenced = locks.rw_lock(KEY).fenced().lease(LEASE).build()?;
    let readers = locks.rw_lock(KEY).lease(LEASE).build()?;
    let semaphore = locks.semaphore(KEY, 1).lease(LEASE).build()?;
    Ok([
        mutex.lock_timeout(wait).await.map(drop).unwrap_err(),
        fair.lock_timeout(wait).await.map(drop).unwrap_err(),
        multi.lock_timeout(wait).await.map(drop).unwrap_err(),
        fenced
            .write()
            .lock_timeout(wait)
            .await
            .map(drop)
            .unwrap_err(),
        readers
            .read()
            .lock_timeout(wait)
            .await
            .map(drop)
            .unwrap_err(),
        semaphore
            .permits(1)?
            .lock_timeout(wait)
            .await
            .map(drop)
            .unwrap_err(),
    ])
}

// The lock was written before the server's clock was read: it stood for a lease.
#[tokio::test(start_paused = true)]
async fn a_user_without_a_clock_gets_an_error_and_leaves_no_lock() -> Test {
    let server = server().await;
    forbid(&server, "time").await;
    for error in ask_for_each_kind(&locks(&server)).await? {
        let is_known = matches!(&error, LockError::Redis(_) | LockError::Unknown(_));
        assert!(is_known, "{error:?}");
    }
    assert_eq!(keys(&server).await, [""; 0], "{}", server.history());
    Ok(())
}

/// The release of such a lock cannot hide what the script has written: it may not delete anything.
#[tokio::test(start_paused = true)]
async fn a_script_reads_the_clock_before_it_writes() -> Test {
    let server = server().await;
    for command in ["time", "del", "zrem"] {
        forbid(&server, command).await;
    }
    ask_for_each_kind(&locks(&server)).await?;
    assert_eq!(keys(&server).await, [""; 0], "{}", server.history());
    Ok(())
}

/// A lock whose last fencing token cannot be read is not taken.
#[tokio::test(start_paused = true)]
async fn a_script_mints_before_it_takes_the_lock() -> Test {
    let server = server().await;
    forbid(&server, "del").await;
    for fence in ["{coupon:7}:fence", "{b}:fence"] {
        ask::<i64>(&server, &["RPUSH", fence, "no number"]).await;
    }
    let locks = locks(&server);
    let mutex = locks.mutex(KEY).fenced().build()?;
    let fair = locks.fair_mutex(KEY).fenced().build()?;
    let multi = locks.multi_key_mutex([KEY, "b"])?.fenced().build()?;
    let read_write = locks.rw_lock(KEY).fenced().build()?;
    let outcomes = [
        mutex.try_lock().await.map(drop),
        fair.try_lock().await.map(drop),
        multi.try_lock().await.map(drop),
        read_write.write().try_lock().await.map(drop),
    ];
    for outcome in outcomes {
        assert!(outcome.is_err());
    }
    assert!(!server.exists(KEY), "{}", server.history());
    assert!(!server.exists("b"), "{}", server.history());
    Ok(())
}

// The answer was taken for a refusal before the execution: a reader stood for good, without a time to live.
#[tokio::test(start_paused = true)]
async fn a_reader_that_a_script_stored_before_it_failed_is_removed() -> Test {
    let server = server().await;
    forbid(&server, "pexpireat").await;
    let lock = locks(&server).rw_lock(KEY).lease(LEASE).build()?;
    let error = lock.read().try_lock().await.unwrap_err();
    assert!(is_raised(&error), "{error:?}");
    pass(Duration::from_millis(1)).await;
    assert!(!server.exists("{coupon:7}:readers"), "{}", server.history());
    Ok(())
}

// The counter stood without a time to live, and so did a latch.
#[tokio::test(start_paused = true)]
async fn a_script_does_not_count_if_it_cannot_set_an_expiry() -> Test {
    let server = server().await;
    forbid(&server, "pexpire").await;
    let locks = locks(&server);
    let latch = locks.count_down_latch(KEY);
    assert!(latch.set_count(2).await.is_err());
    assert!(!server.exists(KEY), "{}", server.history());
    let named = locks.admission("named", 9).expires(LEASE);
    assert!(named.enter_as("me").await.is_err());
    assert_ne!(server.get("named").as_deref(), Some(&b"1"[..]));
    assert!(server.ttl("named").is_some());
    // This one needs no such right.
    assert!(
        locks
            .admission("plain", 9)
            .expires(LEASE)
            .enter()
            .await
            .is_ok()
    );
    assert!(server.ttl("plain").is_some());
    Ok(())
}
