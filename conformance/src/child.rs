//! Starts child processes, but not during the steps of clients in virtual time.
//!
//! Until a child executes its program it has copies of all file descriptors of this process. A socket that a
//! client closes meanwhile ends with its last copy, at an instant that does not depend on the seed.

use std::{
    io,
    process::{Child, Command},
    sync::{PoisonError, RwLock, RwLockReadGuard},
};

static STARTS: RwLock<()> = RwLock::new(());

/// Starts a child between the steps of clients.
pub(crate) fn start(command: &mut Command) -> io::Result<Child> {
    let _alone = STARTS.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Prevents child processes from starting until the guard is dropped.
#[cfg(unix)]
pub(crate) fn keep_from_starting() -> RwLockReadGuard<'static, ()> {
    STARTS.read().unwrap_or_else(PoisonError::into_inner)
}
