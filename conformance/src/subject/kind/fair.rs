//! The mutex that serves waiters in order of arrival, with and without fencing tokens. The queue is a sorted
//! set beside the key. The form with fencing tokens is held for a minimum time.

use super::{Ours, SKIP_TIMEOUTS, fenced_promises, promises, stored};
use crate::{
    backend::View,
    subject::{DynSubject, boxed},
    vocabulary::{Kind, Promises},
};

const fn served_in_order(promises: Promises) -> Promises {
    promises.fair().skipping_after(SKIP_TIMEOUTS)
}

fn queue(view: &dyn View, key: &str) -> Vec<Vec<u8>> {
    stored::in_a_queue(view, &stored::beside(key, ":queue"))
}

pub(in crate::subject) fn fair() -> Box<dyn DynSubject> {
    let promises = served_in_order(promises(Kind::Mutex));
    let lock = Ours::new("fair", promises, |client, key| {
        client.options(client.locks().fair_mutex(key)).build()
    });
    boxed(lock.queueing(queue))
}

pub(in crate::subject) fn fenced_fair() -> Box<dyn DynSubject> {
    let promises = served_in_order(fenced_promises());
    let lock = Ours::new("fenced-fair", promises, |client, key| {
        let lock = client.locks().fair_mutex(key).fenced();
        client.options(lock).build()
    });
    boxed(lock.queueing(queue).holding())
}
