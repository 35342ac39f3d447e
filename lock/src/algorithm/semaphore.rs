//! A bounded number of permits: a sorted set of their holders, each with a weight, by the deadline of each on the
//! server's clock.

use super::{number, script_set::ScriptSet, waiters_key};
use crate::script::{Script, script};
use std::sync::LazyLock;

static ACQUIRE: LazyLock<Script> = script!(
    "now.lua",
    "ask.lua",
    "semaphore/permits.lua",
    "semaphore/acquire.lua"
);
static EXTEND: LazyLock<Script> =
    script!("now.lua", "semaphore/permits.lua", "semaphore/extend.lua");
static RELEASE: LazyLock<Script> = script!(
    "now.lua",
    "wake.lua",
    "semaphore/permits.lua",
    "semaphore/call.lua",
    "semaphore/release.lua"
);

pub(crate) static AVAILABLE: LazyLock<Script> = script!(
    "now.lua",
    "semaphore/permits.lua",
    "semaphore/available.lua"
);

pub(crate) fn scripts(key: &[u8], capacity: u32, permits: u32) -> ScriptSet {
    ScriptSet {
        keys: vec![key.to_vec(), waiters_key(key)],
        args: vec![number(capacity.into()), number(permits.into())],
        holders: 1,
        adds: number(permits.into()),
        tracked: false,
        begins_with_set: false,
        queues: false,
        acquire: &ACQUIRE,
        extend: &EXTEND,
        release: &RELEASE,
    }
}
