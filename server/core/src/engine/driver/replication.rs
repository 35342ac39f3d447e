//! Operations of `topology/` on a node in replication.

use super::Engine;
use crate::engine::effect::Effect;
use crate::engine::peers::file_sync::FileSync;
use crate::engine::peers::image::Image;
use crate::engine::peers::journal::Unit;
use crate::engine::peers::replication::{Address, Replica, Upstream};
use crate::engine::persistence::AppendFsync;
use crate::engine::time::UnixMicros;
use std::sync::Arc;

/// Operations of `topology/` on a node.
impl Engine {
    /// Hands out every unit from now on, for replicas or a disk.
    pub fn keep_journal(&mut self) {
        self.state_mut().keep_journal();
    }

    /// A master's unit arrives at a replica.
    pub fn apply(&mut self, unit: &Unit, now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        state.apply(unit);
        state.peers.replication.offset = unit.offset;
        if let Some(journal) = &mut state.peers.journal {
            // Followers of a follower get the same units.
            if !journal.is_empty() {
                journal.forget();
                state
                    .unit
                    .outbox
                    .push(Effect::Propagate(Arc::new(unit.clone())));
            }
        }
        if let Some(upstream) = &mut state.peers.replication.upstream {
            upstream.since = Some(now);
        }
        self.follow_up(now);
    }

    /// The node runs again after a crash, for as long as from now.
    pub fn restarted(&mut self, now: UnixMicros) {
        self.state_mut().introspection.restarted(now);
    }

    /// The node becomes a replica and holds what its master holds.
    pub fn follow(&mut self, master: Address, copy: &FullCopy, now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        state.replace(copy.image.databases());
        state.replace_libraries(copy.image.libraries());
        state.peers.replication.adopt_id(&copy.replication_id);
        state.peers.replication.offset = copy.offset;
        state.peers.replication.former = None;
        state.peers.replication.upstream = Some(Upstream {
            address: master,
            is_up: true,
            since: Some(now),
        });
        state.guards_writes();
        state.end_failover();
        state.show_out_waiting();
        self.follow_up(now);
        // Replicas of this node have just received the copy, which is not a unit of the master.
        self.state_mut().peers.replication.offset = copy.offset;
    }

    /// The link to the master was cut, or works again.
    pub fn set_upstream(&mut self, is_up: bool, now: UnixMicros) {
        if let Some(upstream) = &mut self.state_mut().peers.replication.upstream {
            upstream.is_up = is_up;
            upstream.since = Some(now);
        }
    }

    /// Sets the addresses of the other nodes of the deployment, which this node may follow.
    pub fn set_peers(&mut self, peers: Vec<Address>) {
        self.state_mut().peers.replication.set_peers(peers);
    }

    /// Makes the node a master with its present data (`replicationUnsetMaster`).
    pub fn promote(&mut self) {
        self.state_mut().promote();
    }

    /// A follower came.
    pub fn add_replica(&mut self, id: u64, address: Address, now: UnixMicros) {
        let state = self.state_mut();
        let replica = Replica {
            id,
            address,
            offset: state.peers.replication.offset,
            file: FileSync::default(),
            silent_since: None,
        };
        state.unit.begin(now);
        state.peers.replication.replicas.retain(|one| one.id != id);
        state.peers.replication.replicas.push(replica);
        state.keep_journal();
    }

    /// Records that the node receives acknowledgements of a replica again, or no longer.
    pub fn hear_replica(&mut self, id: u64, is_heard: bool, now: UnixMicros) {
        let mut replicas = self.state_mut().peers.replication.replicas.iter_mut();
        if let Some(replica) = replicas.find(|replica| replica.id == id) {
            replica.silent_since = if is_heard {
                None
            } else {
                replica.silent_since.or(Some(now))
            };
        }
    }

    /// A follower has gone.
    pub fn remove_replica(&mut self, id: u64) {
        let replicas = &mut self.state_mut().peers.replication.replicas;
        replicas.retain(|replica| replica.id != id);
    }

