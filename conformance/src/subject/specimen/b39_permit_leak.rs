//! B39: permits that are lost, or too many of them; several keys that are acquired one by one.

use super::{Held, Quorum, Site, SoundLock, Specimen, Sweep, Vote, exhibit, quorum::count};
use crate::{
    backend::View,
    checker::Property::{Exclusion, Progress},
    subject::{BoxError, Expected::Convicted, NotOffered, Observed, Row},
    vocabulary::{Kind, Mode, Promises, Stored, Topology},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "semaphore-without-expiry",
        make: || exhibit(Counter),
        expected: Convicted(&[Progress]),
        summary: "a counting semaphore without expiry: permits of crashed clients are lost",
    },
    Row {
        name: "quorum-semaphore",
        make: || exhibit::<Quorum>(OfSeveral),
        expected: Convicted(&[Exclusion]),
        summary: "a semaphore on three nodes: each has two permits, and three clients get a majority",
    },
    Row {
        name: "multi-key-setnx",
        make: || exhibit(OneByOne),
        expected: Convicted(&[Progress]),
        summary: "two keys by SETNX one by one, then the expiry of both without an owner check",
    },
];

/// A counter of the permits in use.
struct Counter;

/// Number of permits.
const PERMITS: u32 = 3;

/// Counts up, unless that exceeds the number of permits.
const COUNT_UP: &str = "\
if redis.call('INCRBY', KEYS[1], ARGV[1]) <= tonumber(ARGV[2]) then return 1 end \
redis.call('DECRBY', KEYS[1], ARGV[1]) return 0";
/// Counts down.
const COUNT_DOWN: &str = "\
if redis.call('DECRBY', KEYS[1], ARGV[1]) <= 0 then redis.call('DEL', KEYS[1]) end return 1";

/// Releases permits.
async fn count_down(site: &Site, permits: &str) -> Result<bool, BoxError> {
    site.eval(COUNT_DOWN, &[permits]).await
}

impl Specimen for Counter {
    fn id(&self) -> &'static str {
        "B39a"
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::Semaphore(PERMITS))
    }

    async fn take(&self, site: &Site, mode: Mode) -> Result<Option<Held>, BoxError> {
        let Mode::Permits(count) = mode else {
            return Err(NotOffered.into());
        };
        let (permits, sent) = (count.to_string(), site.host.now());
        // The mistake: the counter stores no holder and no deadline.
        let taken = site
            .eval(COUNT_UP, &[&permits, &PERMITS.to_string()])
            .await?;
        Ok(bool::then(taken, || {
            Held::until(permits, sent + site.lease)
        }))
    }

    async fn extend(&self, _: &Site, _: &Held) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }

    async fn release(&self, site: &Site, held: &Held) -> Result<bool, BoxError> {
        count_down(site, &held.token).await
    }

    fn dropped(&self, site: &Site, held: &Held) {
        let (site, permits) = (site.clone(), held.token.clone());
        let host = site.host.clone();
        host.spawn(async move { drop(count_down(&site, &permits).await) });
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::counter(view, key)
    }
}

/// Permits on several nodes; a holder needs them on a majority.
struct OfSeveral;

/// Number of permits per node.
const PER_NODE: u32 = 2;

/// Removes expired members, then enters if enough permits are left. A value is a number of permits and a
/// deadline.
const ENTER: &str = "\
local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000) \
local all, out = redis.call('HGETALL', KEYS[1]), 0 \
for i = 1, #all, 2 do \
if tonumber(string.sub(all[i + 1], 3)) < now then redis.call('HDEL', KEYS[1], all[i]) \
else out = out + tonumber(string.sub(all[i + 1], 1, 1)) end end \
if out + tonumber(ARGV[2]) > tonumber(ARGV[4]) then return 0 end \
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ':' .. (now + ARGV[3])) return 1";
/// Leaves.
const LEAVE: &str = "return redis.call('HDEL', KEYS[1], ARGV[1])";

