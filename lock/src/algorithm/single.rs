//! The mutex on one Redis node: a key that holds the token of its owner and expires, and a sorted set of its waiters.

use super::{script_set::ScriptSet, waiters_key};
use crate::script::{Script, script};
use std::sync::LazyLock;

static ACQUIRE: LazyLock<Script> = script!("now.lua", "ask.lua", "single/acquire.lua");
static EXTEND: LazyLock<Script> = script!("single/extend.lua");
static RELEASE: LazyLock<Script> = script!(
    "now.lua",
    "wake.lua",
    "single/pass_on.lua",
    "single/release.lua"
);

pub(crate) fn scripts(key: &[u8]) -> ScriptSet {
    ScriptSet {
        keys: vec![key.to_vec(), waiters_key(key)],
        args: Vec::new(),
        holders: 1,
        adds: Vec::new(),
        tracked: false,
        begins_with_set: true,
        queues: false,
        acquire: &ACQUIRE,
        extend: &EXTEND,
        release: &RELEASE,
    }
}
