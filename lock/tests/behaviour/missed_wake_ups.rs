//! Wake-ups that would reach no waiter: because of names that stay registered, crashed processes, a cluster, a dead connection, a full
//! set of waiters. On the double, in virtual time.

use super::{
    rig::{InProcess, KEY, LEASE, Test, ask, locks, pass, server},
    wake_ups::{CRASHED, SUBSCRIBED, Scene, WAITERS, name, token},
};
use redis::{
    AsyncConnectionConfig, RedisConnectionInfo, RedisResult,
    aio::{MultiplexedConnection, PubSub},
};
use redouble::{
    Server,
    fault::{AnswerError, Disconnect},
};
use redouble_lock::{
    BoxFuture, Connected, Connector, Environment as _, Guard, LockError, LockManager, Release,
    Tokio,
};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A waiter asks at least this often.
const LOOK: Duration = Duration::from_secs(1);

/// The server's time in ms, and `ms` more.
async fn in_ms(server: &Server, ms: u64) -> String {
    let [seconds, micros]: [u64; 2] = ask(server, &["TIME"]).await;
    (seconds * 1_000 + micros / 1_000 + ms).to_string()
}

/// A name of a waiter for a read-write lock: of a reader (`r`) or a writer (`w`).
fn of_kind(process: &str, digit: char, kind: char) -> String {
    format!("{}{kind}", name(process, digit))
}

impl Scene {
    /// Lets a writer have the lock in place of the mutex.
    async fn writer_holds(&mut self) -> Test {
        self.release().await;
        let lock = locks(&self.server).rw_lock(KEY).lease(LEASE).build()?;
        self.guard = Some(lock.write().lock().await?);
        Ok(())
    }
}

