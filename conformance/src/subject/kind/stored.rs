//! The keys in which the kinds store their tokens.

use crate::{backend::View, subject::Observed, vocabulary::Stored};
use redouble::{Data, Deployment};
use std::sync::LazyLock;

/// Begins the value of a key that is reserved for a woken waiter; the waiter's token follows.
const RESERVED: &[u8] = b"?";

/// Returns the token of the holder at the key, unless the key is reserved for a waiter.
pub(super) fn at_the_key(view: &dyn View, key: &str) -> Vec<Stored> {
    let held = view.string(key);
    held.filter(|it| !it.token.starts_with(RESERVED))
        .into_iter()
        .collect()
}

/// Returns the token of the waiter for which the key is reserved.
pub(super) fn reserved_for(view: &dyn View, key: &str) -> Vec<Vec<u8>> {
    let held = view.string(key);
    let waiter = held.and_then(|it| it.token.strip_prefix(RESERVED).map(<[u8]>::to_vec));
    waiter.into_iter().collect()
}

/// Metadata of all holders.
pub(super) const METADATA: &[u8] = b"me";

/// Returns the token at the key. It ends with the key or with its metadata; without metadata there is none.
pub(super) fn with_metadata(view: &dyn View, key: &str) -> Vec<Stored> {
    let held = view.string(key).and_then(|held| {
        let suffix = [b":holder:", &*held.token].concat();
        let place = beside(key, &String::from_utf8(suffix).ok()?);
        let said = view.string(&place).filter(|it| it.token == METADATA)?;
        let expires = said.expires.min(held.expires);
        Some(Stored { expires, ..held })
    });
    held.into_iter().collect()
}

/// Returns the name of a further key of a lock, in the same slot of a cluster. If the lock's name has a hash
/// tag, the new name shares it. Otherwise the name becomes the tag; if it contains a closing brace, the tag
/// is a number with the same slot.
pub(super) fn beside(key: &str, suffix: &str) -> String {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    match tag {
        Some((tag, _)) if !tag.is_empty() => format!("{key}:{suffix}"),
        _ if key.is_empty() || key.contains('}') => {
            let slot = usize::from(Deployment::slot_of(key));
            format!("{{{}}}{key}}}{suffix}", TAGS[slot])
        }
        _ => format!("{{{key}}}{suffix}"),
    }
}

/// Lowest number in each slot.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; SLOTS];
    let mut missing = SLOTS;
    let numbers = (0..).take_while(|number| {
        let tag = &mut tags[usize::from(Deployment::slot_of(number.to_string()))];
        missing -= usize::from(tag.is_none());
        tag.get_or_insert(*number);
        missing > 0
    });
    numbers.for_each(drop);
    tags.into_iter().flatten().collect()
});

/// Number of slots of a cluster.
const SLOTS: usize = 16_384;

/// Reads a token per member of a sorted set, scored by deadline in milliseconds on the server's clock.
pub(super) fn by_deadline(view: &dyn View, key: &str) -> Vec<Stored> {
    let holders = Observed::sorted_set(view, key).holders.into_iter();
    let stored = holders.map(|holder| Stored {
        token: holder.token,
        expires: holder.expires,
    });
    stored.collect()
}

/// Returns the fields of a hash, sorted by their numeric values.
pub(super) fn in_order(view: &dyn View, key: &str) -> Vec<Vec<u8>> {
    let Some((Data::Hash(places), _)) = view.data(key) else {
        return Vec::new();
    };
    let number = |place: &[u8]| std::str::from_utf8(place).ok()?.parse::<u64>().ok();
    let mut names: Vec<_> = places
        .iter()
        .map(|(name, place)| (number(place), name.to_vec()))
        .collect();
    names.sort_unstable();
    names.into_iter().map(|(_, name)| name).collect()
}

/// Returns the tokens of the waiters in a sorted set, the lowest score first. Their names begin with 16
/// digits that name the process.
pub(super) fn in_a_queue(view: &dyn View, key: &str) -> Vec<Vec<u8>> {
    let Some((Data::SortedSet(members), _)) = view.data(key) else {
        return Vec::new();
    };
    let tokens = members.iter().map(|(name, _)| name.get(16..48));
    tokens.flatten().map(<[u8]>::to_vec).collect()
}
