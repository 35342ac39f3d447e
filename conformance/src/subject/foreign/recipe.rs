//! Keys and values in which a foreign lock stores its holders and waiters. The adapter declares them in its
//! first line, because a paused process cannot answer questions.

use crate::{
    backend::View,
    subject::Observed,
    vocabulary::{Holder, Kind, Mode, Scope},
};
use serde::Deserialize;

/// One key or value, as an adapter declares it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredAt {
    /// The key; `{key}` in it stands for the key of the lock.
    #[serde(default = "the_key")]
    key: String,
    #[serde(rename = "type")]
    kind: Type,
    /// Part that is the token.
    token: Option<Part>,
    /// Part that is the reentrancy depth.
    depth: Option<Part>,
    expires: Option<Expires>,
    /// Mode of the holders there: of the readers or the writer of a read-write lock.
    mode: Option<StoredMode>,
    /// Part that is the number of permits of the holder.
    permits: Option<Part>,
    /// Fields of a hash that are no holders.
    #[serde(default)]
    except: Vec<String>,
    /// Consumer group of a stream whose pending entries are the holders.
    group: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredMode {
    Exclusive,
    Shared,
}

fn the_key() -> String {
    KEY.to_owned()
}

/// Placeholder for the key of the lock.
const KEY: &str = "{key}";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Type {
    Hash,
    String,
    Zset,
    Set,
    List,
    /// A number of holders.
    Counter,
    /// Pending entries of a consumer group.
    Stream,
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    /// Each field of a hash.
    Field,
    /// The value of a string, or of each field of a hash.
    Value,
    /// Each element of a set, a sorted set or a list.
    Member,
    /// The value of the field with this name.
    ValueOf(String),
}

/// Time at which a holder expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Expires {
    /// When its key expires.
    Ttl,
    /// At its score, in milliseconds since 1970.
    ScoreMs,
    /// A lease after its score, in milliseconds since 1970: the time of its acquisition.
    SinceScoreMs,
    /// At the value of its field, in milliseconds since 1970.
    ValueMs,
}

/// Keys and values in which a lock stores its holders and waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recipe {
    /// Scope within which its tokens are unique.
    pub(super) scope: Scope,
    /// By default the string at the key.
    holders: Vec<StoredAt>,
    waiters: Vec<StoredAt>,
    /// Where the lock names the waiters that it is reserved for.
    reserved: Vec<StoredAt>,
    keeps: Vec<String>,
}

impl Recipe {
    /// Checks the declarations; the error names the one that is invalid.
    pub(super) fn of(
        scope: Scope,
        holders: &[StoredAt],
        waiters: &[StoredAt],
        reserved: &[StoredAt],
        keeps: &[String],
    ) -> Result<Self, String> {
        for place in holders {
            place.checked()?;
        }
        Ok(Self {
            scope,
            holders: holders.to_vec(),
            waiters: waiters.to_vec(),
            reserved: reserved.to_vec(),
            keeps: keeps.to_vec(),
        })
    }

    /// True if the adapter declared where the lock stores its holders.
    pub(super) fn is_declared(&self) -> bool {
        !self.holders.is_empty()
    }

    pub(super) fn observe(&self, view: &dyn View, key: &str, kind: Kind) -> Observed {
        if matches!(kind, Kind::Admission(_) | Kind::Latch(_)) {
            return Observed::default(); // they have no holders
        }
        if !self.is_declared() {
            return Observed::string(view, key);
        }
        let holders = self.holders.iter().map(|place| place.holders(view, key));
        let holders = holders.fold(Observed::default(), Observed::and);
        let named = |places: &[StoredAt]| {
            let named = places.iter().flat_map(|place| place.waiters(view, key));
            named.collect()
        };
        holders
            .waiting(named(&self.waiters))
            .reserving(named(&self.reserved))
    }

    /// True if a key may stay while no client uses the lock. `{key}` matches any text.
    pub(super) fn keeps(&self, key: &[u8]) -> bool {
        let matches = |pattern: &String| match pattern.split_once(KEY) {
            Some((before, after)) => {
                let long = key.len() >= before.len() + after.len();
                long && key.starts_with(before.as_bytes()) && key.ends_with(after.as_bytes())
            }
            None => key == pattern.as_bytes(),
        };
        self.keeps.iter().any(matches)
    }
}

fn tokens(observed: Observed) -> Vec<Vec<u8>> {
    let holders = observed.holders.into_iter();
    holders.map(|holder| holder.token).collect()
}

impl StoredAt {
    fn at(&self, key: &str) -> String {
        self.key.replace(KEY, key)
    }

