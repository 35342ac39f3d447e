//! MONITOR: the line that tells of a command.
//!
//! Source: `replication.c: replicationFeedMonitors`.

use crate::engine::introspection::slowlog::shown;
use crate::engine::time::UnixMicros;
use crate::resp::{Request, push_quoted};

/// `<seconds>.<microseconds> [<db> <address>] "ARG" ...`
pub(crate) fn line(now: UnixMicros, db: usize, addr: &str, request: Request<'_>) -> Vec<u8> {
    let (seconds, micros) = (now.0.div_euclid(1_000_000), now.0.rem_euclid(1_000_000));
    let mut line = format!("{seconds}.{micros:06} [{db} {addr}]").into_bytes();
    for arg in shown(request) {
        line.push(b' ');
        push_quoted(arg, &mut line);
    }
    line
}
