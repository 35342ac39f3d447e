//! ACL LOG: the latest denied requests and logins.
//!
//! *Policy* (`acl.c: addACLLogEntry`): an event that equals one of the ten latest entries, at most a minute
//! apart, increments that entry and makes it the latest. Other events get a new entry.

use crate::engine::time::UnixMillis;
use std::collections::VecDeque;

/// `ACL_LOG_GROUPING_MAX_TIME_DELTA`, milliseconds.
const SAME_EVENT_MILLIS: u64 = 60_000;
/// Entries that a new event is compared with.
const COMPARED_MAX: usize = 10;

/// The right that was missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    Command,
    Key,
    Channel,
    Auth,
}

impl Reason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Key => "key",
            Self::Channel => "channel",
            Self::Auth => "auth",
        }
    }
}

/// Origin of a denied request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    TopLevel,
    Multi,
    Lua,
}

impl Place {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TopLevel => "toplevel",
            Self::Multi => "multi",
            Self::Lua => "lua",
        }
    }
}

/// Events of one kind.
#[derive(Clone, Debug)]
pub(crate) struct AclLogEntry {
    /// Number of these events.
    pub(crate) count: i64,
    pub(crate) reason: Reason,
    pub(crate) place: Place,
    /// Name of the command, key or channel.
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    /// Time of the latest event.
    pub(crate) at: UnixMillis,
    /// The client of the latest event, as CLIENT LIST shows it.
    pub(crate) client: Vec<u8>,
}

impl AclLogEntry {
    fn is_like(&self, other: &Self) -> bool {
        (self.reason, self.place) == (other.reason, other.place)
            && self.at.0.abs_diff(other.at.0) <= SAME_EVENT_MILLIS
            && self.object == other.object
            && self.user == other.user
    }
}

/// The latest entries, newest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct AclLog(VecDeque<AclLogEntry>);

impl AclLog {
    /// Adds an event, and forgets the oldest entries beyond `max`.
    pub(in crate::engine) fn add(&mut self, event: AclLogEntry, max: usize) {
        let like = self.0.iter().take(COMPARED_MAX);
        let like = like.enumerate().find(|(_, known)| known.is_like(&event));
        let like = like.map(|(at, _)| at);
        if let Some(known) = like.and_then(|at| self.0.remove(at)) {
            let count = known.count + 1;
            self.0.push_front(AclLogEntry { count, ..event });
        } else {
            self.0.push_front(event);
            self.0.truncate(max);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &AclLogEntry> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(object: &str, millis: i64) -> AclLogEntry {
        AclLogEntry {
            count: 1,
            reason: Reason::Key,
            place: Place::TopLevel,
            object: object.into(),
            user: b"alice".to_vec(),
            at: UnixMillis(millis),
            client: Vec::new(),
        }
    }

    fn seen(log: &AclLog) -> Vec<(String, i64)> {
        let entries = log.iter();
        let seen = entries.map(|entry| {
            let object = String::from_utf8_lossy(&entry.object).into_owned();
            (object, entry.count)
        });
        seen.collect()
    }

    #[test]
    fn like_events_share_an_entry_for_a_minute() {
        let mut log = AclLog::default();
        for (object, millis) in [
            ("a", 0),
            ("b", 0),
            ("a", 60_000),
            ("b", 60_001),
            ("a", 70_000),
        ] {
            log.add(event(object, millis), 128);
        }
        let expected = [("a", 3), ("b", 1), ("b", 1)];
        assert_eq!(
            seen(&log),
            expected.map(|(name, count)| (name.to_owned(), count))
        );
    }

    #[test]
    fn an_entry_beyond_the_tenth_is_not_counted_up() {
        let mut log = AclLog::default();
        for at in 0..11 {
            log.add(event(&format!("k{at}"), 0), 128);
        }
        log.add(event("k1", 0), 128);
        log.add(event("k0", 0), 128);
        assert_eq!(seen(&log)[0], ("k0".to_owned(), 1));
        assert_eq!(seen(&log)[1], ("k1".to_owned(), 2));
        log.add(event("k99", 0), 5);
        assert_eq!(log.iter().count(), 5);
    }
}
