//! The stream of commands as it concerns several parts: what a unit adds to it, and the connections that read it.

use super::State;
use crate::engine::clients::session::Session;
use crate::engine::conn_id::ConnId;
use crate::engine::effect::Effect;
use crate::engine::origin::Origin;
use crate::engine::peers::command_stream::{CommandStream, Own};
use crate::engine::peers::file_sync::FileSync;
use crate::engine::peers::replication::{Address, Replica, StreamReader};
use crate::engine::time::{UnixMicros, UnixMillis};
use crate::resp::{Blob, Reply, Request};
use std::sync::Arc;

/// Commands that expire keys beyond their arguments (`CMD_TOUCHES_ARBITRARY_KEYS`); their removals need no
/// transaction.
const TOUCH_ANY_KEY: [&str; 2] = ["randomkey", "scan"];

/// Units of the running command and of its consequences.
impl State {
    /// The command with this name has run: it enters the stream as its handler says.
    #[cold]
    pub(in crate::engine) fn record_command(
        &mut self,
        session: &Session,
        name: &str,
        request: Request<'_>,
        origin: Origin,
        is_done: bool,
    ) {
        let changes = self.introspection.changes();
        let hides = origin == Origin::Script && !self.scripting.reaches_replicas();
        let Some(stream) = self.peers.stream.as_deref_mut() else {
            return;
        };
        let own = std::mem::take(&mut stream.own);
        let has_changed = std::mem::replace(&mut stream.changes_seen, changes) != changes;
        let is_forced = std::mem::take(&mut stream.is_forced);
        stream.is_plain |=
            origin == Origin::Client && TOUCH_ANY_KEY.contains(&name) && stream.has_news();
        if is_done && (has_changed || is_forced) && !hides {
            match own {
                Own::AsSent => stream.add(session.db, request.iter().map(Blob::new).collect()),
                Own::As(args) => stream.add(session.db, args),
                Own::Nothing => {}
            }
        }
        self.unit.has_sequel |= stream.has_news();
    }

    /// Adds a command that no client has sent to the unit that runs.
    pub(in crate::engine) fn propagate_command(&mut self, db: usize, args: &[&[u8]]) {
        if let Some(stream) = &mut self.peers.stream {
            stream.add(db, args.iter().map(|arg| Blob::new(arg)).collect());
            self.unit.has_sequel = true;
        }
    }

    /// The server has removed a key by itself (`db.c: propagateDeletion`).
    pub(in crate::engine) fn propagate_deletion(&mut self, db: usize, key: &[u8], parameter: &str) {
        if self.peers.stream.is_some() {
            let is_lazy = self.config.is_on(parameter);
            let name: &[u8] = if is_lazy { b"UNLINK" } else { b"DEL" };
            self.propagate_command(db, &[name, key]);
        }
    }

    /// Ends the unit: its commands go to the readers.
    pub(in crate::engine) fn end_stream_unit(&mut self) {
        let Some(stream) = self.peers.stream.as_deref_mut() else {
            return;
        };
        if stream.is_overflown() {
            stream.forget_unit();
            self.end_stream();
        } else if stream.has_news() {
            let bytes = stream.take_unit();
            self.send_to_readers(bytes);
        }
    }

    /// The commands of the unit so far are no transaction, and are sent at once: keys that were removed for want of
    /// memory (`evict.c: performEvictions`).
    pub(in crate::engine) fn end_plain_stream_unit(&mut self) {
        if let Some(stream) = self.peers.stream.as_mut().filter(|one| one.has_news()) {
            stream.is_plain = true;
            self.end_stream_unit();
        }
    }

    fn send_to_readers(&mut self, bytes: Vec<u8>) {
        let replication = &mut self.peers.replication;
        replication.offset += bytes.len() as u64;
        let offset = replication.offset;
        replication.file.wrote(offset, self.unit.now());
        let caller = self.unit.caller;
        if let Some(session) = caller.and_then(|conn| self.clients.sessions.get_mut(conn)) {
            session.wrote_up_to = offset;
        }
        let bytes: Arc<[u8]> = bytes.into();
        self.introspection.stats.replicated_bytes +=
            (bytes.len() * replication.readers.len()) as u64;
        for reader in &replication.readers {
            self.unit.outbox.push(Effect::Push {
                conn: reader.conn,
                frame: Reply::Raw(bytes.clone()),
            });
        }
    }

