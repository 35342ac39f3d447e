//! B20: a majority of the nodes granted the lock, but the last reply came after the end of the lease, and the
//! client does not check the time. The third variant is a waiter whose own queue entry expired while it
//! waited.

use super::{Held, Quorum, Site, SoundLock, Specimen, Sweep, Vote, exhibit, hash, quorum::count};
use crate::{
    backend::View,
    checker::Property::{Continuity, Exclusion, GroundedBelief, Truth},
    subject::{BoxError, Expected::Convicted, Host, Row, Subject, boxed},
    vocabulary::{Promises, Stored, Topology},
};
use std::time::Duration;

struct NoStepThree;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "redlock-ignores-elapsed-time",
        make: || exhibit::<Quorum>(NoStepThree),
        expected: Convicted(&[Truth]),
        summary: "Redlock that does not compare the elapsed time with the lease",
    },
    Row {
        name: "redlock-extend-ignores-elapsed-time",
        make: || exhibit::<Quorum>(ExtendsLate),
        expected: Convicted(&[Continuity]),
        summary: "Redlock whose extension does not compare the elapsed time with the lease",
    },
    Row {
        name: "waiter-ignores-own-expiry",
        make: || boxed(DiesInQueue),
        expected: Convicted(&[Exclusion, GroundedBelief]),
        summary: "a waiter does not check whether its own place in the queue has expired",
    },
];

impl Specimen<Quorum> for NoStepThree {
    fn id(&self) -> &'static str {
        "B20a"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .on(Topology::Nodes(3))
            .with_deadline()
            .with_drift_ppm(10_000)
    }

    fn patience(&self, host: &Host) -> Duration {
        12 * host.request_timeout() // two leases: the lock has no limit of its own
    }

    async fn acquire(&self, nodes: &Quorum) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (nodes.host.random_token(), nodes.host.now());
        let sweep = Sweep::over(nodes, &token);
        let votes = nodes.set_everywhere(&token).await;
        if count(&votes, Vote::Yes) >= nodes.majority() {
            sweep.done();
            // The mistake: this deadline may have passed.
            return Ok(Some(Held::until(token, nodes.valid_until(sent))));
        }
        nodes.give_up(sweep, &token).await;
        Ok(None)
    }
}

struct ExtendsLate;

impl Specimen<Quorum> for ExtendsLate {
    fn id(&self) -> &'static str {
        "B20b"
    }

    fn promises(&self) -> Promises {
        NoStepThree.promises()
    }

    fn patience(&self, host: &Host) -> Duration {
        NoStepThree.patience(host)
    }

    async fn extend(&self, nodes: &Quorum, held: &Held) -> Result<bool, BoxError> {
        let sent = nodes.host.now();
        let votes = nodes.extend_everywhere(&held.token).await;
        let extended = count(&votes, Vote::Yes) >= nodes.majority();
        if extended {
            held.set_deadline(nodes.valid_until(sent)); // the mistake: this deadline may have passed
        }
        Ok(extended)
    }
}

/// Each client draws a queue number that lasts for a lease. The client with the lowest number has the lock.
struct DiesInQueue;

/// Draws a number.
const TAKE: &str = "local time = redis.call('TIME') \
                    local now = time[1] * 1000 + math.floor(time[2] / 1000) \
                    local number = redis.call('INCR', KEYS[1] .. ':number') \
                    redis.call('HSET', KEYS[1], number, now + ARGV[1]) return number";
/// Returns 1 if no lower number exists. The mistake: the client's own number may be gone too.
const FIRST: &str = "local time = redis.call('TIME') \
                     local now = time[1] * 1000 + math.floor(time[2] / 1000) \
                     local all = redis.call('HGETALL', KEYS[1]) local first = 1 \
                     for i = 1, #all, 2 do \
                     if tonumber(all[i + 1]) < now then redis.call('HDEL', KEYS[1], all[i]) \
                     elseif tonumber(all[i]) < tonumber(ARGV[1]) then first = 0 end end \
                     return first";
/// Extends a number to one lease from now.
const STAY: &str = "local time = redis.call('TIME') \
                    local now = time[1] * 1000 + math.floor(time[2] / 1000) \
                    local ends = redis.call('HGET', KEYS[1], ARGV[1]) \
                    if not ends or tonumber(ends) < now then return 0 end \
                    redis.call('HSET', KEYS[1], ARGV[1], now + ARGV[2]) return 1";

impl DiesInQueue {
    async fn wait(site: &Site, wait: Duration) -> Result<Option<Held>, BoxError> {
        let until = site.host.now() + wait;
        let number: u64 = site.eval(TAKE, &[&site.lease_ms()]).await?;
        let number = number.to_string();
        loop {
            if site.eval(FIRST, &[&number]).await? {
                let sent = site.host.now();
                // The mistake: the reply, which may say that the number is gone, is ignored.
                let _: bool = site.eval(STAY, &[&number, &site.lease_ms()]).await?;
                return Ok(Some(Held::until(number, sent + site.lease)));
            }
            if site.host.now() >= until {
                let _: u64 = site.ask(&["HDEL", &site.key, &number]).await?;
                return Ok(None);
            }
            site.host.sleep(site.lease / 24).await;
        }
    }
}

impl Subject for DiesInQueue {
    type Lock = Site;
    type Grant = Held;

    fn name(&self) -> &'static str {
        "B20c"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Site, BoxError> {
        <Site as SoundLock>::open(host, key, lease, host.request_timeout()).await
    }

    async fn try_lock(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        Self::wait(site, Duration::ZERO).await
    }

    async fn lock_timeout(&self, site: &Site, wait: Duration) -> Result<Option<Held>, BoxError> {
        Self::wait(site, wait).await
    }

    async fn release(&self, site: &Site, held: Held) -> Result<bool, BoxError> {
        site.ask(&["HDEL", &site.key, &held.token]).await
    }

    fn deadline(&self, held: &Held) -> Option<Duration> {
        Some(held.deadline())
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        key.ends_with(b":number")
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        hash::with_deadlines(view, key, 0)
    }
}