// The holder reserved the lock for itself, and the next waiter was not told.
#[tokio::test(start_paused = true)]
async fn a_holder_whose_subscription_was_interrupted_does_not_wake_itself() -> Test {
    let mut scene = Scene::set().await?;
    std::mem::forget(scene.guard.take());
    let lock = locks(&scene.server).mutex(KEY).lease(LEASE).build()?;
    let waiter = tokio::spawn(async move { lock.lock().await });
    pass(Duration::from_millis(100)).await;
    assert_eq!(scene.registered().await.len(), 1);
    // The connection ends, and there is no new subscription.
    let loading = AnswerError::new("LOADING not yet").command("SUBSCRIBE");
    let _loading = scene.server.inject(loading);
    let cut = Disconnect::before_execution().command("EVALSHA").nth(1);
    let cut = scene.server.inject(cut);
    // Its next request, while the name of its last one counts as alive.
    pass(LOOK + Duration::from_millis(100)).await;
    assert_eq!(cut.fired(), 1);
    assert!(scene.registered().await.is_empty(), "no message reaches it");
    let _: u32 = scene.ask(&["DEL", KEY]).await;
    let guard = waiter.await??;
    scene.register(SUBSCRIBED, 'b', "1e15").await;
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(scene.messages().await, [token('b')]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_name_that_stays_registered_ends_with_the_grant() -> Test {
    let mut scene = Scene::set().await?;
    std::mem::forget(scene.guard.take());
    let lock = locks(&scene.server).mutex(KEY).lease(LEASE).build()?;
    let waiter = tokio::spawn(async move { lock.lock().await });
    pass(Duration::from_millis(100)).await;
    let loading = AnswerError::new("LOADING not yet").command("SUBSCRIBE");
    let _loading = scene.server.inject(loading);
    let cut = Disconnect::before_execution().command("EVALSHA").nth(1);
    let _cut = scene.server.inject(cut);
    // The first request after the interruption gets the lock.
    let _: u32 = scene.ask(&["DEL", KEY]).await;
    let _guard = waiter.await??;
    assert!(scene.registered().await.is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_passes_over_readers_of_crashed_processes() -> Test {
    for crashed in [1, 150] {
        let mut scene = Scene::set().await?;
        scene.writer_holds().await?;
        for number in 0..crashed {
            let reader = format!("{CRASHED}{number:032}r");
            scene.register_as(&reader, "1e15").await;
        }
        let writer = of_kind(SUBSCRIBED, 'a', 'w');
        scene.register_as(&writer, "2e15").await;
        let behind = of_kind(SUBSCRIBED, 'b', 'r');
        scene.register_as(&behind, "3e15").await;
        scene.release().await;
        assert_eq!(scene.messages().await, [token('a')], "behind {crashed}");
        assert_eq!(scene.registered().await, [behind]);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_passes_over_the_writer_of_a_crashed_process() -> Test {
    let mut scene = Scene::set().await?;
    scene.writer_holds().await?;
    scene.register_as(&of_kind(CRASHED, 'a', 'w'), "1e15").await;
    scene
        .register_as(&of_kind(SUBSCRIBED, 'b', 'r'), "2e15")
        .await;
    scene.register_as(&of_kind(CRASHED, 'c', 'r'), "3e15").await;
    let writer = of_kind(SUBSCRIBED, 'd', 'w');
    scene.register_as(&writer, "4e15").await;
    scene.release().await;
    assert_eq!(scene.messages().await, [token('b')]);
    assert_eq!(scene.registered().await, [writer]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_all_readers() -> Test {
    let mut scene = Scene::set().await?;
    scene.writer_holds().await?;
    for number in 0..250 {
        let reader = format!("{SUBSCRIBED}{number:032}r");
        scene.register_as(&reader, "1e15").await;
    }
    scene.release().await;
    let messages = scene.messages().await;
    let woken: Vec<_> = messages.iter().map(|message| message.len() / 32).collect();
    assert_eq!(woken, [100, 100, 50]);
    assert!(scene.registered().await.is_empty());
    Ok(())
}

// A node of a cluster does not count the connections of other nodes: it woke up to eight waiters, and reserved the lock for none.
#[tokio::test(start_paused = true)]
async fn a_release_in_a_cluster_wakes_one_waiter() -> Test {
    let mut scene = Scene::set().await?;
    let elsewhere = format!("C{}", &CRASHED[1..]);
    scene.register(&elsewhere, 'a', "1e15").await;
    scene.register(SUBSCRIBED, 'b', "2e15").await;
    scene.release().await;
    let reserved: String = scene.ask(&["GET", KEY]).await;
    assert_eq!(reserved, format!("?{}", token('a')));
    assert_eq!(scene.registered().await, [name(SUBSCRIBED, 'b')]);
    assert!(scene.messages().await.is_empty());
    Ok(())
}

/// The set of waiters has room for this many names.
const ROOM: usize = 1_000;

#[tokio::test(start_paused = true)]
async fn a_lock_has_a_bounded_number_of_registered_waiters() -> Test {
    for dead in [0, 3] {
        let mut scene = Scene::set().await?;
        let soon = in_ms(&scene.server, 500).await;
        for number in 0..ROOM {
            let alive_until = if number < dead { "1" } else { &soon };
            let name = format!("{SUBSCRIBED}{number:032}");
            scene.register_as(&name, alive_until).await;
        }
        let lock = locks(&scene.server).mutex(KEY).lease(LEASE).build()?;
        let waiter =
            tokio::spawn(async move { lock.lock().await.map(|guard| (guard, Tokio.now())) });
        pass(Duration::from_millis(100)).await;
        let registered = scene.registered().await;
        assert_eq!(
            registered.len(),
            if dead == 0 { ROOM } else { ROOM + 1 - dead }
        );
        let is_stranger = |name: &&String| !name.starts_with(SUBSCRIBED);
        assert_eq!(
            registered.iter().filter(is_stranger).count(),
            usize::from(dead > 0)
        );
        let _: u32 = scene.ask(&["DEL", WAITERS]).await;
        let freed = Tokio.now();
        scene.release().await;
        let (_guard, granted) = waiter.await??;
        assert!(granted - freed <= LOOK * 2, "it asks by itself");
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_fair_lock_that_stays_held_for_a_while_tells_its_first_waiter() -> Test {
    let mut scene = Scene::set().await?;
    scene.release().await;
    let hold = Duration::from_secs(5);
    let lock = locks(&scene.server).fair_mutex(KEY).hold_at_least(hold);
    let guard = lock.lease(LEASE).build()?.lock().await?;
    let waiting = name(SUBSCRIBED, 'a');
    let _: u32 = scene
        .ask(&["ZADD", "{coupon:7}:queue", "1", &waiting])
        .await;
    let _: u32 = scene
        .ask(&["ZADD", "{coupon:7}:alive", "1e15", &waiting])
        .await;
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(scene.ask::<i64>(&["PTTL", KEY]).await, 5_000);
    assert_eq!(scene.messages().await, [token('a')]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_write_lock_that_stays_held_for_a_while_tells_its_first_waiter() -> Test {
    let mut scene = Scene::set().await?;
    scene.release().await;
    let lock = locks(&scene.server).rw_lock(KEY).lease(LEASE);
    let lock = lock.hold_at_least(Duration::from_secs(5)).build()?;
    let guard: Guard = lock.write().lock().await?;
    scene
        .register_as(&of_kind(SUBSCRIBED, 'a', 'w'), "1e15")
        .await;
    scene
        .register_as(&of_kind(SUBSCRIBED, 'b', 'w'), "2e15")
        .await;
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(scene.ask::<i64>(&["PTTL", KEY]).await, 5_000);
    assert_eq!(scene.messages().await, [token('a')]);
    Ok(())
}

// The server refused the name of the waiter, and with it the whole request.
#[tokio::test(start_paused = true)]
async fn a_server_without_memory_refuses_no_waiter() -> Test {
    let server = server().await;
    let _: String = ask(&server, &["SET", KEY, "another"]).await;
    let _: String = ask(&server, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let locks = locks(&server);
    let wait = LOOK * 3;
    let refusals: [LockError; 5] = [
        locks
            .mutex(KEY)
            .build()?
            .lock_timeout(wait)
            .await
            .unwrap_err(),
        locks
            .mutex(KEY)
            .fenced()
            .build()?
            .lock_timeout(wait)
            .await
            .unwrap_err(),
        locks
            .fair_mutex(KEY)
            .build()?
            .lock_timeout(wait)
            .await
            .unwrap_err(),
        locks
            .multi_key_mutex([KEY])?
            .build()?
            .lock_timeout(wait)
            .await
            .unwrap_err(),
        {
            let prices = locks.rw_lock(KEY).prefer_writers(true).build()?;
            prices.write().lock_timeout(wait).await.unwrap_err()
        },
    ];
    for error in refusals {
        assert!(error.is_timed_out(), "{error:?}");
    }
    Ok(())
}

/// A stream that dies without a sign: nothing passes any more, and it does not end.
struct Dying<S>(S, Arc<AtomicBool>);

impl<S: AsyncRead + Unpin> AsyncRead for Dying<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.1.load(Ordering::Relaxed) {
            true => Poll::Pending,
            false => Pin::new(&mut self.0).poll_read(cx, buffer),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Dying<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        match self.1.load(Ordering::Relaxed) {
            true => Poll::Ready(Ok(bytes.len())),
            false => Pin::new(&mut self.0).poll_write(cx, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// RESP2: requests go over one connection, messages come over another one.
struct TwoConnections {
    server: Arc<Server>,
    /// Whether the first connection for messages is dead.
    is_dead: Arc<AtomicBool>,
    subscribers: Arc<AtomicU32>,
}

impl Connector for TwoConnections {
    type Connection = MultiplexedConnection;

    fn connect(&self) -> BoxFuture<'_, RedisResult<Connected<Self::Connection>>> {
        Box::pin(async {
            let config = AsyncConnectionConfig::new().set_response_timeout(None);
            let (info, stream) = (RedisConnectionInfo::default(), self.server.connect());
            let made = MultiplexedConnection::new_with_config(&info, stream, config).await?;
            Ok(Connected::new(made.0).driver(made.1))
        })
    }

    fn subscriber(&self) -> BoxFuture<'_, RedisResult<Option<PubSub>>> {
        Box::pin(async {
            let is_first = self.subscribers.fetch_add(1, Ordering::Relaxed) == 0;
            let is_dead = match is_first {
                true => Arc::clone(&self.is_dead),
                false => Arc::default(),
            };
            let stream = Dying(self.server.connect(), is_dead);
            PubSub::new(&RedisConnectionInfo::default(), stream)
                .await
                .map(Some)
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_for_messages_that_dies_without_a_sign_is_replaced() -> Test {
    let (server, is_dead, subscribers) = (server().await, Arc::default(), Arc::default());
    let connector = TwoConnections {
        server: Arc::clone(&server),
        is_dead: Arc::clone(&is_dead),
        subscribers: Arc::clone(&subscribers),
    };
    let locks = LockManager::builder(connector).build();
    let lock = locks.mutex(KEY).lease(LEASE).build()?;
    let holder = LockManager::builder(InProcess(Arc::clone(&server))).build();
    let guard = holder.mutex(KEY).lease(LEASE).build()?.lock().await?;
    let waiter = tokio::spawn(async move { lock.lock().await.map(|_guard| Tokio.now()) });
    // Long enough for several checks of a connection that is alive.
    pass(LOOK * 12).await;
    assert_eq!(subscribers.load(Ordering::Relaxed), 1);
    is_dead.store(true, Ordering::Relaxed);
    pass(LOOK * 8).await;
    assert_eq!(subscribers.load(Ordering::Relaxed), 2);
    let freed = Tokio.now();
    assert_eq!(guard.release().await, Release::Released);
    let granted = waiter.await??;
    assert!(
        granted - freed < Duration::from_millis(10),
        "{:?}",
        granted - freed
    );
    Ok(())
}
