//! The mutex that serves waiters in the order in which they came, with and without numbers.

use super::{Ours, promises};
use crate::history::Kind;
use redouble_lock::{FairMutex, FencedFairMutex};

pub(in crate::subject) fn fair() -> Ours<FairMutex> {
    Ours::new("fair", promises(Kind::Mutex), |client, key| {
        Ok(client.options(client.locks().fair_mutex(key)).build())
    })
}

pub(in crate::subject) fn fenced_fair() -> Ours<FencedFairMutex> {
    Ours::new("fenced-fair", promises(Kind::Mutex), |client, key| {
        let lock = client.locks().fenced_fair_mutex(key);
        Ok(client.options(lock).build())
    })
}
