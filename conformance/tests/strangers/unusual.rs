//! Locks with unusual data structures or commands. The caller polls, except where the lock says otherwise.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
    simple::COMPARE_AND_DELETE,
};
use redis::{ErrorKind, RedisResult};
use redouble::Data;
use redouble_conformance::{
    BoxError, Host, NotOffered, Promises, Subject, backend::View, checker::Property,
    history::Holder, subject::Observed,
};
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// Way to store the holder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A document; each extension rewrites it with the time of the extension.
    Document,
    /// The same, but an extension does not compare the owner.
    UncheckedDocument,
    /// A key of the client is renamed if the name of the lock is free.
    Renamed,
    /// A key of the client is copied, unless the name of the lock is taken.
    Copied,
    /// A set with at most one member.
    Member,
    /// The oldest entry of a stream.
    Entry,
    /// A string that stays after a release, with another value.
    FreeValue,
    /// The same, but a release does not compare the owner.
    UncheckedFreeValue,
    /// A release sets an expiry of 1 ms.
    ShortExpiry,
    /// A function of a library; the client loads the library again after an error that says that it is missing.
    Function,
    /// The value is an encoded number of the clock and a name of the process.
    Base,
    /// An attempt pipelines SETNX and PEXPIRE.
    Pipelined,
}

struct Shaped(Shape);

const LIBRARY: &str = "#!lua name=locks
local function take(keys, args)
    if redis.call('set', keys[1], args[1], 'NX', 'PX', args[2]) then return 1 end
    return 0
end
local function give(keys, args)
    if redis.call('get', keys[1]) == args[1] then return redis.call('del', keys[1]) end
    return 0
end
redis.register_function('take', take)
redis.register_function('give', give)";

impl Shaped {
    async fn call(lock: &Handle, name: &str, args: &[&str]) -> RedisResult<bool> {
        let words = [&["FCALL", name, "1", &lock.key], args].concat();
        match lock.ask(&words).await {
            Err(err) if err.to_string().contains("Function not found") => {
                let _: String = lock.ask(&["FUNCTION", "LOAD", "REPLACE", LIBRARY]).await?;
                lock.ask(&words).await
            }
            outcome => outcome,
        }
    }

    async fn take(&self, lock: &Handle, token: &str) -> RedisResult<bool> {
        let (key, lease) = (&*lock.key, &*lock.lease_ms());
        let own = lock.beside(token);
        match self.0 {
            Shape::Document | Shape::UncheckedDocument => {
                let value = format!(
                    "{{\"owner\":\"{token}\",\"renewed\":{}}}",
                    lock.host.wall_clock().as_millis()
                );
                let set: Option<String> =
                    lock.ask(&["SET", key, &value, "NX", "PX", lease]).await?;
                Ok(set.is_some())
            }
            Shape::Renamed | Shape::Copied => {
                let _: String = lock.ask(&["SET", &own, token, "PX", lease]).await?;
                let command = match self.0 {
                    Shape::Renamed => "RENAMENX",
                    _ => "COPY",
                };
                let taken: bool = lock.ask(&[command, &own, key]).await?;
                if !taken || self.0 == Shape::Copied {
                    let stood: bool = lock.ask(&["DEL", &own]).await?;
                    if !taken && !stood && self.0 == Shape::Copied {
                        let why = (ErrorKind::Client, "the key of the client has expired");
                        return Err(why.into());
                    }
                }
                Ok(taken)
            }
            Shape::Member => {
                let script = "if redis.call('scard', KEYS[1]) > 0 then return 0 end \
                    redis.call('sadd', KEYS[1], ARGV[1]) return redis.call('pexpire', KEYS[1], ARGV[2])";
                lock.eval(script, &[key], &[token, lease]).await
            }
            Shape::Entry => {
                let script = "local id = redis.call('xadd', KEYS[1], '*', 'owner', ARGV[1]) \
                    if redis.call('xrange', KEYS[1], '-', '+', 'COUNT', 1)[1][1] == id then \
                        return redis.call('pexpire', KEYS[1], ARGV[2]) end \
                    redis.call('xdel', KEYS[1], id) return 0";
                lock.eval(script, &[key], &[token, lease]).await
            }
            Shape::FreeValue | Shape::UncheckedFreeValue => {
                let script = "local it = redis.call('get', KEYS[1]) \
                    if it and it ~= 'free' then return 0 end \
                    redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 1";
                lock.eval(script, &[key], &[token, lease]).await
            }
            Shape::ShortExpiry | Shape::Base => {
                let set: Option<String> = lock.ask(&["SET", key, token, "NX", "PX", lease]).await?;
                Ok(set.is_some())
            }
            Shape::Function => Self::call(lock, "take", &[token, lease]).await,
            Shape::Pipelined => {
                let mut redis = lock.host.connection().await?;
                let (taken, _): (bool, bool) = redis::pipe()
                    .cmd("SETNX")
                    .arg(key)
                    .arg(token)
                    .cmd("PEXPIRE")
                    .arg(key)
                    .arg(lease)
                    .query_async(&mut redis)
                    .await?;
                Ok(taken)
            }
        }
    }
}

