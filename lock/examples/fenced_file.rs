//! Fencing a file: a holder is paused for longer than its lease, wakes up and writes. No lock can prevent
//! that; the resource can, if each access carries the fencing token of its grant.
//!
//! `Clock::Tokio` lets one clock drive the server and the leases of the guards. With `Clock::Manual` the
//! server's keys expire while the guards, which follow tokio's clock, still count as valid.
//!
//! Run it: `cargo run -p redouble-lock --example fenced_file`

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "an example shows what it does"
)]

use redouble::{Clock, Server};
use redouble_lock::{FencedGuard, FencingToken, LockManager};
use std::{error::Error, fs, io, path::PathBuf, time::Duration};

/// A file that checks fencing tokens: each access, read or write, raises the mark, and the file refuses a lower token.
struct Ledger {
    path: PathBuf,
    mark: FencingToken,
}

impl Ledger {
    fn admit(&mut self, fence: FencingToken) -> io::Result<()> {
        if fence < self.mark {
            let text = format!("{fence} is outdated, {} was here", self.mark);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        self.mark = fence;
        Ok(())
    }

    fn read(&mut self, fence: FencingToken) -> io::Result<u64> {
        self.admit(fence)?;
        let text = fs::read_to_string(&self.path)?;
        text.trim().parse().map_err(io::Error::other)
    }

    fn write(&mut self, fence: FencingToken, balance: u64) -> io::Result<()> {
        self.admit(fence)?;
        fs::write(&self.path, balance.to_string())
    }
}

fn deposit(ledger: &mut Ledger, guard: &FencedGuard, amount: u64) -> io::Result<()> {
    let balance = ledger.read(guard.fencing_token())?;
    ledger.write(guard.fencing_token(), balance + amount)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = Server::builder().clock(Clock::Tokio).start().await?;
    let locks = LockManager::new(server.connection().await?);
    let lock = locks
        .mutex("ledger")
        .fenced()
        .lease(Duration::from_secs(10))
        .build()?;
    let path = std::env::temp_dir().join(format!("redouble-ledger-{}", std::process::id()));
    fs::write(&path, "100")?;
    let mut ledger = Ledger {
        path: path.clone(),
        mark: FencingToken::default(),
    };

    // The first holder reads. Then its process is paused for longer than its lease.
    let first = lock.lock().await?;
    let seen = ledger.read(first.fencing_token())?;
    tokio::time::advance(Duration::from_secs(11)).await;

    // Meanwhile a second holder is granted the lock, and deposits.
    let second = lock.lock().await?;
    deposit(&mut ledger, &second, 50)?;

    // The first holder goes on where it was paused, and writes its result.
    let late = ledger.write(first.fencing_token(), seen + 1);
    println!(
        "the late write: {}",
        late.as_ref()
            .err()
            .map_or_else(|| "accepted!".into(), ToString::to_string)
    );
    assert!(late.is_err());
    assert_eq!(
        ledger.read(second.fencing_token())?,
        150,
        "nothing was lost"
    );
    fs::remove_file(path)?;
    Ok(())
}