    /// Sends a command about the stream itself to the readers.
    fn notify_readers(&mut self, args: &[&[u8]]) {
        self.end_stream_unit();
        if let Some(stream) = &mut self.peers.stream {
            let bytes = stream.take_notice(args);
            let caller = self.unit.caller.take();
            self.send_to_readers(bytes);
            self.unit.caller = caller;
        }
    }
}

/// Readers.
impl State {
    /// Makes the caller a reader. What it has is unknown until it acknowledges something.
    pub(in crate::engine) fn add_reader(&mut self, session: &mut Session, acknowledges: bool) {
        let Some(side) = &mut session.replica_side else {
            return;
        };
        side.is_reading = true;
        let host = side.host.clone().unwrap_or_else(|| {
            let addr = &*session.addr;
            let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
            host.trim_matches(['[', ']']).to_owned()
        });
        let replica = Replica {
            id: session.conn.client_id(),
            address: Address {
                host,
                port: side.port,
            },
            offset: 0,
            file: FileSync::default(),
            silent_since: Some(self.unit.now()),
        };
        let is_first = self.peers.replication.readers.is_empty();
        self.peers.replication.readers.push(StreamReader {
            conn: session.conn,
            acknowledges,
            replica,
        });
        if let Some(stream) = &mut self.peers.stream
            && is_first
        {
            stream.pinged_at = self.unit.now().millis();
        }
        self.guards_writes();
    }

    /// Starts the stream, if there is none, with a new history (`replication.c: syncCommand`). A deployment
    /// keeps its history.
    pub(in crate::engine) fn begin_stream(&mut self) {
        if self.peers.stream.is_none() {
            if self.peers.replication.replicas.is_empty() {
                self.peers.replication.change_id();
                self.peers.replication.former = None;
            }
            let backlog_bytes_max = self.config.size_of("repl-backlog-size");
            let changes = self.introspection.changes();
            let stream = CommandStream::new(changes, backlog_bytes_max);
            self.peers.stream = Some(Box::new(stream));
        }
    }

    /// Forgets a reader that has gone.
    pub(in crate::engine) fn remove_reader(&mut self, conn: ConnId) {
        let readers = &mut self.peers.replication.readers;
        if let Some(at) = readers.iter().position(|reader| reader.conn == conn) {
            readers.remove(at);
            self.guards_writes();
        }
    }

    /// Closes the connections of all readers: they come again and learn of the new history.
    pub(in crate::engine) fn kick_readers(&mut self) {
        for reader in std::mem::take(&mut self.peers.replication.readers) {
            self.kick(reader.conn);
        }
        self.guards_writes();
    }

    /// Ends the stream: its commands no longer lead to the present data.
    pub(in crate::engine) fn end_stream(&mut self) {
        self.kick_readers();
        self.peers.stream = None;
    }

    /// A reader reports its offset and the offset of its append-only file.
    pub(in crate::engine) fn reader_acknowledges(
        &mut self,
        conn: ConnId,
        offset: u64,
        synced: Option<u64>,
    ) {
        let now = self.unit.now();
        let mut readers = self.peers.replication.readers.iter_mut();
        if let Some(reader) = readers.find(|reader| reader.conn == conn) {
            reader.replica.offset = reader.replica.offset.max(offset);
            if let Some(synced) = synced {
                reader.replica.file.told(synced);
            }
            reader.replica.silent_since = Some(now);
            self.answer_waits();
        }
    }

    /// Asks the readers how far they are, because a client waits for that.
    pub(in crate::engine) fn ask_readers(&mut self) {
        if !self.peers.replication.readers.is_empty() {
            self.notify_readers(&[b"REPLCONF", b"GETACK", b"*"]);
        }
    }

