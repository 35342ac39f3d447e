//! `redlock` 2.0 of crates.io. Its release says nothing, and it cannot extend a lock.

use redlock::{Lock as Held, RedLock};
use rust_locks::{Answer, Hello, Lock, monotonic_ns_in, nodes_wanted, serve};
use std::{
    collections::HashMap,
    io,
    sync::{Mutex, PoisonError},
    time::Duration,
};

struct Redlock {
    /// Its grants borrow it for as long as they are there: for ever.
    manager: &'static RedLock,
    key: String,
    lease_ms: usize,
    grants: Mutex<HashMap<u64, Held<'static>>>,
}

impl Lock for Redlock {
    fn open(nodes: &[String], key: &str, lease: Duration) -> Self {
        let uris = nodes.iter().map(|node| format!("redis://{node}/"));
        let mut manager = RedLock::new(uris.collect::<Vec<_>>());
        manager.set_retry(1, 1); // the suite repeats
        Self {
            manager: Box::leak(Box::new(manager)),
            key: key.to_owned(),
            lease_ms: usize::try_from(lease.as_millis()).unwrap_or(usize::MAX),
            grants: Mutex::default(),
        }
    }

    fn try_lock(&self, id: u64) -> Answer {
        match self.manager.lock(self.key.as_bytes(), self.lease_ms) {
            Ok(Some(held)) => {
                let deadline_ns = monotonic_ns_in(held.validity_time);
                let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
                grants.insert(id, held);
                Answer::Ok { deadline_ns }
            }
            Ok(None) => Answer::Refused,
            Err(error) => Answer::Unknown {
                error: error.to_string(),
            },
        }
    }

    fn release(&self, grant: u64) -> Answer {
        let held = {
            let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
            grants.remove(&grant)
        };
        if let Some(held) = held {
            self.manager.unlock(&held);
        }
        Answer::Unknown {
            error: "its release says nothing".to_owned(),
        }
    }
}

fn main() -> io::Result<()> {
    let nodes = nodes_wanted();
    serve::<Redlock>(&Hello {
        name: format!("redlock 2.0.0 (crate) on {nodes}"),
        nodes,
        deadline: true,
        drift_ppm: 10_000,
    })
}
