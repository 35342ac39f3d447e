//! `rslock` 0.10 of crates.io.
//!
//! It says `Unavailable` whether another holds the lock or no server could be asked, so that is what
//! its user takes for a no. Its release says nothing. With `without-extension` behind the number of nodes it offers no
//! extension.

use rslock::{Lock as Held, LockError, LockManager};
use rust_locks::{Answer, Hello, Lock, monotonic_ns_in, nodes_wanted, serve};
use std::{
    collections::HashMap,
    env, io,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

struct Rslock {
    runtime: Runtime,
    manager: LockManager,
    key: String,
    lease: Duration,
    /// Grants with the deadlines that were told.
    grants: Mutex<HashMap<u64, (Held, Option<u64>)>>,
}

impl Rslock {
    fn told(&self, id: u64, outcome: Result<Held, LockError>) -> Answer {
        match outcome {
            Ok(held) => {
                let deadline_ns = monotonic_ns_in(held.validity_time);
                self.keep(id, (held, deadline_ns));
                Answer::Ok { deadline_ns }
            }
            Err(LockError::Unavailable) => Answer::Refused,
            Err(error) => Answer::Unknown {
                error: error.to_string(),
            },
        }
    }

    fn keep(&self, grant: u64, held: (Held, Option<u64>)) {
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        grants.insert(grant, held);
    }

    fn take(&self, grant: u64) -> Option<(Held, Option<u64>)> {
        let mut grants = self.grants.lock().unwrap_or_else(PoisonError::into_inner);
        grants.remove(&grant)
    }
}

impl Lock for Rslock {
    fn open(nodes: &[String], key: &str, lease: Duration) -> Self {
        let uris = nodes.iter().map(|node| format!("redis://{node}/"));
        let mut manager = LockManager::new(uris.collect::<Vec<_>>());
        manager.set_retry(1, Duration::from_millis(1)); // the suite repeats
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.unwrap_or_else(|error| panic!("{error}"));
        Self {
            runtime,
            manager,
            key: key.to_owned(),
            lease,
            grants: Mutex::default(),
        }
    }

    fn try_lock(&self, id: u64) -> Answer {
        let lock = self.manager.lock(self.key.as_str(), self.lease);
        let outcome = self.runtime.block_on(lock);
        self.told(id, outcome)
    }

    fn renew(&self, grant: u64) -> Answer {
        if env::args().any(|it| it == "without-extension") {
            return Answer::Unsupported;
        }
        let Some((held, deadline_ns)) = self.take(grant) else {
            return Answer::Refused;
        };
        let outcome = self
            .runtime
            .block_on(self.manager.extend(&held, self.lease));
        if outcome.is_err() {
            self.keep(grant, (held, deadline_ns));
        }
        self.told(grant, outcome)
    }

    fn release(&self, grant: u64) -> Answer {
        if let Some((held, _)) = self.take(grant) {
            self.runtime.block_on(held.release());
        }
        Answer::Unknown {
            error: "its release says nothing".to_owned(),
        }
    }
}

fn main() -> io::Result<()> {
    let nodes = nodes_wanted();
    serve::<Rslock>(&Hello {
        name: format!("rslock 0.10.0 on {nodes}"),
        nodes,
        deadline: true,
        drift_ppm: 10_000,
    })
}
