//! What a release does with the waiters of a mutex: which one it wakes, and what it leaves on the server. On the double, in virtual time.
//! Most waiters are names that the tests write, so they do not react.

use super::rig::{KEY, LEASE, Test, ask, locks, pass, server};
use redis::{
    AsyncConnectionConfig, FromRedisValue as _, ProtocolVersion, PushInfo, PushKind,
    RedisConnectionInfo, aio::MultiplexedConnection,
};
use redouble::Server;
use redouble_lock::{Environment as _, Guard, Release, Tokio};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

pub(crate) const WAITERS: &str = "{coupon:7}:waiters";
/// Names of two processes: only the first one has a subscription.
pub(crate) const SUBSCRIBED: &str = "1111111111111111";
pub(crate) const CRASHED: &str = "2222222222222222";

pub(crate) fn name(process: &str, digit: char) -> String {
    format!("{process}{}", token(digit))
}

pub(crate) fn token(digit: char) -> String {
    String::from(digit).repeat(32)
}

/// A held mutex, and the messages to the process [`SUBSCRIBED`].
pub(crate) struct Scene {
    pub(crate) server: Arc<Server>,
    pub(crate) guard: Option<Guard>,
    pushes: UnboundedReceiver<PushInfo>,
    _subscriber: MultiplexedConnection,
}

impl Scene {
    pub(crate) async fn set() -> Result<Self, Box<dyn std::error::Error>> {
        let server = server().await;
        let (sender, pushes) = unbounded_channel();
        let config = AsyncConnectionConfig::new().set_push_sender(sender);
        let info = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        let made = MultiplexedConnection::new_with_config(&info, server.connect(), config);
        let (mut subscriber, driver) = made.await?;
        tokio::spawn(driver);
        let channel = format!("redouble-lock:{SUBSCRIBED}");
        subscriber.subscribe(channel).await?;
        let guard = locks(&server)
            .mutex(KEY)
            .lease(LEASE)
            .build()?
            .lock()
            .await?;
        Ok(Self {
            server,
            guard: Some(guard),
            pushes,
            _subscriber: subscriber,
        })
    }

    /// Registers a waiter that counts as alive until `alive_until`, in ms since 1970.
    pub(crate) async fn register(&self, process: &str, digit: char, alive_until: &str) {
        self.register_as(&name(process, digit), alive_until).await;
    }

    pub(crate) async fn register_as(&self, name: &str, alive_until: &str) {
        let added: u32 = self.ask(&["ZADD", WAITERS, alive_until, name]).await;
        assert_eq!(added, 1);
    }

