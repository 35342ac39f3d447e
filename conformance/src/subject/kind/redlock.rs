//! Redlock on several independent nodes, with and without fencing tokens.

use super::{Ours, client::Client, fenced_promises, promises};
use crate::{
    subject::{DynSubject, boxed},
    vocabulary::{Kind, Promises, Topology},
};
use redouble_lock::{LockError, Redlock, RedlockMutex};

const fn on(nodes: u8) -> Promises {
    promises(Kind::Mutex).on(Topology::Nodes(nodes))
}

pub(super) fn nodes(client: &Client) -> Result<Redlock, LockError> {
    let nodes = Redlock::new(client.all())?;
    // The network of a scenario may be slow.
    Ok(nodes.node_timeout(client.reply_timeout()))
}

fn open(client: &Client, key: &str) -> Result<RedlockMutex, LockError> {
    client.options(nodes(client)?.mutex(key)).build()
}

pub(in crate::subject) fn redlock() -> Box<dyn DynSubject> {
    boxed(Ours::new("redlock", on(5), open))
}

pub(in crate::subject) fn redlock_of_three() -> Box<dyn DynSubject> {
    boxed(Ours::new("redlock-of-three", on(3), open))
}

pub(in crate::subject) fn redlock_with_watchdog() -> Box<dyn DynSubject> {
    boxed(Ours::new(
        "redlock-watchdog",
        on(3).renewing(),
        |client, key| {
            let lock = client.options(nodes(client)?.mutex(key));
            lock.watchdog(true).build()
        },
    ))
}

pub(in crate::subject) fn fenced_redlock() -> Box<dyn DynSubject> {
    let promises = fenced_promises().on(Topology::Nodes(3));
    boxed(Ours::new("fenced-redlock", promises, |client, key| {
        client.options(nodes(client)?.mutex(key).fenced()).build()
    }))
}
