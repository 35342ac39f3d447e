//! Counters that admit the first clients, and latches.

use crate::{is_cleared, is_convicted, kit::Handle, opens_a_handle};
use redouble_conformance::{
    BoxError, Promises, Subject,
    backend::View,
    checker::Property,
    history::{Kind, Refusal},
    subject::{Counted, NotOffered, Observed},
};
use std::time::Duration;

/// Clients that are admitted, and counts of the latch.
const COUNT: u32 = 3;

/// Way to count the admitted clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Count {
    /// A script adds a name to a set that is not full.
    Names,
    /// The client asks for the size of the set, and then adds its name.
    NamesInTwoRequests,
    /// An element of a list is a place.
    Places,
}

impl Subject for Count {
    opens_a_handle!(());

    fn name(&self) -> &'static str {
        match self {
            Self::Names => "names-in-a-set",
            Self::NamesInTwoRequests => "names-added-unchecked",
            Self::Places => "places-in-a-list",
        }
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::Admission(COUNT)).untidy()
    }

    async fn try_lock(&self, _: &Handle) -> Result<Option<()>, BoxError> {
        Err(NotOffered.into())
    }

    async fn release(&self, _: &Handle, (): ()) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }

    async fn admit(&self, lock: &Handle) -> Result<bool, BoxError> {
        let (name, count) = (lock.host.random_token(), COUNT.to_string());
        match self {
            Self::Names => {
                let script = "if redis.call('scard', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end \
                    return redis.call('sadd', KEYS[1], ARGV[1])";
                Ok(lock.eval(script, &[&lock.key], &[&name, &count]).await?)
            }
            Self::NamesInTwoRequests => {
                let size: u32 = lock.ask(&["SCARD", &lock.key]).await?;
                if size >= COUNT {
                    return Ok(false);
                }
                Ok(lock.ask(&["SADD", &lock.key, &name]).await?)
            }
            Self::Places => {
                let script = "if redis.call('set', KEYS[2], 1, 'nx') then \
                    for place = 1, ARGV[1] do redis.call('rpush', KEYS[1], place) end end \
                    return redis.call('lpop', KEYS[1])";
                let keys = [&*lock.key, &lock.beside("filled")];
                let place: Option<u32> = lock.eval(script, &keys, &[&count]).await?;
                Ok(place.is_some())
            }
        }
    }

    fn outlasts(&self, _: &[u8]) -> bool {
        true
    }

    fn observe(&self, _: &dyn View, _: &str) -> Observed {
        Observed::default()
    }
}

/// Way to count a latch down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Latch {
    /// A script counts down, but not below zero.
    Checked,
    /// The client reads the count, and stores one less.
    InTwoRequests,
}

impl Subject for Latch {
    opens_a_handle!(());

    fn name(&self) -> &'static str {
        match self {
            Self::Checked => "counts-down-in-a-script",
            Self::InTwoRequests => "counts-down-unchecked",
        }
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::Latch(COUNT)).untidy().to_be_set_up()
    }

    async fn try_lock(&self, _: &Handle) -> Result<Option<()>, BoxError> {
        Err(NotOffered.into())
    }

    async fn release(&self, _: &Handle, (): ()) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }

    async fn set_up(&self, lock: &Handle) -> Result<bool, BoxError> {
        Ok(lock.ask(&["SETNX", &lock.key, &COUNT.to_string()]).await?)
    }

    async fn count_one(&self, lock: &Handle) -> Result<Counted, BoxError> {
        let left: Option<i64> = match self {
            Self::Checked => {
                let script = "local left = redis.call('get', KEYS[1]) \
                    if not left then return false end \
                    if tonumber(left) <= 0 then return -1 end \
                    return redis.call('decr', KEYS[1])";
                lock.eval(script, &[&lock.key], &[]).await?
            }
            Self::InTwoRequests => {
                let left: Option<i64> = lock.ask(&["GET", &lock.key]).await?;
                match left {
                    Some(left) if left > 0 => {
                        let less = (left - 1).to_string();
                        let _: String = lock.ask(&["SET", &lock.key, &less]).await?;
                        Some(left - 1)
                    }
                    Some(_) => Some(-1),
                    None => None,
                }
            }
        };
        match left {
            Some(left) if left >= 0 => Ok(Counted::As(COUNT - u32::try_from(left)?)),
            Some(_) => Ok(Counted::Not),
            None => Err(Refusal::Lost.into()),
        }
    }

    async fn await_zero(&self, lock: &Handle, wait: Duration) -> Result<bool, BoxError> {
        let until = lock.host.now() + wait;
        loop {
            let left: Option<i64> = lock.ask(&["GET", &lock.key]).await?;
            match left {
                Some(left) if left <= 0 => return Ok(true),
                Some(_) => {}
                None => return Err(Refusal::Lost.into()),
            }
            let left = until.saturating_sub(lock.host.now());
            if left.is_zero() {
                return Ok(false);
            }
            lock.host.sleep(left.min(Duration::from_millis(50))).await;
        }
    }

    fn outlasts(&self, _: &[u8]) -> bool {
        true
    }
}

