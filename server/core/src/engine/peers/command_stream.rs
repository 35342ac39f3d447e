//! The stream of commands that replicas outside of the deployment read: real servers that sent PSYNC, and tests that
//! sent SYNC.
//!
//! *Policy* (`server.c: call`, `propagatePendingCommands`; `replication.c`): each command that changed data enters the
//! stream by its effect, as its handler says (`context/propagation.rs`), and by default as it was sent. The commands of
//! one unit stand between MULTI and EXEC if there are several. A replica that reconnects gets what it has missed from
//! the backlog.
//!
//! Nodes of the same deployment do not read this stream: they get the states of keys (`journal.rs`).
//!
//! *Invariants.* A stream exists from the first SYNC until the node follows a master or restarts. `unit` is empty between
//! units. The byte behind the backlog has the node's replication offset.

use crate::engine::time::UnixMillis;
use crate::resp::Blob;
use std::collections::VecDeque;

/// Bytes that one unit may add; a script that writes more loses the readers of the stream, as replicas
/// do that fall behind by so much (`client-output-buffer-limit replica`).
const UNIT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A command with the database in which it runs.
#[derive(Clone, Debug)]
struct Propagated {
    db: usize,
    args: Vec<Blob>,
}

/// Propagation of a handler's own command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) enum Own {
    /// The command as it was sent.
    #[default]
    AsSent,
    /// This command in its place.
    As(Vec<Blob>),
    /// No command.
    Nothing,
}

/// The end of the stream, from which a replica that reconnects is served.
#[derive(Clone, Debug, Default)]
struct Backlog {
    bytes: VecDeque<u8>,
    bytes_max: usize,
}

impl Backlog {
    fn push(&mut self, bytes: &[u8]) {
        let kept = &bytes[bytes.len().saturating_sub(self.bytes_max)..];
        self.bytes.extend(kept);
        let excess = self.bytes.len().saturating_sub(self.bytes_max);
        self.bytes.drain(..excess);
    }
}

/// The stream, and its unit in the making.
#[derive(Clone, Debug)]
pub(in crate::engine) struct CommandStream {
    /// Commands of the unit that runs.
    unit: Vec<Propagated>,
    unit_bytes: usize,
    /// Propagation of the running handler's command.
    pub(in crate::engine) own: Own,
    /// True if the command that runs is propagated although it changed nothing.
    pub(in crate::engine) is_forced: bool,
    /// True if the commands of the unit do not form a transaction.
    pub(in crate::engine) is_plain: bool,
    /// The number of changes at the end of the latest command.
    pub(in crate::engine) changes_seen: u64,
    /// The database in which the stream ends; `None` if a new reader would not know.
    selected: Option<usize>,
    backlog: Backlog,
    /// Time of the latest PING to the readers.
    pub(in crate::engine) pinged_at: UnixMillis,
}

impl CommandStream {
    pub(in crate::engine) fn new(changes: u64, backlog_bytes_max: usize) -> Self {
        Self {
            unit: Vec::new(),
            unit_bytes: 0,
            own: Own::default(),
            is_forced: false,
            is_plain: false,
            changes_seen: changes,
            selected: None,
            backlog: Backlog {
                bytes: VecDeque::new(),
                bytes_max: backlog_bytes_max,
            },
            pinged_at: UnixMillis(0),
        }
    }

    /// Adds a command to the unit that runs.
    pub(in crate::engine) fn add(&mut self, db: usize, args: Vec<Blob>) {
        if self.unit_bytes > UNIT_BYTES_MAX {
            return;
        }
        self.unit_bytes += args
            .iter()
            .map(|arg| arg.len() + size_of::<Blob>())
            .sum::<usize>();
        self.unit.push(Propagated { db, args });
    }

    /// True if the unit that runs has added a command.
    pub(in crate::engine) fn has_news(&self) -> bool {
        !self.unit.is_empty()
    }

    /// True if the unit that ends has added more than a stream may hold.
    pub(in crate::engine) fn is_overflown(&self) -> bool {
        self.unit_bytes > UNIT_BYTES_MAX
    }

    /// Forgets the unit that runs.
    pub(in crate::engine) fn forget_unit(&mut self) {
        self.unit = Vec::new();
        self.unit_bytes = 0;
        self.is_plain = false;
    }

