//! INFO. Figures that a double cannot know are omitted: the memory and the CPU time of the process, bytes and
//! requests per second, its allocator. Sizes of data come from `engine/data/memory.rs`, times from the node's
//! clock.

use super::Args;
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use crate::engine::STARTUP_BYTES;
use crate::engine::{Ctx, Space, feature, percentile};
use crate::resp::Reply;
use std::fmt::Write as _;

type Section = fn(&mut Ctx<'_>, &mut Text);

/// Sections in order, and whether they are part of the default.
const SECTIONS: &[(&str, bool, Section)] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, |_, _| {}),
    ("Commandstats", false, commandstats),
    ("Errorstats", true, errorstats),
    ("Latencystats", false, latencystats),
    ("Cluster", true, |ctx, text| {
        text.field("cluster_enabled", u8::from(ctx.cluster().is_some()));
    }),
    ("Keyspace", true, keyspace),
    ("Sentinel", true, sentinel),
];

/// Sections that a sentinel has.
const OF_A_SENTINEL: &[&str] = &["Server", "Clients", "CPU", "Stats", "Sentinel"];

fn sentinel(ctx: &mut Ctx<'_>, text: &mut Text) {
    if let Some(sentinel) = ctx.sentinel() {
        super::sentinel::describe(sentinel, |name, value| text.field(name, value));
    }
}

/// Lines of a section.
struct Text(String);

impl Text {
    fn field(&mut self, name: &str, value: impl std::fmt::Display) {
        let _infallible = write!(self.0, "{name}:{value}\r\n");
    }

    fn zeros(&mut self, names: &[&str]) {
        names.iter().for_each(|name| self.field(name, 0));
    }

    /// Writes a size, in bytes and in a readable form.
    fn bytes(&mut self, name: &str, bytes: usize) {
        self.field(name, bytes);
        self.human(name, bytes);
    }

    /// Writes a size in a readable form (`util.c: bytesToHuman`).
    fn human(&mut self, name: &str, bytes: usize) {
        let units = ["B", "K", "M", "G", "T", "P"];
        let (mut value, mut unit) = (bytes as f64, 0);
        while value >= 1024.0 && unit < units.len() {
            (value, unit) = (value / 1024.0, unit + 1);
        }
        if unit == units.len() {
            self.field(&format!("{name}_human"), format_args!("{bytes}B"));
            return;
        }
        let decimals = if unit == 0 { 0 } else { 2 };
        let unit = units[unit];
        self.field(
            &format!("{name}_human"),
            format_args!("{value:.decimals$}{unit}"),
        );
    }
}

fn info(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let wanted: Vec<&[u8]> = args.rest().collect();
    let asked = |name: &str| {
        let mut wanted = wanted.iter();
        wanted.any(|wanted| wanted.eq_ignore_ascii_case(name.as_bytes()))
    };
    let all = asked("all") || asked("everything");
    let default = wanted.is_empty() || asked("default");
    let mut text = Text(String::new());
    let is_sentinel = ctx.sentinel().is_some();
    for (name, is_default, section) in SECTIONS {
        let exists = if is_sentinel {
            OF_A_SENTINEL.contains(name)
        } else {
            *name != "Sentinel"
        };
        if !exists {
            continue;
        }
        if all || default && *is_default || asked(name) {
            if !text.0.is_empty() {
                text.0.push_str("\r\n");
            }
            let _infallible = write!(text.0, "# {name}\r\n");
            section(ctx, &mut text);
        }
    }
    Ok(Reply::Verbatim {
        format: *b"txt",
        text: text.0.into(),
    })
}

fn server(ctx: &mut Ctx<'_>, text: &mut Text) {
    let seconds = ctx.now.0.div_euclid(1_000_000);
    let uptime = (seconds - ctx.started().0.div_euclid(1_000_000)).max(0);
    let os = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    let profile = ctx.config().profile;
    text.field("redis_version", profile.redis_version());
    if let Some(version) = profile.valkey_version() {
        text.field("server_name", profile.server_name());
        text.field("valkey_version", version);
        text.field("valkey_release_stage", "ga");
    }
    text.field("redis_git_sha1", "00000000");
    text.field("redis_git_dirty", 0);
    text.field("redis_build_id", 0);
    let mode = if ctx.cluster().is_some() {
        "cluster"
    } else if ctx.sentinel().is_some() {
        "sentinel"
    } else {
        "standalone"
    };
    let name = if profile.valkey_version().is_some() {
        "server_mode"
    } else {
        "redis_mode"
    };
    text.field(name, mode);
    text.field("redouble_version", env!("CARGO_PKG_VERSION"));
    text.field("os", os);
    text.field("arch_bits", usize::BITS);
    // A figure of a fresh server: the double has other clocks and no atomics to choose between.
    text.field("monotonic_clock", "POSIX clock_gettime");
    text.field("multiplexing_api", "none");
    text.field("atomicvar_api", "c11-builtin");
    // Redis reports this if it was built with another compiler.
    text.field("gcc_version", "0.0.0");
    text.field("process_id", std::process::id());
    text.field("process_supervised", "no");
    text.field("run_id", ctx.run_id());
    text.field("tcp_port", ctx.config().port);
    text.field("server_time_usec", ctx.now.0);
    text.field("uptime_in_seconds", uptime);
    text.field("uptime_in_days", uptime / 86_400);
    text.field("hz", ctx.config().hz);
    text.field("configured_hz", ctx.config().hz);
    text.field("lru_clock", seconds & ((1 << 24) - 1));
    text.field("executable", "");
    text.field("config_file", "");
    text.field("io_threads_active", 0);
}

