//! A correct lock that serves waiters in order of arrival, by a queue at the server. Specimens replace parts
//! of its script.

use super::{Held, Site};
use crate::{backend::View, subject::BoxError};
use redouble::Data;
use std::time::Duration;

/// Start of the script. ARGV: the token, the lease, and the time for which a silent waiter stays in the
/// queue.
pub(super) const BEGIN: &str = "\
local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) \
local queue, alive = KEYS[1] .. ':queue', KEYS[1] .. ':alive' local me = ARGV[1] ";
/// Removes waiters at the head that were silent for too long.
pub(super) const PURGE: &str = "\
local first = redis.call('LINDEX', queue, 0) \
while first and tonumber(redis.call('HGET', alive, first) or 0) < now do \
redis.call('LPOP', queue) redis.call('HDEL', alive, first) \
first = redis.call('LINDEX', queue, 0) end ";
/// Appends a new waiter.
pub(super) const ENTER: &str = "\
if redis.call('HEXISTS', alive, me) == 0 then \
redis.call('RPUSH', queue, me) redis.call('HSET', alive, me, now + ARGV[3]) end ";
/// Records that the waiter is alive.
pub(super) const HEARD: &str = "redis.call('HSET', alive, me, now + ARGV[3]) ";
/// Grants the lock to the first in the queue, if it is free.
pub(super) const END: &str = "\
if redis.call('LINDEX', queue, 0) ~= me or redis.call('EXISTS', KEYS[1]) == 1 then return 0 end \
redis.call('LPOP', queue) redis.call('HDEL', alive, me) \
redis.call('SET', KEYS[1], me, 'PX', ARGV[2]) return 1";
/// Leaves the queue.
const LEAVE: &str = "redis.call('HDEL', KEYS[1] .. ':alive', ARGV[1]) \
                     return redis.call('LREM', KEYS[1] .. ':queue', 0, ARGV[1])";

/// Number of a waiter's checks per lease.
const ASKS: u32 = 24;

/// Waits for the lock; `script` runs at each check.
pub(super) async fn wait(
    site: &Site,
    script: &str,
    wait: Duration,
) -> Result<Option<Held>, BoxError> {
    let until = site.host.now() + wait;
    let place = InQueue::new(site);
    let silence = (site.lease / 3).as_millis().to_string();
    loop {
        let sent = site.host.now();
        let words = [place.token.as_str(), &site.lease_ms(), &silence];
        if site.eval(script, &words).await? {
            return Ok(Some(place.granted(sent)));
        }
        if site.host.now() >= until {
            return Ok(None);
        }
        let rest = until.saturating_sub(site.host.now());
        site.host.sleep((site.lease / ASKS).min(rest)).await;
    }
}

/// A place in the queue. Dropping it leaves the queue.
struct InQueue {
    site: Site,
    token: String,
    armed: bool,
}

impl InQueue {
    fn new(site: &Site) -> Self {
        Self {
            site: site.clone(),
            token: site.host.random_token(),
            armed: true,
        }
    }

    fn granted(mut self, sent: Duration) -> Held {
        self.armed = false;
        Held::until(self.token.clone(), sent + self.site.lease)
    }
}

impl Drop for InQueue {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (site, token) = (self.site.clone(), std::mem::take(&mut self.token));
        self.site.host.spawn(async move {
            let until = site.host.now() + site.lease;
            while site.host.now() < until {
                let left = site.eval::<u64>(LEAVE, &[&token]).await;
                if left.is_ok() && site.release_as(&token).await.is_ok() {
                    return;
                }
                site.host.sleep(site.lease / 60).await;
            }
        });
    }
}

/// Returns the tokens in the queue.
pub(super) fn queued(view: &dyn View, key: &str) -> Vec<Vec<u8>> {
    let Some((Data::List(queue), _)) = view.data(&format!("{key}:queue")) else {
        return Vec::new();
    };
    queue.iter().map(|token| token.to_vec()).collect()
}
