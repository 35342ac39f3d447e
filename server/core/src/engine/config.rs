//! The settings of a node: those at its start, and those that CONFIG SET changes. `parameter.rs` has the names and
//! values of the parameters.

use super::acl::AclStore;
use super::buffer_limits::BufferLimits;
use super::clients_limit::ClientsLimit;
use super::notify::Classes;
use super::persistence::{AppendFsync, Storage};
use super::profile::Profile;
use crate::engine::eviction_policy::EvictionPolicy;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Values of parameters without an effect that CONFIG SET has changed: by name, as CONFIG GET prints them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Others(pub(super) BTreeMap<&'static str, Vec<u8>>);

/// Parameters of a node: those of `CONFIG SET`, and bounds that Redis does not have. Parameters
/// without an effect on the node (`port`, `hz`, and so on) are not here; CONFIG GET still knows them.
///
/// ```
/// # extern crate redouble_core as redouble;
/// let mut config = redouble::engine::Config::default();
/// config.maxmemory = 4 << 20;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// `databases`.
    pub databases: usize,
    /// `requirepass`; empty for none.
    pub requirepass: Vec<u8>,
    /// Users at the start, such as `alice on nopass ~* +@all` (`ServerBuilder::user`).
    pub users: Vec<Vec<u8>>,
    /// `aclfile`: where ACL LOAD and ACL SAVE find the users.
    pub acl_store: Option<Arc<dyn AclStore>>,
    /// `acl-pubsub-default`: whether new users may use all channels.
    pub acl_pubsub_default_allchannels: bool,
    /// `acllog-max-len`: entries of ACL LOG.
    pub acllog_max_len: usize,
    /// `proto-max-bulk-len`, bytes.
    pub proto_max_bulk_len: i64,
    /// `client-query-buffer-limit`, bytes.
    pub client_query_buffer_limit: i64,
    /// `busy-reply-threshold`, formerly `lua-time-limit`.
    pub busy_reply_threshold: Duration,
    /// `maxclients`.
    pub maxclients: usize,
    /// `protected-mode`: without a password, only clients of this machine are served.
    pub protected_mode: bool,
    /// `port`, as CONFIG GET and INFO show it; 0 for a node without a socket.
    pub port: u16,
    /// `bind`, as CONFIG GET shows it; and so the next ones.
    pub bind: String,
    /// `tls-port`; 0 for none.
    pub tls_port: u16,
    /// `unixsocket`, a path; empty for none.
    pub unixsocket: String,
    /// `unixsocketperm`, a file mode; 0 for the umask's.
    pub unixsocketperm: u32,
    /// All randomness of the node comes from here.
    pub seed: u64,
    /// `notify-keyspace-events`.
    pub notify_keyspace_events: Classes,
    /// `hash-max-listpack-entries`: largest number of fields of a hash in a listpack.
    pub hash_max_listpack_entries: usize,
    /// `hash-max-listpack-value`, bytes: the same for the size of a field or a value.
    pub hash_max_listpack_value: usize,
    /// `list-max-listpack-size`: elements of a node of a list, or a class of its size if negative.
    pub list_max_listpack_size: i32,
    /// `hll-sparse-max-bytes`: a sparse HyperLogLog that would grow beyond it becomes dense.
    pub hll_sparse_max_bytes: usize,
    /// `set-max-intset-entries`: with more members a set of integers is not packed.
    pub set_max_intset_entries: usize,
    /// `set-max-listpack-entries` of 7.2: largest number of members of a set in a listpack.
    pub set_max_listpack_entries: usize,
    /// `set-max-listpack-value`, bytes: the same for the size of a member.
    pub set_max_listpack_value: usize,
    /// `zset-max-listpack-entries`: largest number of elements of a sorted set in a listpack.
    pub zset_max_listpack_entries: usize,
    /// `zset-max-listpack-value`, bytes: the same for the size of a member.
    pub zset_max_listpack_value: usize,
    /// `stream-node-max-bytes`: with more bytes a node of a stream is full; 0 for no limit.
    pub stream_node_max_bytes: usize,
    /// `stream-node-max-entries`: the same for the number of entries.
    pub stream_node_max_entries: usize,
    /// `rdbcompression`: whether DUMP compresses.
    pub rdbcompression: bool,
    /// `hz`. It has no effect: every deadline is handled at once.
    pub(crate) hz: i64,
    /// `timeout`: the server disconnects a client that is idle for longer; zero for never.
    pub timeout: Duration,
    /// `cluster-enabled`, as CONFIG GET and INFO show it: whether the node belongs to a
    /// `Deployment::cluster`, which sets it.
    pub cluster_enabled: bool,
    /// `cluster-require-full-coverage`: if true, nodes serve no request while a slot has no node.
    pub cluster_require_full_coverage: bool,
    /// `cluster-allow-reads-when-down`.
    pub cluster_allow_reads_when_down: bool,
    /// `cluster-allow-pubsubshard-when-down`.
    pub cluster_allow_pubsubshard_when_down: bool,
    /// `maxmemory`: what all data may take, bytes, counted as MEMORY USAGE does and from what an empty
    /// server takes; 0 for no bound.
    pub maxmemory: u64,
    /// `maxmemory-policy`: which keys go when that is too little.
    pub maxmemory_policy: EvictionPolicy,
    /// `lfu-log-factor`: how much more slowly the counter of a key grows that is used often.
    pub lfu_log_factor: i64,
    /// `lfu-decay-time`: minutes in which the counter of a key loses one; 0 for never.
    pub lfu_decay_time: i64,
    /// `maxmemory-clients`: what all clients together may take.
    pub(crate) maxmemory_clients: ClientsLimit,
    /// `appendonly`: the node's disk keeps its writes, as `Persistence` says.
    pub(crate) appendonly: bool,
    /// `appendfsync`: when these writes are safe.
    pub(crate) appendfsync: AppendFsync,
    /// `replica-read-only`: a replica takes no writes of clients.
    pub replica_read_only: bool,
    /// `replica-ignore-maxmemory`: a replica holds what its master holds.
    pub replica_ignore_maxmemory: bool,
    /// `min-replicas-to-write`: with fewer good replicas a master refuses writes.
    pub min_replicas_to_write: usize,
    /// `min-replicas-max-lag`, seconds: a replica that said nothing for longer is not good; 0 for no bound.
    pub min_replicas_max_lag: i64,
    /// `slowlog-log-slower-than`, microseconds; negative for never.
    pub slowlog_log_slower_than: i64,
    /// `slowlog-max-len`.
    pub slowlog_max_len: usize,
    /// `latency-monitor-threshold`, milliseconds; 0 for never.
    pub latency_monitor_threshold: i64,
    /// `latency-tracking`: whether LATENCY HISTOGRAM and INFO tell of how long commands take.
    pub latency_tracking: bool,
    /// `latency-tracking-info-percentiles`, 0 to 100.
    pub latency_tracking_info_percentiles: Vec<f64>,
    /// `client-output-buffer-limit`.
    pub client_output_buffer_limit: BufferLimits,
    /// `tracking-table-max-keys`: keys that are remembered for client-side caching; 0 for any number.
    pub tracking_table_max_keys: usize,
    /// Reads a clock in microseconds, for LATENCY; `None` if the node's time does not pass while a request runs.
    pub stopwatch: Option<fn() -> u64>,
    /// Storage of SAVE and DEBUG RELOAD; without a storage no file is written.
    pub storage: Option<Arc<dyn Storage>>,
    /// `dbfilename`: name of the file that SAVE writes.
    pub dbfilename: String,
    /// DEBUG SET-SKIP-CHECKSUM-VALIDATION.
    pub(crate) skips_checksums: bool,
    /// The version of Redis that the node imitates.
    pub profile: Profile,
    /// Parameters without an effect, where they were changed.
    pub(crate) others: Others,
    /// Memory that one script may hold, bytes. Redis has no such bound.
    pub script_memory_bytes_max: usize,
    /// Instructions after which a script of an in-process connection counts as endless.
    pub script_instructions_max: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            databases: 16,
            requirepass: Vec::new(),
            users: Vec::new(),
            acl_store: None,
            acl_pubsub_default_allchannels: false,
            acllog_max_len: 128,
            proto_max_bulk_len: 512 * 1024 * 1024,
            client_query_buffer_limit: 1024 * 1024 * 1024,
            busy_reply_threshold: Duration::from_secs(5),
            maxclients: 10_000,
            protected_mode: true,
            port: 0,
            bind: "127.0.0.1".to_owned(),
            tls_port: 0,
            unixsocket: String::new(),
            unixsocketperm: 0,
            seed: 0,
            notify_keyspace_events: Classes::default(),
            hash_max_listpack_entries: 512,
            hash_max_listpack_value: 64,
            list_max_listpack_size: -2,
            hll_sparse_max_bytes: 3_000,
            set_max_intset_entries: 512,
            set_max_listpack_entries: 128,
            set_max_listpack_value: 64,
            zset_max_listpack_entries: 128,
            zset_max_listpack_value: 64,
            stream_node_max_bytes: 4096,
            stream_node_max_entries: 100,
            rdbcompression: true,
            hz: 10,
            timeout: Duration::ZERO,
            cluster_enabled: false,
            cluster_require_full_coverage: true,
            cluster_allow_reads_when_down: false,
            cluster_allow_pubsubshard_when_down: true,
            maxmemory: 0,
            maxmemory_policy: EvictionPolicy::default(),
            lfu_log_factor: 10,
            lfu_decay_time: 1,
            maxmemory_clients: ClientsLimit::default(),
            appendonly: false,
            appendfsync: AppendFsync::default(),
            replica_read_only: true,
            replica_ignore_maxmemory: true,
            min_replicas_to_write: 0,
            min_replicas_max_lag: 10,
            slowlog_log_slower_than: 10_000,
            slowlog_max_len: 128,
            latency_monitor_threshold: 0,
            latency_tracking: true,
            latency_tracking_info_percentiles: vec![50.0, 99.0, 99.9],
            client_output_buffer_limit: BufferLimits::default(),
            tracking_table_max_keys: 1_000_000,
            stopwatch: None,
            storage: None,
            dbfilename: "dump.rdb".to_owned(),
            skips_checksums: false,
            profile: Profile::default(),
            others: Others::default(),
            script_memory_bytes_max: 256 * 1024 * 1024,
            script_instructions_max: 20_000_000,
        }
    }
}

