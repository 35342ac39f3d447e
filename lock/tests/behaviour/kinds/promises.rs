//! The promises that do not depend on the kind.

use super::subject::{Built, KINDS, Make, Subject, Take};
use crate::rig::{Test, ask, keys, locks, pass, real::RealServer, server};
use redouble_lock::{LockError, LockManager, LossReason, Release};
use std::time::Duration;

/// A client: a manager for each node, the servers being the same for all clients.
struct Client(Vec<LockManager>);

/// The same key as two clients see it.
struct Pair<'a> {
    make: Make,
    key: String,
    ours: &'a Client,
    theirs: &'a Client,
    /// A lease that is waited for.
    short: Duration,
}

impl Pair<'_> {
    fn ours(&self, lease: Duration, watchdog: bool) -> Subject {
        (self.make)(&self.ours.0, &self.key, Built { lease, watchdog })
    }

    fn theirs(&self, lease: Duration) -> Subject {
        let watchdog = false;
        (self.make)(&self.theirs.0, &self.key, Built { lease, watchdog })
    }
}

/// A lease longer than any wait of these tests.
const LONG: Duration = Duration::from_secs(60);

async fn one_at_a_time(pair: &Pair<'_>) {
    let (ours, theirs) = (pair.ours(LONG, false), pair.theirs(LONG));
    let guard = ours.take(Take::Try).await.unwrap();
    assert!(guard.is_valid() && guard.remaining() < LONG);
    let refused = theirs.take(Take::Try).await.unwrap_err();
    assert_eq!(refused, LockError::Contended);
    let waited = theirs.take(Take::AtMost(pair.short)).await.unwrap_err();
    assert!(waited.is_timed_out(), "{waited}");
    guard.extend(LONG * 2).await.unwrap();
    assert!(guard.remaining() > LONG);
    assert_eq!(guard.release().await, Release::Released);
    let next = theirs.take(Take::Try).await.unwrap();
    assert_eq!(next.release().await, Release::Released);
}

async fn a_lost_lease_stays_lost(pair: &Pair<'_>) {
    let (ours, theirs) = (pair.ours(pair.short, false), pair.theirs(LONG));
    let stale = ours.take(Take::Try).await.unwrap();
    assert_eq!(stale.lost().await, LossReason::Expired);
    assert!(!stale.is_valid());
    assert_eq!(stale.remaining(), Duration::ZERO);
    let next = theirs.take(Take::AtMost(LONG)).await.unwrap();
    let late = stale.extend(pair.short).await;
    assert_eq!(late, Err(LockError::Lost(LossReason::Expired)));
    assert_eq!(stale.release().await, Release::AlreadyLost);
    let refused = ours.take(Take::Try).await.unwrap_err();
    assert_eq!(refused, LockError::Contended);
    assert!(next.is_valid());
    assert_eq!(next.release().await, Release::Released);
}

async fn a_release_wakes_who_waits(pair: &Pair<'_>) {
    let guard = pair.ours(LONG, false).take(Take::Try).await.unwrap();
    let waiter = pair.theirs(LONG);
    let waiter = tokio::spawn(async move { waiter.take(Take::AtMost(LONG / 2)).await });
    pass(pair.short).await;
    assert!(!waiter.is_finished());
    assert_eq!(guard.release().await, Release::Released);
    // Far sooner than the lease would have ended, so a message woke it.
    let next = waiter.await.unwrap().unwrap();
    // A dropped guard does the same in the background.
    let waiter = pair.ours(LONG, false);
    let waiter = tokio::spawn(async move { waiter.take(Take::AtMost(LONG / 2)).await });
    pass(pair.short).await;
    drop(next);
    let last = waiter.await.unwrap().unwrap();
    assert_eq!(last.release().await, Release::Released);
}

async fn a_watchdog_outlasts_the_lease(pair: &Pair<'_>) {
    let guard = pair.ours(pair.short, true).take(Take::Wait).await.unwrap();
    tokio::select! {
        reason = guard.lost() => panic!("{reason}"),
        () = pass(pair.short * 3) => {}
    }
    let theirs = pair.theirs(LONG);
    let refused = theirs.take(Take::Try).await.unwrap_err();
    assert_eq!(refused, LockError::Contended);
    assert_eq!(guard.release().await, Release::Released);
    let next = theirs.take(Take::Try).await.unwrap();
    assert_eq!(next.release().await, Release::Released);
}

async fn all(pair: &Pair<'_>) {
    one_at_a_time(pair).await;
    a_lost_lease_stays_lost(pair).await;
    a_release_wakes_who_waits(pair).await;
    a_watchdog_outlasts_the_lease(pair).await;
    one_at_a_time(pair).await;
}

/// What may stay: the counters of fencing tokens.
fn left(mut keys: Vec<String>) -> Vec<String> {
    keys.retain(|key| !key.ends_with(":fence"));
    keys
}

#[tokio::test(start_paused = true)]
async fn on_the_double() -> Test {
    for (name, make) in KINDS {
        eprintln!("{name}");
        let servers = [server().await, server().await, server().await];
        let (ours, theirs) = (
            Client(servers.iter().map(locks).collect()),
            Client(servers.iter().map(locks).collect()),
        );
        let pair = Pair {
            make,
            key: "coupon:7".into(),
            ours: &ours,
            theirs: &theirs,
            short: Duration::from_secs(10),
        };
        all(&pair).await;
        // As after a restart: no server knows a script any more.
        for server in &servers {
            let _: () = ask(server, &["SCRIPT", "FLUSH"]).await;
        }
        one_at_a_time(&pair).await;
        for server in &servers {
            assert!(left(keys(server).await).is_empty(), "{}", server.history());
        }
    }
    Ok(())
}

#[tokio::test]
async fn on_a_real_server() -> Test {
    let mut servers = Vec::new();
    for _ in 0..3 {
        match RealServer::start().await {
            Some(server) => servers.push(server),
            None => return Ok(()),
        }
    }
    // With pushes on the one connection, and with a second one for subscriptions.
    let mut clients = Vec::new();
    for query in ["?protocol=resp3", ""] {
        let mut managers = Vec::new();
        for server in &servers {
            managers.push(LockManager::from_client(server.client(query)).await?);
        }
        clients.push(Client(managers));
    }
    let clients = std::sync::Arc::new(clients);
    let kinds = KINDS.map(|(name, make)| {
        let clients = std::sync::Arc::clone(&clients);
        tokio::spawn(async move {
            all(&Pair {
                make,
                key: name.into(),
                ours: &clients[0],
                theirs: &clients[1],
                short: Duration::from_millis(500),
            })
            .await;
        })
    });
    for kind in kinds {
        kind.await?;
    }
    for server in &servers {
        let mut redis = server.client("").get_multiplexed_async_connection().await?;
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(&mut redis).await?;
        assert_eq!(left(keys), [""; 0]);
    }
    Ok(())
}
