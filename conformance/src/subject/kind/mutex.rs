//! The mutex, with and without its watchdog; one that is held at least for some time; one that watches its key; and one
//! with metadata beside it.

use super::{Ours, promises, stored};
use crate::{
    history::Kind,
    subject::{DynSubject, boxed},
};

/// It holds for one lease unless it is extended.
pub(in crate::subject) fn mutex() -> Box<dyn DynSubject> {
    boxed(Ours::new("mutex", promises(Kind::Mutex), |client, key| {
        Ok(client.options(client.locks().mutex(key)).build())
    }))
}

/// Its lease is extended in the background.
pub(in crate::subject) fn mutex_with_watchdog() -> Box<dyn DynSubject> {
    let promises = promises(Kind::Mutex).renewing();
    boxed(Ours::new("mutex-watchdog", promises, |client, key| {
        let lock = client.options(client.locks().mutex(key));
        Ok(lock.watchdog(true).build())
    }))
}

/// Who gives it back early keeps others out a while longer.
pub(in crate::subject) fn mutex_that_holds() -> Box<dyn DynSubject> {
    let lock = Ours::new("mutex-holding", promises(Kind::Mutex), |client, key| {
        Ok(client.options(client.locks().mutex(key)).build())
    });
    boxed(lock.holding())
}

/// Its holder hears at once of what others do to the key.
pub(in crate::subject) fn mutex_that_watches() -> Box<dyn DynSubject> {
    let promises = promises(Kind::Mutex).noticing();
    boxed(Ours::new("mutex-watching", promises, |client, key| {
        let lock = client.options(client.locks().mutex(key));
        Ok(lock.track_key(true).build())
    }))
}

/// What its holder says of itself stands beside the key for as long.
pub(in crate::subject) fn mutex_with_metadata() -> Box<dyn DynSubject> {
    let lock = Ours::new("mutex-metadata", promises(Kind::Mutex), |client, key| {
        let lock = client.options(client.locks().mutex(key));
        Ok(lock.metadata(stored::METADATA).build())
    });
    boxed(lock.storing(stored::with_metadata))
}