fn clients(ctx: &mut Ctx<'_>, text: &mut Text) {
    // The caller's own session is out of the table while it is served, but still counted.
    text.field("connected_clients", ctx.sessions().len());
    text.field("cluster_connections", 0);
    text.field("maxclients", ctx.config().maxclients);
    text.zeros(&[
        "client_recent_max_input_buffer",
        "client_recent_max_output_buffer",
    ]);
    let blocked = ctx.waiters().len() + ctx.pause().postponed();
    text.field("blocked_clients", blocked);
    text.field("tracking_clients", ctx.tracking().clients());
    text.field("clients_in_timeout_table", ctx.waiters().timed_len());
}

fn memory(ctx: &mut Ctx<'_>, text: &mut Text) {
    let used = ctx.memory_bytes();
    let peak = ctx.memory_peak();
    let overhead = ctx.databases().iter();
    let overhead: usize = overhead
        .map(|db| crate::engine::Overhead::of(db).total())
        .sum();
    let overhead = overhead + STARTUP_BYTES;
    let dataset = used.saturating_sub(overhead);
    let percent = |part: usize, whole: usize| part as f64 * 100.0 / whole.max(1) as f64;
    text.bytes("used_memory", used);
    text.bytes("used_memory_peak", peak);
    let peak_percent = percent(used, peak);
    text.field("used_memory_peak_perc", format_args!("{peak_percent:.2}%"));
    text.field("used_memory_overhead", overhead);
    text.field("used_memory_startup", STARTUP_BYTES);
    text.field("used_memory_dataset", dataset);
    let dataset_percent = percent(dataset, used - STARTUP_BYTES);
    text.field(
        "used_memory_dataset_perc",
        format_args!("{dataset_percent:.2}%"),
    );
    // A fresh server of 7.0.15 reports these sizes for scripts and functions.
    text.field("used_memory_lua", 32_768);
    text.field("used_memory_vm_eval", 32_768);
    text.human("used_memory_lua", 32_768);
    text.field("used_memory_scripts_eval", 0);
    #[cfg(feature = "script")]
    text.field("number_of_cached_scripts", ctx.scripts().len());
    #[cfg(not(feature = "script"))]
    text.field("number_of_cached_scripts", 0);
    #[cfg(feature = "script")]
    {
        text.field("number_of_functions", ctx.libraries().function_count());
        text.field("number_of_libraries", ctx.libraries().len());
    }
    #[cfg(not(feature = "script"))]
    text.zeros(&["number_of_functions", "number_of_libraries"]);
    text.field("used_memory_vm_functions", 33_792);
    text.bytes("used_memory_vm_total", 66_560);
    text.field("used_memory_functions", 200);
    text.bytes("used_memory_scripts", 200);
    let maxmemory = ctx.config().maxmemory;
    text.field("maxmemory", maxmemory as i64); // Redis prints it as a signed number
    text.human("maxmemory", maxmemory as usize);
    let policy = ctx.config().matching(&[b"maxmemory-policy"]);
    for (name, value) in policy {
        let name = String::from_utf8_lossy(&name).replace('-', "_");
        text.field(&name, String::from_utf8_lossy(&value));
    }
    text.zeros(&[
        "mem_not_counted_for_evict",
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_clients_slaves",
    ]);
    text.field("mem_clients_normal", ctx.clients_bytes());
    text.zeros(&["mem_cluster_links", "mem_aof_buffer"]);
    // Redis reports this if it was built with the system's allocator.
    text.field("mem_allocator", "libc");
    text.zeros(&["active_defrag_running", "lazyfree_pending_objects"]);
    text.field("lazyfreed_objects", ctx.stats().lazily_freed);
}

