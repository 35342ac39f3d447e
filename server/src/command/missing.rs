//! Commands of Redis 7.0 that are not implemented: they answer an error that says so, instead of
//! one that says they do not exist. Empty one day.

/// Whole commands.
#[rustfmt::skip]
pub(super) const COMMANDS: &[&str] = &[
];

/// Subcommands of commands that are implemented.
#[rustfmt::skip]
pub(super) const SUBCOMMANDS: &[(&str, &[&str])] = &[
];