impl Subject for Shaped {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self.0 {
            Shape::Document => "a-document",
            Shape::UncheckedDocument => "an-unchecked-document",
            Shape::Renamed => "a-renamed-key",
            Shape::Copied => "a-copied-key",
            Shape::Member => "a-member",
            Shape::Entry => "an-entry",
            Shape::FreeValue => "a-free-value",
            Shape::UncheckedFreeValue => "an-unchecked-free-value",
            Shape::ShortExpiry => "a-short-expiry",
            Shape::Function => "a-function",
            Shape::Base => "an-encoded-number",
            Shape::Pipelined => "pipelined-setnx",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let token = match self.0 {
            Shape::Base => format!(
                "{:x}:{}",
                lock.host.wall_clock().as_micros(),
                lock.host.random_token()
            ),
            _ => lock.host.random_token(),
        };
        let taken = self.take(lock, &token).await?;
        Ok(taken.then_some(Token(token)))
    }

    async fn extend(&self, lock: &Handle, Token(token): &Token) -> Result<bool, BoxError> {
        let check = match self.0 {
            Shape::Document => "if it.owner ~= ARGV[1] then return 0 end",
            Shape::UncheckedDocument => "it.owner = ARGV[1]",
            _ => return Err(NotOffered.into()),
        };
        let script = format!(
            "local it = redis.call('get', KEYS[1]) \
            if not it then return 0 end it = cjson.decode(it) {check} it.renewed = ARGV[3] \
            redis.call('set', KEYS[1], cjson.encode(it), 'PX', ARGV[2]) return 1"
        );
        let now = lock.host.wall_clock().as_millis().to_string();
        Ok(lock
            .eval(&script, &[&lock.key], &[token, &lock.lease_ms(), &now])
            .await?)
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        let script = match self.0 {
            Shape::Document | Shape::UncheckedDocument => {
                "local it = redis.call('get', KEYS[1]) \
                if not it or cjson.decode(it).owner ~= ARGV[1] then return 0 end \
                return redis.call('del', KEYS[1])"
            }
            Shape::Member => "return redis.call('srem', KEYS[1], ARGV[1])",
            Shape::Entry => {
                "local first = redis.call('xrange', KEYS[1], '-', '+', 'COUNT', 1)[1] \
                if not first or first[2][2] ~= ARGV[1] then return 0 end \
                return redis.call('del', KEYS[1])"
            }
            Shape::FreeValue => {
                "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
                redis.call('set', KEYS[1], 'free', 'KEEPTTL') return 1"
            }
            Shape::UncheckedFreeValue => {
                "if redis.call('exists', KEYS[1]) == 0 then return 0 end \
                redis.call('set', KEYS[1], 'free', 'KEEPTTL') return 1"
            }
            Shape::ShortExpiry => {
                "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
                return redis.call('pexpire', KEYS[1], 1)"
            }
            Shape::Function => return Ok(Self::call(lock, "give", &[&token]).await?),
            Shape::Renamed | Shape::Copied | Shape::Base | Shape::Pipelined => COMPARE_AND_DELETE,
        };
        Ok(lock.eval(script, &[&lock.key], &[&token]).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        match self.0 {
            Shape::Member => Observed::set(view, key),
            Shape::Entry => {
                let Some((Data::Stream(entries), expires)) = view.data(key) else {
                    return Observed::default();
                };
                let first = entries.first().map(|(_, fields)| Holder {
                    token: fields[0].1.to_vec(),
                    expires,
                    ..Holder::default()
                });
                Observed {
                    holders: first.into_iter().collect(),
                    ..Observed::default()
                }
            }
            Shape::Document | Shape::UncheckedDocument => {
                let mut observed = Observed::string(view, key);
                for holder in &mut observed.holders {
                    let document: serde_json::Value =
                        serde_json::from_slice(&holder.token).unwrap();
                    holder.token = document["owner"].as_str().unwrap().into();
                }
                observed
            }
            Shape::FreeValue | Shape::UncheckedFreeValue => {
                let mut observed = Observed::string(view, key);
                observed.holders.retain(|it: &Holder| it.token != b"free");
                observed
            }
            _ => Observed::string(view, key),
        }
    }
}

/// A mutex in the process before the key: tasks of the process wait for each other without a request.
struct InProcess;

struct Queue {
    lock: Handle,
    inside: Arc<Mutex<()>>,
}

struct Both {
    token: String,
    _inside: tokio::sync::OwnedMutexGuard<()>,
}

impl InProcess {
    async fn take(lock: &Handle) -> RedisResult<Option<String>> {
        let token = lock.host.random_token();
        let set: Option<String> = lock
            .ask(&["SET", &lock.key, &token, "NX", "PX", &lock.lease_ms()])
            .await?;
        Ok(set.map(|_| token))
    }
}

impl Subject for InProcess {
    type Lock = Queue;
    type Grant = Both;

