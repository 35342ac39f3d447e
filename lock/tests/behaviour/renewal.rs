//! The watchdogs of a client together: one task and one timer for all grants, and none of them in the way of
//! another.

use super::rig::{LEASE, Test, ask, keys, pass, server};
use redouble::Server;
use redouble_lock::{
    BoxFuture, Environment, Guard, LockManager, LossReason, Metrics, NoRuntime, Redlock, Release,
    Tokio,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{runtime::Handle, time::Instant};

/// The environment of tokio, which counts, and can be told that it is on another runtime.
#[derive(Clone, Default)]
struct Counting(Arc<Counts>);

#[derive(Default)]
struct Counts {
    spawned: AtomicUsize,
    timers: AtomicUsize,
    runtime: AtomicU64,
    /// The tasks of a runtime that does not run, by its number.
    stalled: Mutex<Option<(u64, Vec<BoxFuture<'static, ()>>)>>,
}

struct Ticking(Arc<Counts>);

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.timers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Environment for Counting {
    fn now(&self) -> Duration {
        Tokio.now()
    }

    fn sleep_until(&self, deadline: Duration) -> BoxFuture<'static, ()> {
        self.0.timers.fetch_add(1, Ordering::Relaxed);
        let ticking = Ticking(Arc::clone(&self.0));
        Box::pin(async move {
            Tokio.sleep_until(deadline).await;
            drop(ticking);
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<(), NoRuntime> {
        self.0.spawned.fetch_add(1, Ordering::Relaxed);
        match &mut *self.0.stalled.lock().unwrap() {
            Some((runtime, tasks)) if *runtime == self.runtime() => tasks.push(task),
            Some(_) | None => return Tokio.spawn(task),
        }
        Ok(())
    }

    fn runtime(&self) -> u64 {
        self.0.runtime.load(Ordering::Relaxed)
    }

    fn random(&self) -> [u8; 16] {
        Tokio.random()
    }
}

impl Counting {
    fn spawned(&self) -> usize {
        self.0.spawned.load(Ordering::Relaxed)
    }

    fn timers(&self) -> usize {
        self.0.timers.load(Ordering::Relaxed)
    }

    fn owners(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

/// Notes which lease was extended when, and panics at one of them.
#[derive(Clone, Default)]
struct Seen {
    renewed: Arc<Mutex<Vec<(String, Instant)>>>,
    panics_at: Option<&'static str>,
}

impl Metrics for Seen {
    fn renewed(&self, key: &[u8]) {
        let key = String::from_utf8(key.to_vec()).unwrap();
        assert_ne!(Some(&*key), self.panics_at, "as it was told");
        self.renewed.lock().unwrap().push((key, Instant::now()));
    }
}

impl Seen {
    fn of(&self, key: &str) -> Vec<Instant> {
        let seen = self.renewed.lock().unwrap();
        let of_key = seen.iter().filter(|(of, _)| of == key);
        of_key.map(|(_, at)| *at).collect()
    }
}

/// A client that starts no task of its own for its connection.
async fn client(server: &Server, env: &Counting, seen: &Seen) -> LockManager {
    let connection = server.connection().await.unwrap();
    LockManager::builder(connection)
        .environment(env.clone())
        .metrics(seen.clone())
        .build()
}

async fn take(locks: &LockManager, key: &str) -> Guard {
    let lock = locks
        .mutex(key)
        .lease(LEASE)
        .watchdog(true)
        .build()
        .unwrap();
    lock.try_lock().await.unwrap()
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn a_hundred_grants_are_one_task_with_one_timer() -> Test {
    let (server, env, seen) = (server().await, Counting::default(), Seen::default());
    let locks = client(&server, &env, &seen).await;
    let before = tasks();
    let mut guards = Vec::new();
    for number in 0..100 {
        guards.push(take(&locks, &format!("order:{number}")).await);
        pass(Duration::from_millis(number * 7 % 40)).await;
    }
    pass(LEASE * 3).await;
    assert_eq!((env.spawned(), env.timers(), tasks()), (1, 1, before + 1));
    assert!(guards.iter().all(Guard::is_valid));
    assert!(seen.renewed.lock().unwrap().len() >= 800);

    let dropped = guards.split_off(50);
    for guard in guards {
        assert_eq!(guard.release().await, Release::Released);
    }
    assert_eq!((env.spawned(), env.timers(), tasks()), (1, 1, before + 1));
    drop(dropped);
    pass(Duration::from_millis(1)).await;
    assert_eq!((env.timers(), tasks()), (0, before));
    assert_eq!(keys(&server).await, [""; 0]);

    // The next one has one as well.
    let guard = take(&locks, "order:1").await;
    pass(LEASE * 2).await;
    assert!(guard.is_valid());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_delays_no_other_grant() -> Test {
    let (env, seen) = (Counting::default(), Seen::default());
    let servers = [server().await, server().await, server().await];
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(client(server, &env, &seen).await);
    }
    let here = clients[0].clone();
    // All looked after by the client of the first node.
    let patience = Duration::from_secs(20);
    let lock = Redlock::new(clients)?.node_timeout(patience).mutex("all");
    let lock = lock.reply_timeout(patience).lease(LEASE).watchdog(true);
    let all = lock.build()?.try_lock().await?;
    let one = take(&here, "one").await;
    let begun = Instant::now();
    let _pauses = [servers[1].pause(), servers[2].pause()];

    assert_eq!(all.lost().await, LossReason::Expired);
    assert!(begun.elapsed() <= LEASE, "told in time");
    pass(LEASE).await;
    assert!(one.is_valid());
    let renewals = seen.of("one");
    assert!(renewals.len() >= 5, "{renewals:?}");
    let mut last = begun;
    for renewal in renewals {
        assert!(renewal - last <= LEASE / 3, "not a moment late");
        last = renewal;
    }
    assert!(seen.of("all").is_empty());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn renewals_that_fall_due_together_begin_in_the_order_of_grants() -> Test {
    let (server, env, seen) = (server().await, Counting::default(), Seen::default());
    let locks = client(&server, &env, &seen).await;
    let begun = Instant::now();
    let mut guards = Vec::new();
    for key in ["c", "a", "d", "b"] {
        guards.push(take(&locks, key).await);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    pass(LEASE).await;
    let seen = seen.renewed.lock().unwrap();
    let order: String = seen.iter().map(|(key, _)| &**key).collect();
    assert_eq!(order, "cadbcadbcadb");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_shorter_lease_falls_due_before_those_that_were_there() -> Test {
    let (server, env, seen) = (server().await, Counting::default(), Seen::default());
    let locks = client(&server, &env, &seen).await;
    let _long = take(&locks, "long").await;
    pass(Duration::from_secs(1)).await;
    let short = locks.mutex("short").lease(LEASE / 30).watchdog(true);
    let short = short.build()?.try_lock().await?;
    pass(LEASE / 6).await;
    assert!(short.is_valid());
    assert_eq!((seen.of("short").len(), seen.of("long").len()), (15, 0));
    assert_eq!(env.timers(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_come_and_go() -> Test {
    let (server, env, seen) = (server().await, Counting::default(), Seen::default());
    let locks = client(&server, &env, &seen).await;
    let before = tasks();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..8 {
        let locks = locks.clone();
        clients.spawn(async move {
            for _ in 0..200 {
                let guard = take(&locks, &format!("order:{number}")).await;
                assert_eq!(guard.release().await, Release::Released);
            }
        });
    }
    clients.join_all().await;
    let gone = async {
        while (env.timers(), tasks()) != (0, before) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_lost_leaves_before_its_guard() -> Test {
    let (server, env, seen) = (server().await, Counting::default(), Seen::default());
    let locks = client(&server, &env, &seen).await;
    let before = tasks();
    let guard = take(&locks, "order:17").await;
    let _: u64 = ask(&server, &["DEL", "order:17"]).await;
    assert!(guard.extend(LEASE).await.unwrap_err().is_lost());
    pass(Duration::from_millis(1)).await;
    assert_eq!((env.timers(), tasks()), (0, before));
    assert_eq!(guard.lost().await, LossReason::Gone);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_stalls_or_ends_takes_only_its_own_grants_along() -> Test {
    let (server, env, seen) = (server().await, Counting::default(), Seen::default());
    let locks = client(&server, &env, &seen).await;
    *env.0.stalled.lock().unwrap() = Some((1, Vec::new()));
    env.0.runtime.store(1, Ordering::Relaxed);
    let stalled = take(&locks, "stalled").await;
    env.0.runtime.store(2, Ordering::Relaxed);
    let runs = take(&locks, "runs").await;
    pass(LEASE * 2).await;
    assert!(!stalled.is_valid() && runs.is_valid());

    // It ends, and another one is started under its name.
    env.0.runtime.store(1, Ordering::Relaxed);
    let unfinished = env.0.stalled.lock().unwrap().take();
    drop(unfinished);
    let again = take(&locks, "again").await;
    drop(stalled);
    pass(LEASE * 2).await;
    assert!(again.is_valid() && runs.is_valid());
    assert_eq!(env.timers(), 2);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_metrics_costs_only_the_watchdog_that_called_them() -> Test {
    let (server, env) = (server().await, Counting::default());
    let seen = Seen {
        panics_at: Some("bad"),
        ..Seen::default()
    };
    let locks = client(&server, &env, &seen).await;
    let (bad, good) = (take(&locks, "bad").await, take(&locks, "good").await);
    pass(LEASE * 3).await;
    assert!(!bad.is_valid() && good.is_valid());
    assert_eq!(seen.of("good").len(), 9);
    assert_eq!(env.spawned(), 2, "the panic is that of a task");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_grant_outlives_its_client_and_leaves_nothing_of_it() -> Test {
    let (server, env, seen) = (server().await, Counting::default(), Seen::default());
    let guard = take(&client(&server, &env, &seen).await, "order:17").await;
    pass(LEASE * 2).await;
    assert!(guard.is_valid());
    drop(guard);
    pass(Duration::from_millis(1)).await;
    assert_eq!((env.timers(), env.owners()), (0, 1));
    Ok(())
}

#[test]
fn nothing_is_left_when_the_runtime_ends() {
    // Before the first extension, and amid one.
    for (so_long, is_silent) in [(LEASE / 6, false), (LEASE / 2, true)] {
        let env = Counting::default();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().start_paused(true).build().unwrap();
        let guard = runtime.block_on(async {
            let server = server().await;
            let guard = take(&client(&server, &env, &Seen::default()).await, "order:17").await;
            let _pause = is_silent.then(|| server.pause());
            pass(so_long).await;
            guard
        });
        drop(runtime);
        drop(guard);
        assert_eq!((env.timers(), env.owners()), (0, 1));
    }
}
