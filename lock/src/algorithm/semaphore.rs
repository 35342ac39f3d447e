//! A bounded number of permits: a sorted set of their holders, each with a weight, by the deadline of each on the
//! server's clock.

use super::{number, scripted::Scheme};
use crate::script::Script;
use std::sync::LazyLock;

macro_rules! script {
    ($name:literal) => {
        LazyLock::new(|| {
            Script::new(concat!(
                include_str!("../script/now.lua"),
                include_str!("../script/semaphore/permits.lua"),
                include_str!(concat!("../script/semaphore/", $name)),
            ))
        })
    };
}

static ACQUIRE: LazyLock<Script> = script!("acquire.lua");
static EXTEND: LazyLock<Script> = script!("extend.lua");
static RELEASE: LazyLock<Script> = script!("release.lua");

pub(crate) fn scheme(key: &[u8], capacity: u32, permits: u32) -> Scheme {
    Scheme {
        keys: vec![key.to_vec()],
        args: vec![number(capacity.into()), number(permits.into())],
        locks: 1,
        watched: false,
        begins_with_set: false,
        queues: false,
        acquire: &ACQUIRE,
        extend: &EXTEND,
        release: &RELEASE,
    }
}
