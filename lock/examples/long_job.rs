//! A job that outlives its lease: the watchdog extends it for as long as the holder lives. If the holder
//! crashes, the other clients wait for one lease at most.
//!
//! Run it: `cargo run -p redouble-lock --example long_job`

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example shows what it does"
)]

use redouble::Server;
use redouble_lock::{LockManager, Release};
use std::{error::Error, time::Duration};

const LEASE: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::start().await?;
    let locks = LockManager::from_client(redis::Client::open(server.url())?).await?;
    let job = locks
        .mutex("job:nightly")
        .lease(LEASE)
        .watchdog(true)
        .build()?;

    let guard = job.lock().await?;
    guard.run(tokio::time::sleep(LEASE * 3)).await?; // three times its lease
    assert!(
        job.try_lock().await.is_err(),
        "no other client acquired the lock"
    );
    assert_eq!(guard.release().await, Release::Released);
    println!("the holder worked for three leases, and no other client got the lock");

    // A holder whose process crashes: its watchdog is gone too.
    let crashing = locks.mutex("job:nightly").lease(LEASE).build()?;
    std::mem::forget(crashing.lock().await?);
    let begun = std::time::Instant::now();
    let successor = job.lock().await?;
    println!(
        "the next holder got the lock after {:?}; the lease is {LEASE:?}",
        begun.elapsed()
    );

    // Redis does not reply any more: the holder learns of the loss by its own deadline, and its work stops.
    let _pause = server.pause();
    let outcome = successor.run(std::future::pending::<()>()).await;
    assert!(outcome.is_err_and(|error| error.is_lost()));
    println!("the lease could not be extended, and the work was stopped");
    Ok(())
}
