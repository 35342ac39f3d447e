//! Locks of others that use the same scheme: what they send to Redis excludes against what we send, in
//! both directions.

use super::rig::{KEY, LEASE, Test, ask, locks, pass, server};
use redis::Value;
use redouble::Server;
use redouble_lock::{LockError, LossReason, Mutex, Redlock, Release};
use std::{sync::Arc, time::Duration};

const TOKEN: &str = "somebody-else";

/// Compare and delete, as it is written everywhere.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
     return redis.call('del', KEYS[1]) else return 0 end";

/// The same, with success also for a key that is gone.
const LENIENT_RELEASE: &str = "if redis.call('exists', KEYS[1]) == 0 then return 1 end \
     if redis.call('get', KEYS[1]) == ARGV[1] then \
     return redis.call('del', KEYS[1]) else return 0 end";

/// Acquires, or tells how long to wait.
const ACQUIRE_OR_TTL: &str = "if redis.call('exists', KEYS[1]) == 0 then \
     redis.call('set', KEYS[1], ARGV[1]) redis.call('pexpire', KEYS[1], ARGV[2]) return nil end \
     return redis.call('pttl', KEYS[1])";

const RENEW: &str = "if redis.call('exists', KEYS[1]) == 1 and redis.call('get', KEYS[1]) == ARGV[1] \
     then redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end return 0";

const SETNX_AND_PEXPIRE: &str = "if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then \
     redis.call('pexpire', KEYS[1], ARGV[2]) return 1 else return 0 end";

/// A lock of another library: how it is acquired and released, and the reply of each request.
struct Foreign {
    name: &'static str,
    acquire: &'static [&'static str],
    granted: Value,
    release: &'static [&'static str],
}

fn foreigners() -> Vec<Foreign> {
    let eval_release: &[_] = &["EVAL", RELEASE, "1", KEY, TOKEN];
    vec![
        Foreign {
            name: "SET NX PX",
            acquire: &["SET", KEY, TOKEN, "NX", "PX", "30000"],
            granted: Value::Okay,
            release: eval_release,
        },
        Foreign {
            name: "SET NX EX",
            acquire: &["SET", KEY, TOKEN, "NX", "EX", "30"],
            granted: Value::Okay,
            release: &["EVAL", LENIENT_RELEASE, "1", KEY, TOKEN],
        },
        Foreign {
            name: "script that replies the TTL",
            acquire: &["EVAL", ACQUIRE_OR_TTL, "1", KEY, TOKEN, "30000"],
            granted: Value::Nil,
            release: eval_release,
        },
        Foreign {
            name: "SETNX and PEXPIRE in a script",
            acquire: &["EVAL", SETNX_AND_PEXPIRE, "1", KEY, TOKEN, "30000"],
            granted: Value::Int(1),
            release: eval_release,
        },
    ]
}

