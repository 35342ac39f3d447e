//! What a lock costs in memory, on servers that have done nothing else.

use crate::Result;
use crate::client::Clients;
use crate::process::Program;
use crate::report::{Figure, Target, Unit};
use crate::workload::{KEY_BYTES, Stream, fill};
use std::sync::Arc;

/// Locks that are made.
pub const KEYS: usize = 1_000_000;
const CLIENTS: usize = 8;

/// Compares the growth of resident memory per lock: a key of 12 bytes, a token of 32, a deadline.
///
/// # Errors
/// When a server cannot be started or answers wrongly.
pub fn compare(redis: &Program, redouble: &Program) -> Result<Figure> {
    let stream = Arc::new(fill(CLIENTS, KEYS));
    Ok(Figure {
        row: format!(
            "memory of {} M locks ({KEY_BYTES} B key, 32 B token, TTL)",
            KEYS / 1_000_000
        ),
        what: "resident bytes per lock",
        unit: Unit::Bytes,
        redis: vec![bytes_per_key(redis, &stream)?],
        redouble: vec![bytes_per_key(redouble, &stream)?],
        target: Target::AtMost(1.0),
        is_paired: false,
    })
}

fn bytes_per_key(program: &Program, stream: &Arc<Stream>) -> Result<f64> {
    let server = program.start()?;
    let mut clients = Clients::connect(server.addr(), CLIENTS)?;
    let before = server.resident_bytes()?;
    clients.run(stream)?;
    Ok(server.resident_bytes()?.saturating_sub(before) as f64 / KEYS as f64)
}
