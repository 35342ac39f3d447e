//! Locks on the wall clock: a real server, unmodified code, threads, and processes of other languages.

#[cfg(unix)]
mod foreign;
#[cfg(unix)]
mod plain;
mod real;
#[cfg(unix)]
mod threads;
