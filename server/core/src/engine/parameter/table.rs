//! All parameters with their defaults and places.

use super::row::{Kind, Parameter, c_string, immutable, integer, memory, parameter, switch, text};
use super::value::{
    active_defrag, announced_hostname, backlog_size, clamped_hz, oom_score, oom_score_values,
    printed, save_points, shutdown_options, title_template, unsigned_memory, write_percentiles,
    yes_or_no,
};
use crate::engine::clients_limit::ClientsLimit;
use crate::engine::eviction_policy::EvictionPolicy;
use crate::engine::memory_size::parse_memory;
use crate::engine::notify::Classes;
use crate::engine::persistence::AppendFsync;
use std::time::Duration;

const U16: i64 = 65_535;
const I32: i64 = 2_147_483_647;
const PORT: (i64, i64) = (0, U16);

/// All parameters of 7.0.15, by name.
#[rustfmt::skip]
pub(super) const PARAMETERS: &[Parameter] = &[
    parameter("acl-pubsub-default", "", Kind::Choice(&["allchannels", "resetchannels"])).kept(
        |config| (if config.acl_pubsub_default_allchannels { "allchannels" } else { "resetchannels" }).into(),
        |config, given| {
            config.acl_pubsub_default_allchannels = given.text().eq_ignore_ascii_case(b"allchannels");
            Ok(())
        },
    ),
    immutable("aclfile", "").read(|config| {
        config.acl_store.as_ref().map_or_else(Vec::new, |store| store.name().into())
    }),
    integer("acllog-max-len", "", 0, i64::MAX).kept(
        |config| printed(config.acllog_max_len),
        |config, given| { config.acllog_max_len = given.size(); Ok(()) },
    ),
    integer("active-defrag-cycle-max", "25", 1, 99),
    integer("active-defrag-cycle-min", "1", 1, 99),
    memory("active-defrag-ignore-bytes", "104857600", 1),
    integer("active-defrag-max-scan-fields", "1000", 1, i64::MAX),
    integer("active-defrag-threshold-lower", "10", 0, 1000),
    integer("active-defrag-threshold-upper", "100", 0, 1000),
    integer("active-expire-effort", "1", 1, 10),
    parameter("activedefrag", "no", Kind::Special(active_defrag)),
    switch("activerehashing", "yes"),
    immutable("always-show-logo", "no"),
    switch("aof-disable-auto-gc", "no"),
    switch("aof-load-truncated", "yes"),
    switch("aof-rewrite-incremental-fsync", "yes"),
    switch("aof-timestamp-enabled", "no"),
    switch("aof-use-rdb-preamble", "yes"),
    immutable("aof_rewrite_cpulist", ""),
    immutable("appenddirname", "appendonlydir"),
    immutable("appendfilename", "appendonly.aof"),
    parameter("appendfsync", "", Kind::Choice(&["everysec", "always", "no"])).kept(
        |config| config.appendfsync.name().into(),
        |config, given| { config.appendfsync = AppendFsync::by_name(given.text()); Ok(()) },
    ),
    switch("appendonly", "").kept(
        |config| yes_or_no(config.appendonly),
        |config, given| { config.appendonly = given.is_yes(); Ok(()) },
    ),
    memory("auto-aof-rewrite-min-size", "67108864", 0),
    integer("auto-aof-rewrite-percentage", "100", 0, I32),
    immutable("bgsave_cpulist", ""),
    text("bind", "").settled(|config| config.bind.clone().into_bytes()),
    text("bind-source-addr", ""),
    immutable("bio_cpulist", ""),
    integer("busy-reply-threshold", "5000", 0, i64::MAX).alias("lua-time-limit").kept(
        |config| printed(config.busy_reply_threshold.as_millis()),
        |config, given| {
            config.busy_reply_threshold = Duration::from_millis(given.number().unsigned_abs());
            Ok(())
        },
    ),
    text("client-output-buffer-limit", "").kept(
        |config| printed(config.client_output_buffer_limit),
        |config, given| config.client_output_buffer_limit.change(given.text()),
    ),
    memory("client-query-buffer-limit", "", 1024 * 1024).kept(
        |config| printed(config.client_query_buffer_limit),
        |config, given| { config.client_query_buffer_limit = given.number(); Ok(()) },
    ),
    switch("cluster-allow-pubsubshard-when-down", "").kept(
        |config| yes_or_no(config.cluster_allow_pubsubshard_when_down),
        |config, given| { config.cluster_allow_pubsubshard_when_down = given.is_yes(); Ok(()) },
    ),
    switch("cluster-allow-reads-when-down", "").kept(
        |config| yes_or_no(config.cluster_allow_reads_when_down),
        |config, given| { config.cluster_allow_reads_when_down = given.is_yes(); Ok(()) },
    ),
    switch("cluster-allow-replica-migration", "yes").honoured(),
    integer("cluster-announce-bus-port", "0", PORT.0, PORT.1).honoured(),
    parameter("cluster-announce-hostname", "", Kind::Special(announced_hostname)).honoured(),
    text("cluster-announce-ip", "").honoured(),
    integer("cluster-announce-port", "0", PORT.0, PORT.1).honoured(),
    integer("cluster-announce-tls-port", "0", PORT.0, PORT.1),
    immutable("cluster-config-file", "nodes.conf"),
    immutable("cluster-enabled", "").read(|config| yes_or_no(config.cluster_enabled)),
    memory("cluster-link-sendbuf-limit", "0", 0),
    integer("cluster-migration-barrier", "1", 0, I32),
    integer("cluster-node-timeout", "15000", 0, i64::MAX).honoured(),
    immutable("cluster-port", "0"),
    parameter("cluster-preferred-endpoint-type", "ip", Kind::Choice(&["ip", "hostname", "unknown-endpoint"])).honoured(),
    switch("cluster-replica-no-failover", "no").alias("cluster-slave-no-failover"),
    integer("cluster-replica-validity-factor", "10", 0, I32).alias("cluster-slave-validity-factor"),
    switch("cluster-require-full-coverage", "").kept(
        |config| yes_or_no(config.cluster_require_full_coverage),
        |config, given| { config.cluster_require_full_coverage = given.is_yes(); Ok(()) },
    ),
    switch("crash-log-enabled", "yes"),
    switch("crash-memcheck-enabled", "yes"),
    immutable("daemonize", "no"),
    immutable("databases", "").read(|config| printed(config.databases)),
    text("dbfilename", "dump.rdb").protected().read_protected(|config| config.dbfilename.clone().into_bytes()),
    text("dir", "").protected().read_protected(|config| {
        config.storage.as_ref().map_or_else(Vec::new, |storage| storage.folder().into_bytes())
    }),
    immutable("disable-thp", "yes"),
    switch("dynamic-hz", "yes"),
    immutable("enable-debug-command", "yes"),
    immutable("enable-module-command", "no"),
    immutable("enable-protected-configs", "no"),
    integer("hash-max-listpack-entries", "", 0, i64::MAX).alias("hash-max-ziplist-entries").kept(
        |config| printed(config.hash_max_listpack_entries),
        |config, given| { config.hash_max_listpack_entries = given.size(); Ok(()) },
    ),
    memory("hash-max-listpack-value", "", 0).alias("hash-max-ziplist-value").kept(
        |config| printed(config.hash_max_listpack_value),
        |config, given| { config.hash_max_listpack_value = given.size(); Ok(()) },
    ),
    memory("hll-sparse-max-bytes", "", 0).kept(
        |config| printed(config.hll_sparse_max_bytes),
        |config, given| { config.hll_sparse_max_bytes = given.size(); Ok(()) },
    ),
    integer("hz", "", 0, I32).kept(|config| printed(config.hz), clamped_hz),
    text("ignore-warnings", ""),
    immutable("io-threads", "1"),
    immutable("io-threads-do-reads", "no"),
    switch("jemalloc-bg-thread", "yes"),
    integer("key-load-delay", "0", -I32 - 1, I32).hidden(),
    integer("latency-monitor-threshold", "", 0, i64::MAX).kept(
        |config| printed(config.latency_monitor_threshold),
        |config, given| { config.latency_monitor_threshold = given.number(); Ok(()) },
    ),
    switch("latency-tracking", "").kept(
        |config| yes_or_no(config.latency_tracking),
        |config, given| { config.latency_tracking = given.is_yes(); Ok(()) },
    ),
    text("latency-tracking-info-percentiles", "").kept(
        |config| {
            let all: Vec<String> = config.percentiles().map(|(_, name)| name).collect();
            all.join(" ").into_bytes()
        },
        write_percentiles,
    ),
    switch("lazyfree-lazy-eviction", "no").honoured(),
    switch("lazyfree-lazy-expire", "no").honoured(),
    switch("lazyfree-lazy-server-del", "no"),
    switch("lazyfree-lazy-user-del", "no").honoured(),
    switch("lazyfree-lazy-user-flush", "no").honoured(),
    integer("lfu-decay-time", "", 0, I32).kept(
        |config| printed(config.lfu_decay_time),
        |config, given| { config.lfu_decay_time = given.number(); Ok(()) },
    ),
    integer("lfu-log-factor", "", 0, I32).kept(
        |config| printed(config.lfu_log_factor),
        |config, given| { config.lfu_log_factor = given.number(); Ok(()) },
    ),
    integer("list-compress-depth", "0", 0, I32),
    integer("list-max-listpack-size", "", -I32 - 1, I32).alias("list-max-ziplist-size").kept(
        |config| printed(config.list_max_listpack_size),
        |config, given| { config.list_max_listpack_size = given.number() as i32; Ok(()) },
    ),
    memory("loading-process-events-interval-bytes", "2097152", 1024).hidden(),
    immutable("logfile", ""),
    parameter("loglevel", "notice", Kind::Choice(&["debug", "verbose", "notice", "warning"])),
    text("masterauth", "").secret(),
    text("masteruser", "").secret(),
    integer("maxclients", "", 1, 4_294_967_295).kept(
        |config| printed(config.maxclients),
        |config, given| { config.maxclients = given.size(); Ok(()) },
    ),
    parameter("maxmemory", "", Kind::Special(unsigned_memory)).kept(
        |config| printed(config.maxmemory),
        |config, given| { config.maxmemory = parse_memory(given.text()).unwrap_or(0); Ok(()) },
    ),
    parameter("maxmemory-clients", "", Kind::Special(ClientsLimit::check)).kept(
        |config| printed(config.maxmemory_clients),
        |config, given| {
            config.maxmemory_clients = ClientsLimit::parse(given.text())?;
            Ok(())
        },
    ),
    integer("maxmemory-eviction-tenacity", "10", 0, 100),
    parameter("maxmemory-policy", "", Kind::Choice(&[
        "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu",
        "allkeys-random", "noeviction",
    ])).kept(
        |config| config.maxmemory_policy.name().into(),
        |config, given| {
            config.maxmemory_policy = EvictionPolicy::by_name(given.text()).unwrap_or_default();
            Ok(())
        },
    ),
    integer("maxmemory-samples", "5", 1, I32),
    integer("min-replicas-max-lag", "", 0, I32).alias("min-slaves-max-lag").kept(
        |config| printed(config.min_replicas_max_lag),
        |config, given| { config.min_replicas_max_lag = given.number(); Ok(()) },
    ),
    integer("min-replicas-to-write", "", 0, I32).alias("min-slaves-to-write").kept(
        |config| printed(config.min_replicas_to_write),
        |config, given| { config.min_replicas_to_write = given.size(); Ok(()) },
    ),
    switch("no-appendfsync-on-rewrite", "no"),
    text("notify-keyspace-events", "").kept(
        |config| config.notify_keyspace_events.letters().into_bytes(),
        |config, given| match Classes::parse(c_string(given.text())) {
            Some(classes) => { config.notify_keyspace_events = classes; Ok(()) }
            None => Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'."),
        },
    ),
    parameter("oom-score-adj", "no", Kind::Special(oom_score)),
    parameter("oom-score-adj-values", "0 200 800", Kind::Special(oom_score_values)),
    immutable("pidfile", ""),
    integer("port", "", PORT.0, PORT.1).settled(|config| printed(config.port)),
    parameter("proc-title-template", "{title} {listen-addr} {server-mode}", Kind::Special(title_template)),
    parameter("propagation-error-behavior", "ignore", Kind::Choice(&["ignore", "panic", "panic-on-replicas"])),
    switch("protected-mode", "").kept(
        |config| yes_or_no(config.protected_mode),
        |config, given| { config.protected_mode = given.is_yes(); Ok(()) },
    ),
    memory("proto-max-bulk-len", "", 1024 * 1024).kept(
        |config| printed(config.proto_max_bulk_len),
        |config, given| { config.proto_max_bulk_len = given.number(); Ok(()) },
    ),
    switch("rdb-del-sync-files", "no"),
    integer("rdb-key-save-delay", "0", -I32 - 1, I32).hidden(),
    switch("rdb-save-incremental-fsync", "yes"),
    immutable("rdbchecksum", "yes"),
    switch("rdbcompression", "").kept(
        |config| yes_or_no(config.rdbcompression),
        |config, given| { config.rdbcompression = given.is_yes(); Ok(()) },
    ),
    parameter("repl-backlog-size", "1048576", Kind::Special(backlog_size)).honoured(),
    integer("repl-backlog-ttl", "3600", 0, i64::MAX),
    switch("repl-disable-tcp-nodelay", "no"),
    parameter("repl-diskless-load", "disabled", Kind::Choice(&["disabled", "on-empty-db", "swapdb"])),
    switch("repl-diskless-sync", "yes").honoured(),
    integer("repl-diskless-sync-delay", "5", 0, I32),
    integer("repl-diskless-sync-max-replicas", "0", 0, I32),
    integer("repl-ping-replica-period", "10", 1, I32).alias("repl-ping-slave-period").honoured(),
    integer("repl-timeout", "60", 1, I32).honoured(),
    text("replica-announce-ip", "").alias("slave-announce-ip"),
    integer("replica-announce-port", "0", PORT.0, PORT.1).alias("slave-announce-port"),
    switch("replica-announced", "yes").honoured(),
    switch("replica-ignore-disk-write-errors", "no"),
    switch("replica-ignore-maxmemory", "").alias("slave-ignore-maxmemory").kept(
        |config| yes_or_no(config.replica_ignore_maxmemory),
        |config, given| { config.replica_ignore_maxmemory = given.is_yes(); Ok(()) },
    ),
    switch("replica-lazy-flush", "no").alias("slave-lazy-flush"),
    integer("replica-priority", "100", 0, I32).alias("slave-priority").honoured(),
    switch("replica-read-only", "").alias("slave-read-only").kept(
        |config| yes_or_no(config.replica_read_only),
        |config, given| { config.replica_read_only = given.is_yes(); Ok(()) },
    ),
    switch("replica-serve-stale-data", "yes").alias("slave-serve-stale-data").honoured(),
    immutable("replicaof", "").alias("slaveof"),
    text("requirepass", "").secret().kept(
        |config| config.requirepass.clone(),
        |config, given| { config.requirepass = given.text().to_vec(); Ok(()) },
    ),
    parameter("sanitize-dump-payload", "no", Kind::Choice(&["no", "yes", "clients"])),
    parameter("save", "", Kind::Special(save_points)).honoured(),
    immutable("server_cpulist", ""),
    integer("set-max-intset-entries", "", 0, i64::MAX).kept(
        |config| printed(config.set_max_intset_entries),
        |config, given| { config.set_max_intset_entries = given.size(); Ok(()) },
    ),
    integer("set-max-listpack-entries", "", 0, i64::MAX).since("7.2.0").kept(
        |config| printed(config.set_max_listpack_entries),
        |config, given| { config.set_max_listpack_entries = given.size(); Ok(()) },
    ),
    memory("set-max-listpack-value", "", 0).since("7.2.0").kept(
        |config| printed(config.set_max_listpack_value),
        |config, given| { config.set_max_listpack_value = given.size(); Ok(()) },
    ),
    immutable("set-proc-title", "yes"),
    parameter("shutdown-on-sigint", "default", Kind::Special(shutdown_options)),
    parameter("shutdown-on-sigterm", "default", Kind::Special(shutdown_options)),
    integer("shutdown-timeout", "10", 0, I32),
    integer("slowlog-log-slower-than", "", -1, i64::MAX).kept(
        |config| printed(config.slowlog_log_slower_than),
        |config, given| { config.slowlog_log_slower_than = given.number(); Ok(()) },
    ),
    integer("slowlog-max-len", "", 0, i64::MAX).kept(
        |config| printed(config.slowlog_max_len),
        |config, given| { config.slowlog_max_len = given.size(); Ok(()) },
    ),
    immutable("socket-mark-id", "0"),
    switch("stop-writes-on-bgsave-error", "yes"),
    memory("stream-node-max-bytes", "", 0).kept(
        |config| printed(config.stream_node_max_bytes),
        |config, given| { config.stream_node_max_bytes = given.size(); Ok(()) },
    ),
    integer("stream-node-max-entries", "", 0, i64::MAX).kept(
        |config| printed(config.stream_node_max_entries),
        |config, given| { config.stream_node_max_entries = given.size(); Ok(()) },
    ),
    immutable("supervised", "no"),
    immutable("syslog-enabled", "no"),
    immutable("syslog-facility", "local0"),
    immutable("syslog-ident", "redis"),
    immutable("tcp-backlog", "511"),
    integer("tcp-keepalive", "300", 0, I32),
    integer("timeout", "", 0, I32).kept(
        |config| printed(config.timeout.as_secs()),
        |config, given| { config.timeout = Duration::from_secs(given.number().unsigned_abs()); Ok(()) },
    ),
    parameter("tls-auth-clients", "yes", Kind::Choice(&["no", "yes", "optional"])).only(&["yes"]),
    text("tls-ca-cert-dir", "").only(&[""]),
    text("tls-ca-cert-file", "").only(&[""]),
    text("tls-cert-file", "").only(&[""]),
    text("tls-ciphers", "").only(&[""]),
    text("tls-ciphersuites", "").only(&[""]),
    text("tls-client-cert-file", "").only(&[""]),
    text("tls-client-key-file", "").only(&[""]),
    text("tls-client-key-file-pass", "").only(&[""]).secret(),
    switch("tls-cluster", "no").only(&["no"]),
    text("tls-dh-params-file", "").only(&[""]),
    text("tls-key-file", "").only(&[""]),
    text("tls-key-file-pass", "").only(&[""]).secret(),
    integer("tls-port", "", PORT.0, PORT.1).settled(|config| printed(config.tls_port)),
    switch("tls-prefer-server-ciphers", "no").only(&["no"]),
    text("tls-protocols", "").only(&[""]),
    switch("tls-replication", "no").only(&["no"]),
    integer("tls-session-cache-size", "20480", 0, I32),
    integer("tls-session-cache-timeout", "300", 0, I32),
    switch("tls-session-caching", "yes"),
    integer("tracking-table-max-keys", "", 0, i64::MAX).kept(
        |config| printed(config.tracking_table_max_keys),
        |config, given| { config.tracking_table_max_keys = given.size(); Ok(()) },
    ),
    immutable("unixsocket", "").read(|config| config.unixsocket.clone().into_bytes()),
    immutable("unixsocketperm", "").read(|config| format!("{:o}", config.unixsocketperm).into_bytes()),
    switch("use-exit-on-panic", "no").hidden(),
    integer("watchdog-period", "0", 0, I32).hidden(),
    integer("zset-max-listpack-entries", "", 0, i64::MAX).alias("zset-max-ziplist-entries").kept(
        |config| printed(config.zset_max_listpack_entries),
        |config, given| { config.zset_max_listpack_entries = given.size(); Ok(()) },
    ),
    memory("zset-max-listpack-value", "", 0).alias("zset-max-ziplist-value").kept(
        |config| printed(config.zset_max_listpack_value),
        |config, given| { config.zset_max_listpack_value = given.size(); Ok(()) },
    ),
];
