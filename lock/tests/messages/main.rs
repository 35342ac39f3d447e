//! What the locks say to Redis, over a network that breaks it, in virtual time.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that fails, in virtual time"
)]

mod broken;
#[path = "../behaviour/cancel/mod.rs"]
mod cancel;
mod fake;
mod waiting;

use cancel::cancel_at;
use fake::{Fake, Fate, LATENCY, Pushing};
use redouble_lock::{Guard, LockError, LockManager, LossReason, Mutex, Redlock, Release};
use std::time::Duration;
use tokio::{runtime::Handle, time::Instant};

const KEY: &str = "coupon:7";
const LEASE: Duration = Duration::from_secs(30);
const REPLY_TIMEOUT: Duration = Duration::from_millis(500);
const ROUND_TRIP: Duration = Duration::from_millis(2);

fn locks(node: &Fake) -> LockManager {
    LockManager::builder_on(node.clone()).build()
}

fn mutex(node: &Fake) -> Mutex {
    locks(node).mutex(KEY).lease(LEASE).build().unwrap()
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}
