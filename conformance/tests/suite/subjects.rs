//! Locks of shapes that no listed lock has. The subject says where the servers store the holders; otherwise the suite
//! skips the properties that need to know.

use redis::{AsyncTypedCommands as _, Script};
use redouble_conformance::{
    BoxError, Connection, Host, NotOffered, Promises, Subject,
    backend::{Double, View},
    check,
    checker::Property,
    history::{Holder, Kind, Mode, Refusal, Stored, Token},
    runner::{Plan, Trial, run_trial},
    scenario::Topology,
    subject::{Expected, Observed, subjects},
};
use std::{sync::Arc, time::Duration};

/// Place and form in which a lock stores its holders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A string under another key.
    Prefixed,
    /// A number of permits.
    Counter,
    /// A sorted set of permits with their deadlines.
    SortedSet,
    /// A sorted set of permits with the times of their acquisition.
    Begun,
    /// A hash with the field `owner`.
    Owner,
    /// A set of holders.
    Set,
    /// A stream whose only entry is pending at the holder. Another client claims it when it has been idle for a lease.
    Stream,
}

/// Facts that the subject tells the suite.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tells {
    /// Nothing, so the suite reads the string at the key.
    Nothing,
    /// The place of the holders.
    Holders,
    /// The place of the holders, and the token of each grant.
    Tokens,
    /// A token that no server stores.
    WrongToken,
}

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    None,
    /// The release does not check the owner.
    ReleasesAll,
    /// The lock expires after a tenth of the lease.
    ExpiresEarly,
    /// Every second release reports success, and removes nothing.
    ReleaseLies,
}

#[derive(Clone, Copy)]
struct Unseen(Shape, Tells, Mistake);

/// Number of permits of the semaphores.
const PERMITS: u32 = 2;

struct Handle {
    redis: Connection,
    host: Host,
    key: String,
    lease_ms: u64,
    /// Token of the owner, for reentrant locks.
    owner: String,
}

impl Handle {
    async fn open(host: &Host, key: &str, lease: Duration) -> Result<Self, BoxError> {
        Ok(Self {
            redis: host.connection().await?,
            host: host.clone(),
            key: key.to_owned(),
            lease_ms: u64::try_from(lease.as_millis())?,
            owner: host.random_token(),
        })
    }

    const fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }
}

impl Shape {
    fn key(self, key: &str) -> String {
        match self {
            Self::Prefixed => format!("lock:{key}"),
            Self::Counter
            | Self::SortedSet
            | Self::Begun
            | Self::Owner
            | Self::Set
            | Self::Stream => key.to_owned(),
        }
    }

