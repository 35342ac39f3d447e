//! The mutex, with and without its watchdog; one that is held for a minimum time; one whose holder watches
//! its key; and one with metadata beside it.

use super::{Ours, promises, stored};
use crate::{
    subject::{DynSubject, boxed},
    vocabulary::Kind,
};

/// A grant holds for one lease unless the caller extends it.
pub(in crate::subject) fn mutex() -> Box<dyn DynSubject> {
    boxed(Ours::new("mutex", promises(Kind::Mutex), |client, key| {
        client.options(client.locks().mutex(key)).build()
    }))
}

/// A watchdog extends the lease.
pub(in crate::subject) fn mutex_with_watchdog() -> Box<dyn DynSubject> {
    let promises = promises(Kind::Mutex).renewing();
    boxed(Ours::new("mutex-watchdog", promises, |client, key| {
        let lock = client.options(client.locks().mutex(key));
        lock.watchdog(true).build()
    }))
}

/// A grant that is released early keeps other clients out for some more time.
pub(in crate::subject) fn mutex_that_holds() -> Box<dyn DynSubject> {
    let lock = Ours::new("mutex-holding", promises(Kind::Mutex), |client, key| {
        client.options(client.locks().mutex(key)).build()
    });
    boxed(lock.holding())
}

/// The holder learns at once that another client changed the key.
pub(in crate::subject) fn mutex_that_watches() -> Box<dyn DynSubject> {
    let promises = promises(Kind::Mutex).noticing();
    boxed(Ours::new("mutex-watching", promises, |client, key| {
        let lock = client.options(client.locks().mutex(key));
        lock.track_key(true).build()
    }))
}

/// The holder's metadata is stored beside the key, with the same time to live.
pub(in crate::subject) fn mutex_with_metadata() -> Box<dyn DynSubject> {
    let lock = Ours::new("mutex-metadata", promises(Kind::Mutex), |client, key| {
        let lock = client.options(client.locks().mutex(key));
        lock.metadata(stored::METADATA).build()
    });
    boxed(lock.storing(stored::with_metadata))
}
