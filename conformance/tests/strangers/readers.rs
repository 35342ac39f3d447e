//! Read-write locks on two keys.

use crate::{is_cleared, is_convicted, kit::Handle, opens_a_handle};
use redouble_conformance::{
    BoxError, Promises, Subject,
    backend::View,
    checker::Property,
    history::{Kind, Mode},
    subject::Observed,
};

/// Data in which the lock stores its readers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// A sorted set, in which each reader has a deadline.
    SortedSet,
    /// A number, which stays as it is when a process crashes.
    Number,
}

const CLEAN: &str = "local t = redis.call('time') \
    local now = t[1] * 1000 + math.floor(t[2] / 1000) \
    redis.call('zremrangebyscore', KEYS[2], '-inf', now - 1) ";

impl Readers {
    fn enter(self, mode: Mode) -> String {
        match (self, mode) {
            (Self::SortedSet, Mode::Shared) => format!(
                "{CLEAN} if redis.call('exists', KEYS[1]) == 1 then return 0 end \
                 redis.call('zadd', KEYS[2], now + ARGV[2], ARGV[1]) return 1"
            ),
            (Self::SortedSet, _) => format!(
                "{CLEAN} if redis.call('zcard', KEYS[2]) > 0 then return 0 end \
                 if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 1 end return 0"
            ),
            (Self::Number, Mode::Shared) => "if redis.call('exists', KEYS[1]) == 1 then return 0 end \
                 redis.call('incr', KEYS[2]) return 1"
                .to_owned(),
            (Self::Number, _) => "if tonumber(redis.call('get', KEYS[2]) or '0') > 0 then return 0 end \
                 if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 1 end return 0"
                .to_owned(),
        }
    }

    fn leave(self, mode: Mode) -> String {
        match (self, mode) {
            (Self::SortedSet, Mode::Shared) => {
                format!("{CLEAN} return redis.call('zrem', KEYS[2], ARGV[1])")
            }
            (Self::Number, Mode::Shared) => "if redis.call('decr', KEYS[2]) < 1 then \
                 redis.call('del', KEYS[2]) end return 1"
                .to_owned(),
            (Self::SortedSet | Self::Number, _) => crate::simple::COMPARE_AND_DELETE.to_owned(),
        }
    }
}

impl Subject for Readers {
    opens_a_handle!((String, Mode));

    fn name(&self) -> &'static str {
        match self {
            Self::SortedSet => "readers-in-a-sorted-set",
            Self::Number => "readers-in-a-number",
        }
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::ReadWrite).untidy()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<(String, Mode)>, BoxError> {
        self.try_mode(lock, Mode::Exclusive).await
    }

    async fn try_mode(
        &self,
        lock: &Handle,
        mode: Mode,
    ) -> Result<Option<(String, Mode)>, BoxError> {
        let (token, readers) = (lock.host.random_token(), lock.beside("readers"));
        let args = [&*token, &lock.lease_ms()];
        let taken: bool = lock
            .eval(&self.enter(mode), &[&lock.key, &readers], &args)
            .await?;
        Ok(taken.then_some((token, mode)))
    }

    async fn release(
        &self,
        lock: &Handle,
        (token, mode): (String, Mode),
    ) -> Result<bool, BoxError> {
        let readers = lock.beside("readers");
        Ok(lock
            .eval(&self.leave(mode), &[&lock.key, &readers], &[&token])
            .await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        let (writer, readers) = (Observed::string(view, key), format!("{key}:readers"));
        let writer = writer.in_mode(Mode::Exclusive);
        match self {
            Self::SortedSet => {
                writer.and(Observed::sorted_set(view, &readers).in_mode(Mode::Shared))
            }
            Self::Number => writer.and(Observed::counter(view, &readers)),
        }
    }
}

/// Each reader has a key of its own, with an expiry; a writer looks for such keys by a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// In the script that sets the key of the writer.
    LooksInTheScript,
    /// Before it sets its key.
    LooksBefore,
}

impl Keys {
    fn prefix(key: &str) -> String {
        format!("reader:{}", key.len()) // the suite's keys have different lengths, and may hold signs of a pattern
    }
}

impl Subject for Keys {
    opens_a_handle!((String, Mode));

