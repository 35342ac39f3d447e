//! Re-entry on the test double, in virtual time.

use super::rig::{KEY, LEASE, Test, ask, locks, pass, server};
use redouble::fault::Disconnect;
use redouble_lock::{LockError, LockManager, LossReason, Metrics, ReentrantMutex, Release};
use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

fn owner(server: &Arc<redouble::Server>) -> ReentrantMutex {
    locks(server)
        .mutex(KEY)
        .lease(LEASE)
        .build()
        .unwrap()
        .owner()
}

#[tokio::test(start_paused = true)]
async fn as_many_releases_as_acquisitions_free_it() -> Test {
    let server = server().await;
    let lock = locks(&server).mutex(KEY).lease(LEASE).build()?;
    let (owner, other) = (lock.owner(), lock.owner());
    let mut guards = Vec::new();
    for level in 1..=5 {
        guards.push(owner.lock().await?);
        assert_eq!(owner.levels(), level);
        assert_eq!(other.try_lock().await.unwrap_err(), LockError::Contended);
        assert_eq!(lock.try_lock().await.unwrap_err(), LockError::Contended);
    }
    let token = *guards[0].token();
    assert_eq!(server.get(KEY).as_deref(), Some(token.as_bytes()));
    // In any order.
    guards.swap(0, 3);
    while let Some(guard) = guards.pop() {
        assert_eq!(guard.token(), &token);
        let last = guards.is_empty();
        let expected = if last {
            Release::Released
        } else {
            Release::StillHeld
        };
        assert_eq!(guard.release().await, expected);
        assert_eq!(server.exists(KEY), !last);
    }
    assert_eq!(owner.levels(), 0);
    assert_eq!(other.try_lock().await?.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn re_entry_gives_the_whole_lease_and_never_shortens_it() -> Test {
    let server = server().await;
    let owner = owner(&server);
    let outer = owner.lock().await?;
    pass(LEASE / 2).await;
    let inner = owner.try_lock().await?;
    assert_eq!(server.pttl(KEY), Some(LEASE));
    outer.extend(LEASE * 4).await?;
    let innermost = owner.try_lock().await?;
    assert_eq!(server.pttl(KEY), Some(LEASE * 4));
    assert_eq!(innermost.release().await, Release::StillHeld);
    assert_eq!(inner.release().await, Release::StillHeld);
    assert_eq!(server.pttl(KEY), Some(LEASE * 4));
    assert_eq!(outer.release().await, Release::Released);
    Ok(())
}

/// An inner release said that the lock was gone, because its deadline was over, while Redis still had it.
#[tokio::test(start_paused = true)]
async fn the_first_task_to_leave_after_the_deadline_releases_the_rest() -> Test {
    let server = server().await;
    let owner = owner(&server);
    let (outer, inner) = (owner.lock().await?, owner.lock().await?);
    pass(outer.remaining()).await;
    assert_eq!(owner.levels(), 0);
    assert!(server.exists(KEY));
    assert_eq!(inner.release().await, Release::Released);
    assert!(!server.exists(KEY));
    assert_eq!(outer.release().await, Release::AlreadyLost);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_the_grant_is_the_loss_of_all_its_guards() -> Test {
    let server = server().await;
    let owner = owner(&server);
    let (outer, inner) = (owner.lock().await?, owner.lock().await?);
    let _: i64 = ask(&server, &["DEL", KEY]).await;
    // The re-entry finds that nothing is left, and what it returns is a new grant.
    let new = owner.try_lock().await?;
    assert_ne!(new.token(), outer.token());
    assert_eq!(outer.lost().await, LossReason::Gone);
    assert_eq!(inner.lost().await, LossReason::Gone);
    assert_eq!(owner.levels(), 1);
    assert_eq!(inner.release().await, Release::AlreadyLost);
    assert_eq!(outer.release().await, Release::AlreadyLost);
    assert!(new.is_valid());
    assert_eq!(server.get(KEY).as_deref(), Some(new.token().as_bytes()));
    assert_eq!(new.release().await, Release::Released);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_resent_re_entry_counts_once() -> Test {
    for executed in [false, true] {
        let server = server().await;
        let owner = owner(&server);
        let outer = owner.lock().await?;
        let rule = match executed {
            true => Disconnect::after_execution(),
            false => Disconnect::before_execution(),
        };
        let fault = server.inject(rule.key(KEY).nth(1));
        let inner = owner.lock().await?;
        assert_eq!(fault.fired(), 1);
        assert_eq!(outer.release().await, Release::StillHeld);
        assert_eq!(inner.release().await, Release::Released);
        assert!(!server.exists(KEY));
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn tasks_with_the_same_owner_enter_together() -> Test {
    let server = server().await;
    let lock = locks(&server).mutex(KEY).lease(LEASE).build()?;
    let stranger = lock.lock().await?;
    let owner = lock.owner();
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let owner = owner.clone();
            tokio::spawn(async move { owner.lock().await.unwrap() })
        })
        .collect();
    pass(Duration::from_secs(1)).await;
    assert_eq!(stranger.release().await, Release::Released);
    let begun = Instant::now();
    let mut guards = Vec::new();
    for waiter in waiters {
        guards.push(waiter.await?);
    }
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(owner.levels(), 4);
    assert!(
        guards
            .iter()
            .all(|guard| guard.token() == guards[0].token())
    );
    drop(guards);
    pass(Duration::from_millis(1)).await;
    assert!(!server.exists(KEY), "{}", server.history());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn levels_of_a_fenced_lock_have_one_fencing_token() -> Test {
    let server = server().await;
    let owner = locks(&server)
        .mutex(KEY)
        .fenced()
        .lease(LEASE)
        .build()?
        .owner();
    let outer = owner.lock().await?;
    let inner = owner.lock().await?;
    assert_eq!(inner.fencing_token(), outer.fencing_token());
    let fence = outer.fencing_token();
    drop((outer, inner));
    pass(Duration::from_millis(1)).await;
    assert!(owner.lock().await?.fencing_token() > fence);
    Ok(())
}

/// Holds up each call that was granted a lock until another one was as well.
#[derive(Default)]
struct TwoAtOnce(Mutex<u32>, Condvar);

impl Metrics for TwoAtOnce {
    fn granted(&self, _: &[u8], _: Duration) {
        let mut granted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *granted += 1;
        self.1.notify_all();
        let wait = Duration::from_secs(5);
        drop(
            self.1
                .wait_timeout_while(granted, wait, |granted| *granted < 2),
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_owner_has_one_grant_also_of_a_lock_that_many_may_hold() -> Test {
    let server = redouble::Server::start().await?;
    let connector = redouble_lock::Fixed(server.connection().await?);
    let locks = LockManager::builder(connector).metrics(TwoAtOnce::default());
    let locks = locks.build();
    let readers = locks.rw_lock(KEY).build()?;
    let owner = readers.read().owner();
    let reader = || {
        let owner = owner.clone();
        tokio::spawn(async move { owner.lock().await })
    };
    let (one, other) = (reader(), reader());
    let (one, other) = (one.await??, other.await??);
    assert_eq!(one.token(), other.token());
    assert_eq!(one.release().await, Release::StillHeld);
    assert_eq!(other.release().await, Release::Released);
    assert!(readers.write().try_lock().await.is_ok());
    Ok(())
}
