//! Cluster connections: they dial and route by themselves, and send a request again when a connection ends. A
//! request that was executed and is sent again must not count twice, nor be mistaken for another one's.
//! Over sockets, in real time; no assertion depends on it.

use redis::{cluster::ClusterClient, cluster_async::ClusterConnection};
use redouble::{Deployment, FaultGuard, fault::Disconnect};
use redouble_lock::{Admission, Guard, Kind, Lock, LockBuilder, LockManager, Release};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

type Test = Result<(), Box<dyn std::error::Error>>;

const KEY: &str = "coupon:7";
const MASTERS: [&str; 3] = ["master-1", "master-2", "master-3"];
/// Far more than a request takes, so that a loaded machine is not taken for a silent one.
const PATIENCE: Duration = Duration::from_secs(20);

async fn connection(cluster: &Deployment, retries: u32) -> ClusterConnection {
    let client = ClusterClient::builder(vec![cluster[MASTERS[0]].url()]).retries(retries);
    let client = client.response_timeout(PATIENCE).build().unwrap();
    client.get_async_connection().await.unwrap()
}

/// Has every master end the connection after the `n`-th request for `key` (from 1) has been executed, instead of
/// answering it.
fn lose_reply(cluster: &Deployment, key: &str, n: u64) -> Vec<impl Drop + use<>> {
    let pattern = format!("*{key}*");
    let lose = || Disconnect::after_execution().key(&pattern).nth(n);
    MASTERS.map(|name| cluster[name].inject(lose())).into()
}

/// What is stored for `key`, as text.
async fn stored(connection: &mut ClusterConnection, key: &str) -> Option<String> {
    let mut get = redis::cmd("GET");
    get.arg(key).query_async(connection).await.unwrap()
}

/// Takes a lock and gives it back, while the reply to request number `n` for it is lost.
async fn take_and_give_back(cluster: &Deployment, locks: &LockManager, key: &str, n: u64) {
    let fault = lose_reply(cluster, key, n);
    let lock = locks.mutex(key).reply_timeout(PATIENCE).build().unwrap();
    let guard = lock.try_lock().await.unwrap();
    guard.extend(Duration::from_secs(60)).await.unwrap();
    assert_eq!(guard.release().await, Release::Released, "{key}");
    drop(fault);
    let again = lock.try_lock().await.unwrap();
    assert_eq!(again.release().await, Release::Released);
    let fenced = locks
        .mutex(key)
        .fenced()
        .reply_timeout(PATIENCE)
        .build()
        .unwrap();
    let fault = lose_reply(cluster, key, n);
    let first = fenced.try_lock().await.unwrap();
    let fence = first.fencing_token();
    assert_eq!(first.release().await, Release::Released, "{key}");
    drop(fault);
    let second = fenced.try_lock().await.unwrap();
    assert!(second.fencing_token() > fence);
    assert_eq!(second.release().await, Release::Released);
}

#[tokio::test]
async fn a_request_that_is_sent_again_finds_its_own_grant_and_its_own_release() -> Test {
    let cluster = Deployment::cluster(3, 0).await?;
    let locks = LockManager::new(connection(&cluster, 16).await);
    for n in 1..=4 {
        take_and_give_back(&cluster, &locks, KEY, n).await;
    }
    Ok(())
}

fn patient<K>(lock: LockBuilder<K>) -> LockBuilder<K> {
    lock.reply_timeout(PATIENCE)
}

/// Takes and gives back a lock of any kind.
async fn goes_round<K: Kind>(lock: &Lock<K>, seed: u64) {
    let granted = lock.try_lock().await;
    let guard: Guard = granted.unwrap_or_else(|it| panic!("{seed}: {it}")).into();
    guard.extend(Duration::from_secs(60)).await.unwrap();
    assert_eq!(guard.release().await, Release::Released, "seed {seed}");
}

#[tokio::test]
async fn a_manager_of_a_cluster_connects_by_itself_and_is_woken() -> Test {
    let cluster = Deployment::cluster(3, 0).await?;
    let nodes = ClusterClient::builder(vec![cluster[MASTERS[0]].url()]);
    let locks = LockManager::from_cluster(nodes).await?;
    for key in ["coupon:1", "coupon:2", "coupon:3"] {
        let lock = locks.mutex(key).reply_timeout(PATIENCE).build()?;
        let guard = lock.try_lock().await?;
        let waits = tokio::spawn({
            let lock = lock.clone();
            async move { lock.lock().await.map(drop) }
        });
        while locks.queue_length(key).await? == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(guard.release().await, Release::Released);
        waits.await??;
    }
    Ok(())
}