    fn name(&self) -> &'static str {
        "a-mutex-in-the-process"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .untidy()
            .waiting(None)
            .polling(Duration::from_millis(50))
    }

    async fn open(&self, host: &Host, key: &str, lease: Duration) -> Result<Queue, BoxError> {
        Ok(Queue {
            lock: Handle::open(host, key, lease).await?,
            inside: Arc::default(),
        })
    }

    async fn try_lock(&self, queue: &Queue) -> Result<Option<Both>, BoxError> {
        let Ok(inside) = Arc::clone(&queue.inside).try_lock_owned() else {
            return Ok(None);
        };
        let token = Self::take(&queue.lock).await?;
        Ok(token.map(|token| Both {
            token,
            _inside: inside,
        }))
    }

    async fn lock_timeout(&self, queue: &Queue, wait: Duration) -> Result<Option<Both>, BoxError> {
        let host = &queue.lock.host;
        let until = host.now() + wait;
        let inside = tokio::select! {
            biased;
            inside = Arc::clone(&queue.inside).lock_owned() => inside,
            () = host.sleep_until(until) => return Ok(None),
        };
        loop {
            if let Some(token) = Self::take(&queue.lock).await? {
                return Ok(Some(Both {
                    token,
                    _inside: inside,
                }));
            }
            let left = until.saturating_sub(host.now());
            if left.is_zero() {
                return Ok(None);
            }
            host.sleep(left.min(Duration::from_millis(50))).await;
        }
    }

    async fn release(&self, queue: &Queue, grant: Both) -> Result<bool, BoxError> {
        let lock = &queue.lock;
        Ok(lock
            .eval(COMPARE_AND_DELETE, &[&lock.key], &[&grant.token])
            .await?)
    }
}

/// A waiter blocks in BLPOP until a release pushes an element, or the lease of the holder ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocking {
    /// At most for the rest of the wait and of the holder's lease.
    Bounded,
    /// Until a release pushes an element.
    ForEver,
    /// For an eighth of the request timeout, on the connection that carries all requests of the process.
    SharedConnection,
}