    fn acquire(self) -> &'static str {
        match self {
            Self::Prefixed => {
                "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0"
            }
            Self::Counter => {
                "if tonumber(redis.call('GET', KEYS[1]) or 0) + ARGV[3] > 2 then return 0 end
                 redis.call('INCRBY', KEYS[1], ARGV[3]) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1"
            }
            Self::SortedSet => {
                "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)
                 redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now)
                 if redis.call('ZCARD', KEYS[1]) + ARGV[3] > 2 then return 0 end
                 redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
                 if ARGV[3] == '2' then redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1] .. '+') end
                 redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1"
            }
            Self::Begun => {
                "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)
                 redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now - ARGV[2])
                 if redis.call('ZCARD', KEYS[1]) + ARGV[3] > 2 then return 0 end
                 redis.call('ZADD', KEYS[1], now, ARGV[1])
                 if ARGV[3] == '2' then redis.call('ZADD', KEYS[1], now, ARGV[1] .. '+') end
                 redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1"
            }
            Self::Owner => {
                "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
                 redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'since', 'today')
                 redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1"
            }
            Self::Set => {
                "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
                 redis.call('SADD', KEYS[1], ARGV[1])
                 redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1"
            }
            Self::Stream => {
                "redis.pcall('XGROUP', 'CREATE', KEYS[1], 'holders', '0', 'MKSTREAM')
                 if redis.call('XLEN', KEYS[1]) == 0 then redis.call('XADD', KEYS[1], '*', 'the', 'lock') end
                 local read = redis.call('XREADGROUP', 'GROUP', 'holders', ARGV[1], 'STREAMS', KEYS[1], '>')
                 if not read then
                     local claimed = redis.call('XAUTOCLAIM', KEYS[1], 'holders', ARGV[1], ARGV[2], '0')
                     if #claimed[2] == 0 then return 0 end
                 end
                 redis.call('PEXPIRE', KEYS[1], 2 * ARGV[2]) return 1"
            }
        }
    }

    fn release(self, mistake: Mistake) -> &'static str {
        if mistake == Mistake::ReleasesAll {
            return "return redis.call('DEL', KEYS[1])";
        }
        match self {
            Self::Prefixed => {
                "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
            }
            Self::Counter => {
                "local left = tonumber(redis.call('GET', KEYS[1]) or 0)
                 if left < tonumber(ARGV[2]) then return 0 end
                 if left == tonumber(ARGV[2]) then return redis.call('DEL', KEYS[1]) end
                 redis.call('DECRBY', KEYS[1], ARGV[2]) return 1"
            }
            Self::SortedSet => {
                "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)
                 redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now)
                 redis.call('ZREM', KEYS[1], ARGV[1] .. '+')
                 return redis.call('ZREM', KEYS[1], ARGV[1])"
            }
            Self::Begun => {
                "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)
                 redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. now - ARGV[3])
                 redis.call('ZREM', KEYS[1], ARGV[1] .. '+')
                 return redis.call('ZREM', KEYS[1], ARGV[1])"
            }
            Self::Owner => {
                "if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
            }
            Self::Set => "return redis.call('SREM', KEYS[1], ARGV[1])",
            Self::Stream => {
                "if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
                 local pending = redis.call('XPENDING', KEYS[1], 'holders', '-', '+', 1, ARGV[1])
                 if #pending == 0 or pending[1][3] >= tonumber(ARGV[3]) then return 0 end
                 return redis.call('DEL', KEYS[1])"
            }
        }
    }
}

struct Held {
    token: String,
    until: Duration,
    permits: u32,
}

impl Subject for Unseen {
    type Lock = Handle;
    type Grant = Held;

