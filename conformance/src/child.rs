//! Starts of child processes, kept apart from the steps of clients in virtual time.
//!
//! Until a child executes its program it has copies of all file descriptors of this process. A socket that a
//! client closes meanwhile ends with the last copy, at an instant that no seed decides.

use std::{
    io,
    process::{Child, Command},
    sync::{PoisonError, RwLock, RwLockReadGuard},
};

static STARTS: RwLock<()> = RwLock::new(());

/// Starts a child while no client makes a step.
pub(crate) fn start(command: &mut Command) -> io::Result<Child> {
    let _alone = STARTS.write().unwrap_or_else(PoisonError::into_inner);
    command.spawn()
}

/// Keeps children from being started until the guard is dropped.
#[cfg(unix)]
pub(crate) fn keep_from_starting() -> RwLockReadGuard<'static, ()> {
    STARTS.read().unwrap_or_else(PoisonError::into_inner)
}
