//! A correct read-write lock: a hash of the holders, each with `r` or `w` and a deadline of its own on the
//! server's clock.

use super::Site;
use crate::subject::BoxError;

/// Removes expired holders, then enters if the mode allows it.
const ENTER: &str = "\
local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) \
local all = redis.call('HGETALL', KEYS[1]) \
for i = 1, #all, 2 do \
if tonumber(string.sub(all[i + 1], 3)) < now then redis.call('HDEL', KEYS[1], all[i]) \
elseif ARGV[2] == 'w' or string.sub(all[i + 1], 1, 1) == 'w' then return 0 end end \
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ':' .. (now + ARGV[3])) return 1";
/// Moves the deadline of a holder.
const STAY: &str = "\
local was = redis.call('HGET', KEYS[1], ARGV[1]) if not was then return 0 end \
local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) \
if tonumber(string.sub(was, 3)) < now then return 0 end \
redis.call('HSET', KEYS[1], ARGV[1], string.sub(was, 1, 2) .. (now + ARGV[2])) return 1";

/// Enters as a reader (`r`) or as the writer (`w`).
pub(super) async fn enter(site: &Site, token: &str, how: &str) -> Result<bool, BoxError> {
    site.eval(ENTER, &[token, how, &site.lease_ms()]).await
}

/// Extends a holder by another lease.
pub(super) async fn stay(site: &Site, token: &str) -> Result<bool, BoxError> {
    site.eval(STAY, &[token, &site.lease_ms()]).await
}

/// Leaves.
pub(super) async fn leave(site: &Site, token: &str) -> Result<bool, BoxError> {
    site.ask(&["HDEL", &site.key, token]).await
}

/// Leaves, in the background.
pub(super) fn forget(site: &Site, token: String) {
    let site = site.clone();
    let host = site.host.clone();
    host.spawn(async move { drop(leave(&site, &token).await) });
}
