//! A string with a token, acquired, extended and released in many ways. The caller polls.

use crate::{
    is_cleared, is_convicted,
    kit::{Handle, Token},
    opens_a_handle,
    simple::COMPARE_AND_DELETE,
};
use redis::{RedisResult, Value};
use redouble_conformance::{
    BoxError, Promises, Subject, backend::View, checker::Property, subject::Observed,
};
use std::time::Duration;

/// The one point in which these locks differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// WATCH, GET, MULTI, SET, EXEC; extended with GETEX in the same way.
    Transaction,
    /// The same, but the lock ignores a nil reply to EXEC, and takes the transaction as executed.
    UnheededTransaction,
    /// The token consists of a number that the server counts, and a name that the process draws once.
    CountedToken,
    /// The token is the number alone: a server that lost its data counts from 1 again.
    BareNumber,
    /// The lock puts a prefix before its keys; `observe` reads the key with the prefix.
    Prefix,
    /// The lock puts a prefix before its keys; `observe` reads the key without it.
    HiddenPrefix,
    /// SETNX and PEXPIRE in one script.
    SetnxInAScript,
    /// The lease is rounded up to whole seconds, and the deadline says so.
    WholeSeconds,
    /// The lease is rounded down, and the deadline says so.
    RoundedDown,
    /// Each process has one token: its process id inside its container.
    ProcessToken,
    /// The lock sends seconds where the server takes milliseconds.
    SecondsAsMillis,
    /// The lock releases by DEL if its lease has not ended by its own clock.
    DelBeforeTheEnd,
    /// An error of an attempt counts as "another client holds the lock".
    ErrorIsNo,
    /// A refused attempt sets an expiry, so that the key has one: it extends the lease of another holder.
    RenewsForeign,
    /// The fencing token comes from the wall clock of the process.
    NumberFromTheClock,
}

struct Strings(Way);

/// Largest number of attempts at a transaction, which fails if another client changed the key.
const RETRIES: usize = 10;