    /// Ends the unit: the bytes that it adds to the stream.
    pub(in crate::engine) fn take_unit(&mut self) -> Vec<u8> {
        let unit = std::mem::take(&mut self.unit);
        self.unit_bytes = 0;
        let is_plain = std::mem::take(&mut self.is_plain);
        let is_transaction = unit.len() > 1 && !is_plain;
        let mut out = Vec::new();
        for (at, command) in unit.iter().enumerate() {
            if self.selected != Some(command.db) {
                self.selected = Some(command.db);
                // Within a transaction too: EXEC runs all of it in the databases that it selects.
                write(&[b"SELECT", command.db.to_string().as_bytes()], &mut out);
            }
            if at == 0 && is_transaction {
                write(&[b"MULTI"], &mut out);
            }
            let args: Vec<&[u8]> = command.args.iter().map(|arg| &**arg).collect();
            write(&args, &mut out);
        }
        if is_transaction {
            write(&[b"EXEC"], &mut out);
        }
        self.backlog.push(&out);
        out
    }

    /// A command about the stream itself (PING, REPLCONF GETACK), which belongs to no database and no unit.
    pub(in crate::engine) fn take_notice(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        write(args, &mut out);
        self.backlog.push(&out);
        out
    }

    /// The next command names its database again: a reader joins that knows none.
    pub(in crate::engine) fn forget_selected(&mut self) {
        self.selected = None;
    }

    /// The stream behind its first `offset - 1` bytes; `None` if the backlog does not reach back so far. The
    /// stream has `end` bytes.
    pub(in crate::engine) fn since(&self, offset: u64, end: u64) -> Option<Vec<u8>> {
        let missed = end.checked_sub(offset.checked_sub(1)?)?;
        let missed = usize::try_from(missed).ok()?;
        let start = self.backlog.bytes.len().checked_sub(missed)?;
        Some(self.backlog.bytes.iter().skip(start).copied().collect())
    }

    /// Bytes that the backlog holds.
    pub(in crate::engine) fn backlog_bytes(&self) -> usize {
        self.backlog.bytes.len()
    }

    /// Changes the size of the backlog.
    pub(in crate::engine) fn limit_backlog(&mut self, bytes_max: usize) {
        self.backlog.bytes_max = bytes_max;
        self.backlog.push(&[]);
    }
}

/// A command as an array of bulk strings.
fn write(args: &[&[u8]], out: &mut Vec<u8>) {
    let header = |mark: u8, length: usize, out: &mut Vec<u8>| {
        out.push(mark);
        out.extend(length.to_string().bytes());
        out.extend(b"\r\n");
    };
    header(b'*', args.len(), out);
    for arg in args {
        header(b'$', arg.len(), out);
        out.extend_from_slice(arg);
        out.extend(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Blob> {
        text.split(' ').map(Blob::from).collect()
    }

    fn shown(bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let lines = text
            .split("\r\n")
            .filter(|line| !line.starts_with(['*', '$']));
        lines.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }

    #[test]
    fn several_commands_are_a_transaction_and_databases_are_selected_once() {
        let mut stream = CommandStream::new(0, 1000);
        stream.add(0, words("SET a 1"));
        assert_eq!(shown(&stream.take_unit()), "SELECT 0 SET a 1");
        stream.add(0, words("DEL a"));
        stream.add(3, words("SET b 2"));
        assert_eq!(
            shown(&stream.take_unit()),
            "MULTI DEL a SELECT 3 SET b 2 EXEC"
        );
        stream.add(3, words("DEL c"));
        stream.add(3, words("DEL d"));
        stream.is_plain = true;
        assert_eq!(shown(&stream.take_unit()), "DEL c DEL d");
        stream.add(3, words("DEL e"));
        stream.is_plain = true;
        assert_eq!(shown(&stream.take_unit()), "DEL e");
        stream.add(3, words("SET a 1"));
        stream.add(3, words("SET b 2"));
        assert_eq!(shown(&stream.take_unit()), "MULTI SET a 1 SET b 2 EXEC");
        assert!(stream.take_unit().is_empty());
    }

    #[test]
    fn the_backlog_serves_what_it_holds() {
        let mut stream = CommandStream::new(0, 30);
        let first = stream.take_notice(&[b"PING"]);
        let end = first.len() as u64;
        assert_eq!(end, 14);
        assert_eq!(stream.since(1, end).as_deref(), Some(&first[..]));
        assert_eq!(stream.since(end + 1, end).as_deref(), Some(&b""[..]));
        assert_eq!(stream.since(end + 2, end), None);
        stream.take_notice(&[b"PING"]);
        stream.take_notice(&[b"PING"]);
        assert_eq!(stream.since(12, 42), None);
        assert_eq!(stream.since(13, 42).map(|bytes| bytes.len()), Some(30));
    }
}
