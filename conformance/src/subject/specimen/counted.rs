//! A lock that its owner may take again, by one task that knows how often it has: what the server
//! counts is set right when an answer was missed.

use super::{Held, Site, hash};
use crate::subject::{BoxError, Host};
use std::time::Duration;

/// Sets how often the owner is in the hash, never to more than it is.
const SETTLE: &str = "local is = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0) \
                      local due = tonumber(ARGV[2]) if is <= due then return 0 end \
                      if due == 0 then return redis.call('HDEL', KEYS[1], ARGV[1]) end \
                      redis.call('HSET', KEYS[1], ARGV[1], due) return 1";

/// Takes the lock as the owner that the site is, once more if need be.
pub(in crate::subject) async fn enter(site: &Site) -> Result<Option<Held>, BoxError> {
    let settle = Settle::later(site);
    let mut depth = site.depth.lock().await;
    let sent = site.host.now();
    let entered = hash::enter(site, &site.me).await?;
    settle.done();
    if !entered {
        return Ok(None);
    }
    *depth += 1;
    Ok(Some(Held::until(site.me.clone(), sent + site.lease)))
}

/// Gives it back once; how often the owner still has it, or `None` if it did not have it.
pub(in crate::subject) async fn leave(site: &Site) -> Result<Option<u64>, BoxError> {
    let settle = Settle::later(site);
    let mut depth = site.depth.lock().await;
    *depth = depth.saturating_sub(1);
    let left = hash::leave(site, &site.me).await?;
    settle.done();
    Ok(left)
}

/// Gives it back once, in the background.
pub(in crate::subject) fn forget(site: &Site) {
    let site = site.clone();
    let host: Host = site.host.clone();
    host.spawn(async move { drop(leave(&site).await) });
}

/// Has the count set right when it is dropped, unless there was an answer.
struct Settle {
    site: Site,
    armed: bool,
}

impl Settle {
    fn later(site: &Site) -> Self {
        Self {
            site: site.clone(),
            armed: true,
        }
    }

    fn done(mut self) {
        self.armed = false;
    }
}

impl Drop for Settle {
    fn drop(&mut self) {
        if self.armed {
            let site = self.site.clone();
            self.site.host.spawn(settle(site));
        }
    }
}

async fn settle(site: Site) {
    let until = site.host.now() + site.lease;
    while site.host.now() < until {
        {
            let depth = site.depth.lock().await;
            let due = depth.to_string();
            if site.eval::<u64>(SETTLE, &[&site.me, &due]).await.is_ok() {
                return;
            }
        }
        let pause: Duration = site.lease / 60;
        site.host.sleep(pause).await;
    }
}
