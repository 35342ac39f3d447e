//! Data and commands that a test gives a server directly: without a client, a connection or a fault.

use super::Database;
use crate::resp::{ErrorReply, OwnedRequest, Reply};
use crate::server::Server;
use std::time::Duration;

/// The words of a request, gathered one behind the other.
struct SeedRequest(OwnedRequest);

impl SeedRequest {
    fn of(command: &str, key: impl AsRef<[u8]>) -> Self {
        Self(OwnedRequest::new([command.as_bytes(), key.as_ref()]))
    }

    fn with<A: AsRef<[u8]>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().for_each(|arg| self.0.push(arg.as_ref()));
        self
    }
}

impl Database<'_> {
    /// Executes a command in this database, and returns its reply. The server executes it at once,
    /// as if an authenticated client had sent it, with these differences:
    ///
    /// * no fault rule sees it, and a pause does not delay it;
    /// * it is not in the [history](Server::history), and no count of connections includes it;
    /// * it cannot wait (`BLPOP`) and cannot change its connection (`MULTI`, `SELECT`, `SUBSCRIBE`).
    ///
    /// Replicas, watchers, waiters, subscribers and MONITOR notice it as any other command. It waits
    /// for a script that runs.
    ///
    /// ```
    /// use redouble::{Server, resp::Reply};
    ///
    /// let server = Server::start_blocking()?;
    /// assert_eq!(server.db(3).command(["INCRBY", "stock:7", "5"])?, Reply::Int(5));
    /// assert_eq!(server.db(3).command(["GET", "stock:7"])?, Reply::bulk("5"));
    /// let error = server.db(3).command(["LPOP", "stock:7"]).expect_err("a string is no list");
    /// assert_eq!(error.code(), "WRONGTYPE");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error that Redis replies (`WRONGTYPE`, `READONLY` from a replica, `MOVED` from a node of a cluster);
    /// an `ERR` that says so for a command that needs a connection, and for a server that has crashed or
    /// ended.
    pub fn command<A: AsRef<[u8]>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Reply, ErrorReply> {
        self.run(&SeedRequest(OwnedRequest::default()).with(args))
    }

    fn run(&self, words: &SeedRequest) -> Result<Reply, ErrorReply> {
        let handle = &self.server.handle;
        let shared = &handle.shared;
        if shared.is_down() {
            return Err(ErrorReply::new("ERR the server has ended"));
        }
        if shared.node().is_crashed() {
            let text = "ERR the server has crashed: Server::restart starts it again";
            return Err(ErrorReply::new(text));
        }
        let mut result = Ok(Reply::Nil);
        handle.change(|engine, now| {
            result = engine.run_directly(self.index, &words.0, now);
        });
        result
    }

    /// The reply to a command that the server has to accept.
    #[track_caller]
    fn demand(&self, words: &SeedRequest) -> Reply {
        match self.run(words) {
            Ok(reply) => reply,
            Err(error) => panic!("{}: {error}", words.0.shortened()),
        }
    }

    #[track_caller]
    fn count(&self, words: &SeedRequest) -> usize {
        let Reply::Int(count) = self.demand(words) else {
            return 0;
        };
        usize::try_from(count).unwrap_or(0)
    }

    /// Stores a string (SET) in the place of any older value, without a deadline.
    ///
    /// # Panics
    /// If the server refuses it: a replica, a node of a cluster without the slot, out of memory, a
    /// server that has crashed. The same goes for the other methods that write.
    #[track_caller]
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.demand(&SeedRequest::of("SET", key).with([value]));
    }

    /// Sets fields of a hash (HSET); returns the number of fields that are new.
    ///
    /// # Panics
    /// If the server refuses it, if the key holds another type, or without any field.
    #[track_caller]
    pub fn hset<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> usize {
        let mut words = SeedRequest::of("HSET", key);
        for (field, value) in fields {
            words = words.with([field.as_ref(), value.as_ref()]);
        }
        self.count(&words)
    }

    /// Appends elements to a list (RPUSH); returns its length.
    ///
    /// # Panics
    /// If the server refuses it, if the key holds another type, or without any element.
    #[track_caller]
    pub fn rpush<E: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        elements: impl IntoIterator<Item = E>,
    ) -> usize {
        self.count(&SeedRequest::of("RPUSH", key).with(elements))
    }

    /// Adds members to a set (SADD); returns the number of new members.
    ///
    /// # Panics
    /// If the server refuses it, if the key holds another type, or without any member.
    #[track_caller]
    pub fn sadd<M: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = M>,
    ) -> usize {
        self.count(&SeedRequest::of("SADD", key).with(members))
    }

    /// Appends an entry with these fields to a stream (XADD); returns its ID, which the server chooses.
    ///
    /// # Panics
    /// If the server refuses it, if the key holds another type, or without any field.
    #[track_caller]
    pub fn xadd<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> String {
        let mut words = SeedRequest::of("XADD", key).with(["*"]);
        for (field, value) in fields {
            words = words.with([field.as_ref(), value.as_ref()]);
        }
        self.demand(&words).to_string()
    }

    /// Adds members to a sorted set, or changes their scores (ZADD); returns the number of new members.
    ///
    /// # Panics
    /// If the server refuses it, if the key holds another type, for a score that is not a number, or
    /// without any member.
    #[track_caller]
    pub fn zadd<M: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = (M, f64)>,
    ) -> usize {
        let mut words = SeedRequest::of("ZADD", key);
        for (member, score) in members {
            words = words.with([score.to_string().as_bytes(), member.as_ref()]);
        }
        self.count(&words)
    }

    /// Sets the time to live of a key (PEXPIRE), in whole milliseconds; false if there is no such key.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> bool {
        let millis = ttl.as_millis().to_string();
        self.count(&SeedRequest::of("PEXPIRE", key).with([millis])) == 1
    }

    /// Deletes a key (DEL); false if there is no such key.
    ///
    /// # Panics
    /// If the server refuses it.
    #[track_caller]
    pub fn del(&self, key: impl AsRef<[u8]>) -> bool {
        self.count(&SeedRequest::of("DEL", key)) == 1
    }
}

