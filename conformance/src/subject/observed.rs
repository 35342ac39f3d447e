//! What a server stores for a lock: read by the subject, with helpers for the usual places.

use crate::{
    backend::View,
    history::{Holder, Mode, Stored},
};
use redouble::Data;
use std::time::Duration;

/// What a server stores for a lock; the answer of [`Subject::observe`](super::Subject::observe).
///
/// A lock whose place is not described has properties that cannot be judged. A permit per member of a sorted set, whose
/// score is the deadline, with the waiters in a list beside it:
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
    /// Number of holders that are only counted.
    pub anonymous: u32,
}

impl Observed {
    /// A string, whose value is the token of the holder.
    #[must_use]
    pub fn string(view: &dyn View, key: &str) -> Self {
        Self::of(view.string(key).into_iter().map(Holder::from))
    }

    /// A hash with a field for each holder: the field is the token. A value that is a number is the depth.
    #[must_use]
    pub fn hash(view: &dyn View, key: &str) -> Self {
        let (fields, expires) = hash(view, key);
        Self::of(fields.into_iter().map(|(token, value)| Holder {
            token,
            depth: number(&value),
            expires,
            ..Holder::default()
        }))
    }

    /// A hash with a field for each holder, whose value is the token.
    #[must_use]
    pub fn hash_values(view: &dyn View, key: &str) -> Self {
        let (fields, expires) = hash(view, key);
        Self::of(fields.into_iter().map(|(_, token)| Holder {
            token,
            expires,
            ..Holder::default()
        }))
    }

    /// A hash for one holder: the value of one field is the token, that of another, if there is one, the depth.
    #[must_use]
    pub fn hash_field(view: &dyn View, key: &str, token: &str, depth: Option<&str>) -> Self {
        let (fields, expires) = hash(view, key);
        let value = |name: &str| {
            let field = fields.iter().find(|(field, _)| field == name.as_bytes());
            field.map(|(_, value)| value.clone())
        };
        let holder = value(token).map(|token| Holder {
            token,
            depth: depth.and_then(value).and_then(|value| number(&value)),
            expires,
            ..Holder::default()
        });
        Self::of(holder)
    }

    /// A sorted set with a member for each holder: the member is the token, its score the deadline in milliseconds since
    /// 1970 on the clock of the server.
    #[must_use]
    pub fn sorted_set(view: &dyn View, key: &str) -> Self {
        let Some((Data::SortedSet(members), _)) = view.data(key) else {
            return Self::default();
        };
        Self::of(members.iter().map(|(token, deadline)| Holder {
            token: token.to_vec(),
            expires: expiry(view, *deadline as i64),
            ..Holder::default()
        }))
    }

    /// A set, a sorted set or a list with an element for each holder, which is the token. Holders end with the key.
    #[must_use]
    pub fn set(view: &dyn View, key: &str) -> Self {
        let (tokens, expires) = elements(view, key);
        Self::of(tokens.into_iter().map(|token| Holder {
            token,
            expires,
            ..Holder::default()
        }))
    }

    /// A string, whose value is the number of holders.
    #[must_use]
    pub fn counter(view: &dyn View, key: &str) -> Self {
        let count = view.string(key).and_then(|it| number(&it.token));
        Self {
            anonymous: count.unwrap_or(0),
            ..Self::default()
        }
    }

    /// The tokens in a list, the head first; in a sorted set, the lowest score first; or in a set.
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

    /// Adds what another place has.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.holders.extend(other.holders);
        self.waiters.extend(other.waiters);
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

impl From<Vec<Stored>> for Observed {
    fn from(stored: Vec<Stored>) -> Self {
        Self::of(stored.into_iter().map(Holder::from))
    }
}

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn hash(view: &dyn View, key: &str) -> (Fields, Option<Duration>) {
    match view.data(key) {
        Some((Data::Hash(fields), expires)) => {
            let fields = fields.iter();
            let fields = fields.map(|(field, value)| (field.to_vec(), value.to_vec()));
            (fields.collect(), expires)
        }
        _ => (Vec::new(), None),
    }
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

/// When a deadline of the server's clock expires, as keys do: a millisecond before it is gone.
pub(super) fn expiry(view: &dyn View, deadline_ms: i64) -> Option<Duration> {
    let gone = view.true_time(deadline_ms.saturating_add(1))?;
    Some(gone.saturating_sub(Duration::from_millis(1)))
}
