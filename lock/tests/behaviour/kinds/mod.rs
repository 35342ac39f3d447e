//! What every kind of lock has in common: on the double in virtual time, and on a real server where there
//! is one.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that fails, in virtual time or over a socket"
)]

mod cancellation;
mod counters;
mod promises;
mod subject;
