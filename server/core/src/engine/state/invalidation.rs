//! Client-side caching as it concerns several parts: which connection gets which invalidation, and when.

use super::State;
use crate::engine::clients::tracking::{CHANNEL, News, Tracker};
use crate::engine::conn_id::ConnId;
use crate::resp::{Blob, Protocol, Reply};

impl State {
    /// Invalidates a key that was created, changed or removed; `is_request` unless it has expired.
    pub(super) fn invalidate(&mut self, key: &[u8], is_request: bool) {
        // Readers got the invalidation when the value arrived that a waiting request takes now.
        if self
            .unit
            .retry
            .as_ref()
            .is_some_and(|retry| *retry.key == *key)
        {
            return;
        }
        let (tracking, caller) = (&mut self.clients.tracking, self.unit.caller);
        tracking.note(key, caller.filter(|_| is_request));
        for conn in tracking.take(key) {
            if !self.clients.tracking.skips(conn, caller) {
                self.inform(conn, News::Keys(vec![Blob::new(key)]));
            }
        }
    }

    /// Invalidates all keys (`tracking.c: trackingInvalidateKeysOnFlush`).
    pub(super) fn invalidate_all(&mut self) {
        if !self.clients.tracking.is_on() {
            return;
        }
        let is_request = self.unit.caller.is_some();
        self.clients.tracking.forget_reads(is_request);
        if is_request {
            self.inform_all();
        } else {
            self.unit.has_sequel = true;
        }
    }

    fn inform_all(&mut self) {
        for conn in self.clients.tracking.conns() {
            self.inform(conn, News::All);
        }
    }

    /// Tells a connection of a change: at once, or behind its own reply if its request made the change.
    fn inform(&mut self, conn: ConnId, news: News) {
        if self.unit.caller == Some(conn) && !self.unit.is_evicting {
            self.clients.tracking.keep_behind(news);
            self.unit.has_sequel = true;
        } else {
            self.send_news(conn, news);
        }
    }

    /// Sends the former caller what was kept until it had its reply.
    pub(in crate::engine) fn inform_behind(&mut self, conn: ConnId) {
        for news in self.clients.tracking.take_behind() {
            self.send_news(conn, news);
        }
    }

    /// Ends a unit: bounds the table, and tells of data that went without a request.
    pub(in crate::engine) fn finish_tracking(&mut self) {
        self.bound_tracking();
        if self.clients.tracking.take_flushed() {
            self.inform_all();
        }
    }

    /// Ends a turn: tells the connections that track prefixes of all changes in it at once
    /// (`tracking.c: trackingBroadcastInvalidationMessages`).
    #[cold]
    pub(in crate::engine) fn broadcast(&mut self) {
        for (conn, keys) in self.clients.tracking.take_broadcasts() {
            self.send_news(conn, News::Keys(keys));
        }
    }

    /// Removes keys from a table that is too large (`tracking.c: trackingLimitUsedSlots`).
    fn bound_tracking(&mut self) {
        let keys_max = self.config.tracking_table_max_keys;
        while let Some((key, readers)) = self.clients.tracking.take_excess(keys_max) {
            for conn in readers {
                self.send_news(conn, News::Keys(vec![key.clone()]));
            }
        }
    }

    fn is_open(&self, conn: ConnId) -> bool {
        self.unit.caller == Some(conn) || self.clients.sessions.get(conn).is_some()
    }

    fn protocol_now(&self, conn: ConnId) -> Protocol {
        match self.clients.sessions.get(conn) {
            Some(session) => session.protocol,
            None => self.clients.tracking.running_protocol(conn),
        }
    }

