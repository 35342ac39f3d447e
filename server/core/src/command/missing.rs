//! Commands of Redis 7.0 that are not implemented. They reply with an error that says so, unlike unknown
//! commands.

/// Whole commands.
#[rustfmt::skip]
pub(super) const COMMANDS: &[&str] = &[
];

/// Subcommands of commands that are implemented.
#[rustfmt::skip]
pub(super) const SUBCOMMANDS: &[(&str, &[&str])] = &[
];
