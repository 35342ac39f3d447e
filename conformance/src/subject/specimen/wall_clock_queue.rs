//! B23b: waiters are served in order of arrival, each by its own wall clock.

use super::{Held, Site, SoundLock};
use crate::{
    backend::View,
    subject::{BoxError, Host, Subject},
    vocabulary::Promises,
};
use redouble::Data;
use std::time::Duration;

/// A queue beside the key: a waiter's token with its time of arrival.
pub(super) struct WallClockQueue;

/// Acquires the lock if it is free and no queued waiter came earlier; otherwise queues the waiter. Removes
/// waiters that have not checked for a while.
const TURN: &str = "\
local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) \
local queue, seen = KEYS[1] .. ':queue', KEYS[1] .. ':seen' \
redis.call('HSET', queue, ARGV[1], ARGV[2]) redis.call('HSET', seen, ARGV[1], now + ARGV[4]) \
local free, all = redis.call('EXISTS', KEYS[1]) == 0, redis.call('HGETALL', queue) \
for i = 1, #all, 2 do \
if tonumber(redis.call('HGET', seen, all[i]) or 0) < now then \
redis.call('HDEL', queue, all[i]) redis.call('HDEL', seen, all[i]) \
elseif tonumber(all[i + 1]) < tonumber(ARGV[2]) then free = false end end \
if not free then return 0 end \
redis.call('HDEL', queue, ARGV[1]) redis.call('HDEL', seen, ARGV[1]) \
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3]) return 1";

const LEAVE: &str = "redis.call('HDEL', KEYS[1] .. ':seen', ARGV[1]) \
                     return redis.call('HDEL', KEYS[1] .. ':queue', ARGV[1])";

impl Subject for WallClockQueue {
    type Lock = Site;
    type Grant = Held;

    fn name(&self) -> &'static str {
        "B23b"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .with_deadline()
            .waiting(None)
            .fair()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Site, BoxError> {
        <Site as SoundLock>::open(host, key, lease, host.request_timeout()).await
    }

    async fn try_lock(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        self.lock_timeout(site, Duration::ZERO).await
    }

    async fn lock_timeout(&self, site: &Site, wait: Duration) -> Result<Option<Held>, BoxError> {
        let until = site.host.now() + wait;
        let token = site.host.random_token();
        let came = site.host.wall_clock().as_millis().to_string(); // the mistake
        let silence = (site.lease / 3).as_millis().to_string();
        loop {
            let sent = site.host.now();
            let words = [token.as_str(), &came, &site.lease_ms(), &silence];
            if site.eval(TURN, &words).await? {
                return Ok(Some(Held::until(token, sent + site.lease)));
            }
            if site.host.now() >= until {
                let _: u64 = site.eval(LEAVE, &[&token]).await?;
                return Ok(None);
            }
            site.host.sleep(site.lease / 24).await;
        }
    }

    async fn extend(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        site.extend(held).await
    }

    async fn release(&self, site: &Site, held: Held) -> Result<bool, BoxError> {
        site.release(&held).await
    }

    fn queued(&self, view: &dyn View, key: &str) -> Vec<Vec<u8>> {
        let Some((Data::Hash(queue), _)) = view.data(&format!("{key}:queue")) else {
            return Vec::new();
        };
        let mut waiting: Vec<_> = queue
            .into_iter()
            .map(|(token, came)| (came, token))
            .collect();
        waiting.sort(); // times have the same number of digits
        waiting
            .into_iter()
            .map(|(_, token)| token.to_vec())
            .collect()
    }

    fn deadline(&self, held: &Held) -> Option<Duration> {
        Some(held.deadline())
    }
}