fn mutex(server: &Arc<Server>) -> Mutex {
    locks(server).mutex(KEY).lease(LEASE).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_foreign_lock_keeps_our_lock_out() -> Test {
    for foreign in foreigners() {
        let server = server().await;
        let lock = mutex(&server);
        let fair = locks(&server).fair_mutex(KEY).lease(LEASE).build()?;
        let fenced = locks(&server).mutex(KEY).fenced().lease(LEASE).build()?;
        let both = locks(&server)
            .multi_key_mutex([KEY, "other"])?
            .lease(LEASE)
            .build()?;
        let writer = locks(&server).rw_lock(KEY).lease(LEASE).build()?;
        assert_eq!(
            ask::<Value>(&server, foreign.acquire).await,
            foreign.granted,
            "{}",
            foreign.name
        );
        for refused in [
            lock.try_lock().await.err(),
            fair.try_lock().await.err(),
            fenced.try_lock().await.err(),
            both.try_lock().await.err(),
            writer.write().try_lock().await.err(),
            writer.read().try_lock().await.err(),
        ] {
            assert_eq!(refused, Some(LockError::Contended), "{}", foreign.name);
        }
        let waiter = tokio::spawn(async move { lock.lock().await });
        pass(Duration::from_secs(2)).await;
        assert_eq!(ask::<i64>(&server, foreign.release).await, 1);
        // No message arrives; the waiter asks again at least every second.
        pass(Duration::from_secs(1)).await;
        assert!(waiter.is_finished(), "{}", foreign.name);
        assert_eq!(waiter.await??.release().await, Release::Released);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn our_lock_keeps_a_foreign_lock_out() -> Test {
    for foreign in foreigners() {
        let server = server().await;
        let guard = mutex(&server).try_lock().await?;
        assert_ne!(
            ask::<Value>(&server, foreign.acquire).await,
            foreign.granted,
            "{}",
            foreign.name
        );
        assert_eq!(
            ask::<i64>(&server, foreign.release).await,
            0,
            "{}",
            foreign.name
        );
        assert_eq!(
            ask::<i64>(&server, &["EVAL", RENEW, "1", KEY, TOKEN, "60000"]).await,
            0
        );
        assert_eq!(server.get(KEY).as_deref(), Some(guard.token().as_bytes()));
        assert_eq!(guard.release().await, Release::Released);
        assert_eq!(
            ask::<Value>(&server, foreign.acquire).await,
            foreign.granted,
            "{}",
            foreign.name
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn neither_lock_frees_or_extends_a_grant_that_the_other_took_after_a_loss() -> Test {
    for foreign in foreigners() {
        let server = server().await;
        let stale = mutex(&server).try_lock().await?;
        let _: i64 = ask(&server, &["DEL", KEY]).await;
        assert_eq!(
            ask::<Value>(&server, foreign.acquire).await,
            foreign.granted
        );
        assert_eq!(
            stale.extend(LEASE * 2).await,
            Err(LockError::Lost(LossReason::Gone))
        );
        assert_eq!(stale.release().await, Release::AlreadyLost);
        assert_eq!(
            server.get(KEY).as_deref(),
            Some(TOKEN.as_bytes()),
            "{}",
            foreign.name
        );
        assert!(server.pttl(KEY).is_some_and(|ttl| ttl <= LEASE));
        // Their lease ends, and their late release meets ours.
        pass(LEASE + Duration::from_millis(1)).await;
        let guard = mutex(&server).try_lock().await?;
        assert_eq!(
            ask::<i64>(&server, foreign.release).await,
            0,
            "{}",
            foreign.name
        );
        assert!(server.exists(KEY));
        assert_eq!(guard.release().await, Release::Released);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_theirs_is_seen_by_our_waiter() -> Test {
    let server = server().await;
    let lock = mutex(&server);
    let begun = tokio::time::Instant::now();
    let _: Value = ask(&server, &["EVAL", ACQUIRE_OR_TTL, "1", KEY, TOKEN, "10000"]).await;
    let waiter = tokio::spawn(async move { lock.lock().await });
    for _ in 0..3 {
        pass(Duration::from_secs(3)).await;
        assert_eq!(
            ask::<i64>(&server, &["EVAL", RENEW, "1", KEY, TOKEN, "10000"]).await,
            1
        );
    }
    // The holder dies right after its third renewal, at 9 s.
    drop(waiter.await??);
    let waited = begun.elapsed();
    assert!(
        waited > Duration::from_secs(19) && waited < Duration::from_millis(19_020),
        "{waited:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn our_redlock_and_a_foreign_one_keep_each_other_out() -> Test {
    let mut servers = Vec::new();
    for _ in 0..5 {
        servers.push(server().await);
    }
    let lock = Redlock::new(servers.iter().map(locks))?
        .mutex(KEY)
        .lease(LEASE)
        .build()?;
    let set = ["SET", KEY, TOKEN, "NX", "PX", "30000"];
    for server in &servers[1..4] {
        assert_eq!(ask::<Value>(server, &set).await, Value::Okay);
    }
    assert_eq!(lock.try_lock().await.unwrap_err(), LockError::Contended);
    for server in &servers {
        let released: i64 = ask(server, &["EVAL", RELEASE, "1", KEY, TOKEN]).await;
        assert!(released <= 1 && !server.exists(KEY));
    }
    let guard = lock.try_lock().await?;
    for server in &servers {
        assert_eq!(ask::<Value>(server, &set).await, Value::Nil);
        assert_eq!(
            ask::<i64>(server, &["EVAL", RELEASE, "1", KEY, TOKEN]).await,
            0
        );
    }
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}
