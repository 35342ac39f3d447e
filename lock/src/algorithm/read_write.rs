//! Many readers or one writer: the writer is a key that expires, as in the mutex; the readers are a sorted set
//! by the deadline of each on the server's clock; a writer that waits may hold a key that keeps new readers
//! out.

use super::{beside, fenced, millis, number, scripted::Scheme, single};
use crate::script::Script;
use std::{sync::LazyLock, time::Duration};

macro_rules! read_script {
    ($name:literal) => {
        LazyLock::new(|| {
            Script::new(concat!(
                include_str!("../script/now.lua"),
                include_str!("../script/read/readers.lua"),
                include_str!(concat!("../script/read/", $name)),
            ))
        })
    };
}

static READ: LazyLock<Script> = read_script!("acquire.lua");
static EXTEND_READ: LazyLock<Script> = read_script!("extend.lua");
static RELEASE_READ: LazyLock<Script> = read_script!("release.lua");
static WRITE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("../script/now.lua"),
        include_str!("../script/mint.lua"),
        include_str!("../script/read/readers.lua"),
        include_str!("../script/write/acquire.lua"),
    ))
});
static RELEASE_WRITE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../script/write/release.lua")));

fn keys(key: &[u8]) -> Vec<Vec<u8>> {
    let readers = beside(key, ":readers");
    vec![key.to_vec(), readers, beside(key, ":writer-waits")]
}

pub(crate) fn read(key: &[u8]) -> Scheme {
    Scheme {
        keys: keys(key),
        args: Vec::new(),
        locks: 1,
        watched: false,
        begins_with_set: false,
        queues: false,
        acquire: &READ,
        extend: &EXTEND_READ,
        release: &RELEASE_READ,
    }
}

/// `goes_first` is for how long readers make way for a writer that has asked.
pub(crate) fn write(key: &[u8], goes_first: Option<Duration>, fenced: bool) -> Scheme {
    let mut keys = keys(key);
    keys.push(beside(key, ":fence"));
    let kept = if fenced {
        fenced::LAST_KEPT
    } else {
        Duration::ZERO
    };
    Scheme {
        keys,
        args: vec![goes_first.map_or_else(|| number(0), millis), millis(kept)],
        begins_with_set: false,
        queues: goes_first.is_some(),
        acquire: &WRITE,
        release: &RELEASE_WRITE,
        ..single::scheme(key)
    }
}