async fn transaction(
    lock: &Handle,
    wanted: Option<&str>,
    then: &[&str],
    heeds: bool,
) -> RedisResult<bool> {
    for _ in 0..RETRIES {
        let mut own = lock.host.connection().await?; // WATCH belongs to the connection
        let _: Value = redis::cmd("WATCH")
            .arg(&lock.key)
            .query_async(&mut own)
            .await?;
        let stored: Option<String> = redis::cmd("GET")
            .arg(&lock.key)
            .query_async(&mut own)
            .await?;
        if stored.as_deref() != wanted {
            return Ok(false);
        }
        let _: Value = redis::cmd("MULTI").query_async(&mut own).await?;
        let _: Value = redis::Cmd::new().arg(then).query_async(&mut own).await?;
        let done: Option<Value> = redis::cmd("EXEC").query_async(&mut own).await?;
        if done.is_some_and(|it| it != Value::Nil) || !heeds {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Strings {
    fn key(&self, lock: &Handle) -> String {
        match self.0 {
            Way::Prefix | Way::HiddenPrefix => format!("app:locks:{}", lock.key),
            _ => lock.key.clone(),
        }
    }

    fn seconds(&self, lease: Duration) -> Option<u64> {
        match self.0 {
            Way::WholeSeconds => Some(lease.as_secs() + u64::from(lease.subsec_nanos() > 0)),
            Way::RoundedDown => Some(lease.as_secs().max(1)),
            _ => None,
        }
    }

    async fn token(&self, lock: &Handle) -> RedisResult<String> {
        Ok(match self.0 {
            Way::CountedToken | Way::BareNumber => {
                let id: u64 = lock.ask(&["INCR", &lock.beside("ids")]).await?;
                match self.0 {
                    Way::BareNumber => id.to_string(),
                    _ => format!("{id}-{}", lock.me),
                }
            }
            Way::ProcessToken => lock.host.process_id().to_string(),
            _ => lock.host.random_token(),
        })
    }

    async fn take(&self, lock: &Handle, token: &str) -> RedisResult<bool> {
        let (key, lease) = (self.key(lock), lock.lease_ms());
        let set = |words: Vec<String>| async move {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let set: Option<String> = lock.ask(&words).await?;
            Ok(set.is_some())
        };
        let words = |unit: &str, time: String| {
            ["SET", &*key, token, "NX", unit, &*time]
                .map(str::to_owned)
                .to_vec()
        };
        match self.0 {
            Way::Transaction | Way::UnheededTransaction => {
                let then = ["SET", &key, token, "PX", &lease];
                transaction(lock, None, &then, self.0 == Way::Transaction).await
            }
            Way::SetnxInAScript => {
                let script = "if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then \
                    return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
                lock.eval(script, &[&key], &[token, &lease]).await
            }
            Way::RenewsForeign => {
                let taken = set(words("PX", lease.clone())).await?;
                if !taken {
                    let _: bool = lock.ask(&["PEXPIRE", &key, &lease]).await?;
                }
                Ok(taken)
            }
            Way::SecondsAsMillis => set(words("PX", lock.lease.as_secs().max(1).to_string())).await,
            _ => match self.seconds(lock.lease) {
                Some(seconds) => set(words("EX", seconds.to_string())).await,
                None => set(words("PX", lease)).await,
            },
        }
    }
}

struct Grant {
    token: Token,
    deadline: Duration,
    number: u64,
}

impl Subject for Strings {
    opens_a_handle!(Grant);

    fn name(&self) -> &'static str {
        match self.0 {
            Way::Transaction => "transactions",
            Way::UnheededTransaction => "unheeded-transactions",
            Way::CountedToken => "counted-tokens",
            Way::BareNumber => "bare-numbers",
            Way::Prefix => "prefixed-keys",
            Way::HiddenPrefix => "hidden-keys",
            Way::SetnxInAScript => "setnx-in-a-script",
            Way::WholeSeconds => "whole-seconds",
            Way::RoundedDown => "rounded-down",
            Way::ProcessToken => "process-id-as-token",
            Way::SecondsAsMillis => "seconds-as-milliseconds",
            Way::DelBeforeTheEnd => "del-before-the-end",
            Way::ErrorIsNo => "an-error-is-a-no",
            Way::RenewsForeign => "renews-foreign-keys",
            Way::NumberFromTheClock => "number-from-the-clock",
        }
    }

    fn promises(&self) -> Promises {
        let promises = Promises::mutex_on_one_node().untidy();
        match self.0 {
            Way::WholeSeconds | Way::RoundedDown => promises
                .with_deadline()
                .rounding_leases_to(Duration::from_secs(1)),
            Way::SecondsAsMillis => promises.with_deadline(),
            Way::NumberFromTheClock => {
                promises.with_fencing(redouble_conformance::subject::Fencing::Counter)
            }
            _ => promises,
        }
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Grant>, BoxError> {
        let token = self.token(lock).await?;
        let sent = lock.host.now();
        let taken = match self.take(lock, &token).await {
            Err(_) if self.0 == Way::ErrorIsNo => false,
            outcome => outcome?,
        };
        let lease = self
            .seconds(lock.lease)
            .map_or(lock.lease, Duration::from_secs);
        let deadline = sent + lease;
        if taken && deadline <= lock.host.now() {
            return Err("the lease ended before the reply came".into());
        }
        Ok(taken.then(|| Grant {
            token: Token(token),
            deadline,
            number: u64::try_from(lock.host.wall_clock().as_millis()).unwrap(),
        }))
    }

    async fn extend(&self, lock: &Handle, grant: &Grant) -> Result<bool, BoxError> {
        if self.0 != Way::Transaction {
            return Err(redouble_conformance::NotOffered.into());
        }
        let then = ["GETEX", &lock.key, "PX", &lock.lease_ms()];
        Ok(transaction(lock, Some(&grant.token.0), &then, true).await?)
    }

    async fn release(&self, lock: &Handle, grant: Grant) -> Result<bool, BoxError> {
        let (key, Token(token)) = (self.key(lock), grant.token);
        Ok(match self.0 {
            Way::Transaction => transaction(lock, Some(&token), &["DEL", &key], true).await?,
            Way::DelBeforeTheEnd if grant.deadline <= lock.host.now() => false,
            Way::DelBeforeTheEnd => lock.ask::<bool>(&["DEL", &key]).await?,
            _ => lock.eval(COMPARE_AND_DELETE, &[&key], &[&token]).await?,
        })
    }

    fn deadline(&self, grant: &Grant) -> Option<Duration> {
        self.promises().deadline.then_some(grant.deadline)
    }

    fn fencing_token(&self, grant: &Grant) -> Option<u64> {
        (self.0 == Way::NumberFromTheClock).then_some(grant.number)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        match self.0 {
            Way::Prefix => Observed::string(view, &format!("app:locks:{key}")),
            _ => Observed::string(view, key),
        }
    }

    fn outlasts(&self, key: &[u8]) -> bool {
        key.ends_with(b":ids")
    }
}

#[test]
fn a_lock_without_scripts_is_sound_and_one_that_ignores_its_transaction_is_not() {
    is_cleared(Strings(Way::Transaction));
    is_convicted(Strings(Way::UnheededTransaction), Property::GroundedBelief);
}

#[test]
fn a_token_may_be_a_number_and_lie_anywhere() {
    for way in [
        Way::CountedToken,
        Way::Prefix,
        Way::HiddenPrefix,
        Way::SetnxInAScript,
    ] {
        is_cleared(Strings(way));
    }
}

#[test]
fn a_number_that_comes_again_is_no_token() {
    is_convicted(Strings(Way::BareNumber), Property::Ownership);
}

#[test]
fn a_lease_may_be_rounded_by_a_lock_that_says_so() {
    is_cleared(Strings(Way::WholeSeconds));
    is_cleared(Strings(Way::RoundedDown));
}

#[test]
fn seconds_are_no_milliseconds() {
    is_convicted(Strings(Way::SecondsAsMillis), Property::GroundedBelief);
}

#[test]
fn processes_do_not_share_a_token() {
    is_convicted(Strings(Way::ProcessToken), Property::Ownership);
}

#[test]
fn a_look_at_the_own_clock_does_not_replace_the_comparison() {
    is_convicted(Strings(Way::DelBeforeTheEnd), Property::Ownership);
}

#[test]
fn a_lost_reply_is_no_refusal() {
    is_convicted(Strings(Way::ErrorIsNo), Property::Truth);
}

#[test]
fn a_client_that_is_refused_extends_nothing() {
    is_convicted(Strings(Way::RenewsForeign), Property::Progress);
}

#[test]
fn clocks_of_processes_make_no_fencing_tokens() {
    is_convicted(Strings(Way::NumberFromTheClock), Property::Fencing);
}