/// Each kind of lock, with replies lost at all places of its life.
#[tokio::test]
async fn a_thousand_seeds_with_lost_replies() -> Test {
    let cluster = Deployment::cluster(3, 0).await?;
    let locks = LockManager::new(connection(&cluster, 16).await);
    for seed in 0..1_000 {
        let key = format!("{{coupon:{seed}}}");
        let pattern = format!("*{key}*");
        let (period, offset) = (2 + seed % 5, seed / 5 % 4);
        let lose = || Disconnect::after_execution().key(&pattern);
        let lose = || lose().after(offset + 1).every(period);
        let fault = MASTERS.map(|name| cluster[name].inject(lose()));
        match seed % 9 {
            0 | 1 => goes_round(&patient(locks.mutex(&key)).build()?, seed).await,
            2 => goes_round(&patient(locks.mutex(&key).fenced()).build()?, seed).await,
            3 => goes_round(&patient(locks.fair_mutex(&key).fenced()).build()?, seed).await,
            4 => goes_round(patient(locks.rw_lock(&key)).build()?.read(), seed).await,
            5 => goes_round(patient(locks.rw_lock(&key).fenced()).build()?.write(), seed).await,
            6 => {
                goes_round(
                    &patient(locks.semaphore(&key, 2)).build()?.permits(2)?,
                    seed,
                )
                .await
            }
            7 => {
                let keys = [&key, &format!("{key}:b")];
                goes_round(
                    &patient(locks.multi_key_mutex(keys)?.fenced()).build()?,
                    seed,
                )
                .await;
            }
            _ => {
                let told = patient(locks.mutex(&key)).metadata("worker 1").build()?;
                goes_round(&told, seed).await;
            }
        }
        drop(fault);
    }
    Ok(())
}

/// Takes a lock twice, and says so while it holds it.
async fn takes_turns<K: Kind>(lock: &Lock<K>, holders: &AtomicU32, seed: u64) {
    for _ in 0..2 {
        let granted = lock.lock().await;
        let guard: Guard = granted.unwrap_or_else(|it| panic!("{seed}: {it}")).into();
        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "seed {seed}");
        tokio::task::yield_now().await;
        holders.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(guard.release().await, Release::Released, "seed {seed}");
    }
}

/// Two clients contend while replies are lost at all places: at most one of them holds the lock, and both get it.
#[tokio::test]
async fn two_clients_contend_for_a_thousand_seeds_with_lost_replies() -> Test {
    let cluster = Deployment::cluster(3, 0).await?;
    let first = LockManager::new(connection(&cluster, 16).await);
    let second = LockManager::new(connection(&cluster, 16).await);
    let holders = AtomicU32::new(0);
    let mut lost = 0;
    for seed in 0..1_000 {
        let key = format!("{{coupon:{seed}}}");
        let pattern = format!("*{key}*");
        let (period, offset) = (2 + seed % 7, seed / 7 % 5);
        let lose = || Disconnect::after_execution().key(&pattern);
        let lose = || lose().after(offset + 1).every(period);
        let fault = MASTERS.map(|name| cluster[name].inject(lose()));
        let mutex = |locks: &LockManager| patient(locks.mutex(&key)).build();
        let fair = |locks: &LockManager| patient(locks.fair_mutex(&key)).build();
        let write = |locks: &LockManager| patient(locks.rw_lock(&key).fenced()).build();
        match seed % 3 {
            0 => {
                let (one, other) = (mutex(&first)?, mutex(&second)?);
                tokio::join!(
                    takes_turns(&one, &holders, seed),
                    takes_turns(&other, &holders, seed)
                );
            }
            1 => {
                let (one, other) = (fair(&first)?, fair(&second)?);
                tokio::join!(
                    takes_turns(&one, &holders, seed),
                    takes_turns(&other, &holders, seed)
                );
            }
            _ => {
                let (one, other) = (write(&first)?, write(&second)?);
                tokio::join!(
                    takes_turns(one.write(), &holders, seed),
                    takes_turns(other.write(), &holders, seed)
                );
            }
        }
        lost += fault.iter().map(FaultGuard::fired).sum::<u64>();
    }
    assert!(lost > 1_000, "{lost} replies were lost");
    Ok(())
}