impl OfSeveral {
    async fn leave(nodes: &Quorum, token: &str) -> Vec<Vote> {
        let left = nodes.each(|site| {
            let (site, token) = (site.clone(), token.to_owned());
            async move { site.eval::<bool>(LEAVE, &[&token]).await }
        });
        left.await.into_iter().map(Vote::of).collect()
    }
}

impl Specimen<Quorum> for OfSeveral {
    fn id(&self) -> &'static str {
        "B39b"
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::Semaphore(PER_NODE))
            .on(Topology::Nodes(3))
            .with_deadline()
            .with_drift_ppm(10_000)
    }

    async fn take(&self, nodes: &Quorum, mode: Mode) -> Result<Option<Held>, BoxError> {
        let Mode::Permits(permits) = mode else {
            return Err(NotOffered.into());
        };
        let (token, sent) = (nodes.host.random_token(), nodes.host.now());
        let enter = |site: &Site| {
            let (site, token) = (site.clone(), token.clone());
            async move {
                let numbers = [permits.to_string(), site.lease_ms(), PER_NODE.to_string()];
                let [permits, lease, most] = &numbers;
                site.eval::<bool>(ENTER, &[&token, permits, lease, most])
                    .await
            }
        };
        // Asks one node after another until it has a majority. The mistake: two permits on each of three
        // nodes allow three majorities.
        let first = usize::from(nodes.host.random()[0]);
        let mut yes = 0;
        for nth in 0..nodes.size() {
            let node = (first + nth) % nodes.size();
            yes += usize::from(nodes.ask_one(node, enter).await == Some(true));
            if yes == nodes.majority() {
                break;
            }
        }
        let until = nodes.valid_until(sent);
        if yes >= nodes.majority() && nodes.host.now() < until {
            return Ok(Some(Held::until(token, until)));
        }
        Self::leave(nodes, &token).await;
        Ok(None)
    }

    async fn extend(&self, _: &Quorum, _: &Held) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }

    async fn release(&self, nodes: &Quorum, held: &Held) -> Result<bool, BoxError> {
        let votes = Self::leave(nodes, &held.token).await;
        Ok(count(&votes, Vote::Yes) >= nodes.majority())
    }

    fn dropped(&self, nodes: &Quorum, held: &Held) {
        let (nodes, token) = (nodes.clone(), held.token.clone());
        let host = nodes.host.clone();
        host.spawn(async move { drop(Self::leave(&nodes, &token).await) });
    }

    fn stored(&self, view: &dyn View, key: &str) -> Vec<Stored> {
        super::hash::with_deadlines(view, key, 2)
    }
}

/// Two keys, acquired one after the other.
struct OneByOne;

/// Deletes both keys, if they hold the token.
const RELEASE_BOTH: &str = "local freed = 0 for _, key in ipairs({KEYS[1], KEYS[1] .. ':second'}) do \
                            if redis.call('GET', key) == ARGV[1] then \
                            freed = freed + redis.call('DEL', key) end end \
                            if freed > 0 then return 1 end return 0";

impl Specimen for OneByOne {
    fn id(&self) -> &'static str {
        "B39c"
    }

    async fn open(
        &self,
        host: &crate::subject::Host,
        key: &str,
        lease: std::time::Duration,
    ) -> Result<Site, BoxError> {
        let site = <Site as SoundLock>::open(host, key, lease, host.request_timeout()).await?;
        Ok(site.releasing_by(RELEASE_BOTH))
    }

    async fn acquire(&self, site: &Site) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (site.host.random_token(), site.host.now());
        let (second, lease) = (format!("{}:second", site.key), site.lease_ms());
        let sweep = Sweep::over(site, &token);
        for key in [&site.key, &second] {
            // The mistake: the first key has no expiry until the client has acquired the last one.
            if !site.ask::<bool>(&["SETNX", key, &token]).await? {
                site.release_as(&token).await?;
                sweep.done();
                return Ok(None);
            }
        }
        for key in [&site.key, &second] {
            let _: bool = site.ask(&["PEXPIRE", key, &lease]).await?;
        }
        sweep.done();
        Ok(Some(Held::until(token, sent + site.lease)))
    }

    async fn extend(&self, _: &Site, _: &Held) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }
}