/// Files are written while a command runs, so none is in progress.
fn persistence(ctx: &mut Ctx<'_>, text: &mut Text) {
    text.zeros(&[
        "loading",
        "async_loading",
        "current_cow_peak",
        "current_cow_size",
        "current_cow_size_age",
    ]);
    text.field("current_fork_perc", "0.00");
    text.zeros(&["current_save_keys_processed", "current_save_keys_total"]);
    let saves = ctx.saves();
    let status = |is_ok: bool| if is_ok { "ok" } else { "err" };
    text.field("rdb_changes_since_last_save", ctx.changes() - saves.changes);
    text.field("rdb_bgsave_in_progress", 0);
    text.field("rdb_last_save_time", saves.saved_at.0.div_euclid(1_000_000));
    text.field("rdb_last_bgsave_status", status(saves.is_bgsave_ok));
    let last_took = if saves.has_bgsaved { 0 } else { -1 };
    text.field("rdb_last_bgsave_time_sec", last_took);
    text.field("rdb_current_bgsave_time_sec", -1);
    text.field("rdb_saves", saves.saves);
    text.field("rdb_last_cow_size", 0);
    text.field("rdb_last_load_keys_expired", saves.loaded.1);
    text.field("rdb_last_load_keys_loaded", saves.loaded.0);
    let is_append_only = ctx.config().appendonly;
    text.field("aof_enabled", u8::from(is_append_only));
    text.zeros(&["aof_rewrite_in_progress", "aof_rewrite_scheduled"]);
    let last_took = if saves.rewrites > 0 { 0 } else { -1 };
    text.field("aof_last_rewrite_time_sec", last_took);
    text.field("aof_current_rewrite_time_sec", -1);
    text.field("aof_last_bgrewrite_status", status(saves.is_rewrite_ok));
    text.field("aof_rewrites", saves.rewrites);
    text.field("aof_rewrites_consecutive_failures", 0);
    text.field("aof_last_write_status", "ok");
    text.zeros(&[
        "aof_last_cow_size",
        "module_fork_in_progress",
        "module_fork_last_cow_size",
    ]);
    if is_append_only {
        text.zeros(&[
            "aof_pending_rewrite",
            "aof_buffer_length",
            "aof_pending_bio_fsync",
            "aof_delayed_fsync",
        ]);
    }
}

fn stats(ctx: &mut Ctx<'_>, text: &mut Text) {
    let stats = ctx.stats();
    text.field("total_connections_received", stats.connections);
    text.field("total_commands_processed", stats.commands);
    text.field("instantaneous_ops_per_sec", 0);
    let sent = ctx.sent();
    text.field("total_net_input_bytes", stats.received.bytes);
    text.field("total_net_output_bytes", sent.bytes);
    text.field("total_net_repl_input_bytes", 0);
    text.field("total_net_repl_output_bytes", stats.replicated_bytes);
    text.field("instantaneous_input_kbps", "0.00");
    text.field("instantaneous_output_kbps", "0.00");
    text.field("instantaneous_input_repl_kbps", "0.00");
    text.field("instantaneous_output_repl_kbps", "0.00");
    text.field("rejected_connections", stats.rejected_connections);
    text.field("sync_full", stats.full_syncs);
    text.field("sync_partial_ok", stats.partial_syncs);
    text.field("sync_partial_err", stats.refused_partial_syncs);
    text.field("expired_keys", stats.expired_keys);
    if ctx.config().profile.has(feature::HASH_FIELD_EXPIRY) {
        text.field("expired_subkeys", stats.expired_fields);
    }
    text.field("expired_stale_perc", "0.00");
    text.zeros(&[
        "expired_time_cap_reached_count",
        "expire_cycle_cpu_milliseconds",
    ]);
    text.field("evicted_keys", stats.evicted_keys);
    text.field("evicted_clients", stats.evicted_clients);
    text.zeros(&[
        "total_eviction_exceeded_time",
        "current_eviction_exceeded_time",
    ]);
    text.field("keyspace_hits", stats.keyspace_hits);
    text.field("keyspace_misses", stats.keyspace_misses);
    let channels = |space| ctx.pubsub().channels(space, None).len();
    text.field("pubsub_channels", channels(Space::Channel));
    text.field("pubsub_patterns", ctx.pubsub().pattern_count());
    text.field("pubsubshard_channels", channels(Space::Shard));
    text.zeros(&[
        "latest_fork_usec",
        "total_forks",
        "migrate_cached_sockets",
        "slave_expires_tracked_keys",
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
    ]);
    text.field("tracking_total_keys", ctx.tracking().keys());
    text.field("tracking_total_items", ctx.tracking().items());
    text.field("tracking_total_prefixes", ctx.tracking().prefixes());
    text.field("unexpected_error_replies", 0);
    text.field("total_error_replies", stats.errors);
    text.field("dump_payload_sanitizations", 0);
    text.field("total_reads_processed", stats.received.turns);
    text.field("total_writes_processed", sent.turns);
    text.zeros(&[
        "io_threaded_reads_processed",
        "io_threaded_writes_processed",
        "reply_buffer_shrinks",
        "reply_buffer_expands",
    ]);
}

