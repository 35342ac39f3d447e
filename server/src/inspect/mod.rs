//! Methods of a server for the test that owns it: reads, writes, assertions, the clock, faults of the
//! node. Reads leave no trace: no statistics, no expiry, no history.
//!
//! [`Server`] answers for database 0; [`Server::db`] for any other.

mod assert;
mod debug;
mod diagnosis;
mod node_fault;
mod requests;
mod seed;
mod snapshot;
mod within;

pub use diagnosis::{Diagnosis, Held, Reason, Unserved};
pub use node_fault::{LazyExpiry, PauseGuard};
pub use redouble_core::engine::{Data, PendingEntry, Stored};
pub use snapshot::Snapshot;
pub use within::Within;

use crate::clock_control::ClockControl;
use crate::engine::{Db, UnixMicros, UnixMillis, Waiting, glob_match};
use crate::history::History;
use crate::server::Server;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One database of a server, for reads, writes and assertions: [`Server::db`].
///
/// ```
/// # async fn test() -> Result<(), Box<dyn std::error::Error>> {
/// let server = redouble::Server::start().await?;
/// let mut redis = server.connection().await?;
/// redis::cmd("SELECT").arg(3).exec_async(&mut redis).await?;
/// redis::cmd("HSET").arg("lock").arg("owner").arg("me").exec_async(&mut redis).await?;
/// let lock = server.db(3).hash("lock").expect("a hash");
/// assert_eq!(lock["owner".as_bytes()], "me");
/// server.db(3).assert_keys(["lock"]);
/// # Ok(())
/// # }
/// # tokio::runtime::Runtime::new().unwrap().block_on(test()).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Database<'a> {
    server: &'a Server,
    index: usize,
}

impl<'a> Database<'a> {
    fn read<T>(&self, look: impl FnOnce(&Db, UnixMillis) -> Option<T>) -> Option<T> {
        let now = self.server.now();
        let node = self.server.handle.shared.node();
        look(node.engine.database(self.index)?, now.millis())
    }

    /// The value of `key`, of any type, with its deadline; `None` when it is missing or expired.
    pub fn find(&self, key: impl AsRef<[u8]>) -> Option<Stored> {
        self.read(|db, now| db.stored(key.as_ref(), now))
    }

    /// The fields of the hash at `key` that have a deadline ([`Profile::REDIS_7_4`](crate::Profile::REDIS_7_4) and later): past
    /// which instant of the server's clock each of them is gone. Empty when `key` is missing, expired or no hash.
    pub fn field_deadlines(&self, key: impl AsRef<[u8]>) -> BTreeMap<Bytes, UnixMillis> {
        let deadlines = self.read(|db, now| Some(db.field_deadlines(key.as_ref(), now)));
        deadlines.unwrap_or_default()
    }

    /// The pending entries of a consumer group of the stream at `key`, by id. Empty if the stream or the group is missing.
    pub fn pending_entries(
        &self,
        key: impl AsRef<[u8]>,
        group: impl AsRef<[u8]>,
    ) -> Vec<PendingEntry> {
        let look = |db: &Db, now| Some(db.pending_entries(key.as_ref(), group.as_ref(), now));
        self.read(look).unwrap_or_default()
    }

    /// The string at `key`; `None` when it is missing, expired or no string.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Bytes> {
        self.peek(key).map(|(value, _)| value)
    }

    /// The string at `key` with its deadline on the server's clock.
    pub fn peek(&self, key: impl AsRef<[u8]>) -> Option<(Bytes, Option<UnixMillis>)> {
        let Stored { data, deadline } = self.find(key)?;
        if let Data::String(bytes) = data {
            Some((bytes, deadline))
        } else {
            None
        }
    }

    /// The hash at `key`; `None` when it is missing, expired or no hash.
    pub fn hash(&self, key: impl AsRef<[u8]>) -> Option<BTreeMap<Bytes, Bytes>> {
        let Data::Hash(pairs) = self.data(key)? else {
            return None;
        };
        Some(pairs)
    }

    /// The list at `key`, its head first; `None` when it is missing, expired or no list.
    pub fn list(&self, key: impl AsRef<[u8]>) -> Option<Vec<Bytes>> {
        let Data::List(elements) = self.data(key)? else {
            return None;
        };
        Some(elements)
    }

    /// The members of the sorted set at `key` with their scores, the lowest score first; `None` when it is missing,
    /// expired or no sorted set.
    pub fn sorted_set(&self, key: impl AsRef<[u8]>) -> Option<Vec<(Bytes, f64)>> {
        let Data::SortedSet(elements) = self.data(key)? else {
            return None;
        };
        Some(elements)
    }

    /// The members of the set at `key`; `None` when it is missing, expired or no set.
    pub fn set_members(&self, key: impl AsRef<[u8]>) -> Option<BTreeSet<Bytes>> {
        if let Data::Set(members) = self.data(key)? {
            Some(members)
        } else {
            None
        }
    }

    /// The value of `key`, of any type.
    pub fn data(&self, key: impl AsRef<[u8]>) -> Option<Data> {
        self.find(key).map(|it| it.data)
    }

    /// Returns true if `key` is there.
    pub fn exists(&self, key: impl AsRef<[u8]>) -> bool {
        let deadline = self.read(|db, now| db.deadline_of(key.as_ref(), now));
        deadline.is_some()
    }

    /// The time to live of `key` in whole seconds, rounded as TTL rounds it; `None` when the key is
    /// missing or has no deadline.
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Option<Duration> {
        let exact = self.pttl(key)?;
        Some(Duration::from_secs(
            (exact + Duration::from_millis(500)).as_secs(),
        ))
    }

    /// The time to live of `key` in milliseconds; `None` when the key is missing or has no deadline.
    pub fn pttl(&self, key: impl AsRef<[u8]>) -> Option<Duration> {
        let now = self.server.now().millis();
        let deadline = self.read(|db, now| db.deadline_of(key.as_ref(), now))??;
        let millis = deadline.0.saturating_sub(now.0);
        Some(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
    }

    /// The live keys that match a pattern as KEYS has them (`*` for all), sorted.
    pub fn keys(&self, pattern: impl AsRef<[u8]>) -> Vec<Bytes> {
        let keys = self.stored().into_keys();
        keys.filter(|key| glob_match(pattern.as_ref(), key))
            .collect()
    }

    /// All live keys with their values and deadlines, sorted by key.
    pub fn stored(&self) -> BTreeMap<Bytes, Stored> {
        let all = self.read(|db, now| Some(db.contents(Some(now))));
        all.unwrap_or_default()
    }
}

