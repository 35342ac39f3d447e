//! The lock on several keys, here two, with and without numbers. The one with numbers is held at least for some time.

use super::{Ours, fenced_promises, promises, stored};
use crate::{
    backend::View,
    history::{Kind, Stored},
    subject::{Suspect, boxed},
};
use std::time::Duration;

pub(in crate::subject) fn multi() -> Box<dyn Suspect> {
    let lock = Ours::new("multi", promises(Kind::Mutex), |client, key| {
        let lock = client.locks().multi([key, &second(key)])?;
        Ok(client.options(lock).build())
    });
    boxed(lock.storing(tokens))
}

pub(in crate::subject) fn fenced_multi() -> Box<dyn Suspect> {
    let lock = Ours::new("fenced-multi", fenced_promises(), |client, key| {
        let lock = client.locks().fenced_multi([key, &second(key)])?;
        Ok(client.options(lock).build())
    });
    boxed(lock.storing(tokens).holding())
}

fn second(key: &str) -> String {
    stored::beside(key, ":second")
}

/// A token is a holder's if it is at both keys; what is at one of them only is something else, but keeps
/// others out as well.
fn tokens(view: &dyn View, key: &str) -> Vec<Stored> {
    let on = [key, &second(key)].map(|key| view.string(key));
    match on {
        [Some(one), Some(other)] if one.token == other.token => {
            let ends = |it: &Stored| it.expires.unwrap_or(Duration::MAX);
            [one, other]
                .into_iter()
                .min_by_key(ends)
                .into_iter()
                .collect()
        }
        on => {
            let halves = on.into_iter().zip(["first:", "second:"]);
            let half = |(stored, which): (Option<Stored>, &str)| {
                let Stored { token, expires } = stored?;
                let token = [which.as_bytes(), &token].concat();
                Some(Stored { token, expires })
            };
            halves.filter_map(half).collect()
        }
    }
}
