//! B17: readers share a hash, and a reader that extends its lease extends the leases of all readers, crashed
//! ones included. The writer starves.

use super::Held;
use crate::{
    backend::View,
    checker::Property::Progress,
    subject::{
        BoxError,
        Expected::Convicted,
        Host, NotOffered, Row, Subject, boxed,
        specimen::{Site, SoundLock, hash, readers},
    },
    vocabulary::{Kind, Mode, Promises, Stored},
};
use std::time::Duration;

struct RenewsTheDead;

pub(super) const ROWS: &[Row] = &[Row {
    name: "watchdog-renews-dead-readers",
    make: || boxed(RenewsTheDead),
    expected: Convicted(&[Progress]),
    summary: "a reader that extends its lease extends the leases of all readers, crashed ones included",
}];

/// The mistake: it moves the deadlines of all members.
const EXTEND: &str = "\
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end \
local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) \
local all = redis.call('HGETALL', KEYS[1]) \
for i = 1, #all, 2 do redis.call('HSET', KEYS[1], all[i], \
string.sub(all[i + 1], 1, 2) .. (now + ARGV[2])) end return 1";

impl RenewsTheDead {
    async fn enter(site: &Site, how: &str) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (site.host.random_token(), site.host.now());
        let entered = readers::enter(site, &token, how).await?;
        let held = Held::until(token, sent + site.lease);
        if entered {
            let (site, held) = (site.clone(), held.clone());
            let host = site.host.clone();
            host.spawn(async move {
                loop {
                    tokio::select! {
                        biased;
                        () = held.ended() => return,
                        () = site.host.sleep(site.lease / 3) => drop(Self::prolong(&site, &held).await),
                    }
                }
            });
        }
        Ok(entered.then_some(held))
    }

    async fn prolong(site: &Site, held: &Held) -> Result<bool, BoxError> {
        let sent = site.host.now();
        let extended = site.eval(EXTEND, &[&held.token, &site.lease_ms()]).await?;
        Ok(extended && held.prolong(site.host.now(), sent + site.lease))
    }
}

/// A grant. Dropping it stops its watchdog.
struct Guard(Held);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Subject for RenewsTheDead {
    type Lock = Site;
    type Grant = Guard;

    fn name(&self) -> &'static str {
        "B17"
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::ReadWrite).with_deadline()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Site, BoxError> {
        <Site as SoundLock>::open(host, key, lease, host.request_timeout()).await
    }

    async fn try_lock(&self, site: &Site) -> Result<Option<Guard>, BoxError> {
        self.try_mode(site, Mode::Exclusive).await
    }

    async fn try_mode(&self, site: &Site, mode: Mode) -> Result<Option<Guard>, BoxError> {
        let how = match mode {
            Mode::Exclusive => "w",
            Mode::Shared => "r",
            Mode::Permits(_) => return Err(NotOffered.into()),
        };
        Ok(Self::enter(site, how).await?.map(Guard))
    }

    async fn extend(&self, site: &Site, guard: &Guard) -> Result<bool, BoxError> {
        Self::prolong(site, &guard.0).await
    }

    async fn release(&self, site: &Site, guard: Guard) -> Result<bool, BoxError> {
        guard.0.end();
        site.ask(&["HDEL", &site.key, &guard.0.token]).await
    }

    fn deadline(&self, guard: &Guard) -> Option<Duration> {
        Some(guard.0.deadline())
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::with_deadlines(view, key, 2)
    }
}