    fn name(&self) -> &'static str {
        match self.0 {
            Shape::Prefixed => "prefixed",
            Shape::Counter => "counter",
            Shape::SortedSet => "sorted set",
            Shape::Begun => "times of acquisition",
            Shape::Owner => "owner",
            Shape::Set => "set",
            Shape::Stream => "stream",
        }
    }

    fn promises(&self) -> Promises {
        let kind = match self.0 {
            Shape::Counter | Shape::SortedSet | Shape::Begun => Kind::Semaphore(PERMITS),
            Shape::Prefixed | Shape::Owner | Shape::Set | Shape::Stream => Kind::Mutex,
        };
        Promises::of(kind).with_deadline().untidy()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
        Handle::open(host, &self.0.key(key), lease).await
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Held>, BoxError> {
        self.try_mode(lock, Mode::Exclusive).await
    }

    async fn try_mode(&self, lock: &Handle, mode: Mode) -> Result<Option<Held>, BoxError> {
        let permits = match mode {
            Mode::Exclusive => 1,
            Mode::Permits(permits) => permits,
            Mode::Shared => return Err(NotOffered.into()),
        };
        let (token, sent) = (lock.host.random_token(), lock.host.now());
        let lasts = match self.2 {
            Mistake::ExpiresEarly => lock.lease_ms / 10,
            Mistake::None | Mistake::ReleasesAll | Mistake::ReleaseLies => lock.lease_ms,
        };
        let taken: u32 = Script::new(self.0.acquire())
            .key(&lock.key)
            .arg(&token)
            .arg(lasts)
            .arg(permits)
            .invoke_async(&mut lock.redis.clone())
            .await?;
        let until = sent + lock.lease().mul_f64(0.97);
        let granted = taken == 1 && lock.host.now() < until;
        Ok(granted.then_some(Held {
            token,
            until,
            permits,
        }))
    }

    async fn release(&self, lock: &Handle, held: Held) -> Result<bool, BoxError> {
        if self.2 == Mistake::ReleaseLies && lock.host.random()[0].is_multiple_of(2) {
            lock.redis.clone().exists("another key").await?;
            return Ok(true);
        }
        // A counter has no tokens: a release after the lease would free the permit of another holder.
        if self.0 == Shape::Counter
            && self.2 == Mistake::None
            && lock.host.now() >= held.until.saturating_sub(lock.lease().mul_f64(0.07))
        {
            return Ok(false);
        }
        let removed: u32 = Script::new(self.0.release(self.2))
            .key(&lock.key)
            .arg(held.token)
            .arg(held.permits)
            .arg(lock.lease_ms)
            .invoke_async(&mut lock.redis.clone())
            .await?;
        Ok(removed == 1)
    }

    fn deadline(&self, held: &Held) -> Option<Duration> {
        Some(held.until)
    }

    fn token(&self, held: &Held) -> Option<Token> {
        match self.1 {
            Tells::Nothing | Tells::Holders => None,
            Tells::Tokens if self.0 == Shape::Counter => None,
            Tells::Tokens => Some(Token::of_grant(held.token.as_bytes())),
            Tells::WrongToken => Some(Token::of_grant("nowhere")),
        }
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        let at = self.0.key(key);
        if self.1 == Tells::Nothing {
            return Observed::from(self.stored(view, key));
        }
        match self.0 {
            Shape::Prefixed => Observed::string(view, &at),
            Shape::Counter => Observed::counter(view, &at),
            Shape::SortedSet => Observed::sorted_set(view, &at),
            Shape::Begun => Observed::sorted_set_since(view, &at),
            Shape::Owner => Observed::hash_field(view, &at, "owner", None),
            Shape::Set => Observed::set(view, &at),
            Shape::Stream => Observed::pending_entries(view, &at, "holders"),
        }
    }
}

/// Returns the messages of the violations of which a lock was convicted.
fn told(trial: &Trial) -> Vec<String> {
    let examples = trial.counterexamples.iter().map(|it| {
        let witness = it.judged.witness(it.property);
        let message = witness.map_or("", |witness| &witness.message);
        format!("{}, seed {}: {message}", it.property, it.seed)
    });
    examples.collect()
}

const SHAPES: [Shape; 7] = [
    Shape::Prefixed,
    Shape::Counter,
    Shape::SortedSet,
    Shape::Begun,
    Shape::Owner,
    Shape::Set,
    Shape::Stream,
];

/// Seeds of these tests; each nemesis gets several of them.
const SEEDS: std::ops::Range<u64> = 0..300;

/// Tries a lock. A counter without tokens leaks permits when holders crash, and a late release frees the permit of
/// another holder. So the counter is tried without such faults.
fn tried(lock: Unseen, seeds: std::ops::Range<u64>) -> Trial {
    let only = (lock.0 == Shape::Counter).then(|| "script-flush".to_owned());
    let end = if only.is_some() {
        seeds.end.min(60)
    } else {
        seeds.end
    };
    let faults = only.into_iter().collect();
    let plan = Plan {
        seeds: seeds.start..end,
        faults,
        ..Plan::quick(&Double)
    };
    let trial = run_trial(&Arc::new(lock), Expected::Sound, &Double, &plan, &|_| {});
    trial.expect("the double is there")
}

#[test]
fn a_lock_that_keeps_its_holders_elsewhere_is_not_judged_by_what_is_not_there() {
    for shape in SHAPES {
        let trial = tried(Unseen(shape, Tells::Nothing, Mistake::None), SEEDS);
        assert_eq!(told(&trial), [""; 0], "{}", trial.name);
        let why = trial.unobservable.as_deref().unwrap_or_default();
        let place = if shape == Shape::Counter {
            "Observed::counter"
        } else {
            "the subject looks for its holders somewhere else"
        };
        assert!(why.contains(place), "{}: {why:?}", trial.name);
        let seen = trial.total(Property::GroundedBelief);
        assert_eq!(seen.held + seen.broken, 0, "{}", trial.name);
    }
}

