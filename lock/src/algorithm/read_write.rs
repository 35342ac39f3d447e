//! Many readers or one writer: the writer is a key that expires, as in the mutex; the readers are a sorted set
//! by the deadline of each on the server's clock; a writer that waits may hold a key that keeps new readers
//! out.

use super::{beside, fenced, millis, number, script_set::ScriptSet, single, waiters_key};
use crate::script::{Script, script};
use std::{sync::LazyLock, time::Duration};

static READ: LazyLock<Script> =
    script!("now.lua", "ask.lua", "read/readers.lua", "read/acquire.lua");
static EXTEND_READ: LazyLock<Script> = script!("now.lua", "read/readers.lua", "read/extend.lua");
static RELEASE_READ: LazyLock<Script> = script!(
    "now.lua",
    "wake.lua",
    "read/call.lua",
    "read/readers.lua",
    "read/release.lua"
);
static DOWNGRADE: LazyLock<Script> = script!(
    "now.lua",
    "wake.lua",
    "read/call.lua",
    "read/readers.lua",
    "read/downgrade.lua"
);
static WRITE: LazyLock<Script> = script!(
    "now.lua",
    "ask.lua",
    "mint.lua",
    "read/readers.lua",
    "write/acquire.lua"
);
static RELEASE_WRITE: LazyLock<Script> =
    script!("now.lua", "wake.lua", "read/call.lua", "write/release.lua");

fn keys(key: &[u8]) -> Vec<Vec<u8>> {
    let readers = beside(key, ":readers");
    let first = beside(key, ":writer-waits");
    vec![key.to_vec(), readers, first, waiters_key(key)]
}

pub(crate) fn read(key: &[u8]) -> ScriptSet {
    ScriptSet {
        keys: keys(key),
        args: Vec::new(),
        holders: 2,
        adds: b"r".to_vec(),
        tracked: false,
        begins_with_set: false,
        queues: false,
        acquire: &READ,
        extend: &EXTEND_READ,
        release: &RELEASE_READ,
    }
}

/// A read lock that is asked for with the token of a writer, and takes its place.
pub(crate) fn downgraded(key: &[u8]) -> ScriptSet {
    ScriptSet {
        acquire: &DOWNGRADE,
        ..read(key)
    }
}

/// `goes_first` is for how long readers make way for a writer that has asked.
pub(crate) fn write(key: &[u8], goes_first: Option<Duration>, fenced: bool) -> ScriptSet {
    let mut keys = keys(key);
    keys.push(beside(key, ":fence"));
    let kept = if fenced {
        fenced::LAST_KEPT
    } else {
        Duration::ZERO
    };
    ScriptSet {
        keys,
        adds: b"w".to_vec(),
        args: vec![goes_first.map_or_else(|| number(0), millis), millis(kept)],
        begins_with_set: false,
        queues: goes_first.is_some(),
        acquire: &WRITE,
        release: &RELEASE_WRITE,
        ..single::scripts(key)
    }
}
