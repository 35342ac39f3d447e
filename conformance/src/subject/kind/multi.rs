//! The lock on several keys, with and without numbers, played as a read-write lock: a reader takes one key of its own, a
//! writer takes all of them. So locks on one key and on many contend, and some of the keys are held by others than the rest.
//! The one with numbers is held at least for some time, the other one has metadata.

use super::{
    Ours,
    client::Client,
    grant::{Grant, Taken, Takes, take},
    promises, stored,
};
use crate::{
    backend::View,
    history::{Kind, Mode, Stored},
    subject::{DynSubject, Fencing, NotOffered, Promises, boxed},
};
use redouble_lock::{Kind as LockKind, Lock, LockError};
use std::{collections::BTreeMap, time::Duration};

/// How many clients have a key of their own.
const CLIENTS: u8 = 4;

/// Tasks of a client that have one each.
const TASKS: u8 = 2;

/// What a task takes: its own key, or all keys.
struct Striped<K: LockKind> {
    all: Lock<K>,
    own: Lock<K>,
    /// The key of the other task.
    beside: Lock<K>,
}

impl<K: LockKind> Striped<K> {
    fn new(
        client: &Client,
        key: &str,
        lock: impl Fn(&[String]) -> Result<Lock<K>, LockError>,
    ) -> Result<Self, LockError> {
        let keys = keys(key);
        let first = usize::from(client.number() % CLIENTS * TASKS);
        Ok(Self {
            all: lock(&keys)?,
            own: lock(&keys[first..=first])?,
            beside: lock(&keys[first + 1..first + 2])?,
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
        Some(Self {
            all: self.all.clone(),
            own: self.beside.clone(),
            beside: self.own.clone(),
        })
    }
}

/// Waiters look again less often than elsewhere, so it shows whether they are told.
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
            Ok(lock.max_poll_interval(poll(client)).build())
        })
    });
    boxed(lock.storing(tokens).queueing(kept_for))
}

pub(in crate::subject) fn fenced_multi() -> Box<dyn DynSubject> {
    let promises = striped().with_fencing(Fencing::Lasting);
    let lock = Ours::new("fenced-multi", promises, |client, key| {
        Striped::new(client, key, |keys| {
            let lock = client.options(client.locks().fenced_multi_key_mutex(keys)?);
            Ok(lock.max_poll_interval(poll(client)).build())
        })
    });
    boxed(lock.storing(tokens).queueing(kept_for).holding())
}

/// One that clients contend for under its own name, and one more for each task but the first.
fn keys(key: &str) -> Vec<String> {
    let others = (1..CLIENTS * TASKS).map(|nth| stored::beside(key, &format!(":{nth}")));
    [key.to_owned()].into_iter().chain(others).collect()
}

/// The waiters that keys are kept for.
fn kept_for(view: &dyn View, key: &str) -> Vec<Vec<u8>> {
    let keys = keys(key).into_iter();
    keys.flat_map(|key| stored::kept_for(view, &key)).collect()
}

/// A token is a reader's if it is at one key, and a writer's if it is at all; what is at some of them is something else,
/// but keeps others out as well.
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
