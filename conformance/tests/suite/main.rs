//! Tests of the suite's verdicts: every kind and every known bug, the same seed twice, and the pages that it draws.
//! They are one binary, so that it links once.

#![allow(clippy::unwrap_used, reason = "tests that fail")]

#[cfg(unix)]
mod bench;
#[cfg(unix)]
mod browser;
mod determinism;
mod kinds;
mod locks;
mod messages;
#[cfg(unix)]
mod report;
mod shapes;
mod specimens;
mod subjects;

/// The allocator of the program `redouble-check`: a scenario allocates much and keeps little.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