    /// Time of the next PING to readers, or at which one has been silent for too long.
    pub(in crate::engine) fn readers_deadline(&self) -> Option<UnixMillis> {
        let stream = self.peers.stream.as_deref()?;
        let readers = &self.peers.replication.readers;
        readers.first()?;
        let period = self.config.number_of("repl-ping-replica-period");
        let ping = stream
            .pinged_at
            .0
            .saturating_add(period.saturating_mul(1000));
        let silent = readers
            .iter()
            .filter_map(|reader| self.silence_ends(reader));
        silent.chain([UnixMillis(ping)]).min()
    }

    /// Returns the time at which a reader has been silent for too long (`repl-timeout`).
    fn silence_ends(&self, reader: &StreamReader) -> Option<UnixMillis> {
        let since: UnixMicros = reader
            .replica
            .silent_since
            .filter(|_| reader.acknowledges)?;
        let seconds = self.config.number_of("repl-timeout");
        Some(UnixMillis(
            since
                .millis()
                .0
                .saturating_add(seconds.saturating_mul(1000)),
        ))
    }

    /// Sends a PING if it is time, and closes the connections of silent readers.
    pub(in crate::engine) fn tend_readers(&mut self) {
        let now = self.unit.now().millis();
        let readers = self.peers.replication.readers.iter();
        let silent: Vec<ConnId> = readers
            .filter(|reader| self.silence_ends(reader).is_some_and(|end| now > end))
            .map(|reader| reader.conn)
            .collect();
        silent.into_iter().for_each(|conn| self.kick(conn));
        let is_due = self.readers_deadline().is_some_and(|due| now > due);
        if let Some(stream) = &mut self.peers.stream
            && is_due
        {
            stream.pinged_at = now;
            self.notify_readers(&[b"PING"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Config, ConnId, Effect, Engine, NodeApi, Outcome, UnixMicros};
    use crate::resp::{OwnedRequest, Reply};

    const START: UnixMicros = UnixMicros(1_000_000_000);

    /// A master with clients, and what its reader was sent.
    struct Master {
        engine: Engine,
        reader: ConnId,
        client: ConnId,
        received: String,
    }

    impl Master {
        fn new() -> Self {
            let mut engine = Engine::new(Config::default(), START);
            let mut open = || engine.connect("127.0.0.1:5", START).unwrap();
            let (reader, client) = (open(), open());
            let mut master = Self {
                engine,
                reader,
                client,
                received: String::new(),
            };
            let synced = master.ask_as(reader, "SYNC", START);
            assert!(matches!(synced, Outcome::Reply(Reply::Raw(_))));
            master
        }

        fn ask_as(&mut self, conn: ConnId, line: &str, now: UnixMicros) -> Outcome {
            let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
            let outcome = self.engine.handle(conn, request.as_request().unwrap(), now);
            self.drain();
            outcome
        }

        fn ask(&mut self, line: &str) -> Outcome {
            self.ask_as(self.client, line, START)
        }

        fn drain(&mut self) {
            while let Some(effect) = self.engine.poll_effect() {
                if let Effect::Push { conn, frame } = effect
                    && conn == self.reader
                    && let Reply::Raw(bytes) = frame
                {
                    self.received.push_str(&String::from_utf8_lossy(&bytes));
                }
            }
        }

        /// Returns the stream since the last call, one command per line.
        fn received(&mut self) -> Vec<String> {
            let text = std::mem::take(&mut self.received);
            let mut commands: Vec<Vec<&str>> = Vec::new();
            for line in text.split_terminator("\r\n") {
                match line.as_bytes().first() {
                    Some(b'*') if line.len() > 1 => commands.push(Vec::new()),
                    Some(b'$') if line.len() > 1 => {}
                    _ => commands.last_mut().expect("a header").push(line),
                }
            }
            commands.iter().map(|words| words.join(" ")).collect()
        }
    }

    #[test]
    fn commands_are_propagated_by_their_effect() {
        for (requests, expected) in [
            (
                "SET a 1|GET a|DEL nosuch|SADD s x|SADD s x",
                "SELECT 0|SET a 1|SADD s x",
            ),
            ("SET a 1 EX 10", "SELECT 0|SET a 1 PXAT 1010000"),
            ("SET a 1 GET", "SELECT 0|SET a 1"),
            (
                "SET a 1|EXPIRE a 5 NX|EXPIRE a -1",
                "SELECT 0|SET a 1|PEXPIREAT a 1005000 NX|DEL a",
            ),
            (
                "SET a 1|GETEX a|GETEX a PX 7|GETEX a PERSIST",
                "SELECT 0|SET a 1|PEXPIREAT a 1000007|PERSIST a",
            ),
            (
                "INCRBYFLOAT n 1.5|HINCRBYFLOAT h f 2.5",
                "SELECT 0|SET n 1.5 KEEPTTL|HSET h f 2.5",
            ),
            ("SADD s a|SPOP s", "SELECT 0|SADD s a|SREM s a"),
            ("SADD s a b|SPOP s 5", "SELECT 0|SADD s a b|DEL s"),
            (
                "RPUSH l a b c|LMPOP 2 x l LEFT COUNT 2|BRPOP l 0",
                "SELECT 0|RPUSH l a b c|LPOP l 2|RPOP l",
            ),
            (
                "ZADD z 1 a 2 b|ZMPOP 1 z MAX COUNT 1|BZPOPMIN z 0",
                "SELECT 0|ZADD z 1 a 2 b|ZPOPMAX z 1|ZPOPMIN z",
            ),
            (
                "XADD s * f v|XADD s MAXLEN ~ 1 * f v",
                "SELECT 0|XADD s 1000000-0 f v|XADD s MAXLEN = 2 1000000-1 f v",
            ),
            (
                "XADD s 1-1 f v|XGROUP CREATE s g 0|XREADGROUP GROUP g c STREAMS s >",
                "SELECT 0|XADD s 1-1 f v|XGROUP CREATE s g 0|XCLAIM s g c 0 1-1 TIME 1000000 RETRYCOUNT 1 FORCE JUSTID \
                 LASTID 1-1",
            ),
            ("MULTI|SET a 1|GET a|EXEC", "SELECT 0|SET a 1"),
            (
                "MULTI|SET a 1|SELECT 3|SET b 2|EXEC",
                "SELECT 0|MULTI|SET a 1|SELECT 3|SET b 2|EXEC",
            ),
            (
                "PUBLISH c m|FLUSHALL|SWAPDB 1 1",
                "SELECT 0|PUBLISH c m|FLUSHALL|SWAPDB 1 1",
            ),
        ] {
            let mut master = Master::new();
            for request in requests.split('|') {
                master.ask(request);
            }
            assert_eq!(master.received().join("|"), expected, "{requests}");
        }
    }

    #[cfg(feature = "script")]
    #[test]
    fn scripts_are_propagated_by_their_effects() {
        for (body, expected) in [
            ("redis.call('set','a',1)", "SELECT 0|set a 1"),
            ("redis.call('get','a')", ""),
            (
                "redis.call('set','a',1);redis.call('incr','a')",
                "SELECT 0|MULTI|set a 1|incr a|EXEC",
            ),
            (
                "redis.set_repl(redis.REPL_NONE);redis.call('set','a',1)",
                "",
            ),
            ("redis.set_repl(redis.REPL_AOF);redis.call('set','a',1)", ""),
        ] {
            let mut master = Master::new();
            master.ask(&format!("EVAL {body} 0"));
            assert_eq!(master.received().join("|"), expected, "{body}");
        }
    }

    #[test]
    fn an_expired_key_is_propagated_as_a_deletion() {
        let mut master = Master::new();
        master.ask("SET a 1 PX 5");
        master.ask("SET b 1 PX 5");
        master.received();
        let late = UnixMicros(START.0 + 6_001);
        master.ask_as(master.client, "SET a 2", late);
        assert_eq!(master.received(), ["MULTI", "DEL a", "SET a 2", "EXEC"]);
        master.engine.handle_timeout(late);
        master.drain();
        assert_eq!(master.received(), ["DEL b"]);
    }

    #[test]
    fn a_transaction_that_bounds_the_memory_keeps_its_keys_until_its_end() {
        let mut master = Master::new();
        for request in [
            "CONFIG SET maxmemory-policy allkeys-lru",
            "MULTI",
            "INCR x",
            "CONFIG SET maxmemory 1",
            "INCR x",
        ] {
            master.ask(request);
        }
        let ok = Reply::Ok;
        let replies = Reply::Array(vec![Reply::Int(1), ok, Reply::Int(2)]);
        assert_eq!(master.ask("EXEC"), Outcome::Reply(replies));
        let expected = "SELECT 0|MULTI|INCR x|INCR x|EXEC|DEL x";
        assert_eq!(master.received().join("|"), expected);
        assert_eq!(master.ask("DBSIZE"), Outcome::Reply(Reply::Int(0)));
    }

    #[test]
    fn clients_that_have_waited_are_units_of_their_own() {
        let mut master = Master::new();
        let other = master.engine.connect("127.0.0.1:6", START).unwrap();
        master.ask_as(other, "BLMOVE k j LEFT RIGHT 0", START);
        master.ask("MULTI");
        master.ask("RPUSH k a b");
        master.ask("SET x y");
        master.ask("EXEC");
        let expected = "SELECT 0|MULTI|RPUSH k a b|SET x y|EXEC|LMOVE k j left right";
        assert_eq!(master.received().join("|"), expected);
    }

    #[test]
    fn a_replica_that_comes_again_gets_what_it_has_missed() {
        let mut master = Master::new();
        master.ask("SET a 1");
        let id = master.engine.state().peers.replication.id().to_owned();
        let end = master.engine.state().peers.replication.offset;
        let again = master.engine.connect("127.0.0.1:7", START).unwrap();
        let outcome = master.ask_as(again, &format!("PSYNC {id} 24"), START);
        let Outcome::Reply(Reply::Several(frames)) = outcome else {
            panic!("a partial synchronization");
        };
        assert_eq!(frames[0], Reply::Status(b"CONTINUE".to_vec()));
        assert!(matches!(&frames[1], Reply::Raw(bytes) if bytes.len() as u64 == end - 23));
        for wrong in [format!("PSYNC {id} 999"), "PSYNC ? -1".to_owned()] {
            let other = master.engine.connect("127.0.0.1:8", START).unwrap();
            let outcome = master.ask_as(other, &wrong, START);
            let Outcome::Reply(Reply::Several(frames)) = outcome else {
                panic!("a full synchronization");
            };
            let line = format!("FULLRESYNC {id} {end}").into_bytes();
            assert_eq!(frames[0], Reply::Status(line));
        }
        assert_eq!(master.engine.state().peers.replication.readers.len(), 4);
    }

    #[test]
    fn wait_asks_the_readers() {
        let mut master = Master::new();
        master.ask("SET a 1");
        master.received();
        assert_eq!(master.ask("WAIT 1 100"), Outcome::Parked);
        assert_eq!(master.received(), ["REPLCONF GETACK *"]);
        let offset = master.engine.state().peers.replication.offset;
        let request = format!("REPLCONF ACK {offset}");
        assert_eq!(
            master.ask_as(master.reader, &request, START),
            Outcome::Silent
        );
        assert_eq!(master.ask("WAIT 1 100"), Outcome::Reply(Reply::Int(1)));
    }

    #[test]
    fn readers_are_pinged_and_silent_ones_are_closed() {
        let mut master = Master::new();
        let silent = master.engine.connect("127.0.0.1:7", START).unwrap();
        master.ask_as(silent, "PSYNC ? -1", START);
        master.received();
        master
            .engine
            .handle_timeout(UnixMicros(START.0 + 10_002_000));
        master.drain();
        assert_eq!(master.received(), ["PING"]);
        assert_eq!(master.engine.connections(), 3);
        master
            .engine
            .handle_timeout(UnixMicros(START.0 + 60_002_000));
        assert_eq!(master.engine.connections(), 2);
    }

    #[test]
    fn a_replica_that_asks_for_a_reply_is_disconnected() {
        let mut master = Master::new();
        let reader = master.reader;
        let request = OwnedRequest::new(["GET", "a"].map(str::as_bytes));
        let request = request.as_request().unwrap();
        let outcome = master.engine.handle(reader, request, START);
        assert_eq!(outcome, Outcome::Silent);
        let mut effects = std::iter::from_fn(|| master.engine.poll_effect());
        assert!(effects.any(|it| matches!(it, Effect::Close { conn } if conn == reader)));
    }
}
