//! Channels, patterns and sharded channels, and their subscribers.
//!
//! *Policy* (`pubsub.c`): a message goes to the subscribers of its channel in the order in which
//! they subscribed, then to those of each matching pattern in the order in which the patterns came
//! up. Sharded channels are a space of their own, without patterns. Nothing is kept for later.

use crate::engine::channel::Space;
use crate::engine::conn_id::ConnId;
use crate::engine::glob::glob_match;
use crate::resp::{Blob, Reply};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Subscriptions of one connection.
#[derive(Clone, Debug, Default)]
struct Subscriptions {
    channels: BTreeSet<Blob>,
    /// In the order of subscription; the other kinds have no order in Redis.
    patterns: Vec<Blob>,
    shards: BTreeSet<Blob>,
}

impl Subscriptions {
    /// False if it was there.
    fn insert(&mut self, space: Space, name: &[u8]) -> bool {
        match space {
            Space::Channel => self.channels.insert(Blob::new(name)),
            Space::Shard => self.shards.insert(Blob::new(name)),
            Space::Pattern => {
                let is_new = self.patterns.iter().all(|known| **known != *name);
                if is_new {
                    self.patterns.push(Blob::new(name));
                }
                is_new
            }
        }
    }

    /// False if it was not there.
    fn remove(&mut self, space: Space, name: &[u8]) -> bool {
        match space {
            Space::Channel => self.channels.remove(name),
            Space::Shard => self.shards.remove(name),
            Space::Pattern => {
                let at = self.patterns.iter().position(|known| **known == *name);
                at.map(|at| self.patterns.remove(at)).is_some()
            }
        }
    }

    fn names(&self, space: Space) -> Vec<Blob> {
        match space {
            Space::Channel => self.channels.iter().cloned().collect(),
            Space::Shard => self.shards.iter().cloned().collect(),
            Space::Pattern => self.patterns.clone(),
        }
    }
}

type Listeners = HashMap<Blob, Vec<ConnId>, FixedState>;

/// An empty name is matched by an empty pattern alone: `*` is known to KEYS and SCAN, not here.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    (!name.is_empty() || pattern.is_empty()) && glob_match(pattern, name)
}

/// All subscriptions of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct PubSub {
    channels: Listeners,
    shards: Listeners,
    /// In the order in which they came up.
    patterns: Vec<(Blob, Vec<ConnId>)>,
    by_conn: BTreeMap<ConnId, Subscriptions>,
}

/// Number of subscriptions of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) channels: usize,
    pub(crate) patterns: usize,
    pub(crate) shards: usize,
}

impl Counts {
    pub(crate) fn is_zero(self) -> bool {
        self == Self::default()
    }
}