    /// A follower reports its offset and the offset of its append-only file.
    pub fn acknowledge(
        &mut self,
        id: u64,
        offset: u64,
        file: Option<AppendFsync>,
        now: UnixMicros,
    ) {
        let state = self.state_mut();
        state.unit.begin(now);
        let mut replicas = state.peers.replication.replicas.iter_mut();
        if let Some(replica) = replicas.find(|replica| replica.id == id) {
            replica.offset = offset;
            replica.file.set_policy(file, 0);
            replica.file.wrote(offset, now);
        }
        state.answer_waits();
        self.follow_up(now);
    }

    /// The node's data as a disk or a replica would hold it now.
    pub fn image(&self) -> Image {
        let state = self.state();
        Image::of(state.data.databases(), &state.scripting.libraries)
    }

    /// All that a new follower needs.
    pub fn copy(&self) -> FullCopy {
        let state = self.state();
        FullCopy {
            image: self.image(),
            offset: state.peers.replication.offset,
            replication_id: state.peers.replication.id().to_owned(),
        }
    }

    /// Everything in memory is lost; the node comes back with this data, if any. Its clients are gone,
    /// but numbers of clients go on, so that none is taken for another.
    pub fn crash(&mut self, image: &Image, now: UnixMicros) {
        let old = self.state();
        let is_journaled = old.peers.journal.is_some();
        let (last_client, peers) = (
            old.clients.sessions.last_id(),
            old.peers.replication.peers().to_vec(),
        );
        let upstream = old.peers.replication.upstream.clone();
        let upstream = upstream.filter(|_| old.peers.failover.is_none());
        let sentinel = old.peers.sentinel.clone();
        let cluster = old.peers.cluster.clone();
        *self = Self::with_tables(self.start.clone(), self.tables, now);
        // The watched master is in the sentinel's configuration file.
        self.set_sentinel(sentinel);
        let state = self.state_mut();
        state.clients.sessions.go_on_from(last_client);
        state.peers.replication.set_peers(peers);
        // The address of the master is in the node's configuration file.
        state.peers.replication.upstream = upstream.map(|upstream| Upstream {
            is_up: false,
            since: None,
            ..upstream
        });
        // The other nodes of the cluster are there too; they answer at once.
        state.peers.cluster = cluster;
        state.data.load(image.databases().to_vec());
        state.scripting.libraries = image.libraries().anew();
        state.guards_writes();
        if is_journaled {
            state.keep_journal();
        }
    }
}