fn replication(ctx: &mut Ctx<'_>, text: &mut Text) {
    let (now, replication) = (ctx.now, ctx.replication());
    let facts = super::replication::ReplicaFacts::of(ctx.config());
    super::replication::describe(replication, &facts, now, |name, value| {
        text.field(name, value)
    });
    text.field("master_failover_state", ctx.failover_state());
    text.field("master_replid", ctx.replication_id());
    let none = (String::from("0").repeat(40), None);
    let former = replication.former.clone();
    let (id, offset) = former.map_or(none, |(id, offset)| (id, Some(offset as i64)));
    text.field("master_replid2", id);
    text.field("master_repl_offset", replication.offset);
    text.field("second_repl_offset", offset.unwrap_or(-1));
    // Nodes of a deployment are synchronized without a backlog; their clients see one that reaches back to the start.
    let has_replicas = replication.is_replica() || replication.all_replicas().next().is_some();
    let whole = || has_replicas.then(|| usize::try_from(replication.offset).unwrap_or(usize::MAX));
    let backlog = ctx.backlog_bytes().or_else(whole);
    text.field("repl_backlog_active", u8::from(backlog.is_some()));
    for (_, value) in ctx.config().matching(&[b"repl-backlog-size"]) {
        text.field("repl_backlog_size", String::from_utf8_lossy(&value));
    }
    let first = backlog.map_or(0, |bytes| replication.offset + 1 - bytes as u64);
    text.field("repl_backlog_first_byte_offset", first);
    text.field("repl_backlog_histlen", backlog.unwrap_or(0));
}

/// On the node's clock commands take no time.
fn cpu(_: &mut Ctx<'_>, text: &mut Text) {
    for name in [
        "used_cpu_sys",
        "used_cpu_user",
        "used_cpu_sys_children",
        "used_cpu_user_children",
        "used_cpu_sys_main_thread",
        "used_cpu_user_main_thread",
    ] {
        text.field(name, "0.000000");
    }
}

fn commandstats(ctx: &mut Ctx<'_>, text: &mut Text) {
    for (number, calls) in ctx.stats().commands() {
        if calls.is_zero() {
            continue;
        }
        let per_call = calls.micros as f64 / calls.calls.max(1) as f64;
        text.field(
            &format!("cmdstat_{}", super::table(ctx).name(number)),
            format_args!(
                "calls={},usec={},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}",
                calls.calls, calls.micros, calls.rejected, calls.failed
            ),
        );
    }
}

fn errorstats(ctx: &mut Ctx<'_>, text: &mut Text) {
    for (code, count) in ctx.stats().codes() {
        text.field(&format!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn latencystats(ctx: &mut Ctx<'_>, text: &mut Text) {
    if !ctx.config().latency_tracking {
        return;
    }
    for (number, _) in ctx.stats().commands() {
        let durations = ctx.stats().durations(number);
        if durations.is_empty() {
            continue;
        }
        let percentiles = ctx.config().percentiles();
        let percentiles = percentiles.map(|(percent, name)| {
            let micros = percentile(&durations, percent);
            format!("p{name}={micros:.3}")
        });
        let percentiles: Vec<String> = percentiles.collect();
        let name = format!(
            "latency_percentiles_usec_{}",
            super::table(ctx).name(number)
        );
        text.field(&name, percentiles.join(","));
    }
}

fn keyspace(ctx: &mut Ctx<'_>, text: &mut Text) {
    for (index, db) in ctx.databases().iter().enumerate() {
        let (keys, expires) = (db.len(), db.volatile_len());
        let ttl = db.mean_ttl(ctx.now_millis());
        if keys > 0 {
            text.field(
                &format!("db{index}"),
                format_args!("keys={keys},expires={expires},avg_ttl={ttl}"),
            );
        }
    }
}

pub(super) const INFO: CommandSpec = CommandSpec::new("info", -1, Group::Server, info)
    .flags(&[Flags::SENTINEL])
    .flags(&[Flags::LOADING, Flags::STALE])
    .acl(&["@dangerous"])
    .tips(&[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ])
    .syntax("[section...]")
    .summary("Facts about the server.");
