//! The mutex that serves waiters in the order in which they arrived at the server: a sorted set of their tokens by
//! place, and one by the time until which each of them counts as alive, on the server's clock.

use super::{beside, fenced, millis, scripted::Scheme, single};
use crate::script::Script;
use std::{sync::LazyLock, time::Duration};

static ACQUIRE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("../script/now.lua"),
        include_str!("../script/mint.lua"),
        include_str!("../script/fair/acquire.lua"),
    ))
});
static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../script/fair/release.lua")));

/// `patience`: how long a waiter keeps its place without asking.
pub(crate) fn scheme(key: &[u8], patience: Duration, fenced: bool) -> Scheme {
    let kept = if fenced {
        fenced::LAST_KEPT
    } else {
        Duration::ZERO
    };
    Scheme {
        keys: vec![
            key.to_vec(),
            beside(key, ":queue"),
            beside(key, ":alive"),
            beside(key, ":fence"),
        ],
        args: vec![millis(patience), millis(kept)],
        begins_with_set: false,
        queues: true,
        acquire: &ACQUIRE,
        release: &RELEASE,
        ..single::scheme(key)
    }
}
