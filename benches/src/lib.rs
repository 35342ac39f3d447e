//! Measures the double, alone (`benches/`) and side by side with a real Redis (`redouble-compare`).
//!
//! The comparison drives both servers in turn with the same bytes from the same client, and judges ratios:
//! absolute figures depend more on the machine than on the server. It needs Linux, because CPU time and
//! memory of the server process come from `/proc`.

pub mod arithmetic;
pub mod client;
pub mod floor;
pub mod foreign;
pub mod handover;
pub mod in_process;
pub mod load;
pub mod machine;
pub mod memory;
pub mod process;
pub mod refusals;
pub mod report;
pub mod scenarios;
pub mod start;
pub mod workload;

/// Any error ends the comparison, so only its text matters.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The script that releases a lock: it deletes the key if the key holds the caller's token.
pub const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

/// The SHA-1 digest of [`RELEASE`], by which EVALSHA names it.
pub const RELEASE_SHA: &str = "d02e481a9c91ceec59c5822a58a49d5d5d7ac80b";
