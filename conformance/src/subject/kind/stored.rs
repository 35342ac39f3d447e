//! Where the kinds keep their tokens.

use crate::{backend::View, history::Stored};
use redouble::Data;
use std::time::Duration;

/// The string at the key.
pub(super) fn at_the_key(view: &dyn View, key: &str) -> Vec<Stored> {
    view.string(key).into_iter().collect()
}

/// What holders say of themselves.
pub(super) const METADATA: &[u8] = b"me";

/// The token at the key, until it or what its holder says of itself ends; none if nothing is said.
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

/// The name of a further key of a lock: in the same slot of a cluster, by the hash tag of the lock's own name if it has one.
pub(super) fn beside(key: &str, suffix: &str) -> String {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    match tag {
        Some((tag, _)) if !tag.is_empty() => format!("{key}{suffix}"),
        Some(_) | None => format!("{{{key}}}{suffix}"),
    }
}

/// A token per field of a hash, whose value begins with its deadline in milliseconds of the server.
pub(super) fn in_a_hash(view: &dyn View, key: &str) -> Vec<Stored> {
    let Some((Data::Hash(holders), _)) = view.data(key) else {
        return Vec::new();
    };
    let mut stored = Vec::with_capacity(holders.len());
    for (token, value) in &holders {
        let deadline = std::str::from_utf8(value).unwrap_or_default();
        let deadline = deadline.split(':').next().and_then(|ms| ms.parse().ok());
        stored.push(Stored {
            token: token.to_vec(),
            expires: deadline.and_then(|ms| expiry(view, ms)),
        });
    }
    stored
}

/// The fields of a hash, by the number that is their value.
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

/// The elements of a list.
pub(super) fn in_a_list(view: &dyn View, key: &str) -> Vec<Vec<u8>> {
    let Some((Data::List(elements), _)) = view.data(key) else {
        return Vec::new();
    };
    elements.iter().map(|element| element.to_vec()).collect()
}

/// When a deadline of the server's clock expires, as keys do: a millisecond before it is gone.
fn expiry(view: &dyn View, deadline_ms: i64) -> Option<Duration> {
    let gone = view.true_time(deadline_ms.saturating_add(1))?;
    Some(gone.saturating_sub(Duration::from_millis(1)))
}