impl Subject for Blocking {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::Bounded => "blocks-in-blpop",
            Self::ForEver => "blocks-for-ever",
            Self::SharedConnection => "blocks-a-shared-connection",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy().waiting(None)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        Ok(InProcess::take(lock).await?.map(Token))
    }

    async fn lock_timeout(&self, lock: &Handle, wait: Duration) -> Result<Option<Token>, BoxError> {
        let until = lock.host.now() + wait;
        loop {
            if let Some(token) = InProcess::take(lock).await? {
                return Ok(Some(Token(token)));
            }
            let left = until.saturating_sub(lock.host.now());
            if left.is_zero() {
                return Ok(None);
            }
            let ttl: i64 = lock.ask(&["PTTL", &lock.key]).await?;
            let left = until
                .saturating_sub(lock.host.now())
                .min(Duration::from_millis(u64::try_from(ttl).unwrap_or(0) + 1));
            if left.is_zero() {
                return Ok(None);
            }
            let freed = lock.beside("freed");
            let pause = match self {
                Self::Bounded => left.as_secs_f64().to_string(),
                Self::ForEver => "0".to_owned(),
                Self::SharedConnection => {
                    let left = left.min(lock.host.request_timeout() / 8);
                    let pause = left.as_secs_f64().to_string();
                    let _: Option<(String, String)> = lock.ask(&["BLPOP", &freed, &pause]).await?;
                    continue;
                }
            };
            let mut own = lock
                .host
                .patient_connection(0, left + lock.host.request_timeout())
                .await?;
            let _: Option<(String, String)> = redis::cmd("BLPOP")
                .arg(freed)
                .arg(pause)
                .query_async(&mut own)
                .await?;
        }
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        let script = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end \
            redis.call('del', KEYS[1], KEYS[2]) redis.call('rpush', KEYS[2], 1) \
            redis.call('pexpire', KEYS[2], 1000) return 1";
        Ok(lock
            .eval(script, &[&lock.key, &lock.beside("freed")], &[&token])
            .await?)
    }
}

/// Each caller draws a ticket and waits until the counter of served tickets reaches it.
struct Tickets;

impl Subject for Tickets {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        "tickets"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let script = "local drawn = tonumber(redis.call('get', KEYS[1]) or 0) \
            if drawn ~= tonumber(redis.call('get', KEYS[2]) or 0) then return 0 end \
            return redis.call('incr', KEYS[1])";
        let ticket: u64 = lock
            .eval(
                script,
                &[&lock.beside("drawn"), &lock.beside("served")],
                &[],
            )
            .await?;
        Ok((ticket > 0).then(|| Token(ticket.to_string())))
    }

    async fn release(&self, lock: &Handle, Token(ticket): Token) -> Result<bool, BoxError> {
        let _: String = lock.ask(&["SET", &lock.beside("served"), &ticket]).await?;
        Ok(true)
    }

    fn outlasts(&self, _: &[u8]) -> bool {
        true
    }
}

#[test]
fn a_document_is_rewritten() {
    is_cleared(Shaped(Shape::Document));
}

#[test]
fn an_unchecked_document_is_convicted() {
    is_convicted(Shaped(Shape::UncheckedDocument), Property::Ownership);
}

#[test]
fn a_key_of_the_client_is_renamed() {
    is_cleared(Shaped(Shape::Renamed));
}

#[test]
fn a_key_of_the_client_is_copied() {
    is_cleared(Shaped(Shape::Copied));
}

#[test]
fn the_holder_is_the_member_of_a_set() {
    is_cleared(Shaped(Shape::Member));
}

#[test]
fn the_holder_is_the_oldest_entry_of_a_stream() {
    is_cleared(Shaped(Shape::Entry));
}

#[test]
fn a_release_writes_another_value() {
    is_cleared(Shaped(Shape::FreeValue));
}

#[test]
fn an_unchecked_write_of_another_value_is_convicted() {
    is_convicted(Shaped(Shape::UncheckedFreeValue), Property::Ownership);
}

#[test]
fn a_release_sets_an_expiry_of_a_millisecond() {
    is_cleared(Shaped(Shape::ShortExpiry));
}

#[test]
fn a_function_acquires_and_releases() {
    is_cleared(Shaped(Shape::Function));
}

#[test]
fn the_value_is_an_encoded_number() {
    is_cleared(Shaped(Shape::Base));
}

#[test]
fn a_pipelined_expiry_that_lengthens_the_lease_of_another_is_convicted() {
    is_convicted(Shaped(Shape::Pipelined), Property::Progress);
}

#[test]
fn a_mutex_excludes_the_tasks_of_a_process() {
    is_cleared(InProcess);
}

#[test]
fn waiters_block_on_a_list_for_a_bounded_time() {
    is_cleared(Blocking::Bounded);
    is_cleared(Blocking::SharedConnection);
}

#[test]
fn waiters_that_block_on_a_list_for_ever_are_convicted() {
    is_convicted(Blocking::ForEver, Property::Progress);
}

#[test]
fn tickets_without_an_expiry_are_convicted() {
    is_convicted(Tickets, Property::Progress);
}
