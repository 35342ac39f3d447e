//! The result of a run, or the reason why there is none.

use crate::{history::History, vocabulary::Capability};
use std::{io, time::Duration};

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Recorded history.
    pub history: History,
    /// Number of polls of tasks.
    pub steps: u64,
    /// The last number drawn by the scheduler.
    pub last_draw: u64,
    /// True if the run was stopped because tasks woke each other forever.
    pub endless: bool,
    /// Number of tasks that the subject started with `tokio::spawn`, outside of the scheduler.
    pub stray_tasks: usize,
    /// The first error of the subject's `open`, with its sources.
    pub open_error: Option<String>,
    /// Keys of a server at the first time when it had keys, but no holder was observed.
    pub beside: Vec<Vec<u8>>,
    /// Longest time for which the machine did not run the program (real servers only).
    pub gap: Duration,
}

/// Reason why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The server or the runtime cannot be reached.
    #[error("the run could not be set up: {0}")]
    OutOfReach(#[from] io::Error),
    /// The backend, or the form of the subject, lacks a capability that the scenario needs.
    #[error("the backend or the form of the lock does not support: {}", .0.name())]
    Unsupported(Capability),
    /// The adapter of a lock in another language ended by itself, or wrote an invalid line.
    #[error("the adapter failed: {0}")]
    Adapter(String),
}
