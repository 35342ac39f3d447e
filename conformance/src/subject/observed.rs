//! The state of a lock on a server: the subject reads it, with helpers for the usual data structures.

use crate::{
    backend::View,
    vocabulary::{Holder, Mode, Stored},
};
use redouble::Data;
use std::time::Duration;

/// The state of a lock on a server, as returned by [`Subject::observe`](super::Subject::observe).
///
/// Properties that need this state are skipped for a lock whose keys are not described. The example describes
/// a semaphore. Its permits are members of a sorted set, scored by deadline; its waiters are in a list:
///
/// ```
/// use redouble_conformance::{backend::View, subject::Observed};
///
/// fn observe(view: &dyn View, key: &str) -> Observed {
///     let permits = Observed::sorted_set(view, &format!("permits:{key}"));
///     permits.waiting(Observed::queue(view, &format!("waiters:{key}")))
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Holders whose tokens are stored.
    pub holders: Vec<Holder>,
    /// Tokens of the waiters in a queue, the next waiter first.
    pub waiters: Vec<Vec<u8>>,
    /// Tokens of the waiters for which the lock is reserved: a release woke them, and other clients cannot acquire the lock
    /// until they have asked or the reservation ends.
    pub reserved: Vec<Vec<u8>>,
    /// Number of holders without a token, for locks that store only a count.
    pub anonymous: u32,
}

impl Observed {
    /// Converts a deadline that a value stores, in milliseconds since 1970 by the server's clock, to the `expires` of a [`Holder`]: the
    /// last instant at which the deadline still stands. As with keys, the holder is gone one millisecond later. `None` if that
    /// instant cannot be told, as the clock will be set.
    ///
    /// A [`Holder`] whose `expires` is `None` stays for ever. If a holder has several entries, leave those out that have expired before
    /// you take the latest: `None` is less than any `Some`.
    #[must_use]
    pub fn expiry(view: &dyn View, deadline_ms: i64) -> Option<Duration> {
        let gone = view.true_time(deadline_ms.saturating_add(1))?;
        Some(gone.saturating_sub(Duration::from_millis(1)))
    }

    /// Reads a string, whose value is the token of the holder.
    #[must_use]
    pub fn string(view: &dyn View, key: &str) -> Self {
        Self::of(view.string(key).into_iter().map(Holder::from))
    }

    /// Reads a hash with a field per holder: the field is the token. A numeric value is the reentrancy depth. A holder expires with
    /// its field (`HPEXPIRE`) or with the key.
    #[must_use]
    pub fn hash(view: &dyn View, key: &str) -> Self {
        Self::of(hash(view, key).into_iter().map(|field| Holder {
            token: field.name,
            depth: number(&field.value),
            expires: field.expires,
            ..Holder::default()
        }))
    }

    /// Reads a hash with a field per holder, whose value is the token.
    #[must_use]
    pub fn hash_values(view: &dyn View, key: &str) -> Self {
        Self::of(hash(view, key).into_iter().map(|field| Holder {
            token: field.value,
            expires: field.expires,
            ..Holder::default()
        }))
    }

    /// Reads a hash for one holder: the field `token` holds the token, the field `depth`, if given, the
    /// reentrancy depth.
    #[must_use]
    pub fn hash_field(view: &dyn View, key: &str, token: &str, depth: Option<&str>) -> Self {
        let fields = hash(view, key);
        let find = |name: &str| fields.iter().find(|field| field.name == name.as_bytes());
        let holder = find(token).map(|field| Holder {
            token: field.value.clone(),
            depth: depth.and_then(find).and_then(|field| number(&field.value)),
            expires: field.expires,
            ..Holder::default()
        });
        Self::of(holder)
    }

    /// Reads a sorted set with a member per holder: the member is the token, the score is the deadline in
    /// milliseconds since 1970 on the server's clock.
    #[must_use]
    pub fn sorted_set(view: &dyn View, key: &str) -> Self {
        let Some((Data::SortedSet(members), _)) = view.data(key) else {
            return Self::default();
        };
        Self::of(members.iter().map(|(token, deadline)| Holder {
            token: token.to_vec(),
            expires: Self::expiry(view, *deadline as i64),
            ..Holder::default()
        }))
    }

    /// Reads a sorted set with a member per holder: the member is the token, the score is the time of its acquisition in milliseconds
    /// since 1970 on the server's clock. The holder expires a lease later ([`View::lease`]), as a millisecond of that clock.
    #[must_use]
    pub fn sorted_set_since(view: &dyn View, key: &str) -> Self {
        let Some((Data::SortedSet(members), _)) = view.data(key) else {
            return Self::default();
        };
        let lease_ms = i64::try_from(view.lease().as_millis()).unwrap_or(i64::MAX);
        Self::of(members.iter().map(|(token, begun)| Holder {
            token: token.to_vec(),
            expires: Self::expiry(view, (*begun as i64).saturating_add(lease_ms)),
            ..Holder::default()
        }))
    }