    /// Checks that the parts fit the type of the value.
    fn checked(&self) -> Result<(), String> {
        let by_field = self.kind == Type::Hash && matches!(self.token, None | Some(Part::Field));
        let token = match (self.kind, &self.token) {
            (_, None)
            | (Type::String, Some(Part::Value))
            | (Type::Hash, Some(Part::Field | Part::Value | Part::ValueOf(_)))
            | (Type::Zset | Type::Set | Type::List, Some(Part::Member)) => true,
            (_, Some(_)) => false,
        };
        let depth = match (&self.token, &self.depth) {
            (_, None) => true,
            (None | Some(Part::Field), Some(Part::Value)) => self.kind == Type::Hash,
            (Some(Part::ValueOf(_)), Some(Part::ValueOf(_))) => true,
            (_, Some(_)) => false,
        };
        let expires = match self.expires {
            None | Some(Expires::Ttl) => true,
            Some(Expires::ScoreMs | Expires::SinceScoreMs) => self.kind == Type::Zset,
            Some(Expires::ValueMs) => by_field,
        };
        let permits = match self.permits {
            None => true,
            Some(Part::Value) => by_field && self.mode.is_none() && self.depth.is_none(),
            Some(Part::Field | Part::Member | Part::ValueOf(_)) => false,
        };
        let except = self.except.is_empty() || by_field;
        let wrong = [
            (token, "token"),
            (depth, "depth"),
            (expires, "expires"),
            (permits, "permits"),
            (except, "except"),
            (self.group.is_some() == (self.kind == Type::Stream), "group"),
        ];
        match wrong.into_iter().find(|(right, _)| !right) {
            // It leaves fields out, so the holders have to be fields.
            Some((_, "except")) if self.kind == Type::Hash => Err(format!(
                "`except` of the holders at {:?} names fields, so their `token` has to be `field`",
                self.key
            )),
            Some((_, field)) => Err(format!(
                "the `{field}` of the holders at {:?} does not fit the type",
                self.key
            )),
            None => Ok(()),
        }
    }

    fn waiters(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        let at = self.at(key);
        match self.kind {
            Type::String => tokens(Observed::string(view, &at)),
            Type::Hash => tokens(self.holders(view, key)),
            Type::Stream => tokens(self.holders(view, key)),
            Type::Zset | Type::Set | Type::List | Type::Counter => Observed::queue(view, &at),
        }
    }

    fn holders(&self, view: &dyn View, key: &str) -> Observed {
        let at = self.at(key);
        let mut observed = match (self.kind, &self.token, self.expires) {
            (Type::String, ..) => Observed::string(view, &at),
            (Type::Counter, ..) => Observed::counter(view, &at),
            (Type::Stream, ..) => {
                let group = self.group.as_deref().unwrap_or_default();
                Observed::pending_entries(view, &at, group)
            }
            (Type::Zset, _, None | Some(Expires::ScoreMs)) => Observed::sorted_set(view, &at),
            (Type::Zset, _, Some(Expires::SinceScoreMs)) => Observed::sorted_set_since(view, &at),
            (Type::Zset | Type::Set | Type::List, ..) => Observed::set(view, &at),
            (Type::Hash, Some(Part::ValueOf(token)), _) => {
                let depth = match &self.depth {
                    Some(Part::ValueOf(field)) => Some(field.as_str()),
                    _ => None,
                };
                return Observed::hash_field(view, &at, token, depth);
            }
            (Type::Hash, Some(Part::Value), _) => Observed::hash_values(view, &at),
            (Type::Hash, _, Some(Expires::ValueMs)) => {
                let ends = Observed::hash_values(view, &at).holders.into_iter();
                let ends = ends.map(|value| std::str::from_utf8(&value.token).ok()?.parse().ok());
                let holders = Observed::hash(view, &at).holders.into_iter();
                let holders = holders.zip(ends).map(|(holder, ends)| Holder {
                    expires: ends.and_then(|ends| Observed::expiry(view, ends)),
                    ..holder
                });
                Observed {
                    holders: holders.collect(),
                    ..Observed::default()
                }
            }
            (Type::Hash, ..) => Observed::hash(view, &at),
        };
        observed
            .holders
            .retain(|holder| !self.excepts(&holder.token));
        for holder in &mut observed.holders {
            holder.mode = match (self.mode, &self.permits) {
                (Some(StoredMode::Exclusive), _) => Some(Mode::Exclusive),
                (Some(StoredMode::Shared), _) => Some(Mode::Shared),
                (None, Some(_)) => holder.depth.map(Mode::Permits),
                (None, None) => None,
            };
            if self.depth.is_none() {
                holder.depth = None;
            }
        }
        observed
    }

    fn excepts(&self, field: &[u8]) -> bool {
        self.except.iter().any(|it| it.as_bytes() == field)
    }
}
