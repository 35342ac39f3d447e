//! Locks that store several entries of one token: one for each permit, or for each key.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
    simple::COMPARE_AND_DELETE,
};
use redis::RedisResult;
use redouble_conformance::{
    BoxError, NotOffered, Promises, Subject,
    backend::View,
    check,
    checker::Property,
    history::{Kind, Mode},
    subject::Observed,
};

const SLOTS: u32 = 3;

/// A key for each permit. A call takes one permit or several of them at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slots {
    /// One script finds free keys and sets them.
    Script,
    /// The script sets one key less than the client asked for.
    OneTooFew,
}

/// Sets as many free keys as the client asks for, or none.
const TAKE: &str = "local free = {} \
    for _, slot in ipairs(KEYS) do \
        if redis.call('EXISTS', slot) == 0 then table.insert(free, slot) end \
    end \
    if #free < tonumber(ARGV[3]) then return 0 end \
    for i = 1, ARGV[4] do redis.call('SET', free[i], ARGV[1], 'PX', ARGV[2]) end \
    return 1";

/// Deletes all keys with the token.
const GIVE: &str = "local count = 0 \
    for _, key in ipairs(KEYS) do \
        if redis.call('GET', key) == ARGV[1] then count = count + redis.call('DEL', key) end \
    end \
    return count > 0 and 1 or 0";

fn slots(key: &str) -> Vec<String> {
    (0..SLOTS).map(|slot| format!("{key}:{slot}")).collect()
}

fn words(keys: &[String]) -> Vec<&str> {
    keys.iter().map(String::as_str).collect()
}

impl Subject for Slots {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::Script => "slots-at-once",
            Self::OneTooFew => "one-slot-too-few",
        }
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::Semaphore(SLOTS)).untidy()
    }

    async fn try_lock(&self, _: &Handle) -> Result<Option<Token>, BoxError> {
        Err(NotOffered.into())
    }

    async fn try_mode(&self, lock: &Handle, mode: Mode) -> Result<Option<Token>, BoxError> {
        let Mode::Permits(permits) = mode else {
            return Err(NotOffered.into());
        };
        let sets = match self {
            Self::Script => permits,
            Self::OneTooFew => permits.saturating_sub(1).max(1),
        };
        let (token, slots) = (lock.host.random_token(), slots(&lock.key));
        let numbers = [permits.to_string(), sets.to_string()];
        let args = [&*token, &lock.lease_ms(), &numbers[0], &numbers[1]];
        let taken: bool = lock.eval(TAKE, &words(&slots), &args).await?;
        Ok(taken.then_some(Token(token)))
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        Ok(lock
            .eval(GIVE, &words(&slots(&lock.key)), &[&token])
            .await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        let slots = slots(key).into_iter();
        slots.fold(Observed::default(), |all, slot| {
            all.and(Observed::string(view, &slot).in_mode(Mode::Permits(1)))
        })
    }
}

/// A lock on three keys. The client sets one key after the other, so the lease of each key ends at another time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InTurn {
    /// A refused call deletes the keys that it has set.
    Undone,
    /// A refused call leaves them.
    LeftBehind,
}

fn accounts(key: &str) -> Vec<String> {
    let names = ["fee", "from", "to"].iter();
    names.map(|name| format!("{key}/{name}")).collect()
}

