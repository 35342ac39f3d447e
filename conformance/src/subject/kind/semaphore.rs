//! The semaphore of three permits, and a form whose permits are held for a minimum time.

use super::{
    Ours,
    grant::{Taken, Takes, take},
    promises, stored,
};
use crate::{
    backend::View,
    subject::{DynSubject, NotOffered, boxed},
    vocabulary::{Kind, Mode, Stored},
};
use redouble_lock::{Guard, Semaphore};
use std::time::Duration;

const PERMITS: u32 = 3;

impl Takes for Semaphore {
    type Grant = Guard;

    async fn take(&self, mode: Mode, wait: Option<Duration>) -> Taken<Guard> {
        let Mode::Permits(count) = mode else {
            return Err(NotOffered);
        };
        Ok(match self.permits(count) {
            Ok(lock) => take(&lock, wait).await,
            Err(error) => Err(error),
        })
    }
}

fn named(name: &'static str) -> Ours<Semaphore> {
    let promises = promises(Kind::Semaphore(PERMITS));
    let lock = Ours::new(name, promises, |client, key| {
        let lock = client.locks().semaphore(key, PERMITS);
        client.options(lock).build()
    });
    lock.storing(permits)
}

/// Reads the members `weight:token`; one more member counts the taken permits.
fn permits(view: &dyn View, key: &str) -> Vec<Stored> {
    let holders = stored::by_deadline(view, key).into_iter();
    let tokens = holders.filter_map(|it| {
        let colon = it.token.iter().position(|&byte| byte == b':')?;
        let token = it.token[colon + 1..].to_vec();
        Some(Stored { token, ..it })
    });
    tokens.collect()
}

pub(in crate::subject) fn semaphore() -> Box<dyn DynSubject> {
    boxed(named("semaphore"))
}

pub(in crate::subject) fn semaphore_that_holds() -> Box<dyn DynSubject> {
    boxed(named("semaphore-holding").holding())
}
