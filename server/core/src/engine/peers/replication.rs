//! A node's part in replication: its master, its replicas, and their offsets.
//!
//! *Policy* (`replication.c`): a replica refuses writes, removes nothing by itself and reports an
//! expired key as missing, by its own clock. A master does not wait for its replicas, unless WAIT or
//! `min-replicas-to-write` asks. How units travel, how long that takes and when a link is cut is
//! the affair of `topology/`.

use super::file_sync::FileSync;
use crate::engine::conn_id::ConnId;
use crate::engine::rng::Rng;
use crate::engine::time::{UnixMicros, UnixMillis};
use crate::resp::Reply;

/// Address of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// Its host, as clients write it.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The node that a replica follows.
#[derive(Clone, Debug)]
pub(crate) struct Upstream {
    pub(crate) address: Address,
    pub(crate) is_up: bool,
    /// Time of the last message from it, or of the cut of the link; `None` if the link has never been up.
    pub(crate) since: Option<UnixMicros>,
}

/// A follower, as its master sees it.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) id: u64,
    pub(crate) address: Address,
    /// The offset that it has.
    pub(crate) offset: u64,
    /// State of its append-only file.
    pub(crate) file: FileSync,
    /// Time since which the replica is silent; a replica with a working link reports every second.
    pub(crate) silent_since: Option<UnixMicros>,
}

/// A connection that reads the stream of commands: a replica outside of the deployment.
#[derive(Clone, Debug)]
pub(crate) struct StreamReader {
    pub(in crate::engine) conn: ConnId,
    /// False if it sent SYNC: such a reader acknowledges nothing and is never found silent.
    pub(in crate::engine) acknowledges: bool,
    pub(in crate::engine) replica: Replica,
}

/// Goal of a WAIT or WAITAOF.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckGoal {
    /// Offset to reach.
    pub(crate) offset: u64,
    /// Number of replicas that must reach it.
    pub(crate) replicas: usize,
    /// For WAITAOF: true if the append-only file of this node must reach it too. `None` for WAIT.
    pub(crate) own_file: Option<bool>,
}

/// A request that waits for replicas.
#[derive(Clone, Debug)]
pub(in crate::engine) struct AckWait {
    pub(in crate::engine) conn: ConnId,
    pub(in crate::engine) goal: AckGoal,
}

/// State of replication of a node.
#[derive(Debug)]
pub(crate) struct Replication {
    /// `master_replid`
    id: String,
    /// Draws further ids.
    ids: Rng,
    /// Absent for a master.
    pub(crate) upstream: Option<Upstream>,
    /// Nodes of the deployment that follow, in the order in which they came.
    pub(crate) replicas: Vec<Replica>,
    /// Connections that read the stream of commands, in the order in which they came.
    pub(in crate::engine) readers: Vec<StreamReader>,
    /// Bytes that were passed on (`master_repl_offset`).
    pub(crate) offset: u64,
    /// The append-only file of this node.
    pub(in crate::engine) file: FileSync,
    /// The identity that was shared with a former master, and how far.
    pub(crate) former: Option<(String, u64)>,
    waits: Vec<AckWait>,
    /// Addresses of the other nodes of the deployment.
    peers: Vec<Address>,
}

impl Replica {
    /// For how long it has said nothing, seconds.
    pub(crate) fn lag_seconds(&self, now: UnixMicros) -> i64 {
        let since = self.silent_since.unwrap_or(now);
        now.0.saturating_sub(since.0).div_euclid(1_000_000).max(0)
    }
}

