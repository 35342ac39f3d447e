//! Which keys of a node are tracked, and on whose behalf. There is no connection and no guard here: a connection passes each
//! invalidation to [`Tracking`], which tells the [`TrackedKeys`] that contain the changed key.
//!
//! The node tracks what a connection reads (`CLIENT TRACKING`, once per connection) and pushes the names of keys that other
//! connections change. Of its modes, the default one with `NOLOOP` costs no round trip: the scripts that take and extend a
//! lock end with a read, which registers the key anew after their own write. `OPTIN` would need `CLIENT
//! CACHING YES` before each of them, and with `BCAST` prefixes cannot be taken back one by one, and must not overlap.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// All tracked keys of one node.
#[derive(Default)]
pub(crate) struct Tracking(Mutex<State>);

#[derive(Default)]
struct State {
    /// By key, and by the number of the [`TrackedKeys`].
    tracked: BTreeMap<Vec<u8>, BTreeMap<u64, Arc<Notify>>>,
    /// The number of the next [`TrackedKeys`].
    next: u64,
}

impl Tracking {
    /// Notes that another client has changed these keys; without keys, that it may have changed any.
    pub(crate) fn changed(&self, keys: Option<&[Vec<u8>]>) {
        let state = self.lock();
        let tracked: Vec<_> = match keys {
            Some(keys) => keys
                .iter()
                .filter_map(|key| state.tracked.get(key))
                .collect(),
            None => state.tracked.values().collect(),
        };
        for changed in tracked.into_iter().flat_map(BTreeMap::values) {
            changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys of one acquisition, tracked until this value is dropped.
pub(crate) struct TrackedKeys {
    tracking: Arc<Tracking>,
    keys: Vec<Vec<u8>>,
    number: u64,
    changed: Arc<Notify>,
}

impl TrackedKeys {
    pub(crate) fn new(tracking: &Arc<Tracking>, keys: &[Vec<u8>]) -> Self {
        let changed = Arc::new(Notify::new());
        let mut state = tracking.lock();
        let number = state.next;
        state.next += 1;
        for key in keys {
            let tracked = state.tracked.entry(key.clone()).or_default();
            tracked.insert(number, Arc::clone(&changed));
        }
        drop(state);
        Self {
            tracking: Arc::clone(tracking),
            keys: keys.to_vec(),
            number,
            changed,
        }
    }

    /// Waits for a change since the last call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for TrackedKeys {
    fn drop(&mut self) {
        let mut state = self.tracking.lock();
        for key in &self.keys {
            if let Some(tracked) = state.tracked.get_mut(key) {
                tracked.remove(&self.number);
                if tracked.is_empty() {
                    state.tracked.remove(key);
                }
            }
        }
    }
}