#[test]
fn a_lock_that_tells_where_its_holders_are_is_judged_by_them() {
    for shape in SHAPES {
        for tells in [Tells::Holders, Tells::Tokens] {
            let trial = tried(Unseen(shape, tells, Mistake::None), SEEDS);
            assert_eq!(told(&trial), [""; 0], "{}", trial.name);
            assert_eq!(trial.unobservable, None, "{}", trial.name);
            assert!(
                trial.total(Property::GroundedBelief).held > 0,
                "{}",
                trial.name
            );
        }
    }
}

#[test]
fn mistakes_of_any_shape_are_found() {
    for shape in SHAPES {
        for (mistake, property) in [
            (Mistake::ReleasesAll, Property::GroundedBelief),
            (Mistake::ExpiresEarly, Property::GroundedBelief),
            (Mistake::ReleaseLies, Property::Truth),
        ] {
            let trial = tried(Unseen(shape, Tells::Tokens, mistake), 0..600);
            let broken = trial.broken();
            assert!(
                broken.contains(&property),
                "{}: {property} is not among {broken:?}; {:?}",
                trial.name,
                trial.unobservable
            );
        }
    }
}

#[test]
fn a_token_that_is_stored_nowhere_is_told() {
    let trial = tried(
        Unseen(Shape::Owner, Tells::WrongToken, Mistake::None),
        SEEDS,
    );
    let why = trial.unobservable.as_deref().unwrap_or_default();
    assert!(why.contains("`token` names \"nowhere\""), "{why}");
    assert_eq!(told(&trial), [""; 0]);
}

#[test]
fn all_listed_locks_can_be_observed() {
    let plan = Plan {
        seeds: 0..0,
        ..Plan::quick(&Double)
    };
    for row in subjects() {
        let trial = run_trial(&*(row.make)(), Expected::Sound, &Double, &plan, &|_| {});
        let trial = trial.expect("the double is there");
        assert_eq!(trial.unobservable, None, "{}", trial.name);
    }
}

/// A reentrant lock. The token of the owner is the name of its process, and the server stores the number of entries.
#[derive(Clone, Copy)]
struct Redisson {
    /// Each release counts down twice.
    counts_twice: bool,
}

impl Subject for Redisson {
    type Lock = Handle;
    type Grant = String;

    fn name(&self) -> &'static str {
        "uuid:thread"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().reentrant().untidy()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
        Handle::open(host, key, lease).await
    }

    fn of_task(&self, lock: &Handle) -> Option<Handle> {
        Some(Handle {
            redis: lock.redis.clone(),
            host: lock.host.clone(),
            key: lock.key.clone(),
            owner: lock.host.random_token(),
            ..*lock
        })
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Self::Grant>, BoxError> {
        let owner = lock.owner.clone();
        let taken: u32 = Script::new(
            "if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
             redis.call('HINCRBY', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1",
        )
        .key(&lock.key)
        .arg(&owner)
        .arg(lock.lease_ms)
        .invoke_async(&mut lock.redis.clone())
        .await?;
        Ok((taken == 1).then_some(owner))
    }

    async fn release(&self, lock: &Handle, owner: String) -> Result<bool, BoxError> {
        let by = if self.counts_twice { -2 } else { -1 };
        let left: Option<i64> = Script::new(
            "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return false end
             local left = redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2])
             if left <= 0 then redis.call('DEL', KEYS[1]) return 0 end return left",
        )
        .key(&lock.key)
        .arg(&owner)
        .arg(by)
        .invoke_async(&mut lock.redis.clone())
        .await?;
        Ok(left.is_some())
    }

    fn token(&self, owner: &String) -> Option<Token> {
        Some(Token::of_owner(owner.as_bytes()))
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::hash(view, key)
    }
}