    fn name(&self) -> &'static str {
        match self {
            Self::LooksInTheScript => "a-key-per-reader",
            Self::LooksBefore => "looks-for-readers-before",
        }
    }

    fn promises(&self) -> Promises {
        Promises::of(Kind::ReadWrite).untidy()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<(String, Mode)>, BoxError> {
        self.try_mode(lock, Mode::Exclusive).await
    }

    async fn try_mode(
        &self,
        lock: &Handle,
        mode: Mode,
    ) -> Result<Option<(String, Mode)>, BoxError> {
        let (token, prefix) = (lock.host.random_token(), Self::prefix(&lock.key));
        let (pattern, own) = (format!("{prefix}:*"), format!("{prefix}:{token}"));
        let (set, lease) = (
            "if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return 1 end return 0",
            lock.lease_ms(),
        );
        let taken: bool = if mode == Mode::Shared {
            let script = "if redis.call('exists', KEYS[1]) == 1 then return 0 end \
                redis.call('set', KEYS[2], ARGV[1], 'px', ARGV[2]) return 1";
            lock.eval(script, &[&lock.key, &own], &[&token, &lease])
                .await?
        } else if *self == Self::LooksBefore {
            let readers: Vec<String> = lock.ask(&["KEYS", &pattern]).await?;
            readers.is_empty() && lock.eval(set, &[&lock.key], &[&token, &lease]).await?
        } else {
            let script = format!("if #redis.call('keys', ARGV[3]) > 0 then return 0 end {set}");
            lock.eval(&script, &[&lock.key], &[&token, &lease, &pattern])
                .await?
        };
        Ok(taken.then_some((token, mode)))
    }

    async fn release(
        &self,
        lock: &Handle,
        (token, mode): (String, Mode),
    ) -> Result<bool, BoxError> {
        if mode == Mode::Shared {
            let own = format!("{}:{token}", Self::prefix(&lock.key));
            return Ok(lock.ask(&["DEL", &own]).await?);
        }
        let script = crate::simple::COMPARE_AND_DELETE;
        Ok(lock.eval(script, &[&lock.key], &[&token]).await?)
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        let prefix = format!("{}:", Self::prefix(key));
        let keys = view.keys().into_iter();
        let keys = keys.filter_map(|key| String::from_utf8(key).ok());
        let readers = keys.filter(|key| key.starts_with(&prefix));
        let writer = Observed::string(view, key).in_mode(Mode::Exclusive);
        readers.fold(writer, |all, reader| {
            all.and(Observed::string(view, &reader).in_mode(Mode::Shared))
        })
    }
}

#[test]
fn each_reader_has_a_key() {
    is_cleared(Keys::LooksInTheScript);
}

#[test]
fn a_writer_that_looks_for_readers_before_is_convicted() {
    is_convicted(Keys::LooksBefore, Property::Exclusion);
}

#[test]
fn readers_end_by_themselves() {
    is_cleared(Readers::SortedSet);
    is_convicted(Readers::Number, Property::Progress);
}

/// A lock whose readers exclude each other too.
struct OneReader;

impl Subject for OneReader {
    opens_a_handle!((String, Mode));

    fn name(&self) -> &'static str {
        "readers-exclude-each-other"
    }

    fn promises(&self) -> Promises {
        Readers::SortedSet.promises()
    }

    async fn try_lock(&self, lock: &Handle) -> Result<Option<(String, Mode)>, BoxError> {
        self.try_mode(lock, Mode::Exclusive).await
    }

    async fn try_mode(
        &self,
        lock: &Handle,
        mode: Mode,
    ) -> Result<Option<(String, Mode)>, BoxError> {
        let (token, readers) = (lock.host.random_token(), lock.beside("readers"));
        let full = "if redis.call('zcard', KEYS[2]) > 0 then return 0 end ";
        let enter = Readers::SortedSet
            .enter(mode)
            .replacen(CLEAN, &format!("{CLEAN} {full}"), 1);
        let args = [&*token, &lock.lease_ms()];
        let taken: bool = lock.eval(&enter, &[&lock.key, &readers], &args).await?;
        Ok(taken.then_some((token, mode)))
    }

    async fn release(&self, lock: &Handle, grant: (String, Mode)) -> Result<bool, BoxError> {
        Readers::SortedSet.release(lock, grant).await
    }

    fn observe(&self, view: &dyn View, key: &str) -> Observed {
        Readers::SortedSet.observe(view, key)
    }
}

#[test]
fn readers_that_exclude_each_other_are_convicted() {
    is_convicted(OneReader, Property::Truth);
}