impl Replication {
    /// Returns true if there are other nodes.
    pub(crate) fn has_peers(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Returns true if a node of the deployment has this address.
    pub(crate) fn reaches(&self, address: &Address) -> bool {
        self.peers.contains(address)
    }

    /// A master without replicas.
    pub(in crate::engine) fn new(seed: u64) -> Self {
        let mut ids = Rng::for_component(seed, "replication id");
        Self {
            id: ids.hex(20),
            ids,
            upstream: None,
            replicas: Vec::new(),
            readers: Vec::new(),
            offset: 0,
            file: FileSync::default(),
            former: None,
            waits: Vec::new(),
            peers: Vec::new(),
        }
    }

    /// Takes over from a node that restarts: its waiting clients and the addresses of other nodes.
    pub(in crate::engine) fn adopt(&mut self, old: Self) {
        (self.waits, self.peers) = (old.waits, old.peers);
    }

    /// `master_replid`
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Draws another `master_replid`.
    pub(in crate::engine) fn change_id(&mut self) {
        self.id = self.ids.hex(20);
    }

    /// Follows a master that has this `master_replid`.
    pub(in crate::engine) fn adopt_id(&mut self, id: &str) {
        id.clone_into(&mut self.id);
    }

    /// Addresses of the other nodes of the deployment.
    pub(in crate::engine) fn peers(&self) -> &[Address] {
        &self.peers
    }

    pub(in crate::engine) fn set_peers(&mut self, peers: Vec<Address>) {
        self.peers = peers;
    }

    /// Registers a waiting client, in place of an earlier registration of it.
    pub(in crate::engine) fn await_acks(&mut self, wait: AckWait) {
        self.waits.retain(|other| other.conn != wait.conn);
        self.waits.push(wait);
    }

    /// Takes out all waiting clients.
    pub(in crate::engine) fn take_waits(&mut self) -> Vec<AckWait> {
        std::mem::take(&mut self.waits)
    }

    #[inline]
    pub(crate) fn is_replica(&self) -> bool {
        self.upstream.is_some()
    }

    /// All replicas: nodes of the deployment, then connections that read the stream of commands.
    pub(crate) fn all_replicas(&self) -> impl Iterator<Item = &Replica> {
        let readers = self.readers.iter().map(|reader| &reader.replica);
        self.replicas.iter().chain(readers)
    }

    /// Returns the present reply to a waiting request, and true if it meets the client's goal.
    pub(crate) fn answer(&self, goal: AckGoal) -> (Reply, bool) {
        let AckGoal {
            offset,
            replicas,
            own_file,
        } = goal;
        let has = |replica: &&Replica| match own_file {
            None => replica.offset >= offset,
            Some(_) => replica.file.holds(offset),
        };
        let have = self.all_replicas().filter(has).count();
        let count = Reply::Int(have as i64);
        match own_file {
            None => (count, have >= replicas),
            Some(is_wanted) => {
                let is_safe = self.file.holds(offset);
                let reply = Reply::Array(vec![Reply::Int(is_safe.into()), count]);
                (reply, have >= replicas && is_safe >= is_wanted)
            }
        }
    }

    /// Returns the append-only files of this node and of its replicas.
    fn files_mut(&mut self) -> impl Iterator<Item = &mut FileSync> {
        let replicas = self.replicas.iter_mut();
        let readers = self.readers.iter_mut().map(|reader| &mut reader.replica);
        let files = replicas.chain(readers).map(|replica| &mut replica.file);
        files.chain([&mut self.file])
    }

    /// Marks the writes of earlier seconds as synced to the files.
    pub(in crate::engine) fn settle_files(&mut self, now: UnixMicros) {
        self.files_mut().for_each(|file| file.settle(now));
    }

    /// Returns the time of the next file write for which a request waits.
    pub(in crate::engine) fn next_file_write(&self) -> Option<UnixMillis> {
        let mut waits = self.waits.iter();
        waits.find(|wait| wait.goal.own_file.is_some())?;
        let files = self.all_replicas().map(|replica| &replica.file);
        files.chain([&self.file]).filter_map(FileSync::due).min()
    }

    /// Returns the number of replicas that sent a message within `lag_seconds_max`; 0 is no limit.
    pub(crate) fn good(&self, now: UnixMicros, lag_seconds_max: i64) -> usize {
        let is_good = |replica: &&Replica| {
            lag_seconds_max == 0 || replica.lag_seconds(now) <= lag_seconds_max
        };
        self.all_replicas().filter(is_good).count()
    }
}
