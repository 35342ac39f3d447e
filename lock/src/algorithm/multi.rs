//! Several mutexes of one node, taken by one script: all of them or none. Each is the key of an ordinary mutex.
//!
//! With fencing tokens, each key also has the counter that a fenced mutex of that key has. The script that takes the locks raises the
//! counters of all keys to one token above each of them. If two grants have a key in common, the later one finds the token of the
//! earlier one, or a higher one, at that key, and has a higher one itself. That holds for grants of several keys and of one.
//! Grants without a common key are not ordered.

use super::{beside, fenced, millis, number, script_set::ScriptSet, waiters_key};
use crate::script::{Script, script};
use std::sync::LazyLock;

static ACQUIRE: LazyLock<Script> = script!(
    "now.lua",
    "ask.lua",
    "wake.lua",
    "single/pass_on.lua",
    "multi/take.lua",
    "multi/acquire.lua"
);
static ACQUIRE_FENCED: LazyLock<Script> = script!(
    "now.lua",
    "ask.lua",
    "wake.lua",
    "single/pass_on.lua",
    "multi/take.lua",
    "multi/acquire_fenced.lua"
);
static EXTEND: LazyLock<Script> = script!(
    "now.lua",
    "wake.lua",
    "single/pass_on.lua",
    "multi/extend.lua"
);
static RELEASE: LazyLock<Script> = script!(
    "now.lua",
    "wake.lua",
    "single/pass_on.lua",
    "multi/release.lua"
);

/// There is at least one key, and none twice.
pub(crate) fn scripts(keys: &[Vec<u8>]) -> ScriptSet {
    ScriptSet {
        keys: [
            keys,
            &keys.iter().map(|key| waiters_key(key)).collect::<Vec<_>>(),
        ]
        .concat(),
        args: vec![number(keys.len() as u64)],
        holders: keys.len(),
        adds: Vec::new(),
        tracked: false,
        begins_with_set: false,
        queues: false,
        acquire: &ACQUIRE,
        extend: &EXTEND,
        release: &RELEASE,
    }
}

/// The same with fencing tokens.
pub(crate) fn fenced_scripts(keys: &[Vec<u8>]) -> ScriptSet {
    let mut scripts = scripts(keys);
    scripts
        .keys
        .extend(keys.iter().map(|key| beside(key, ":fence")));
    scripts.args.push(millis(fenced::LAST_KEPT));
    ScriptSet {
        acquire: &ACQUIRE_FENCED,
        ..scripts
    }
}
