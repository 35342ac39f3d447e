//! Early loss: another client changes the key. On the double, and on a real server where there is one.

use super::rig::{KEY, LEASE, Test, ask, locks, pass, real::RealServer, server};
use redouble::Server;
use redouble_lock::{LockError, LockManager, LossReason, NodeErrorKind, Redlock, Release};
use std::time::Duration;
use tokio::time::Instant;

/// Runs on every server. `redis` is the connection of another client.
async fn the_loss_is_told_at_once(
    locks: &LockManager,
    redis: &mut impl redis::AsyncCommands,
) -> Test {
    let lock = locks
        .mutex(KEY)
        .fenced()
        .lease(LEASE)
        .track_key(true)
        .build()?;
    let guard = lock.try_lock().await?;
    // What the holder does itself, and what changes nothing that matters.
    guard.extend(LEASE * 2).await?;
    let _: bool = redis.pexpire(KEY, 100_000).await?;
    guard.extend(LEASE * 4).await?;
    pass(Duration::from_millis(50)).await;
    assert!(guard.is_valid());
    let _: bool = redis.pexpire(KEY, 200_000).await?;
    pass(Duration::from_millis(50)).await;
    assert!(guard.is_valid());

    let begun = Instant::now();
    let _: i64 = redis.del(KEY).await?;
    assert_eq!(guard.lost().await, LossReason::Gone);
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );

    let guard = lock.try_lock().await?;
    let _: () = redis.set(KEY, "another one").await?;
    assert_eq!(guard.lost().await, LossReason::Gone);
    assert_eq!(guard.release().await, Release::AlreadyLost);
    let _: i64 = redis.del(KEY).await?;

    let guard = lock.try_lock().await?;
    let _: () = redis.flushdb().await?;
    assert_eq!(guard.lost().await, LossReason::Gone);
    assert!(begun.elapsed() < LEASE / 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_loss_is_told_at_once_on_the_double() -> Test {
    let server = server().await;
    the_loss_is_told_at_once(&locks(&server), &mut server.connection().await?).await
}

#[tokio::test]
async fn the_loss_is_told_at_once_on_a_real_server() -> Test {
    let Some(server) = RealServer::start().await else {
        return Ok(());
    };
    let locks = LockManager::from_client(server.client("?protocol=resp3")).await?;
    let mut redis = server.client("").get_multiplexed_async_connection().await?;
    the_loss_is_told_at_once(&locks, &mut redis).await
}

#[tokio::test(start_paused = true)]
async fn own_extensions_cost_nothing_more() -> Test {
    let server = server().await;
    let lock = locks(&server)
        .mutex(KEY)
        .lease(LEASE)
        .watchdog(true)
        .track_key(true)
        .build()?;
    // The first use of the connection and of the scripts.
    assert_eq!(lock.try_lock().await?.release().await, Release::Released);
    let scripts = async || -> u64 {
        let stats: String = ask(&server, &["INFO", "commandstats"]).await;
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let count = line.unwrap().split(',').next().unwrap();
        count.parse().unwrap()
    };
    let before = scripts().await;
    let guard = lock.try_lock().await?;
    for _ in 0..3 {
        guard.extend(LEASE * 2).await?;
        pass(Duration::from_secs(1)).await;
    }
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(
        scripts().await - before,
        5,
        "nothing asks whether it stands"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_told_also_after_its_connection_was_lost() -> Test {
    let server = server().await;
    let locks = locks(&server);
    let lock = locks.mutex(KEY).lease(LEASE).track_key(true).build()?;
    let guard = lock.try_lock().await?;
    for _ in 0..3 {
        let _: i64 = ask(
            &server,
            &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
        )
        .await;
        pass(Duration::from_secs(2)).await;
        assert!(guard.is_valid());
    }
    let begun = Instant::now();
    let _: i64 = ask(&server, &["DEL", KEY]).await;
    assert_eq!(guard.lost().await, LossReason::Gone);
    assert!(
        begun.elapsed() < Duration::from_millis(100),
        "{}",
        server.history()
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_node_of_several_may_lose_its_key() -> Test {
    let servers = [server().await, server().await, server().await];
    let redlock = Redlock::new(servers.iter().map(locks))?;
    let lock = redlock.mutex(KEY).lease(LEASE).track_key(true).build()?;
    let guard = lock.try_lock().await?;
    let _: i64 = ask(&servers[1], &["DEL", KEY]).await;
    pass(Duration::from_secs(1)).await;
    assert!(guard.is_valid(), "two of three still have it");
    let _: i64 = ask(&servers[2], &["DEL", KEY]).await;
    let begun = Instant::now();
    guard.lost().await;
    assert!(begun.elapsed() < LEASE / 2);
    Ok(())
}

#[tokio::test]
async fn without_pushes_a_key_cannot_be_tracked() -> Test {
    let server = Server::start().await?;
    let locks = LockManager::from_client(redis::Client::open(server.url())?).await?;
    let error = locks
        .mutex(KEY)
        .track_key(true)
        .build()?
        .try_lock()
        .await
        .unwrap_err();
    let LockError::Redis(error) = error else {
        panic!("{error}");
    };
    assert_eq!(*error.kind(), NodeErrorKind::Client);
    assert!(!server.exists(KEY));
    Ok(())
}
