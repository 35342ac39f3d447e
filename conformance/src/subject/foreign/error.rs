//! The reasons why the adapter of a lock in another language cannot be used.

use std::io;

/// Reason why an adapter cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// No command was given.
    #[error("no command that starts an adapter was given")]
    NoCommand,
    /// The system lacks signals or a clock that processes share.
    #[error("adapters need a Unix system, because signals pause them")]
    NoSignals,
    /// The command cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// Name of the program.
        program: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The adapter's first line is missing or invalid.
    #[error("the adapter's first line is invalid: {0}")]
    NoHello(String),
    /// The adapter gave a wrong answer in the rehearsal, which has no faults.
    #[error("the adapter failed its rehearsal: {0}")]
    Rehearsal(String),
}