impl InTurn {
    async fn take(self, lock: &Handle, token: &str) -> RedisResult<bool> {
        for key in accounts(&lock.key) {
            let words = ["SET", &*key, token, "NX", "PX", &*lock.lease_ms()];
            let set: Option<String> = lock.ask(&words).await?;
            if set.is_none() {
                if self == Self::Undone {
                    self.give(lock, token).await?;
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn give(self, lock: &Handle, token: &str) -> RedisResult<bool> {
        lock.eval(GIVE, &words(&accounts(&lock.key)), &[token])
            .await
    }
}

impl Subject for InTurn {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self {
            Self::Undone => "keys-in-turn",
            Self::LeftBehind => "keys-in-turn-left-behind",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let token = lock.host.random_token();
        let taken = self.take(lock, &token).await?;
        Ok(taken.then_some(Token(token)))
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        Ok(self.give(lock, &token).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        let keys = accounts(key).into_iter();
        keys.fold(Observed::default(), |all, key| {
            all.and(Observed::string(view, &key))
        })
    }
}

/// A mutex whose releases never return.
struct Hanging;

impl Subject for Hanging {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        "release-hangs"
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node().untidy()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let token = lock.host.random_token();
        let words = ["SET", &*lock.key, &token, "NX", "PX", &*lock.lease_ms()];
        let set: Option<String> = lock.ask(&words).await?;
        Ok(set.map(|_| Token(token)))
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        let released = lock
            .eval(COMPARE_AND_DELETE, &[&lock.key], &[&token])
            .await?;
        std::future::pending::<()>().await;
        Ok(released)
    }
}

/// A mutex that notes its holder under a second key, and removes the note at the release.
struct Noted {
    /// The note has the expiry of the lock.
    expires: bool,
}

impl Subject for Noted {
    opens_a_handle!(Token);

    fn name(&self) -> &'static str {
        match self.expires {
            true => "noted",
            false => "noted-for-ever",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Token>, BoxError> {
        let token = lock.host.random_token();
        let (note, lease) = (lock.beside("holder"), lock.lease_ms());
        let set = ["SET", &*lock.key, &token, "NX", "PX", &*lease];
        let set: Option<String> = lock.ask(&set).await?;
        if set.is_some() {
            let words = ["SET", &*note, &token, "PX", &*lease];
            let words = if self.expires {
                &words[..]
            } else {
                &words[..3]
            };
            let _: String = lock.ask(words).await?;
        }
        Ok(set.map(|_| Token(token)))
    }

    async fn release(&self, lock: &Handle, Token(token): Token) -> Result<bool, BoxError> {
        let keys = [lock.key.clone(), lock.beside("holder")];
        Ok(lock.eval(GIVE, &words(&keys), &[&token]).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Observed::string(view, key)
    }
}

/// The holder dies, and the lock is judged long after the end of its lease.
const HOLDER_DIES: &str = r#"{"seed":1,"lease_ms":6000,"latency_ms":1,"events":[
    {"id":0,"at_ms":0,"op":{"actor":{"host":0,"task":0},"op":"try"}},
    {"id":1,"at_ms":1000,"fault":{"for_ms":10,"fault":"crash","host":0}},
    {"id":2,"at_ms":100000,"op":{"actor":{"host":1,"task":0},"op":"access"}}]}"#;

#[test]
fn a_dead_client_may_leave_a_key_that_ends() {
    let noted = Noted { expires: true };
    check(noted).scenario(HOLDER_DIES).assert_sound();
}

/// A dead client cleans nothing up, so each key of a tidy lock needs an end.
#[test]
#[should_panic(expected = "P15 clean-up")]
fn a_key_without_an_end_that_a_dead_client_leaves_is_convicted() {
    let noted = Noted { expires: false };
    check(noted).scenario(HOLDER_DIES).assert_sound();
}

#[test]
fn permits_in_slots_of_their_own_are_taken_at_once() {
    is_cleared(Slots::Script);
}

#[test]
fn a_slot_too_few_is_convicted() {
    is_convicted(Slots::OneTooFew, Property::GroundedBelief);
}

#[test]
fn keys_that_are_set_one_after_the_other_are_a_lock() {
    is_cleared(InTurn::Undone);
}

#[test]
fn keys_that_a_refused_call_leaves_are_convicted() {
    is_convicted(InTurn::LeftBehind, Property::Truth);
}

#[test]
fn a_release_that_never_returns_is_convicted() {
    is_convicted(Hanging, Property::Liveness);
}