/// An owner acquires the lock twice, releases it once, and continues to work, without faults.
const NESTED: &str = r#"{"seed":1,"lease_ms":30000,"schedule":"fifo","latency_ms":1,"events":[
    {"id":0,"at_ms":0,"op":{"actor":{"host":0,"task":0},"op":"try"}},
    {"id":1,"at_ms":1000,"op":{"actor":{"host":0,"task":0},"op":"try"}},
    {"id":2,"at_ms":2000,"op":{"actor":{"host":0,"task":0},"op":"try"}},
    {"id":3,"at_ms":3000,"op":{"actor":{"host":0,"task":0},"op":"release"}},
    {"id":4,"at_ms":9000,"op":{"actor":{"host":0,"task":0},"op":"release"}},
    {"id":5,"at_ms":9500,"op":{"actor":{"host":0,"task":0},"op":"release"}}
]}"#;

#[test]
fn an_owner_that_enters_again_is_judged_by_its_token() {
    let counts_twice = false;
    check(Redisson { counts_twice })
        .scenario(NESTED)
        .assert_sound();
}

#[test]
#[should_panic(
    expected = "P20 grounded belief: c1 believes that it holds the lock from 0.003 s to 9.500 s, but from 3.000 s"
)]
fn a_depth_below_the_number_of_grants_is_found_before_it_frees_the_lock() {
    let counts_twice = true;
    check(Redisson { counts_twice })
        .scenario(NESTED)
        .assert_sound();
}

#[test]
fn the_short_form_says_the_same() {
    let stored = Stored {
        token: b"a".to_vec(),
        expires: Some(Duration::from_secs(3)),
    };
    let holder = Holder {
        token: b"a".to_vec(),
        expires: Some(Duration::from_secs(3)),
        ..Holder::default()
    };
    assert_eq!(Observed::from(vec![stored]).holders, [holder]);
}

/// A lock that polls while it waits, and gives up after a part of the wait.
struct Impatient {
    percent: u32,
}

impl Subject for Impatient {
    type Lock = Handle;
    type Grant = String;

    fn name(&self) -> &'static str {
        "impatient"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().waiting(Some(12)).untidy()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
        Handle::open(host, key, lease).await
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<String>, BoxError> {
        let token = lock.host.random_token();
        let taken: u32 = Script::new(Shape::Prefixed.acquire())
            .key(&lock.key)
            .arg(&token)
            .arg(lock.lease_ms)
            .invoke_async(&mut lock.redis.clone())
            .await?;
        Ok((taken == 1).then_some(token))
    }

    async fn lock_timeout(
        &self,
        lock: &Handle,
        wait: Duration,
    ) -> Result<Option<String>, BoxError> {
        let until = lock.host.now() + wait * self.percent / 100;
        let poll = Duration::from_millis(lock.lease_ms) / 24;
        loop {
            if let Some(token) = self.try_lock(lock).await? {
                return Ok(Some(token));
            }
            if lock.host.now() + poll > until {
                return Ok(None);
            }
            lock.host.sleep(poll).await;
        }
    }

    async fn release(&self, lock: &Handle, token: String) -> Result<bool, BoxError> {
        let removed: u32 = Script::new(Shape::Prefixed.release(Mistake::None))
            .key(&lock.key)
            .arg(token)
            .invoke_async(&mut lock.redis.clone())
            .await?;
        Ok(removed == 1)
    }
}

#[test]
fn a_waiter_that_gives_up_early_is_convicted_and_one_that_skips_its_last_poll_is_not() {
    let timeouts = |percent| {
        let plan = Plan {
            seeds: SEEDS,
            properties: vec![Property::Timeouts],
            ..Plan::quick(&Double)
        };
        let lock = Arc::new(Impatient { percent });
        let trial = run_trial(&lock, Expected::Sound, &Double, &plan, &|_| {});
        told(&trial.expect("the double is there"))
    };
    let gives_up = |percent| timeouts(percent).concat().contains("gave up after");
    assert!(!gives_up(100));
    assert!(gives_up(72));
}

