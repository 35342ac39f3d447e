//! The mutex, with and without its watchdog.

use super::{Ours, promises};
use crate::history::Kind;
use redouble_lock::Mutex;

/// It holds for one lease unless it is extended.
pub(in crate::subject) fn mutex() -> Ours<Mutex> {
    Ours::new("mutex", promises(Kind::Mutex), |client, key| {
        Ok(client.options(client.locks().mutex(key)).build())
    })
}

/// Its lease is extended in the background.
pub(in crate::subject) fn mutex_with_watchdog() -> Ours<Mutex> {
    Ours::new("mutex-watchdog", promises(Kind::Mutex), |client, key| {
        let lock = client.options(client.locks().mutex(key));
        Ok(lock.watchdog(true).build())
    })
}