    /// Reads the pending entries of a consumer group of a stream, each of which has a holder: the consumer's name is the token. The
    /// holder expires a lease ([`View::lease`]) after the last delivery of its entry, which XAUTOCLAIM or XCLAIM can then give to
    /// another consumer.
    #[must_use]
    pub fn pending_entries(view: &dyn View, key: &str, group: &str) -> Self {
        let lease_ms = i64::try_from(view.lease().as_millis()).unwrap_or(i64::MAX);
        let entries = view.pending_entries(key, group).into_iter();
        Self::of(entries.map(|entry| Holder {
            token: entry.consumer.to_vec(),
            expires: Self::expiry(view, entry.delivered_at.0.saturating_add(lease_ms - 1)),
            ..Holder::default()
        }))
    }

    /// Reads a set, a sorted set or a list with an element per holder: the element is the token. Holders
    /// expire with the key.
    #[must_use]
    pub fn set(view: &dyn View, key: &str) -> Self {
        let (tokens, expires) = elements(view, key);
        Self::of(tokens.into_iter().map(|token| Holder {
            token,
            expires,
            ..Holder::default()
        }))
    }

    /// Reads a string, whose value is the number of holders.
    #[must_use]
    pub fn counter(view: &dyn View, key: &str) -> Self {
        let count = view.string(key).and_then(|it| number(&it.token));
        Self {
            anonymous: count.unwrap_or(0),
            ..Self::default()
        }
    }

    /// Returns the tokens in a list from head to tail, in a sorted set by rising score, or in a set.
    #[must_use]
    pub fn queue(view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        elements(view, key).0
    }

    /// Sets the mode in which all of these holders hold the lock.
    #[must_use]
    pub fn in_mode(mut self, mode: Mode) -> Self {
        for holder in &mut self.holders {
            holder.mode = Some(mode);
        }
        self
    }

    /// Sets the tokens of the waiters, the next waiter first.
    #[must_use]
    pub fn waiting(mut self, waiters: Vec<Vec<u8>>) -> Self {
        self.waiters = waiters;
        self
    }

    /// Sets the tokens of the waiters for which the lock is reserved.
    #[must_use]
    pub fn reserving(mut self, waiters: Vec<Vec<u8>>) -> Self {
        self.reserved = waiters;
        self
    }

    /// Merges the state of another key into this one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.holders.extend(other.holders);
        self.waiters.extend(other.waiters);
        self.reserved.extend(other.reserved);
        self.anonymous = self.anonymous.saturating_add(other.anonymous);
        self
    }

    fn of(holders: impl IntoIterator<Item = Holder>) -> Self {
        Self {
            holders: holders.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl From<Vec<Holder>> for Observed {
    fn from(holders: Vec<Holder>) -> Self {
        Self::of(holders)
    }
}

impl From<Vec<Stored>> for Observed {
    fn from(stored: Vec<Stored>) -> Self {
        Self::of(stored.into_iter().map(Holder::from))
    }
}

/// A field of a hash. It expires at its own deadline if it has one, and with its key otherwise.
struct Field {
    name: Vec<u8>,
    value: Vec<u8>,
    expires: Option<Duration>,
}

fn hash(view: &dyn View, key: &str) -> Vec<Field> {
    let Some((Data::Hash(fields), with_key)) = view.data(key) else {
        return Vec::new();
    };
    let own = view.field_expiries(key);
    let fields = fields.iter().map(|(name, value)| Field {
        name: name.to_vec(),
        value: value.to_vec(),
        expires: match own.get(&name[..]) {
            Some(Some(own)) => Some(with_key.map_or(*own, |with_key| with_key.min(*own))),
            Some(None) | None => with_key,
        },
    });
    fields.collect()
}

fn elements(view: &dyn View, key: &str) -> (Vec<Vec<u8>>, Option<Duration>) {
    let Some((data, expires)) = view.data(key) else {
        return (Vec::new(), None);
    };
    let elements = if let Data::List(elements) = data {
        elements.iter().map(|it| it.to_vec()).collect()
    } else if let Data::Set(members) = data {
        members.iter().map(|it| it.to_vec()).collect()
    } else if let Data::SortedSet(members) = data {
        members.iter().map(|(it, _)| it.to_vec()).collect()
    } else {
        Vec::new()
    };
    (elements, expires)
}

fn number(value: &[u8]) -> Option<u32> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
