//! The mutex on one Redis node: a key that holds the token of its owner and expires.

use super::scripted::Scheme;
use crate::script::Script;
use std::sync::LazyLock;

static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../script/single/acquire.lua")));
static EXTEND: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../script/single/extend.lua")));
static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("../script/single/release.lua")));

pub(crate) fn scheme(key: &[u8]) -> Scheme {
    Scheme {
        keys: vec![key.to_vec()],
        args: Vec::new(),
        locks: 1,
        watched: false,
        begins_with_set: true,
        queues: false,
        acquire: &ACQUIRE,
        extend: &EXTEND,
        release: &RELEASE,
    }
}
