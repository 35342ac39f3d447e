//! Locks with fencing tokens, and how the number comes about.

use crate::{is_cleared, is_convicted, kit::Handle, opens_a_handle, simple::COMPARE_AND_DELETE};
use redouble_conformance::{BoxError, Promises, Subject, checker::Property, subject::Fencing};

/// Moment at which the number is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// In the script that sets the key, and only if it sets it.
    WithTheGrant,
    /// In a transaction with the SET: refused attempts count too.
    WithEachAttempt,
    /// In the next request, when the lease may be over.
    AfterTheGrant,
    /// In an earlier request, so a later holder may have a lower number.
    BeforeTheGrant,
}

struct Grant {
    token: String,
    number: u64,
}

impl Subject for Counts {
    opens_a_handle!(Grant);

    fn name(&self) -> &'static str {
        match self {
            Self::WithTheGrant => "number-with-the-grant",
            Self::WithEachAttempt => "number-with-each-attempt",
            Self::AfterTheGrant => "number-after-the-grant",
            Self::BeforeTheGrant => "number-before-the-grant",
        }
    }

    fn promises(&self) -> Promises {
        Promises::mutex_on_one_node()
            .untidy()
            .with_fencing(Fencing::Counter)
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<Grant>, BoxError> {
        let (token, fence) = (lock.host.random_token(), lock.beside("fence"));
        let (keys, args) = ([&*lock.key, &*fence], [&*token, &*lock.lease_ms()]);
        let in_script = |script| async move {
            let number: Option<u64> = lock.eval(script, &keys, &args).await?;
            Ok::<_, BoxError>(number)
        };
        let set = || async {
            let words = ["SET", keys[0], args[0], "NX", "PX", args[1]];
            let set: Option<String> = lock.ask(&words).await?;
            Ok::<_, BoxError>(set.is_some())
        };
        let number = match self {
            Self::WithTheGrant => {
                in_script(
                    "if redis.call('exists', KEYS[1]) == 1 then return false end \
                    local number = redis.call('incr', KEYS[2]) \
                    redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return number",
                )
                .await?
            }
            Self::WithEachAttempt => {
                let mut redis = lock.host.connection().await?;
                let (number, set): (u64, Option<String>) = redis::pipe()
                    .atomic()
                    .cmd("INCR")
                    .arg(keys[1])
                    .cmd("SET")
                    .arg(&[keys[0], args[0], "NX", "PX", args[1]])
                    .query_async(&mut redis)
                    .await?;
                set.map(|_| number)
            }
            Self::AfterTheGrant => match set().await? {
                true => Some(lock.ask(&["INCR", &fence]).await?),
                false => None,
            },
            Self::BeforeTheGrant => {
                let number: u64 = lock.ask(&["INCR", &fence]).await?;
                set().await?.then_some(number)
            }
        };
        Ok(number.map(|number| Grant { token, number }))
    }

    async fn release(&self, lock: &Handle, grant: Grant) -> Result<bool, BoxError> {
        Ok(lock
            .eval(COMPARE_AND_DELETE, &[&lock.key], &[&grant.token])
            .await?)
    }

    fn fencing_token(&self, grant: &Grant) -> Option<u64> {
        Some(grant.number)
    }
}

#[test]
fn the_number_is_counted_with_the_grant() {
    is_cleared(Counts::WithTheGrant);
    is_cleared(Counts::WithEachAttempt);
}

#[test]
fn a_number_that_is_counted_after_the_grant_is_convicted() {
    is_convicted(Counts::AfterTheGrant, Property::Fencing);
}

#[test]
fn a_number_that_is_counted_before_the_grant_is_convicted() {
    is_convicted(Counts::BeforeTheGrant, Property::Fencing);
}
