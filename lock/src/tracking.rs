//! Early loss: a guard is told as soon as somebody else changes the key of its lock.
//!
//! The node tracks what a connection reads (`CLIENT TRACKING`, once per connection) and pushes the names of keys that others
//! change. Of its modes, the default one with `NOLOOP` costs no round trip: the scripts that take and extend a
//! lock end with a read, which registers the key anew after their own write. `OPTIN` would need `CLIENT
//! CACHING YES` before each of them, and with `BCAST` prefixes cannot be taken back one by one, and must not overlap.
//!
//! A push says that a key was changed, not that the lock is lost. So the acquisition is asked whether it stands,
//! by an extension that is too short to extend anything and registers the key again.

use crate::{
    guard::Held,
    lease::{Lease, LeaseState},
    retry,
    waiters::Waiters,
};
use std::{collections::BTreeMap, sync::Arc};
use tokio::sync::Notify;

/// Who is to be told of a change, by key and number.
pub(crate) type Watchers = BTreeMap<Vec<u8>, BTreeMap<u64, Arc<Notify>>>;

/// A place among those who are told of changes of some keys. Dropping it leaves.
pub(crate) struct Watch {
    waiters: Arc<Waiters>,
    keys: Vec<Vec<u8>>,
    number: u64,
    bell: Arc<Notify>,
}

impl Watch {
    pub(crate) fn new(waiters: &Arc<Waiters>, keys: &[Vec<u8>]) -> Self {
        let (bell, number) = (Arc::new(Notify::new()), waiters.number());
        let mut watchers = waiters.watchers();
        for key in keys {
            let watchers = watchers.entry(key.clone()).or_default();
            watchers.insert(number, Arc::clone(&bell));
        }
        drop(watchers);
        Self {
            waiters: Arc::clone(waiters),
            keys: keys.to_vec(),
            number,
            bell,
        }
    }

    /// Waits for a change since the last call.
    pub(crate) async fn changed(&self) {
        self.bell.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut all = self.waiters.watchers();
        for key in &self.keys {
            if let Some(watchers) = all.get_mut(key) {
                watchers.remove(&self.number);
                if watchers.is_empty() {
                    all.remove(key);
                }
            }
        }
    }
}

/// Ends the state of a guard as soon as its lock is found gone.
pub(crate) async fn watch(held: Arc<Held>) {
    let mut failures = 0;
    while let LeaseState::HeldUntil(_) = held.state() {
        tokio::select! {
            biased;
            _ = held.ended() => return,
            () = due(&held, failures) => {}
        }
        let until = held.env.now().saturating_add(held.options.reply_timeout);
        match held.extend(Lease::SHORTEST, until).await {
            Ok(()) => failures = 0,
            // Not known yet; by the deadline it is.
            Err(_) => failures += 1,
        }
    }
}

/// Waits for a change; after a failure, for the time to ask again.
async fn due(held: &Held, failures: u32) {
    let Some(before) = failures.checked_sub(1) else {
        return held.acquisition.changed().await;
    };
    let random = retry::draw(held.env.random());
    let pause = held.options.retry.before(before, random);
    let at = held.env.now().saturating_add(pause);
    held.env.sleep_until(at).await;
}
