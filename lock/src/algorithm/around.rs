//! What options add to the scripts of any kind: a script around them, in the same round trip.

use super::{beside, number, script_set::ScriptSet};
use crate::{options::Options, script::around, token::Token};

const METADATA_ACQUIRE: &str = include_str!("../script/around/metadata_acquire.lua");
const METADATA_EXTEND: &str = include_str!("../script/around/metadata_extend.lua");
const METADATA_RELEASE: &str = include_str!("../script/around/metadata_release.lua");

const TRACKED: &str = include_str!("../script/around/tracked.lua");

/// The scripts with what the options ask for besides.
pub(crate) fn with_options(scripts: ScriptSet, options: &Options, token: &Token) -> ScriptSet {
    let mut scripts = scripts;
    if options.track_key {
        scripts.args.push(number(scripts.holders as u64));
        scripts = ScriptSet {
            tracked: true,
            begins_with_set: false,
            acquire: around(TRACKED, scripts.acquire),
            extend: around(TRACKED, scripts.extend),
            ..scripts
        };
    }
    let Some(metadata) = &options.metadata else {
        return scripts;
    };
    let place = metadata_place(&scripts.keys[0]);
    scripts.keys.push([&place, token.as_bytes()].concat());
    scripts.args.push(metadata.to_vec());
    ScriptSet {
        begins_with_set: false,
        acquire: around(METADATA_ACQUIRE, scripts.acquire),
        extend: around(METADATA_EXTEND, scripts.extend),
        release: around(METADATA_RELEASE, scripts.release),
        ..scripts
    }
}

/// What the name of a key with metadata begins with; the token of the holder follows.
pub(crate) fn metadata_place(key: &[u8]) -> Vec<u8> {
    beside(key, ":holder:")
}
