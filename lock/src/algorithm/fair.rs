//! The mutex that serves waiters in the order in which they arrived at the server: a sorted set of their names by
//! place, and one by the time until which each of them counts as alive, on the server's clock.

use super::{beside, fenced, millis, script_set::ScriptSet, single};
use crate::script::{Script, script};
use std::{sync::LazyLock, time::Duration};

static ACQUIRE: LazyLock<Script> = script!("now.lua", "mint.lua", "fair/acquire.lua");
static RELEASE: LazyLock<Script> = script!("now.lua", "wake.lua", "fair/release.lua");

pub(crate) fn scripts(key: &[u8], fenced: bool) -> ScriptSet {
    let kept = if fenced {
        fenced::LAST_KEPT
    } else {
        Duration::ZERO
    };
    ScriptSet {
        keys: vec![
            key.to_vec(),
            beside(key, ":queue"),
            beside(key, ":alive"),
            beside(key, ":fence"),
        ],
        args: vec![millis(kept)],
        begins_with_set: false,
        queues: true,
        acquire: &ACQUIRE,
        release: &RELEASE,
        ..single::scripts(key)
    }
}
