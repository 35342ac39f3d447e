//! The mutex that serves waiters in the order in which they came, with and without numbers.

use super::{Ours, fenced_promises, promises};
use crate::{
    history::Kind,
    subject::{Suspect, boxed},
};

pub(in crate::subject) fn fair() -> Box<dyn Suspect> {
    boxed(Ours::new("fair", promises(Kind::Mutex), |client, key| {
        Ok(client.options(client.locks().fair_mutex(key)).build())
    }))
}

pub(in crate::subject) fn fenced_fair() -> Box<dyn Suspect> {
    boxed(Ours::new(
        "fenced-fair",
        fenced_promises(),
        |client, key| {
            let lock = client.locks().fenced_fair_mutex(key);
            Ok(client.options(lock).build())
        },
    ))
}
