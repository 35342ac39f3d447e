//! The lock on several keys, with and without fencing tokens, played as a read-write lock: a reader acquires
//! one key of its own, a writer acquires all keys. So locks on one key and on many contend, and the keys can
//! have different holders. The form with fencing tokens is held for a minimum time, the other one has
//! metadata.

use super::{
    Ours,
    client::Client,
    grant::{Grant, Taken, Takes, take},
    promises, stored,
};
use crate::{
    backend::View,
    subject::{DynSubject, NotOffered, boxed},
    vocabulary::{Fencing, Kind, Mode, Promises, Stored},
};
use redouble_lock::{Kind as LockKind, Lock, LockError};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Number of clients that have keys of their own.
const CLIENTS: u8 = 4;

/// Number of tasks per client that have a key each.
const TASKS: u8 = 2;

/// The locks of one task: its own key, and all keys.
struct Striped<K: LockKind> {
    all: Lock<K>,
    own: Lock<K>,
    process: Arc<Process<K>>,
}

/// What the tasks of a process share.
struct Process<K: LockKind> {
    /// A key for each task.
    keys: Vec<Lock<K>>,
    /// Number of tasks so far.
    tasks: AtomicUsize,
}

impl<K: LockKind> Striped<K> {
    fn new(
        client: &Client,
        key: &str,
        lock: impl Fn(&[String]) -> Result<Lock<K>, LockError>,
    ) -> Result<Self, LockError> {
        let keys = keys(key);
        let first = usize::from(client.number() % CLIENTS * TASKS);
        let theirs = keys[first..].chunks(1).take(usize::from(TASKS));
        let theirs = theirs.map(&lock).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            all: lock(&keys)?,
            own: theirs[0].clone(),
            process: Arc::new(Process {
                keys: theirs,
                tasks: AtomicUsize::new(0),
            }),
        })
    }
}

impl<K: LockKind<Guard: Grant>> Takes for Striped<K> {
    type Grant = K::Guard;

    async fn take(&self, mode: Mode, wait: Option<Duration>) -> Taken<K::Guard> {
        match mode {
            Mode::Exclusive => Ok(take(&self.all, wait).await),
            Mode::Shared => Ok(take(&self.own, wait).await),
            Mode::Permits(_) => Err(NotOffered),
        }
    }

    fn of_task(&self) -> Option<Self> {
        let nth = self.process.tasks.fetch_add(1, Ordering::Relaxed);
        let keys = &self.process.keys;
        Some(Self {
            all: self.all.clone(),
            own: keys[nth % keys.len()].clone(),
            process: Arc::clone(&self.process),
        })
    }
}

/// Number of checks of a waiter per lease. It is lower than for other kinds, so a missing wake-up shows.
const LOOKS_PER_LEASE: u32 = 2;

const fn striped() -> Promises {
    promises(Kind::ReadWrite).waiting(Some(LOOKS_PER_LEASE))
}

fn poll(client: &Client) -> Duration {
    client.part_of_lease(LOOKS_PER_LEASE)
}

pub(in crate::subject) fn multi() -> Box<dyn DynSubject> {
    let lock = Ours::new("multi", striped(), |client, key| {
        Striped::new(client, key, |keys| {
            let lock = client.options(client.locks().multi_key_mutex(keys)?);
            let lock = lock.metadata(stored::METADATA);
            lock.max_poll_interval(poll(client)).build()
        })
    });
    boxed(lock.storing(tokens).reserving(reserved_for))
}

pub(in crate::subject) fn fenced_multi() -> Box<dyn DynSubject> {
    let promises = striped().with_fencing(Fencing::Lasting);
    let lock = Ours::new("fenced-multi", promises, |client, key| {
        Striped::new(client, key, |keys| {
            let lock = client.options(client.locks().multi_key_mutex(keys)?.fenced());
            lock.max_poll_interval(poll(client)).build()
        })
    });
    boxed(lock.storing(tokens).reserving(reserved_for).holding())
}

/// Returns the keys: the lock's own name, and one more for each task but the first.
fn keys(key: &str) -> Vec<String> {
    let others = (1..CLIENTS * TASKS).map(|nth| stored::beside(key, &format!(":{nth}")));
    [key.to_owned()].into_iter().chain(others).collect()
}

/// Returns the waiters for which keys are reserved.
fn reserved_for(view: &dyn View, key: &str) -> Vec<Vec<u8>> {
    let keys = keys(key).into_iter();
    keys.flat_map(|key| stored::reserved_for(view, &key))
        .collect()
}

/// Returns the holders. A token at one key is a reader's, a token at all keys a writer's. A token at some of
/// the keys is neither, but keeps other clients out too.
fn tokens(view: &dyn View, key: &str) -> Vec<Stored> {
    let keys = keys(key);
    let mut found: BTreeMap<Vec<u8>, Vec<Option<Duration>>> = BTreeMap::new();
    for it in keys.iter().flat_map(|key| stored::at_the_key(view, key)) {
        found.entry(it.token).or_default().push(it.expires);
    }
    let tokens = found.into_iter().map(|(token, ends)| Stored {
        token: match ends.len() {
            1 => token,
            all if all == keys.len() => token,
            _ => [&b"part:"[..], &token].concat(),
        },
        expires: ends
            .into_iter()
            .min_by_key(|end| end.unwrap_or(Duration::MAX))
            .flatten(),
    });
    tokens.collect()
}