#[tokio::test]
async fn a_lock_that_is_gone_is_lost_all_the_same() -> Test {
    let cluster = Deployment::cluster(3, 0).await?;
    let mut other = connection(&cluster, 16).await;
    let locks = LockManager::new(other.clone());
    let guard = locks.mutex(KEY).reply_timeout(PATIENCE).build()?;
    let guard = guard.try_lock().await?;
    let mut delete = redis::cmd("DEL");
    let _: i64 = delete.arg(KEY).query_async(&mut other).await?;
    let fault = lose_reply(&cluster, KEY, 1);
    assert_eq!(guard.release().await, Release::AlreadyLost);
    drop(fault);
    Ok(())
}

#[tokio::test]
async fn a_request_whose_reply_is_lost_counts_once_on_a_cluster() -> Test {
    let cluster = Deployment::cluster(3, 0).await?;
    let mut look = connection(&cluster, 16).await;
    let locks = LockManager::new(look.clone());
    let admission = |key: &str| -> Admission { locks.admission(key, 10).reply_timeout(PATIENCE) };
    for n in 1..=2 {
        let key = format!("envelopes:{n}");
        let fault = lose_reply(&cluster, &key, n);
        assert_eq!(admission(&key).enter().await?, Some(1));
        assert_eq!(admission(&key).enter().await?, Some(2));
        drop(fault);
        assert_eq!(stored(&mut look, &key).await.as_deref(), Some("2"));

        let key = format!("brief:{n}");
        let fault = lose_reply(&cluster, &key, n);
        let brief = admission(&key).expires(PATIENCE);
        assert_eq!(brief.enter().await?, Some(1));
        assert_eq!(brief.enter().await?, Some(2));
        drop(fault);

        let key = format!("tickets:{n}");
        let tickets = locks.stock(&key).reply_timeout(PATIENCE);
        let fault = lose_reply(&cluster, &key, n);
        assert!(tickets.fill(3, PATIENCE).await?);
        assert_eq!(tickets.take().await?, Some(2));
        drop(fault);
        let fault = lose_reply(&cluster, &key, n);
        assert_eq!(tickets.take().await?, Some(1));
        assert_eq!(tickets.take().await?, Some(0));
        assert_eq!(tickets.take().await?, None);
        drop(fault);
    }
    Ok(())
}

#[tokio::test]
async fn an_operator_learns_that_the_lock_was_taken_away() -> Test {
    let cluster = Deployment::cluster(3, 0).await?;
    let locks = LockManager::new(connection(&cluster, 16).await);
    let lock = locks.mutex(KEY).reply_timeout(PATIENCE).build()?;
    // The first request for a script finds that the node does not know it.
    for n in [2, 1] {
        let guard = lock.try_lock().await?;
        let fault = lose_reply(&cluster, KEY, n);
        assert!(locks.force_unlock(KEY, guard.token().as_bytes()).await?);
        drop(fault);
        assert!(!locks.force_unlock(KEY, guard.token().as_bytes()).await?);
    }
    Ok(())
}

/// A connection that may not repeat anything does not follow redirects either.
#[tokio::test]
async fn a_redirect_that_the_connection_does_not_follow_was_not_executed() -> Test {
    let cluster = Deployment::cluster(3, 0).await?;
    let locks = LockManager::new(connection(&cluster, 0).await);
    let lock = locks.mutex(KEY).reply_timeout(PATIENCE).build()?;
    let slot = Deployment::slot_of(KEY);
    let owner = || MASTERS.iter().find(|name| cluster[**name].exists(KEY));
    let mut guard = lock.try_lock().await?;
    for _ in 0..3 {
        let from = *owner().ok_or("the lock is nowhere")?;
        let to = MASTERS.iter().find(|name| **name != from).ok_or("none")?;
        cluster.move_slot(slot, to);
        guard.extend(PATIENCE).await?;
        cluster.move_slot(slot, from);
        assert_eq!(guard.release().await, Release::Released);
        cluster.move_slot(slot, to);
        guard = lock.try_lock().await?;
    }
    assert_eq!(guard.release().await, Release::Released);
    Ok(())
}