/// A lock that returns an error for each acquisition.
struct Silent;

impl Subject for Silent {
    type Lock = Handle;
    type Grant = String;

    fn name(&self) -> &'static str {
        "silent"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
        Handle::open(host, key, lease).await
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<String>, BoxError> {
        let taken = Impatient { percent: 100 }.try_lock(lock).await?;
        Err(format!("it may have happened: {taken:?}").into())
    }

    async fn release(&self, lock: &Handle, token: String) -> Result<bool, BoxError> {
        Impatient { percent: 100 }.release(lock, token).await
    }
}

#[test]
fn an_error_as_the_answer_to_everything_is_a_violation_for_every_lock() {
    let trial = check(Silent).seeds(SEEDS).trial();
    assert!(trial.broken().contains(&Property::Liveness));
}

/// Redlock on three nodes that requires `needed` votes for a grant.
struct Votes {
    needed: usize,
}

struct Nodes {
    nodes: Vec<Connection>,
    host: Host,
    key: String,
    lease: Duration,
}

impl Subject for Votes {
    type Lock = Nodes;
    type Grant = (String, Duration);

    fn name(&self) -> &'static str {
        "votes"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .on(Topology::Nodes(3))
            .with_deadline()
            .with_drift_ppm(10_000)
            .untidy()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Nodes, BoxError> {
        let mut nodes = Vec::new();
        for node in 0..host.nodes() {
            nodes.push(host.connect_to(node).await?);
        }
        Ok(Nodes {
            nodes,
            host: host.clone(),
            key: key.to_owned(),
            lease,
        })
    }

    async fn try_lock(&self, lock: &Nodes) -> Result<Option<Self::Grant>, BoxError> {
        let (token, sent) = (lock.host.random_token(), lock.host.now());
        let mut votes = 0;
        for node in &lock.nodes {
            let taken = Script::new(Shape::Prefixed.acquire())
                .key(&lock.key)
                .arg(&token)
                .arg(u64::try_from(lock.lease.as_millis())?)
                .invoke_async::<u32>(&mut node.clone())
                .await;
            votes += usize::from(taken.is_ok_and(|taken| taken == 1));
        }
        let until = sent + lock.lease.mul_f64(0.98);
        if votes >= self.needed && lock.host.now() < until {
            return Ok(Some((token, until)));
        }
        let _ = self.release(lock, (token, until)).await;
        Ok(None)
    }

    async fn release(&self, lock: &Nodes, (token, _): Self::Grant) -> Result<bool, BoxError> {
        let mut removed = 0;
        for node in &lock.nodes {
            let freed = Script::new(Shape::Prefixed.release(Mistake::None))
                .key(&lock.key)
                .arg(&token)
                .invoke_async::<u32>(&mut node.clone())
                .await;
            removed += usize::from(freed.is_ok_and(|freed| freed == 1));
        }
        if removed >= 2 {
            return Ok(true);
        }
        Err("it is not known".into())
    }

    fn deadline(&self, &(_, until): &Self::Grant) -> Option<Duration> {
        Some(until)
    }
}

#[test]
fn a_redlock_that_needs_all_nodes_is_convicted_and_one_whose_votes_are_split_is_not() {
    let honesty = |needed| {
        let plan = Plan {
            seeds: SEEDS,
            properties: vec![Property::Truth],
            ..Plan::quick(&Double)
        };
        let trial = run_trial(
            &Arc::new(Votes { needed }),
            Expected::Sound,
            &Double,
            &plan,
            &|_| {},
        );
        let examples = trial.expect("the double is there").counterexamples;
        let lies = examples.into_iter().map(|it| {
            let witness = it.judged.witness(it.property);
            let message = witness.map(|it| it.message.clone());
            format!("{message:?} {}", it.scenario.to_json())
        });
        lies.collect::<String>()
    };
    assert_eq!(honesty(2), "");
    assert_ne!(honesty(3), "");
}

/// `SET NX EX`: the lease is in whole seconds. The deadline follows this lease, or the lease that the caller asked for.
struct WholeSeconds {
    rounds_deadline: bool,
}

