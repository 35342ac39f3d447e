//! The mutex, with and without its watchdog; one that is held at least for some time; and one that watches its key and leaves
//! word beside it.

use super::{Ours, promises, stored};
use crate::{
    backend::View,
    history::{Kind, Stored},
    subject::{Suspect, boxed},
};

/// It holds for one lease unless it is extended.
pub(in crate::subject) fn mutex() -> Box<dyn Suspect> {
    boxed(Ours::new("mutex", promises(Kind::Mutex), |client, key| {
        Ok(client.options(client.locks().mutex(key)).build())
    }))
}

/// Its lease is extended in the background.
pub(in crate::subject) fn mutex_with_watchdog() -> Box<dyn Suspect> {
    let promises = promises(Kind::Mutex).renewing();
    boxed(Ours::new("mutex-watchdog", promises, |client, key| {
        let lock = client.options(client.locks().mutex(key));
        Ok(lock.watchdog(true).build())
    }))
}

/// Who gives it back early keeps others out a while longer.
pub(in crate::subject) fn mutex_that_holds() -> Box<dyn Suspect> {
    let lock = Ours::new("mutex-holding", promises(Kind::Mutex), |client, key| {
        Ok(client.options(client.locks().mutex(key)).build())
    });
    boxed(lock.holding())
}

/// What its holders leave word of.
const WORD: &[u8] = b"me";

/// Its holder hears at once of what others do to the key, and what it says of itself stands beside the key for as long.
pub(in crate::subject) fn mutex_that_watches() -> Box<dyn Suspect> {
    let promises = promises(Kind::Mutex).noticing();
    let lock = Ours::new("mutex-watching", promises, |client, key| {
        let lock = client.options(client.locks().mutex(key));
        Ok(lock.watch_key(true).metadata(WORD).build())
    });
    boxed(lock.storing(with_word))
}

/// The token at the key, until the first of the two ends; another one if its holder's word is not there.
fn with_word(view: &dyn View, key: &str) -> Vec<Stored> {
    let said = |held: Stored| {
        let holder = [b":holder:", &*held.token].concat();
        let place = String::from_utf8(holder).ok();
        let said = place.and_then(|place| view.string(&stored::beside(key, &place)));
        match said.filter(|said| said.token == WORD) {
            Some(said) => Stored {
                expires: said.expires.min(held.expires),
                ..held
            },
            None => Stored {
                token: [b"unsaid:", &*held.token].concat(),
                ..held
            },
        }
    };
    view.string(key).map(said).into_iter().collect()
}
