//! Locks for programs without tokio, over a socket, in real time.

use redouble::Server;
use redouble_lock::{DetachedLock, LockError, LossReason, Release, blocking::LockManager};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

const KEY: &str = "coupon:7";

/// One test at a time, as the threads of the process are counted.
static TURN: Mutex<()> = Mutex::new(());

/// A server on a runtime of its own, as other programs are.
fn server() -> (tokio::runtime::Runtime, Server) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start()).unwrap();
    (runtime, server)
}

fn locks(server: &Server) -> LockManager {
    LockManager::from_client(redis::Client::open(server.url()).unwrap()).unwrap()
}

/// The threads of this crate in this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")));
    names
        .filter(|name| {
            name.as_deref()
                .is_ok_and(|name| name.trim() == "redouble-lock")
        })
        .count()
}

fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if done() {
            return;
        }
        thread::park_timeout(Duration::from_millis(5));
    }
    panic!("{what}");
}

#[test]
fn a_lock_from_beginning_to_end_and_no_thread_after_it() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (_runtime, server) = server();
    let locks = locks(&server);
    let lock = locks.adapt(locks.mutex(KEY).fenced().build().unwrap());
    let guard = lock.try_lock().unwrap();
    assert!(guard.is_valid() && guard.fencing_token().get() > 0);
    assert_eq!(lock.try_lock().unwrap_err(), LockError::Contended);
    guard.extend(Duration::from_secs(60)).unwrap();
    assert!(guard.remaining() > Duration::from_secs(50));
    assert_eq!(guard.release(), Release::Released);

    let text = lock.try_lock().unwrap().detach().unwrap().to_string();
    let adopted = lock.adopt(&text.parse::<DetachedLock>().unwrap()).unwrap();
    drop((locks, lock));
    assert!(adopted.is_valid() && server.exists(KEY));
    // Its release is the last thing that the thread does.
    drop(adopted);
    until("the key stands", || !server.exists(KEY));
    #[cfg(target_os = "linux")]
    until("the thread stays", || threads() == 0);
}

#[test]
fn threads_exclude_each_other_and_watchdogs_run_on() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (_runtime, server) = server();
    let lease = Duration::from_millis(300);
    let (taken, rounds) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let locks = locks(&server);
                let lock = locks.adapt(
                    locks
                        .mutex(KEY)
                        .lease(lease)
                        .watchdog(true)
                        .build()
                        .unwrap(),
                );
                for _ in 0..10 {
                    let guard = lock.lock().unwrap();
                    assert!(!taken.swap(true, Ordering::Relaxed), "two at a time");
                    thread::yield_now();
                    taken.store(false, Ordering::Relaxed);
                    rounds.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(guard.release(), Release::Released);
                }
            });
        }
    });
    assert_eq!(rounds.load(Ordering::Relaxed), 40);

    let locks = locks(&server);
    let lock = locks.adapt(
        locks
            .mutex(KEY)
            .lease(lease)
            .watchdog(true)
            .build()
            .unwrap(),
    );
    let guard = lock.lock().unwrap();
    assert_eq!(guard.wait_until_lost(lease * 3), None);
    assert!(guard.is_valid());
    let pause = server.pause();
    assert_eq!(guard.wait_until_lost(lease * 3), Some(LossReason::Expired));
    pause.resume();
    let other = locks.mutex("coupon:8").watchdog(true).build().unwrap();
    let other = locks.adapt(other).lock().unwrap();
    drop((guard, lock, locks));
    #[cfg(target_os = "linux")]
    assert_eq!(threads(), 1, "its watchdog goes on");
    drop(other);
    #[cfg(target_os = "linux")]
    until("the thread stays", || threads() == 0);
}