#[test]
fn names_in_a_set_are_counted() {
    is_cleared(Count::Names);
}

#[test]
fn places_in_a_list_are_handed_out() {
    is_cleared(Count::Places);
}

#[test]
fn names_that_are_added_unchecked_are_convicted() {
    is_convicted(Count::NamesInTwoRequests, Property::Admission);
}

#[test]
fn a_latch_counts_down_in_a_script() {
    is_cleared(Latch::Checked);
}

#[test]
fn a_latch_that_counts_down_in_two_requests_is_convicted() {
    is_convicted(Latch::InTwoRequests, Property::Latch);
}

/// A counter with an expiry: it admits so many clients in each lease.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Limiter {
    /// A script creates the counter with its expiry, and counts.
    Script,
    /// The same, and the client after the last one is admitted too.
    OneTooMany,
    /// The client reads the counter, and then counts.
    TwoRequests,
}

impl Subject for Limiter {
    opens_a_handle!(());

    fn name(&self) -> &'static str {
        match self {
            Self::Script => "limiter",
            Self::OneTooMany => "limiter-one-too-many",
            Self::TwoRequests => "limiter-in-two-requests",
        }
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::Admission(COUNT))
            .untidy()
            .beginning_anew()
    }

    async fn try_lock(&self, _: &Handle) -> Result<Option<()>, BoxError> {
        Err(NotOffered.into())
    }

    async fn release(&self, _: &Handle, (): ()) -> Result<bool, BoxError> {
        Err(NotOffered.into())
    }

    async fn admit(&self, lock: &Handle) -> Result<bool, BoxError> {
        let script =
            "redis.call('set', KEYS[1], 0, 'nx', 'px', ARGV[1]) return redis.call('incr', KEYS[1])";
        let limit = match self {
            Self::Script | Self::TwoRequests => COUNT,
            Self::OneTooMany => COUNT + 1,
        };
        if *self == Self::TwoRequests {
            let counted: Option<u32> = lock.ask(&["GET", &lock.key]).await?;
            let admits = counted.unwrap_or(0) < limit;
            if admits {
                let _: u32 = lock.eval(script, &[&lock.key], &[&lock.lease_ms()]).await?;
            }
            return Ok(admits);
        }
        let number: u32 = lock.eval(script, &[&lock.key], &[&lock.lease_ms()]).await?;
        Ok(number <= limit)
    }

    fn outlasts(&self, _: &[u8]) -> bool {
        true
    }

    fn observe(&self, _: &dyn View, _: &str) -> Observed {
        Observed::default()
    }
}

#[test]
fn a_limiter_admits_so_many_in_each_lease() {
    is_cleared(Limiter::Script);
    is_convicted(Limiter::OneTooMany, Property::Admission);
    is_convicted(Limiter::TwoRequests, Property::Admission);
}
