//! The mutex on one node with a fencing token that grows from grant to grant, minted by the script that
//! takes the lock: `max(last + 1, server time in microseconds)`.

use super::{beside, script_set::ScriptSet, single, waiters_key};
use crate::script::{Script, script};
use std::{sync::LazyLock, time::Duration};

static ACQUIRE: LazyLock<Script> = script!("now.lua", "ask.lua", "mint.lua", "fenced/acquire.lua");

/// For how long the last fencing token is kept. After that the server's clock alone makes them grow, as it
/// also does after a loss of data.
pub(crate) const LAST_KEPT: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn scripts(key: &[u8]) -> ScriptSet {
    ScriptSet {
        keys: vec![key.to_vec(), waiters_key(key), beside(key, ":fence")],
        args: vec![LAST_KEPT.as_millis().to_string().into_bytes()],
        begins_with_set: false,
        acquire: &ACQUIRE,
        ..single::scripts(key)
    }
}