impl Server {
    /// A database, for inspection. One that is not there is empty.
    pub fn db(&self, index: usize) -> Database<'_> {
        Database {
            server: self,
            index,
        }
    }

    /// The string at `key` in database 0; `None` when it is missing, expired or no string.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Bytes> {
        self.db(0).get(key)
    }

    /// The string at `key` in database 0 with its deadline on the server's clock.
    pub fn peek(&self, key: impl AsRef<[u8]>) -> Option<(Bytes, Option<UnixMillis>)> {
        self.db(0).peek(key)
    }

    /// The hash at `key` in database 0; `None` when it is missing, expired or no hash.
    pub fn hash(&self, key: impl AsRef<[u8]>) -> Option<BTreeMap<Bytes, Bytes>> {
        self.db(0).hash(key)
    }

    /// The list at `key` in database 0, its head first; `None` when it is missing, expired or no list.
    pub fn list(&self, key: impl AsRef<[u8]>) -> Option<Vec<Bytes>> {
        self.db(0).list(key)
    }

    /// Returns true if `key` is there, in database 0.
    pub fn exists(&self, key: impl AsRef<[u8]>) -> bool {
        self.db(0).exists(key)
    }

    /// The time to live of `key` in database 0 in whole seconds, rounded as TTL rounds it; `None` when
    /// the key is missing or has no deadline. A test on the wall clock can
    /// compare it; [`pttl`](Self::pttl) has the milliseconds.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let server = redouble::Server::start_blocking()?;
    /// server.command(["SET", "lease", "mine", "PX", "30400"])?;
    /// assert_eq!(server.ttl("lease"), Some(Duration::from_secs(30)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Option<Duration> {
        self.db(0).ttl(key)
    }

    /// The time to live of `key` in database 0 in milliseconds; `None` when the key is missing or has
    /// no deadline.
    pub fn pttl(&self, key: impl AsRef<[u8]>) -> Option<Duration> {
        self.db(0).pttl(key)
    }

    /// The live keys of database 0 that match a pattern as KEYS has them (`*` for all), sorted.
    ///
    /// ```
    /// let server = redouble::Server::start_blocking()?;
    /// server.set("coupon:7", "first");
    /// server.set("stock:7", "3");
    /// assert_eq!(server.keys("coupon:*"), ["coupon:7"]);
    /// assert_eq!(server.keys("*"), ["coupon:7", "stock:7"]);
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    pub fn keys(&self, pattern: impl AsRef<[u8]>) -> Vec<Bytes> {
        self.db(0).keys(pattern)
    }

    /// Open connections, in process and over sockets.
    pub fn connections(&self) -> usize {
        self.handle.shared.connection_count()
    }

    /// Connections since the start, those that have ended among them.
    pub fn connections_total(&self) -> u64 {
        self.handle.shared.node().engine.connections_total()
    }

    /// Requests that wait for a key, in the order in which they began. A test can wait until there is one.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.handle.shared.node().engine.waiting()
    }

    /// Number of connections that are subscribed to a channel, without those by pattern.
    pub fn subscribers(&self, channel: impl AsRef<[u8]>) -> usize {
        let node = self.handle.shared.node();
        node.engine.subscribers(channel.as_ref())
    }

    /// Number of subscriptions to channels and patterns: two connections with the same channel have two. A test can expect 0 at
    /// its end.
    pub fn subscriptions(&self) -> usize {
        let node = self.handle.shared.node();
        node.engine.subscriptions()
    }

    /// The latest commands, if the builder asked for a history.
    pub fn history(&self) -> History {
        self.handle.shared.history()
    }

    /// The time that the server's clock shows.
    pub fn now(&self) -> UnixMicros {
        self.handle.shared.node_time(self.handle.now())
    }

    /// The server's clock.
    pub fn clock(&self) -> ClockControl<'_> {
        ClockControl::of(&self.handle)
    }
}