    /// Writes to a connection that tracks, or to the one it has named (`tracking.c: sendTrackingMessage`).
    fn send_news(&mut self, conn: ConnId, news: News) {
        let tracker = self.clients.tracking.tracker(conn);
        let Some(redirect) = tracker.map(Tracker::redirect) else {
            return;
        };
        let own = self.protocol_now(conn);
        if let Some(gone) = redirect.filter(|target| !self.is_open(*target)) {
            self.clients.tracking.set_broken(conn);
            if own == Protocol::Resp3 {
                let word = Reply::bulk("tracking-redir-broken");
                let id = Reply::Int(gone.client_id() as i64);
                self.push(conn, Reply::Push(vec![word, id]));
            }
            return;
        }
        let target = redirect.unwrap_or(conn);
        let protocol = self.protocol_now(target);
        let mut frame = match protocol {
            Protocol::Resp3 => vec![Reply::bulk("invalidate")],
            Protocol::Resp2
                if redirect.is_some() && !self.clients.pubsub.counts(target).is_zero() =>
            {
                vec![Reply::bulk("message"), Reply::bulk(CHANNEL)]
            }
            Protocol::Resp2 => return,
        };
        frame.push(match news {
            News::Keys(keys) => Reply::Array(keys.into_iter().map(Reply::Bulk).collect()),
            News::All if own == protocol => Reply::Nil,
            // The empty value is encoded in the protocol of the connection that tracks.
            News::All => Reply::Earlier {
                protocol: own,
                reply: Box::new(Reply::Nil),
            },
        });
        self.push(target, Reply::Push(frame));
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::{Config, ConnId, Effect, Engine, NodeApi as _, Outcome, UnixMicros};
    use crate::resp::{OwnedRequest, Protocol, encode};

    const NOW: UnixMicros = UnixMicros(1_700_000_000_000_000);

    struct Node {
        engine: Engine,
        /// What connections were sent without having asked, each with its number.
        told: Vec<(u64, String)>,
    }

    impl Node {
        fn new(keys_max: usize) -> Self {
            let config = Config {
                tracking_table_max_keys: keys_max,
                ..Config::default()
            };
            Self {
                engine: Engine::new(config, NOW),
                told: Vec::new(),
            }
        }

        fn client(&mut self) -> ConnId {
            let conn = self.engine.connect("127.0.0.1:1", NOW);
            let conn = conn.expect("there is room");
            self.run(conn, "HELLO 3");
            conn
        }

        fn run(&mut self, conn: ConnId, line: &str) -> String {
            let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
            let request = request.as_request().expect("not empty");
            let mut text = Vec::new();
            if let Outcome::Reply(reply) = self.engine.handle(conn, request, NOW) {
                encode(&reply, Protocol::Resp3, &mut text);
            }
            self.engine.end_turn();
            while let Some(effect) = self.engine.poll_effect() {
                if let Effect::Push { conn, frame } = effect {
                    let mut text = Vec::new();
                    encode(&frame, Protocol::Resp3, &mut text);
                    let text = String::from_utf8_lossy(&text).into_owned();
                    self.told.push((conn.client_id(), text));
                }
            }
            String::from_utf8_lossy(&text).into_owned()
        }

        fn figures(&mut self, conn: ConnId) -> Vec<String> {
            let info = self.run(conn, "INFO clients stats");
            let lines = info.lines().filter(|line| line.starts_with("tracking_"));
            lines
                .filter_map(|line| Some(line.split_once(':')?.1.to_owned()))
                .collect()
        }
    }

    #[test]
    fn the_tracking_table_is_bounded_and_tells_clients_of_keys_that_it_drops() {
        let play = || {
            let mut node = Node::new(10);
            let (reader, other) = (node.client(), node.client());
            node.run(reader, "CLIENT TRACKING ON NOLOOP");
            for key in 0..1_000 {
                node.run(reader, &format!("GET {key}"));
            }
            assert_eq!(node.figures(other), ["1", "10", "10", "0"]);
            assert_eq!(node.told.len(), 990);
            assert!(node.told.iter().all(|(id, _)| *id == reader.client_id()));
            node.run(reader, "CONFIG SET tracking-table-max-keys 3");
            assert_eq!(node.told.len(), 997);
            // The reader got one invalidation for each key, or the table still holds the key.
            for key in 0..1_000 {
                node.run(other, &format!("SET {key} v"));
            }
            let told: std::collections::BTreeSet<_> = node.told.iter().collect();
            assert_eq!((node.told.len(), told.len()), (1_000, 1_000));
            node.told
        };
        assert_eq!(play(), play());
    }

    #[test]
    fn a_client_that_leaves_gets_no_invalidation_and_leaves_only_the_keys_it_read() {
        let mut node = Node::new(0);
        let (first, second, other) = (node.client(), node.client(), node.client());
        node.run(first, "CLIENT TRACKING ON BCAST PREFIX a PREFIX b");
        node.run(second, "CLIENT TRACKING ON");
        node.run(second, "MGET a k l");
        assert_eq!(node.figures(other), ["2", "3", "3", "2"]);
        node.engine.disconnect(first);
        node.run(other, &format!("CLIENT KILL ID {}", second.client_id()));
        assert_eq!(node.figures(other), ["0", "3", "3", "0"]);
        assert!(node.engine.state().clients.tracking.is_on());
        node.run(other, "MSET a 1 k 1 l 1");
        assert_eq!(node.figures(other), ["0", "0", "0", "0"]);
        assert!(!node.engine.state().clients.tracking.is_on() && node.told.is_empty());
    }

    #[test]
    fn a_key_that_is_evicted_for_a_request_is_told_of_before_its_reply() {
        let mut node = Node::new(0);
        let reader = node.client();
        node.run(reader, "CLIENT TRACKING ON");
        node.run(reader, "CONFIG SET maxmemory-policy volatile-random");
        node.run(reader, "SETEX volatile 10000 x");
        node.run(reader, "GET volatile");
        let info = node.run(reader, "INFO memory");
        let used = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:"));
        let used: usize = used.and_then(|used| used.parse().ok()).expect("a number");
        node.run(reader, &format!("CONFIG SET maxmemory {}", used + 100_000));
        node.run(reader, "SETBIT big 1600000 0");
        let told = node.run(reader, "GETBIT big 0");
        assert_eq!(
            told,
            ">2\r\n$10\r\ninvalidate\r\n*1\r\n$8\r\nvolatile\r\n:0\r\n"
        );
    }

    #[test]
    fn eviction_and_new_data_invalidate() {
        let mut node = Node::new(0);
        let reader = node.client();
        node.run(reader, "SET k v");
        node.run(reader, "CLIENT TRACKING ON");
        node.run(reader, "MGET k l");
        assert!(node.engine.evict(0, b"k", NOW));
        let databases = node.engine.databases().to_vec();
        node.engine.replace_databases(&databases, NOW);
        node.run(reader, "PING");
        let told: Vec<&str> = node.told.iter().map(|(_, text)| &**text).collect();
        let expected = [
            ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n",
            ">2\r\n$10\r\ninvalidate\r\n_\r\n",
        ];
        assert_eq!(told, expected);
        assert_eq!(node.figures(reader), ["1", "0", "0", "0"]);
    }
}
