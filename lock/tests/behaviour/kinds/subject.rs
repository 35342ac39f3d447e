//! The kinds behind one type.

use redouble_lock::{BoxFuture, Guard, Kind, Lock, LockBuilder, LockError, LockManager, Redlock};
use std::{sync::Arc, time::Duration};

/// How the lock of a test is built.
#[derive(Clone, Copy)]
pub(crate) struct Built {
    pub(crate) lease: Duration,
    pub(crate) watchdog: bool,
}

/// How it is taken.
#[derive(Clone, Copy)]
pub(crate) enum Take {
    Try,
    Wait,
    AtMost(Duration),
}

type Taken<'a> = BoxFuture<'a, Result<Guard, LockError>>;

/// A lock of any kind that only one can hold.
#[derive(Clone)]
pub(crate) struct Subject(Arc<dyn Fn(Take) -> Taken<'static> + Send + Sync>);

impl Subject {
    fn of<K: Kind>(lock: Lock<K>) -> Self {
        Self(Arc::new(move |take| {
            let lock = lock.clone();
            Box::pin(async move {
                let guard = match take {
                    Take::Try => lock.try_lock().await?,
                    Take::Wait => lock.lock().await?,
                    Take::AtMost(wait) => lock.lock_timeout(wait).await?,
                };
                Ok(guard.into())
            })
        }))
    }

    pub(crate) async fn take(&self, take: Take) -> Result<Guard, LockError> {
        (self.0)(take).await
    }
}

fn build<K: Kind>(builder: LockBuilder<K>, built: Built) -> Subject {
    let builder = builder.lease(built.lease).watchdog(built.watchdog);
    Subject::of(builder.build().unwrap())
}

/// Builds the lock of one kind for a client that has a manager for each of three nodes.
pub(crate) type Make = fn(&[LockManager], &str, Built) -> Subject;

/// All kinds that exclude others.
pub(crate) const KINDS: [(&str, Make); 12] = [
    ("mutex", |nodes, key, built| {
        build(nodes[0].mutex(key), built)
    }),
    ("fenced mutex", |nodes, key, built| {
        build(nodes[0].mutex(key).fenced(), built)
    }),
    ("fair mutex", |nodes, key, built| {
        build(nodes[0].fair_mutex(key), built)
    }),
    ("fenced fair mutex", |nodes, key, built| {
        build(nodes[0].fair_mutex(key).fenced(), built)
    }),
    ("write lock", |nodes, key, built| {
        let builder = nodes[0].rw_lock(key).prefer_writers(true);
        let both = builder
            .lease(built.lease)
            .watchdog(built.watchdog)
            .build()
            .unwrap();
        Subject::of(both.write().clone())
    }),
    ("fenced write lock", |nodes, key, built| {
        let builder = nodes[0].rw_lock(key).fenced();
        let both = builder
            .lease(built.lease)
            .watchdog(built.watchdog)
            .build()
            .unwrap();
        Subject::of(both.write().clone())
    }),
    ("all permits of a semaphore", |nodes, key, built| {
        let builder = nodes[0].semaphore(key, 3);
        let semaphore = builder
            .lease(built.lease)
            .watchdog(built.watchdog)
            .build()
            .unwrap();
        Subject::of(semaphore.permits(3).unwrap())
    }),
    ("one permit of one", |nodes, key, built| {
        let builder = nodes[0].semaphore(key, 1);
        let semaphore = builder
            .lease(built.lease)
            .watchdog(built.watchdog)
            .build()
            .unwrap();
        Subject::of(semaphore.permits(1).unwrap())
    }),
    ("several keys", |nodes, key, built| {
        let keys = [format!("{{{key}}}:a"), format!("{{{key}}}:b")];
        build(nodes[0].multi_key_mutex(keys).unwrap(), built)
    }),
    (
        "several keys with one fencing token",
        |nodes, key, built| {
            let keys = [format!("{{{key}}}:a"), format!("{{{key}}}:b")];
            build(nodes[0].multi_key_mutex(keys).unwrap().fenced(), built)
        },
    ),
    ("Redlock", |nodes, key, built| {
        let redlock = Redlock::new(nodes.iter().cloned()).unwrap();
        build(redlock.mutex(key), built)
    }),
    ("fenced Redlock", |nodes, key, built| {
        let redlock = Redlock::new(nodes.iter().cloned()).unwrap();
        build(redlock.mutex(key).fenced(), built)
    }),
];
