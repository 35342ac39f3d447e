//! What options add to the scripts of any kind: a script around them, in the same round trip.

use super::{beside, number, scripted::Scheme};
use crate::{options::Options, script::Script, token::Token};
use std::{
    collections::BTreeMap,
    sync::{LazyLock, Mutex, PoisonError},
};

const METADATA_ACQUIRE: &str = include_str!("../script/around/metadata_acquire.lua");
const METADATA_EXTEND: &str = include_str!("../script/around/metadata_extend.lua");
const METADATA_RELEASE: &str = include_str!("../script/around/metadata_release.lua");

const WATCHED: &str = include_str!("../script/around/watched.lua");

/// The scheme with what the options ask for besides.
pub(crate) fn with_options(scheme: Scheme, options: &Options, token: &Token) -> Scheme {
    let mut scheme = scheme;
    if options.watch_key {
        scheme.args.push(number(scheme.holders as u64));
        scheme = Scheme {
            watched: true,
            begins_with_set: false,
            acquire: around(WATCHED, scheme.acquire),
            extend: around(WATCHED, scheme.extend),
            ..scheme
        };
    }
    let Some(metadata) = &options.metadata else {
        return scheme;
    };
    let place = metadata_place(&scheme.keys[0]);
    scheme.keys.push([&place, token.as_bytes()].concat());
    scheme.args.push(metadata.to_vec());
    Scheme {
        begins_with_set: false,
        acquire: around(METADATA_ACQUIRE, scheme.acquire),
        extend: around(METADATA_EXTEND, scheme.extend),
        release: around(METADATA_RELEASE, scheme.release),
        ..scheme
    }
}

/// What the name of a key with metadata begins with; the token of the holder follows.
pub(crate) fn metadata_place(key: &[u8]) -> Vec<u8> {
    beside(key, ":holder:")
}

/// A script that calls another one, as `inner`. Made once for each pair, of which there are few.
pub(super) fn around(outer: &'static str, inner: &'static Script) -> &'static Script {
    type Made = BTreeMap<(&'static str, &'static str), &'static Script>;
    static MADE: LazyLock<Mutex<Made>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry((outer, inner.text)).or_insert_with(|| {
        let text = format!(
            "local function inner(KEYS, ARGV)\n{}\nend\n{outer}",
            inner.text
        );
        Box::leak(Box::new(Script::new(Box::leak(text.into_boxed_str()))))
    })
}
