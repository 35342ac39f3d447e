//! Several mutexes of one node, taken by one script: all of them or none. Each is the key of an ordinary mutex.

use super::scripted::Scheme;
use crate::script::Script;
use std::sync::LazyLock;

static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../script/multi/acquire.lua")));
static EXTEND: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../script/multi/extend.lua")));
static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../script/multi/release.lua")));

/// There is at least one key, and none twice.
pub(crate) fn scheme(keys: &[Vec<u8>]) -> Scheme {
    Scheme {
        keys: keys.to_vec(),
        args: Vec::new(),
        locks: keys.len(),
        watched: false,
        begins_with_set: false,
        queues: false,
        acquire: &ACQUIRE,
        extend: &EXTEND,
        release: &RELEASE,
    }
}