impl Subject for WholeSeconds {
    type Lock = Handle;
    type Grant = Held;

    fn name(&self) -> &'static str {
        "whole-seconds"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().with_deadline().untidy()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
        Handle::open(host, key, lease).await
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Held>, BoxError> {
        let (token, sent) = (lock.host.random_token(), lock.host.now());
        let rounded = lock.lease_ms / 1_000 * 1_000;
        if rounded == 0 {
            return Err(Refusal::Other.into());
        }
        let taken: u32 = Script::new(Shape::Prefixed.acquire())
            .key(&lock.key)
            .arg(&token)
            .arg(rounded)
            .invoke_async(&mut lock.redis.clone())
            .await?;
        let believed = if self.rounds_deadline {
            rounded
        } else {
            lock.lease_ms
        };
        let until = sent + Duration::from_millis(believed);
        let granted = taken == 1 && lock.host.now() < until;
        Ok(granted.then_some(Held {
            token,
            until,
            permits: 1,
        }))
    }

    async fn release(&self, lock: &Handle, held: Held) -> Result<bool, BoxError> {
        Impatient { percent: 100 }.release(lock, held.token).await
    }

    fn deadline(&self, held: &Held) -> Option<Duration> {
        Some(held.until)
    }
}

#[test]
fn a_lease_in_whole_seconds_is_convicted_and_a_deadline_that_is_rounded_with_it_is_not() {
    let grounded = |rounds_deadline| {
        let lock = check(WholeSeconds { rounds_deadline }).seeds(0..100);
        let trial = lock.lease(Duration::from_millis(7_999)).trial();
        trial.total(Property::GroundedBelief)
    };
    assert!(grounded(false).broken > 0);
    assert_eq!(grounded(true).broken, 0);
}

#[test]
fn a_lease_that_is_asked_for_is_that_of_all_scenarios() {
    let lock = || {
        check(WholeSeconds {
            rounds_deadline: false,
        })
        .seeds(SEEDS)
    };
    let whole = lock().lease(Duration::from_secs(7)).trial();
    assert_eq!(whole.total(Property::GroundedBelief).broken, 0);
    let odd = lock().lease(Duration::from_millis(7_999)).trial();
    let example = odd
        .counterexamples
        .iter()
        .find(|it| it.property == Property::GroundedBelief);
    assert_eq!(example.map(|it| it.scenario.lease_ms), Some(7_999));
}

/// A lock that needs a command of Redis 7.4.
struct Newer;

impl Newer {
    const BASE: Unseen = Unseen(Shape::Prefixed, Tells::Nothing, Mistake::None);
}

impl Subject for Newer {
    type Lock = Handle;
    type Grant = Held;

    fn name(&self) -> &'static str {
        "newer"
    }

    fn promises(&self) -> Promises {
        Self::BASE.promises()
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Handle, BoxError> {
        let handle = Self::BASE.open(host, key, lease).await?;
        let mut hash_field = redis::cmd("HPEXPIRE");
        hash_field
            .arg("missing")
            .arg(10)
            .arg("FIELDS")
            .arg(1)
            .arg("field")
            .exec_async(&mut handle.redis.clone())
            .await?;
        Ok(handle)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Held>, BoxError> {
        Self::BASE.try_lock(lock).await
    }

    async fn release(&self, lock: &Handle, held: Held) -> Result<bool, BoxError> {
        Self::BASE.release(lock, held).await
    }

    fn deadline(&self, held: &Held) -> Option<Duration> {
        Self::BASE.deadline(held)
    }
}

#[test]
fn a_lock_that_needs_a_newer_server_gets_one() {
    let newer = || check(Newer).seeds(0..20);
    newer().compat(redouble::Profile::REDIS_7_4).assert_sound();
    let refused = std::panic::catch_unwind(|| newer().assert_sound()).unwrap_err();
    let message = refused.downcast::<String>().expect("a message");
    assert!(message.contains("HPEXPIRE"), "{message}");
}
