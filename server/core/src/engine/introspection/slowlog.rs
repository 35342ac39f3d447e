//! SLOWLOG: the latest commands that took long, and what of them is shown.
//!
//! Source: `slowlog.c`.

use crate::resp::{Blob, Request};
use std::collections::VecDeque;

/// Arguments kept of a request (`SLOWLOG_ENTRY_MAX_ARGC`).
const ARGS_MAX: usize = 32;
/// Bytes kept of an argument (`SLOWLOG_ENTRY_MAX_STRING`).
const ARG_BYTES_MAX: usize = 128;

/// A command that took long.
#[derive(Clone, Debug)]
pub(crate) struct SlowEntry {
    pub(crate) id: i64,
    /// Seconds since 1970, at its end.
    pub(crate) at: i64,
    pub(crate) micros: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) addr: Box<str>,
    pub(crate) client_name: Blob,
}

/// The latest entries, newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slowlog {
    entries: VecDeque<SlowEntry>,
    next_id: i64,
}

impl Slowlog {
    /// Adds an entry, gives it an id, and forgets the oldest entries beyond `max`.
    pub(in crate::engine) fn push(&mut self, mut entry: SlowEntry, max: usize) {
        entry.id = self.next_id;
        self.next_id += 1;
        self.entries.push_front(entry);
        self.entries.truncate(max);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SlowEntry> {
        self.entries.iter()
    }
}

/// The arguments of a request as the log keeps them.
pub(in crate::engine) fn trimmed(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX {
        ARGS_MAX - 1
    } else {
        args.len()
    };
    let trim = |arg: &&[u8]| match arg.len().checked_sub(ARG_BYTES_MAX) {
        None | Some(0) => arg.to_vec(),
        Some(more) => {
            let mut kept = arg[..ARG_BYTES_MAX].to_vec();
            kept.extend(format!("... ({more} more bytes)").bytes());
            kept
        }
    };
    let mut trimmed: Vec<Vec<u8>> = args[..kept].iter().map(trim).collect();
    if kept < args.len() {
        let more = args.len() - kept;
        trimmed.push(format!("... ({more} more arguments)").into_bytes());
    }
    trimmed
}

/// Text in place of a secret.
const REDACTED: &[u8] = b"(redacted)";

/// Returns the arguments of a request without passwords.
pub(in crate::engine) fn shown<'a>(request: Request<'a>) -> Vec<&'a [u8]> {
    let mut words: Vec<&[u8]> = request.iter().collect();
    let is = |word: Option<&&[u8]>, name: &str| {
        word.is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    let name = words.first();
    if is(name, "auth") && words.len() <= 3 {
        words[1..].fill(REDACTED);
    } else if is(name, "hello") {
        let mut at = 2;
        while at < words.len() {
            let more = words.len() - at - 1;
            if is(words.get(at), "auth") && more >= 2 {
                words[at + 1..at + 3].fill(REDACTED);
                at += 3;
            } else if is(words.get(at), "setname") && more >= 1 {
                at += 2;
            } else {
                break;
            }
        }
    } else if is(name, "migrate") {
        let mut at = 6;
        while at < words.len() && !is(words.get(at), "keys") {
            let secrets = match () {
                () if is(words.get(at), "auth") => 1,
                () if is(words.get(at), "auth2") => 2,
                () => 0,
            };
            let end = (at + 1 + secrets).min(words.len());
            words[at + 1..end].fill(REDACTED);
            at = end;
        }
    } else if is(name, "acl") && is(words.get(1), "setuser") {
        words[2..].fill(REDACTED);
    } else if is(name, "config") && is(words.get(1), "set") {
        for at in (2..words.len().saturating_sub(1)).step_by(2) {
            if crate::engine::is_secret(words[at]) {
                words[at + 1] = REDACTED;
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::OwnedRequest;

    fn seen(line: &str) -> String {
        let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
        let words = shown(request.as_request().expect("not empty"));
        let words: Vec<_> = words.into_iter().map(String::from_utf8_lossy).collect();
        words.join(" ")
    }

    #[test]
    fn secrets_are_not_shown() {
        for (line, expected) in [
            ("AUTH x", "AUTH (redacted)"),
            ("auth u x", "auth (redacted) (redacted)"),
            ("auth u x y", "auth u x y"),
            (
                "hello 3 setname auth auth u p",
                "hello 3 setname auth auth (redacted) (redacted)",
            ),
            ("hello 3 auth u", "hello 3 auth u"),
            (
                "config set timeout 1 REQUIREPASS p",
                "config set timeout 1 REQUIREPASS (redacted)",
            ),
            ("config get requirepass", "config get requirepass"),
            ("set auth x", "set auth x"),
            (
                "acl SETUSER u >p on",
                "acl SETUSER (redacted) (redacted) (redacted)",
            ),
            ("acl getuser u", "acl getuser u"),
            (
                "migrate h 1 k 0 5 copy auth p replace auth2 u p",
                "migrate h 1 k 0 5 copy auth (redacted) replace auth2 (redacted) (redacted)",
            ),
            (
                "migrate h 1 k 0 5 keys auth p",
                "migrate h 1 k 0 5 keys auth p",
            ),
        ] {
            assert_eq!(seen(line), expected);
        }
    }

    #[test]
    fn much_is_trimmed() {
        let words = vec![&b"x"[..]; 33];
        let kept = trimmed(&words);
        assert_eq!(
            (kept.len(), &*kept[31]),
            (32, &b"... (2 more arguments)"[..])
        );
        assert_eq!(trimmed(&words[..32]).len(), 32);
        let long = [b'y'; 130];
        assert!(trimmed(&[&long])[0].ends_with(b"yy... (2 more bytes)"));
        assert_eq!(trimmed(&[&long[..128]])[0].len(), 128);
    }
}
