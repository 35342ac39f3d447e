//! Assertions with readable messages. Each panics in the line of the test that called it.

use super::{Data, Database};
use crate::resp::{OwnedRequest, quoted};
use crate::server::Server;
use std::fmt::Write as _;
use std::ops::RangeBounds;
use std::time::Duration;

/// Panics with the expected and the found lines.
#[track_caller]
fn fail(what: &str, expected: &[String], found: &[String]) -> ! {
    let mut text = format!("{what}\n");
    for line in expected.iter().filter(|line| !found.contains(line)) {
        let _infallible = writeln!(text, "  - {line}");
    }
    for line in found {
        let sign = if expected.contains(line) { ' ' } else { '+' };
        let _infallible = writeln!(text, "  {sign} {line}");
    }
    panic!("{text}  (- expected and missing, + found and not expected)");
}

fn lines(data: Option<&Data>) -> Vec<String> {
    data.map_or_else(|| vec!["(nothing)".to_owned()], Data::lines)
}

impl Database<'_> {
    #[track_caller]
    fn assert_data(&self, key: &[u8], expected: Option<&Data>) {
        let found = self.data(key);
        if found.as_ref() != expected {
            let what = format!("{} in database {}:", quoted(key), self.index);
            fail(&what, &lines(expected), &lines(found.as_ref()));
        }
    }

    /// Asserts that `key` holds this string.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn assert_get(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let expected = Data::String(value.as_ref().to_vec().into());
        self.assert_data(key.as_ref(), Some(&expected));
    }

    /// Asserts that `key` holds a hash of exactly these fields.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn assert_hash<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        pairs: impl IntoIterator<Item = (F, V)>,
    ) {
        let owned = |bytes: &[u8]| bytes.to_vec().into();
        let pairs = pairs.into_iter();
        let pairs = pairs.map(|(field, value)| (owned(field.as_ref()), owned(value.as_ref())));
        self.assert_data(key.as_ref(), Some(&Data::Hash(pairs.collect())));
    }

    /// Asserts that `key` holds a list of exactly these elements, its head first.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn assert_list<E: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        elements: impl IntoIterator<Item = E>,
    ) {
        let elements = elements.into_iter();
        let elements = elements.map(|element| element.as_ref().to_vec().into());
        self.assert_data(key.as_ref(), Some(&Data::List(elements.collect())));
    }

    /// Asserts that `key` holds a set of exactly these members.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn assert_set<M: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = M>,
    ) {
        let members = members.into_iter();
        let members = members.map(|member| member.as_ref().to_vec().into());
        self.assert_data(key.as_ref(), Some(&Data::Set(members.collect())));
    }

    /// Asserts that `key` is not there, or has expired.
    ///
    /// # Panics
    /// If it is there.
    #[track_caller]
    pub fn assert_missing(&self, key: impl AsRef<[u8]>) {
        self.assert_data(key.as_ref(), None);
    }

    /// Asserts that the time to live of `key` lies in a range.
    ///
    /// # Panics
    /// If it does not, or if the key is missing or has no deadline.
    #[track_caller]
    pub fn assert_pttl(
        &self,
        key: impl AsRef<[u8]>,
        range: impl RangeBounds<Duration> + std::fmt::Debug,
    ) {
        let (key, found) = (key.as_ref(), self.pttl(key.as_ref()));
        let is_within = found.is_some_and(|ttl| range.contains(&ttl));
        assert!(
            is_within,
            "{} in database {}: expected a time to live in {range:?}, found {found:?}{}",
            quoted(key),
            self.index,
            if self.exists(key) {
                ""
            } else {
                " (no such key)"
            },
        );
    }

    /// Asserts that exactly these keys are live.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn assert_keys<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) {
        let mut expected: Vec<Vec<u8>> =
            keys.into_iter().map(|key| key.as_ref().to_vec()).collect();
        expected.sort_unstable();
        let stored = self.stored();
        if !stored.keys().map(|key| key.to_vec()).eq(expected.clone()) {
            let expected: Vec<_> = expected.iter().map(|key| quoted(key)).collect();
            let found: Vec<_> = stored.keys().map(|key| quoted(key)).collect();
            fail(
                &format!("the keys of database {}:", self.index),
                &expected,
                &found,
            );
        }
    }
}

/// The same for database 0.
impl Server {
    /// Asserts that `key` holds this string, in database 0.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn assert_get(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.db(0).assert_get(key, value);
    }

    /// Asserts that `key` is not there, or has expired, in database 0.
    ///
    /// # Panics
    /// If it is there.
    #[track_caller]
    pub fn assert_missing(&self, key: impl AsRef<[u8]>) {
        self.db(0).assert_missing(key);
    }

    /// Asserts that exactly these keys are live in database 0.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn assert_keys<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) {
        self.db(0).assert_keys(keys);
    }

    /// Asserts the requests, oldest first, as `redis-cli` would take them or as the
    /// [history](crate::History) prints them. `CLIENT SETINFO`, which client libraries send by
    /// themselves, is left out. Needs a history ([`ServerBuilder::history`](crate::ServerBuilder::history)).
    ///
    /// # Panics
    /// If the requests were others, or if no history was kept.
    #[track_caller]
    pub fn assert_requests<R: AsRef<str>>(&self, requests: impl IntoIterator<Item = R>) {
        let history = self.history();
        assert!(
            history.is_on(),
            "no history was kept: Server::builder().history(100)"
        );
        let expected: Vec<String> = requests
            .into_iter()
            .map(|request| request.as_ref().to_owned())
            .collect();
        let requests = history.entries().map(|entry| &entry.request);
        let requests: Vec<&OwnedRequest> = requests
            .filter(|request| !request.to_string().starts_with("CLIENT SETINFO "))
            .collect();
        let is_same = requests.len() == expected.len()
            && requests.iter().zip(&expected).all(|(request, expected)| {
                request.to_string() == *expected || request.shortened() == *expected
            });
        if !is_same {
            let found: Vec<_> = requests.iter().map(|one| one.shortened()).collect();
            fail("the requests:", &expected, &found);
        }
    }
}