/// All data of a master at one instant, with their place in its stream.
#[derive(Clone, Debug)]
pub struct FullCopy {
    pub(crate) image: Image,
    pub(crate) offset: u64,
    pub(crate) replication_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Config, ConnId, NodeApi, Outcome};
    use crate::resp::{OwnedRequest, Protocol, Reply, encode};

    const START: UnixMicros = UnixMicros(1_000_000_000);

    fn after_ms(ms: i64) -> UnixMicros {
        UnixMicros(START.0 + ms * 1000)
    }

    /// A master and a replica that gets its units when told.
    struct Pair {
        master: Engine,
        replica: Engine,
        clients: [ConnId; 2],
        units: Vec<Arc<Unit>>,
        pushed: Vec<Reply>,
    }

    impl Pair {
        fn new() -> Self {
            let mut master = Engine::new(Config::default(), START);
            let mut replica = Engine::new(Config::default(), START);
            let clients = [&mut master, &mut replica]
                .map(|engine| engine.connect("127.0.0.1:5", START).unwrap());
            let address = |port| Address {
                host: "127.0.0.1".to_owned(),
                port,
            };
            replica.follow(address(6379), &master.copy(), START);
            master.add_replica(1, address(6380), START);
            Self {
                master,
                replica,
                clients,
                units: Vec::new(),
                pushed: Vec::new(),
            }
        }

        fn ask(&mut self, index: usize, line: &str, now: UnixMicros) -> String {
            let request = OwnedRequest::new(line.split(' ').map(str::as_bytes));
            let engine = if index == 0 {
                &mut self.master
            } else {
                &mut self.replica
            };
            let outcome = engine.handle(self.clients[index], request.as_request().unwrap(), now);
            self.drain();
            match outcome {
                Outcome::Reply(reply) => text(&reply),
                Outcome::Parked => "(waits)".to_owned(),
                Outcome::Silent => String::new(),
            }
        }

        fn drain(&mut self) {
            while let Some(effect) = self.master.poll_effect() {
                match effect {
                    Effect::Propagate(unit) => self.units.push(unit),
                    Effect::Reply { reply, .. } => self.pushed.push(reply),
                    Effect::Push { .. }
                    | Effect::Close { .. }
                    | Effect::Stall { .. }
                    | Effect::Follow { .. }
                    | Effect::Cluster(_)
                    | Effect::Migrate(_)
                    | Effect::FailOver { .. }
                    | Effect::KeepWrites(_)
                    | Effect::Shutdown => {}
                }
            }
            while let Some(effect) = self.replica.poll_effect() {
                if let Effect::Push { frame, .. } = effect {
                    self.pushed.push(frame);
                }
            }
        }

        /// Everything arrives; how many units that were.
        fn catch_up(&mut self, now: UnixMicros) -> usize {
            let units = std::mem::take(&mut self.units);
            for unit in &units {
                self.replica.apply(unit, now);
                self.master.acknowledge(1, unit.offset, None, now);
            }
            self.drain();
            units.len()
        }
    }

    fn text(reply: &Reply) -> String {
        let mut bytes = Vec::new();
        encode(reply, Protocol::Resp2, &mut bytes);
        bytes
            .escape_ascii()
            .to_string()
            .replace("\\r\\n", " ")
            .trim_end()
            .to_owned()
    }

    #[test]
    fn a_replica_holds_what_its_master_held_after_each_unit() {
        let mut pair = Pair::new();
        for line in [
            "SET k v PX 100",
            "HSET h f 1 g 2",
            "RPUSH l a b c",
            "LPOP l",
            "DEL h",
            "SELECT 3",
            "SET other 1",
            "SWAPDB 3 4",
            "COPY nosuch x",
            "INCRBYFLOAT f 1.5",
            "GET f",
        ] {
            pair.ask(0, line, START);
        }
        assert_eq!(pair.catch_up(START), 8, "reads and misses write nothing");
        let dump = |engine: &Engine| engine.state().data.digest();
        assert_eq!(dump(&pair.master), dump(&pair.replica));
        assert_eq!(pair.ask(1, "PTTL k", after_ms(40)), ":60");
        assert_eq!(
            pair.master.state().peers.replication.offset,
            pair.replica.state().peers.replication.offset
        );
        pair.ask(0, "FLUSHALL", START);
        pair.catch_up(START);
        assert_eq!(pair.ask(1, "DBSIZE", START), ":0");
    }

    #[cfg(feature = "script")]
    #[test]
    fn transactions_and_scripts_arrive_as_one_unit() {
        let mut pair = Pair::new();
        for line in ["MULTI", "SET a 1", "SET b 2", "INCR a", "EXEC"] {
            pair.ask(0, line, START);
        }
        assert_eq!(pair.units.len(), 1);
        pair.ask(
            0,
            "EVAL redis.call('set','c',redis.call('incr','a'));redis.call('del','b') 0",
            START,
        );
        assert_eq!(pair.units.len(), 2);
        pair.catch_up(START);
        assert_eq!(pair.ask(1, "MGET a b c", START), "*3 $1 3 $-1 $1 3");
    }

    #[test]
    fn a_replica_refuses_writes_and_removes_nothing_by_itself() {
        let mut pair = Pair::new();
        pair.ask(0, "SET k v PX 10", START);
        pair.catch_up(START);
        assert_eq!(
            pair.ask(1, "SET k w", START),
            "-READONLY You can\\'t write against a read only replica."
        );
        let late = after_ms(11);
        assert_eq!(pair.ask(1, "GET k", late), "$-1");
        assert_eq!(pair.ask(1, "DBSIZE", late), ":1");
        pair.replica.handle_timeout(late);
        assert_eq!(pair.ask(1, "DBSIZE", late), ":1");
        pair.master.handle_timeout(late);
        pair.drain();
        assert_eq!(pair.catch_up(late), 1);
        assert_eq!(pair.ask(1, "DBSIZE", late), ":0");
    }

    #[test]
    fn a_replica_that_lags_is_promoted_without_the_tail() {
        let mut pair = Pair::new();
        pair.ask(0, "SET k old", START);
        pair.catch_up(START);
        pair.ask(0, "SET k new", START);
        assert_eq!(pair.ask(1, "REPLICAOF NO ONE", START), "+OK");
        assert_eq!(pair.ask(1, "GET k", START), "$3 old");
        assert_eq!(pair.ask(1, "SET k mine", START), "+OK");
        assert!(pair.ask(1, "ROLE", START).contains("master"));
    }

    #[test]
    fn wait_answers_when_enough_replicas_have_it_or_with_how_many_do() {
        let mut pair = Pair::new();
        assert_eq!(
            pair.ask(0, "WAIT 1 100", START),
            ":1",
            "nothing was written"
        );
        pair.ask(0, "SET k v", START);
        assert_eq!(pair.ask(0, "WAIT 1 100", START), "(waits)");
        pair.catch_up(after_ms(5));
        assert_eq!(
            pair.pushed
                .drain(..)
                .map(|reply| text(&reply))
                .collect::<Vec<_>>(),
            [":1"]
        );
        pair.ask(0, "SET k w", after_ms(5));
        assert_eq!(pair.ask(0, "WAIT 2 100", after_ms(5)), "(waits)");
        pair.catch_up(after_ms(6));
        assert!(pair.pushed.is_empty());
        pair.master.handle_timeout(after_ms(106));
        pair.drain();
        assert_eq!(
            pair.pushed
                .drain(..)
                .map(|reply| text(&reply))
                .collect::<Vec<_>>(),
            [":1"]
        );
        // After the timeout of WAIT, acknowledgements do not answer what the client waits for next.
        assert_eq!(pair.ask(0, "BLPOP empty 0", after_ms(107)), "(waits)");
        pair.master.acknowledge(1, u64::MAX, None, after_ms(108));
        pair.drain();
        assert!(pair.pushed.is_empty());
    }

    #[test]
    fn a_master_with_too_few_good_replicas_refuses_writes() {
        let mut pair = Pair::new();
        pair.ask(
            0,
            "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 2",
            START,
        );
        assert_eq!(pair.ask(0, "SET k v", START), "+OK");
        pair.master.hear_replica(1, false, START);
        let late = after_ms(3_001);
        assert_eq!(
            pair.ask(0, "SET k v", late),
            "-NOREPLICAS Not enough good replicas to write."
        );
        assert_eq!(pair.ask(0, "GET k", late), "$1 v");
    }

    #[test]
    fn messages_and_keyspace_events_reach_the_subscribers_of_a_replica() {
        let mut pair = Pair::new();
        pair.ask(1, "CONFIG SET notify-keyspace-events Ex$", START);
        pair.ask(1, "SUBSCRIBE news __keyevent@0__:expired", START);
        pair.ask(0, "PUBLISH news hello", START);
        pair.ask(0, "SET k v PX 10", START);
        pair.catch_up(START);
        pair.master.handle_timeout(after_ms(11));
        pair.drain();
        pair.catch_up(after_ms(11));
        let told: Vec<String> = pair.pushed.iter().map(text).collect();
        assert_eq!(
            told,
            [
                "*3 $7 message $4 news $5 hello",
                "*3 $7 message $22 __keyevent@0__:expired $1 k"
            ]
        );
    }
}
