//! Commands that fail inside a script: no lock is left behind. On the double, whose users may not use all commands.

use super::rig::{KEY, LEASE, Test, ask, locks, pass, server};
use redouble::Server;
use redouble_lock::{LockError, NodeErrorKind};
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

/// Writes of keys since that many entries of the history.
fn writes(server: &Server, name: &str) -> usize {
    let history = server.history().to_string();
    history.lines().filter(|line| line.contains(name)).count()
}

// The lock was written before the server's clock was read: it stood for a lease.
#[tokio::test(start_paused = true)]
async fn a_user_without_a_clock_gets_an_error_and_leaves_no_lock() -> Test {
    let server = server().await;
    forbid(&server, "time").await;
    let locks = locks(&server);
    let wait = Duration::from_secs(1);
    let outcomes = [
        locks
            .mutex(KEY)
            .fenced()
            .lease(LEASE)
            .build()?
            .lock_timeout(wait)
            .await
            .map(drop),
        locks
            .fair_mutex(KEY)
            .fenced()
            .lease(LEASE)
            .build()?
            .lock_timeout(wait)
            .await
            .map(drop),
        locks
            .multi_key_mutex([KEY, "b"])?
            .fenced()
            .lease(LEASE)
            .build()?
            .lock_timeout(wait)
            .await
            .map(drop),
        locks
            .rw_lock(KEY)
            .fenced()
            .lease(LEASE)
            .build()?
            .write()
            .lock_timeout(wait)
            .await
            .map(drop),
        locks
            .rw_lock(KEY)
            .lease(LEASE)
            .build()?
            .read()
            .lock_timeout(wait)
            .await
            .map(drop),
        locks
            .semaphore(KEY, 1)
            .lease(LEASE)
            .build()?
            .permits(1)?
            .lock_timeout(wait)
            .await
            .map(drop),
    ];
    for outcome in outcomes {
        assert!(
            !server.exists(KEY) && !server.exists("b"),
            "{}",
            server.history()
        );
        let error = outcome.unwrap_err();
        let is_known = matches!(&error, LockError::Redis(_) | LockError::Unknown(_));
        assert!(is_known, "{error:?}");
    }
    assert_eq!(writes(&server, "SET coupon"), 0);
    Ok(())
}

// The answer was taken for a refusal before the execution: a reader stood for good, without a time to live.
#[tokio::test(start_paused = true)]
async fn what_a_script_wrote_before_it_failed_is_removed() -> Test {
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
async fn what_has_no_end_is_not_counted() -> Test {
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