impl Config {
    /// Switches the append-only file on or off.
    pub fn keep_writes(&mut self, policy: Option<AppendFsync>) {
        self.appendonly = policy.is_some();
        self.appendfsync = policy.unwrap_or_default();
    }

    /// The policy of the append-only file; `None` without one.
    pub fn append_only(&self) -> Option<AppendFsync> {
        self.appendonly.then_some(self.appendfsync)
    }

    /// True if the client at `addr` is refused while the user `default` has no password
    /// (`networking.c: clientAcceptHandler`). Only what has an IP address may come from elsewhere, and only these two
    /// of this machine are believed.
    pub(crate) fn denies(&self, addr: &str) -> bool {
        let is_elsewhere = addr.parse::<SocketAddr>().is_ok_and(|addr| {
            let ip = addr.ip();
            ip != Ipv4Addr::LOCALHOST && ip != Ipv6Addr::LOCALHOST
        });
        self.protected_mode && is_elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_mode_believes_two_addresses_and_what_has_none() {
        let mut config = Config::default();
        let denied = |config: &Config| {
            [
                "127.0.0.1:5",
                "[::1]:5",
                "/tmp/redis.sock:0",
                "in-process:0",
                "127.0.0.2:5",
                "192.0.2.7:5",
                "[2001:db8::1]:5",
                "[fe80::1%2]:5",
            ]
            .map(|addr| config.denies(addr))
        };
        let (no, yes) = (false, true);
        assert_eq!(denied(&config), [no, no, no, no, yes, yes, yes, yes]);
        config.protected_mode = false;
        assert_eq!(denied(&config), [no; 8]);
    }
}