impl PubSub {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_conn.is_empty()
    }

    pub(crate) fn counts(&self, conn: ConnId) -> Counts {
        let Some(own) = self.by_conn.get(&conn) else {
            return Counts::default();
        };
        Counts {
            channels: own.channels.len(),
            patterns: own.patterns.len(),
            shards: own.shards.len(),
        }
    }

    fn listeners(&mut self, space: Space, name: &[u8]) -> &mut Vec<ConnId> {
        match space {
            Space::Channel => self.channels.entry(Blob::new(name)).or_default(),
            Space::Shard => self.shards.entry(Blob::new(name)).or_default(),
            Space::Pattern => {
                let at = self.patterns.iter().position(|(known, _)| **known == *name);
                let at = at.unwrap_or_else(|| {
                    self.patterns.push((Blob::new(name), Vec::new()));
                    self.patterns.len() - 1
                });
                &mut self.patterns[at].1
            }
        }
    }

    pub(crate) fn subscribe(&mut self, conn: ConnId, space: Space, name: &[u8]) {
        let own = self.by_conn.entry(conn).or_default();
        if own.insert(space, name) {
            self.listeners(space, name).push(conn);
        }
    }

    pub(crate) fn unsubscribe(&mut self, conn: ConnId, space: Space, name: &[u8]) {
        let Some(own) = self.by_conn.get_mut(&conn) else {
            return;
        };
        if own.remove(space, name) {
            self.forget(conn, space, name);
        }
        if self.counts(conn).is_zero() {
            self.by_conn.remove(&conn);
        }
    }

    fn forget(&mut self, conn: ConnId, space: Space, name: &[u8]) {
        let listeners = self.listeners(space, name);
        listeners.retain(|other| *other != conn);
        if listeners.is_empty() {
            match space {
                Space::Channel => drop(self.channels.remove(name)),
                Space::Shard => drop(self.shards.remove(name)),
                Space::Pattern => self.patterns.retain(|(known, _)| **known != *name),
            }
        }
    }

    /// Subscriptions of a connection: patterns in the order in which it asked for them, all else sorted.
    pub(crate) fn names(&self, conn: ConnId, space: Space) -> Vec<Blob> {
        let own = self.by_conn.get(&conn);
        own.map_or_else(Vec::new, |own| own.names(space))
    }

    /// All that a connection listens to; true for patterns.
    pub(crate) fn all_names(&self, conn: ConnId) -> Vec<(Blob, bool)> {
        let spaces = [Space::Pattern, Space::Channel, Space::Shard].into_iter();
        let names = spaces.flat_map(|space| {
            let names = self.names(conn, space).into_iter();
            names.map(move |name| (name, space == Space::Pattern))
        });
        names.collect()
    }

    /// Forgets a connection.
    pub(crate) fn leave(&mut self, conn: ConnId) {
        let own = self.by_conn.remove(&conn).unwrap_or_default();
        for space in [Space::Channel, Space::Pattern, Space::Shard] {
            let names = own.names(space);
            names.iter().for_each(|name| self.forget(conn, space, name));
        }
    }

    /// Returns the receivers of a message with their frames, in the order in which Redis sends them.
    pub(crate) fn publish(
        &self,
        space: Space,
        channel: &[u8],
        message: &[u8],
    ) -> Vec<(ConnId, Reply)> {
        let (.., word) = space.words();
        let listeners = match space {
            Space::Channel | Space::Pattern => self.channels.get(channel),
            Space::Shard => self.shards.get(channel),
        };
        let frame = |words: &[&[u8]]| Reply::Push(words.iter().map(Reply::bulk).collect());
        let mut messages = Vec::new();
        if let Some(listeners) = listeners {
            let frame = frame(&[word.as_bytes(), channel, message]);
            messages.extend(listeners.iter().map(|conn| (*conn, frame.clone())));
        }
        if space == Space::Channel {
            for (pattern, listeners) in &self.patterns {
                if matches(pattern, channel) {
                    let frame = frame(&[b"pmessage", pattern, channel, message]);
                    messages.extend(listeners.iter().map(|conn| (*conn, frame.clone())));
                }
            }
        }
        messages
    }

    /// Returns the number of subscriptions: two connections with the same channel have two.
    pub(crate) fn len(&self) -> usize {
        let counts = self.by_conn.keys().map(|conn| self.counts(*conn));
        counts.map(|it| it.channels + it.patterns + it.shards).sum()
    }

    /// The channels with subscribers, sorted; patterns do not count.
    pub(crate) fn channels(&self, space: Space, pattern: Option<&[u8]>) -> Vec<Blob> {
        let listeners = match space {
            Space::Shard => &self.shards,
            Space::Channel | Space::Pattern => &self.channels,
        };
        let names = listeners.keys();
        let mut names: Vec<_> = names
            .filter(|name| pattern.is_none_or(|pattern| matches(pattern, name)))
            .cloned()
            .collect();
        names.sort_unstable();
        names
    }

    /// Subscribers of a channel, in the order in which they subscribed.
    pub(crate) fn listeners_of(&self, space: Space, name: &[u8]) -> Vec<ConnId> {
        let listeners = match space {
            Space::Shard => &self.shards,
            Space::Channel | Space::Pattern => &self.channels,
        };
        listeners.get(name).cloned().unwrap_or_default()
    }

    /// Returns the number of subscribers of a channel.
    pub(crate) fn listener_count(&self, space: Space, name: &[u8]) -> usize {
        let listeners = match space {
            Space::Shard => &self.shards,
            Space::Channel | Space::Pattern => &self.channels,
        };
        listeners.get(name).map_or(0, Vec::len)
    }

    /// Returns the number of different patterns.
    pub(crate) fn pattern_count(&self) -> usize {
        self.patterns.len()
    }
}
