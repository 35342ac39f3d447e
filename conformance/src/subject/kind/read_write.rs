//! The read-write lock, with and without preference for writers. The key holds the writer, a sorted set
//! beside it the readers. The form with preference has fencing tokens for writers, and is held for a minimum
//! time.

use super::{
    Ours, SKIP_TIMEOUTS,
    grant::{Grant, Taken, Takes, take},
    promises, stored,
};
use crate::{
    backend::View,
    subject::{DynSubject, NotOffered, boxed},
    vocabulary::{Kind, Mode, Stored},
};
use redouble_lock::{Fenced, FencedGuard, Guard, Release, RwLock, Write};
use std::time::Duration;

impl Takes for RwLock {
    type Grant = Guard;

    async fn take(&self, mode: Mode, wait: Option<Duration>) -> Taken<Guard> {
        match mode {
            Mode::Exclusive => Ok(take(self.write(), wait).await),
            Mode::Shared => Ok(take(self.read(), wait).await),
            Mode::Permits(_) => Err(NotOffered),
        }
    }
}

/// The lock with fencing tokens for writers. Readers have none to send, so this lock promises nothing for the
/// resource.
struct FencedWriters(RwLock<Fenced<Write>>);

/// A grant of [`FencedWriters`].
enum Entry {
    Reader(Guard),
    Writer(FencedGuard),
}

impl Grant for Entry {
    fn guard(&self) -> &Guard {
        match self {
            Self::Reader(guard) => guard,
            Self::Writer(guard) => guard,
        }
    }

    async fn give_back(self) -> Release {
        match self {
            Self::Reader(guard) => guard.release().await,
            Self::Writer(guard) => guard.release().await,
        }
    }

    fn fence(&self) -> Option<u64> {
        match self {
            Self::Reader(_) => None,
            Self::Writer(guard) => guard.fence(),
        }
    }
}

impl Takes for FencedWriters {
    type Grant = Entry;

    async fn take(&self, mode: Mode, wait: Option<Duration>) -> Taken<Entry> {
        match mode {
            Mode::Exclusive => Ok(take(self.0.write(), wait).await.map(Entry::Writer)),
            Mode::Shared => Ok(take(self.0.read(), wait).await.map(Entry::Reader)),
            Mode::Permits(_) => Err(NotOffered),
        }
    }
}

pub(in crate::subject) fn read_write() -> Box<dyn DynSubject> {
    let lock = Ours::new("read-write", promises(Kind::ReadWrite), |client, key| {
        client.options(client.locks().rw_lock(key)).build()
    });
    boxed(lock.storing(tokens))
}

pub(in crate::subject) fn read_write_preferring() -> Box<dyn DynSubject> {
    let promises = promises(Kind::ReadWrite).skipping_after(SKIP_TIMEOUTS);
    let promises = promises.preferring_writers();
    let lock = Ours::new("read-write-preferring", promises, |client, key| {
        let lock = client.options(client.locks().rw_lock(key));
        Ok(FencedWriters(lock.prefer_writers(true).fenced().build()?))
    });
    boxed(lock.storing(tokens).queueing(writer_who_waits).holding())
}

fn tokens(view: &dyn View, key: &str) -> Vec<Stored> {
    let mut tokens = stored::at_the_key(view, key);
    tokens.extend(stored::by_deadline(view, &stored::beside(key, ":readers")));
    tokens
}

fn writer_who_waits(view: &dyn View, key: &str) -> Vec<Vec<u8>> {
    let waits = view.string(&stored::beside(key, ":writer-waits"));
    waits.into_iter().map(|it| it.token).collect()
}