    pub(crate) async fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        ask(&self.server, words).await
    }

    pub(crate) async fn release(&mut self) {
        let released = self.guard.take().unwrap().release().await;
        assert_eq!(released, Release::Released);
    }

    pub(crate) async fn registered(&self) -> Vec<String> {
        self.ask(&["ZRANGE", WAITERS, "0", "-1"]).await
    }

    /// Returns the messages so far.
    pub(crate) async fn messages(&mut self) -> Vec<String> {
        pass(Duration::from_millis(1)).await;
        let mut messages = Vec::new();
        while let Ok(push) = self.pushes.try_recv() {
            if push.kind == PushKind::Message {
                let payload = push.data.into_iter().nth(1).unwrap();
                messages.push(String::from_redis_value(payload).unwrap());
            }
        }
        messages
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_reserves_the_lock_for_the_first_waiter_that_receives_the_message() -> Test {
    let mut scene = Scene::set().await?;
    scene.register(SUBSCRIBED, 'a', "1").await; // does not count as alive any more
    scene.register(CRASHED, 'b', "1e15").await;
    scene.register(SUBSCRIBED, 'c', "2e15").await;
    scene.register(SUBSCRIBED, 'd', "3e15").await;
    scene.release().await;
    let reserved: String = scene.ask(&["GET", KEY]).await;
    assert_eq!(reserved, format!("?{}", token('c')));
    assert_eq!(scene.ask::<i64>(&["PTTL", KEY]).await, 50);
    assert_eq!(scene.registered().await, [name(SUBSCRIBED, 'd')]);
    assert_eq!(scene.messages().await, [token('c')]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reservation_takes_a_24th_of_the_rest_of_a_short_lease() -> Test {
    for (left, reserved) in [(Some("480"), 20), (Some("5"), 1), (None, 50)] {
        let mut scene = Scene::set().await?;
        scene.register(SUBSCRIBED, 'a', "1e15").await;
        let _: u32 = match left {
            Some(ms) => scene.ask(&["PEXPIRE", KEY, ms]).await,
            None => scene.ask(&["PERSIST", KEY]).await,
        };
        scene.release().await;
        assert_eq!(scene.ask::<i64>(&["PTTL", KEY]).await, reserved, "{left:?}");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_passes_over_eight_crashed_waiters_at_most() -> Test {
    for (crashed, reserved) in [(7, true), (8, false)] {
        let mut scene = Scene::set().await?;
        for digit in ('0'..='9').take(crashed) {
            scene.register(CRASHED, digit, "1e15").await;
        }
        scene.register(SUBSCRIBED, 'a', "2e15").await;
        scene.release().await;
        let is_reserved: u32 = scene.ask(&["EXISTS", KEY]).await;
        assert_eq!(is_reserved == 1, reserved, "behind {crashed}");
        assert_eq!(scene.messages().await.len(), usize::from(reserved));
        assert_eq!(scene.registered().await.is_empty(), reserved);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_user_that_may_not_publish_releases_the_lock() -> Test {
    let mut scene = Scene::set().await?;
    scene.register(SUBSCRIBED, 'a', "1e15").await;
    let _: String = scene.ask(&["ACL", "SETUSER", "default", "-publish"]).await;
    scene.release().await;
    assert_eq!(scene.ask::<u32>(&["EXISTS", KEY]).await, 0);
    assert_eq!(scene.registered().await, [name(SUBSCRIBED, 'a')]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_stays_held_for_a_while_wakes_a_waiter_without_a_reservation() -> Test {
    let mut scene = Scene::set().await?;
    scene.release().await;
    let hold = Duration::from_secs(5);
    let lock = locks(&scene.server).mutex(KEY).hold_at_least(hold);
    let guard = lock.lease(LEASE).build()?.lock().await?;
    scene.register(SUBSCRIBED, 'a', "1e15").await;
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(scene.ask::<i64>(&["PTTL", KEY]).await, 5_000);
    assert_eq!(scene.messages().await, [token('a')]);
    assert!(scene.registered().await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_after_its_wake_up_passes_the_lock_on() -> Test {
    for is_reserved in [true, false] {
        let mut scene = Scene::set().await?;
        std::mem::forget(scene.guard.take());
        let lock = locks(&scene.server).mutex(KEY).lease(LEASE).build()?;
        let waiter = tokio::spawn(async move { lock.lock().await });
        pass(Duration::from_millis(100)).await;
        let [waiting] = &scene.registered().await[..] else {
            return Err("the waiter is not registered".into());
        };
        // The holder has released the lock and woken this waiter, but the waiter does not get the message.
        let _: u32 = scene.ask(&["ZREM", WAITERS, waiting]).await;
        let reserved = format!("?{}", &waiting[16..]);
        match is_reserved {
            true => scene.ask::<()>(&["SET", KEY, &reserved, "PX", "30"]).await,
            false => scene.ask::<()>(&["DEL", KEY]).await,
        }
        scene.register(SUBSCRIBED, 'a', "1e15").await;
        waiter.abort();
        let messages = scene.messages().await;
        assert_eq!(messages, [token('a')], "reserved: {is_reserved}");
        // For the rest of the reservation: passing it on several times does not lengthen it.
        let value: Option<String> = scene.ask(&["GET", KEY]).await;
        assert_eq!(value, is_reserved.then(|| format!("?{}", token('a'))));
        let left: i64 = scene.ask(&["PTTL", KEY]).await;
        assert!(if is_reserved {
            (20..30).contains(&left)
        } else {
            left == -2
        });
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_asks_for_a_reserved_lock_asks_again_when_the_reservation_ends() -> Test {
    for fenced in [false, true] {
        let mut scene = Scene::set().await?;
        std::mem::forget(scene.guard.take());
        let lock = locks(&scene.server).mutex(KEY).lease(LEASE);
        let waiter = tokio::spawn(async move {
            let guard = match fenced {
                true => lock.fenced().build()?.lock().await?.release().await,
                false => lock.build()?.lock().await?.release().await,
            };
            Ok::<_, redouble_lock::LockError>((guard, Tokio.now()))
        });
        pass(Duration::from_millis(100)).await;
        let [waiting] = &scene.registered().await[..] else {
            return Err("the waiter is not registered".into());
        };
        let reserved = format!("?{}", token('a'));
        let _: () = scene.ask(&["SET", KEY, &reserved, "PX", "40"]).await;
        let (reserved_at, channel) = (Tokio.now(), format!("redouble-lock:{}", &waiting[..16]));
        let _: u32 = scene.ask(&["PUBLISH", &channel, &waiting[16..]]).await;
        let (released, at) = waiter.await??;
        assert_eq!(released, Release::Released);
        let waited = at - reserved_at;
        assert!(
            waited.as_millis() >= 40 && waited.as_millis() <= 50,
            "{waited:?}"
        );
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_while_the_lock_is_held_wakes_no_other() -> Test {
    let mut scene = Scene::set().await?;
    let lock = locks(&scene.server).mutex(KEY).lease(LEASE).build()?;
    let waiter = tokio::spawn(async move { lock.lock_timeout(Duration::from_millis(500)).await });
    pass(Duration::from_millis(100)).await;
    assert_eq!(scene.registered().await.len(), 1);
    let expires: i64 = scene.ask(&["PTTL", WAITERS]).await;
    assert!(
        expires > 0,
        "the names of crashed waiters do not stay for ever"
    );
    scene.register(SUBSCRIBED, 'a', "1e15").await;
    assert!(waiter.await?.is_err());
    assert_eq!(scene.registered().await, [name(SUBSCRIBED, 'a')]);
    assert!(scene.messages().await.is_empty());
    assert!(scene.guard.as_ref().is_some_and(Guard::is_valid));
    Ok(())
}

// Another program frees the key and wakes no waiter.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_gets_the_lock_without_a_message_is_registered_no_more() -> Test {
    let mut scene = Scene::set().await?;
    std::mem::forget(scene.guard.take());
    for fenced in [false, true] {
        let lock = locks(&scene.server).mutex(KEY).lease(LEASE);
        let waiter = tokio::spawn(async move {
            let released = match fenced {
                true => lock.fenced().build()?.lock().await?.release().await,
                false => lock.build()?.lock().await?.release().await,
            };
            Ok::<_, redouble_lock::LockError>(released)
        });
        pass(Duration::from_millis(100)).await;
        assert_eq!(scene.registered().await.len(), 1);
        let _: u32 = scene.ask(&["DEL", KEY]).await;
        assert_eq!(waiter.await??, Release::Released);
        assert!(scene.registered().await.is_empty());
        let _: String = scene.ask(&["SET", KEY, "another"]).await;
    }
    Ok(())
}