/// Writing, in database 0: [`Server::db`] has the same for the other databases.
impl Server {
    /// Executes a command in database 0, and returns its reply: [`Database::command`].
    ///
    /// ```
    /// use redouble::{Server, resp::Reply};
    ///
    /// let server = Server::start_blocking()?;
    /// server.command(["SET", "coupon:7", "first", "NX", "PX", "30000"])?;
    /// assert_eq!(server.command(["SET", "coupon:7", "second", "NX"])?, Reply::Nil);
    /// assert_eq!(server.command(["KEYS", "*"])?.to_string(), "[coupon:7]");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::command`].
    pub fn command<A: AsRef<[u8]>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Reply, ErrorReply> {
        self.db(0).command(args)
    }

    /// Stores a string (SET).
    ///
    /// ```
    /// let server = redouble::Server::start_blocking()?;
    /// server.set("stock:7", "3");
    /// server.assert_get("stock:7", "3");
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Database::set`].
    #[track_caller]
    pub fn set(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.db(0).set(key, value);
    }

    /// Sets fields of a hash (HSET); returns the number of fields that are new.
    ///
    /// ```
    /// let server = redouble::Server::start_blocking()?;
    /// assert_eq!(server.hset("lock", [("owner", "me"), ("count", "1")]), 2);
    /// assert_eq!(server.hset("lock", [("count", "2")]), 0);
    /// server.db(0).assert_hash("lock", [("owner", "me"), ("count", "2")]);
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Database::hset`].
    #[track_caller]
    pub fn hset<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> usize {
        self.db(0).hset(key, fields)
    }

    /// Appends elements to a list (RPUSH); returns its length.
    ///
    /// ```
    /// let server = redouble::Server::start_blocking()?;
    /// assert_eq!(server.rpush("jobs", ["first", "second"]), 2);
    /// server.db(0).assert_list("jobs", ["first", "second"]);
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Database::rpush`].
    #[track_caller]
    pub fn rpush<E: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        elements: impl IntoIterator<Item = E>,
    ) -> usize {
        self.db(0).rpush(key, elements)
    }

    /// Adds members to a set (SADD); returns the number of new members.
    ///
    /// ```
    /// let server = redouble::Server::start_blocking()?;
    /// assert_eq!(server.sadd("holders", ["a", "b", "a"]), 2);
    /// assert_eq!(server.sadd("holders", ["b", "c"]), 1);
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Database::sadd`].
    #[track_caller]
    pub fn sadd<M: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = M>,
    ) -> usize {
        self.db(0).sadd(key, members)
    }

    /// Appends an entry with these fields to a stream (XADD); returns its ID, which the server chooses.
    ///
    /// ```
    /// use redouble::{Clock, Server, engine::UnixMillis};
    ///
    /// let builder = Server::builder().clock(Clock::Manual).starting_at(UnixMillis(1_000));
    /// let server = builder.start_blocking()?;
    /// assert_eq!(server.xadd("events", [("kind", "granted"), ("owner", "me")]), "1000-0");
    /// assert_eq!(server.xadd("events", [("kind", "released")]), "1000-1");
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Database::xadd`].
    #[track_caller]
    pub fn xadd<F: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        fields: impl IntoIterator<Item = (F, V)>,
    ) -> String {
        self.db(0).xadd(key, fields)
    }

    /// Adds members to a sorted set, or changes their scores (ZADD); returns the number of new members.
    ///
    /// ```
    /// let server = redouble::Server::start_blocking()?;
    /// assert_eq!(server.zadd("ranks", [("a", 2.5), ("b", f64::NEG_INFINITY)]), 2);
    /// let ranks = server.db(0).sorted_set("ranks").expect("a sorted set");
    /// assert_eq!(ranks, [("b".into(), f64::NEG_INFINITY), ("a".into(), 2.5)]);
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Database::zadd`].
    #[track_caller]
    pub fn zadd<M: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        members: impl IntoIterator<Item = (M, f64)>,
    ) -> usize {
        self.db(0).zadd(key, members)
    }

    /// Sets the time to live of a key (PEXPIRE), in whole milliseconds; false if there is no such key.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let server = redouble::Server::start_blocking()?;
    /// server.set("lease", "mine");
    /// assert!(server.expire("lease", Duration::from_secs(30)));
    /// assert_eq!(server.ttl("lease"), Some(Duration::from_secs(30)));
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Database::expire`].
    #[track_caller]
    pub fn expire(&self, key: impl AsRef<[u8]>, ttl: Duration) -> bool {
        self.db(0).expire(key, ttl)
    }

    /// Deletes a key (DEL); false if there is no such key.
    ///
    /// ```
    /// let server = redouble::Server::start_blocking()?;
    /// server.set("lease", "mine");
    /// assert!(server.del("lease") && !server.del("lease"));
    /// # Ok::<(), redouble::StartError>(())
    /// ```
    ///
    /// # Panics
    /// As [`Database::del`].
    #[track_caller]
    pub fn del(&self, key: impl AsRef<[u8]>) -> bool {
        self.db(0).del(key)
    }
}
