//! The parameters of CONFIG: what each may be, where it is kept, and which of them can be changed
//! while the server runs.
//!
//! *Policy.* A parameter either has its effect here ([`Place::Field`]); or it governs something that a double does not have (files
//! that are written at intervals, memory layouts, other processes), and then CONFIG GET gives back any valid value; or it has values
//! whose absence could endanger a user (TLS), and these are refused with an error that says so. Source: `config.c`.

use super::Config;
use super::clients_limit::ClientsLimit;
use super::glob::glob_match;
use super::memory_size::parse_memory;
use super::notify::Classes;
use super::persistence::AppendFsync;
use super::profile::Since;
use crate::engine::CommandError;
use crate::engine::eviction_policy::EvictionPolicy;
use crate::resp::parse_integer;
use std::time::Duration;

/// `CONFIG_MAX_HZ`; lower and higher ones are taken for the nearest that is allowed.
const HZ: (i64, i64) = (1, 500);

/// Type of a parameter's values.
#[derive(Clone, Copy)]
enum Kind {
    Switch,
    Choice(&'static [&'static str]),
    /// Both bounds are allowed.
    Integer(i64, i64),
    /// A number of bytes, with a unit if need be.
    Memory(i64, i64),
    Text,
    /// A function checks the value and normalizes it.
    Special(fn(&[u8]) -> Result<Vec<u8>, &'static str>),
}

/// A value that was found valid.
enum Given<'a> {
    Switch(bool),
    Number(i64),
    Text(&'a [u8]),
}

impl Given<'_> {
    fn is_yes(&self) -> bool {
        matches!(self, Self::Switch(true))
    }

    fn number(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            Self::Switch(_) | Self::Text(_) => 0,
        }
    }

    fn size(&self) -> usize {
        usize::try_from(self.number()).unwrap_or(usize::MAX)
    }

    fn text(&self) -> &[u8] {
        match self {
            Self::Text(text) => text,
            Self::Switch(_) | Self::Number(_) => b"",
        }
    }
}

type Read = fn(&Config) -> Vec<u8>;
type Write = fn(&mut Config, &Given<'_>) -> Result<(), &'static str>;

/// Storage of a parameter, and whether it can be changed.
#[derive(Clone, Copy)]
enum Place {
    /// Among [`Others`].
    Others,
    /// In a separate field.
    Field(Read, Write),
    /// In a field that was settled at the start; only its own value can be set again.
    Settled(Read),
    /// `can't set immutable config`
    Immutable(Option<Read>),
    /// `can't set protected config`
    Protected(Option<Read>),
}

#[derive(Clone, Copy)]
struct Parameter {
    name: &'static str,
    /// Its former name, under which it is known too.
    alias: &'static str,
    default: &'static str,
    kind: Kind,
    place: Place,
    /// The only values with the effect that they have in Redis; all if empty.
    only: &'static [&'static str],
    /// True if other code reads its value by name ([`Config::value_of`]), although it has no field.
    is_read: bool,
    /// Never shown in SLOWLOG.
    is_secret: bool,
    /// Shown only if a client names it.
    is_hidden: bool,
    /// The first version of Redis that has it.
    since: Since,
}

const fn parameter(name: &'static str, default: &'static str, kind: Kind) -> Parameter {
    Parameter {
        name,
        alias: "",
        default,
        kind,
        place: Place::Others,
        only: &[],
        is_read: false,
        is_secret: false,
        is_hidden: false,
        since: Since::redis("1.0.0"),
    }
}

const fn switch(name: &'static str, default: &'static str) -> Parameter {
    parameter(name, default, Kind::Switch)
}

const fn integer(name: &'static str, default: &'static str, low: i64, high: i64) -> Parameter {
    parameter(name, default, Kind::Integer(low, high))
}

const fn memory(name: &'static str, default: &'static str, low: i64) -> Parameter {
    parameter(name, default, Kind::Memory(low, i64::MAX))
}

const fn text(name: &'static str, default: &'static str) -> Parameter {
    parameter(name, default, Kind::Text)
}

const fn immutable(name: &'static str, default: &'static str) -> Parameter {
    let mut row = text(name, default);
    row.place = Place::Immutable(None);
    row
}

impl Parameter {
    const fn alias(mut self, alias: &'static str) -> Self {
        self.alias = alias;
        self
    }

    const fn kept(mut self, read: Read, write: Write) -> Self {
        self.place = Place::Field(read, write);
        self
    }

    const fn settled(mut self, read: Read) -> Self {
        self.place = Place::Settled(read);
        self
    }

    const fn read(mut self, read: Read) -> Self {
        self.place = Place::Immutable(Some(read));
        self
    }

    const fn only(mut self, values: &'static [&'static str]) -> Self {
        self.only = values;
        self
    }

    const fn protected(mut self) -> Self {
        self.place = Place::Protected(None);
        self
    }

    const fn read_protected(mut self, read: Read) -> Self {
        self.place = Place::Protected(Some(read));
        self
    }

    const fn honoured(mut self) -> Self {
        self.is_read = true;
        self
    }

    const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    const fn since(mut self, version: &'static str) -> Self {
        self.since = Since::redis(version);
        self
    }

    const fn hidden(mut self) -> Self {
        self.is_hidden = true;
        self
    }

    /// False for one that CONFIG SET only keeps.
    fn has_effect(&self) -> bool {
        self.is_read || !self.only.is_empty() || !matches!(self.place, Place::Others)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.name, self.alias]
            .into_iter()
            .filter(|name| !name.is_empty())
    }

    fn value(&self, config: &Config) -> Vec<u8> {
        match self.place {
            Place::Field(read, _)
            | Place::Settled(read)
            | Place::Immutable(Some(read))
            | Place::Protected(Some(read)) => read(config),
            Place::Others | Place::Immutable(None) | Place::Protected(None) => {
                let changed = config.others.0.get(self.name);
                changed.map_or_else(|| self.default.as_bytes().to_vec(), Vec::clone)
            }
        }
    }

    /// Checks a value; gives it also as CONFIG GET will print it.
    fn check<'a>(&self, value: &'a [u8]) -> Result<(Given<'a>, Vec<u8>), String> {
        let bounded = |number: i128, low: i64, high: i64| {
            if (i128::from(low)..=i128::from(high)).contains(&number) {
                let number = number as i64;
                Ok((Given::Number(number), number.to_string().into_bytes()))
            } else {
                Err(format!(
                    "argument must be between {low} and {high} inclusive"
                ))
            }
        };
        // Redis reads most values as C does, up to a zero.
        let value = match self.kind {
            Kind::Integer(..) | Kind::Text => value,
            Kind::Switch | Kind::Choice(_) | Kind::Memory(..) | Kind::Special(_) => c_string(value),
        };
        match self.kind {
            Kind::Switch => match &*value.to_ascii_lowercase() {
                b"yes" => Ok((Given::Switch(true), b"yes".to_vec())),
                b"no" => Ok((Given::Switch(false), b"no".to_vec())),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Kind::Choice(choices) => {
                let is_it = |choice: &&&str| value.eq_ignore_ascii_case(choice.as_bytes());
                match choices.iter().find(is_it) {
                    Some(choice) => Ok((Given::Text(value), choice.as_bytes().to_vec())),
                    None => Err(format!(
                        "argument(s) must be one of the following: {}",
                        choices.join(", ")
                    )),
                }
            }
            Kind::Integer(low, high) => match parse_integer(value) {
                Some(number) => bounded(number.into(), low, high),
                None => Err("argument couldn't be parsed into an integer".to_owned()),
            },
            Kind::Memory(low, high) => match parse_memory(value) {
                Some(bytes) => bounded(bytes.into(), low, high),
                None => Err("argument must be a memory value".to_owned()),
            },
            Kind::Text => Ok((Given::Text(value), value.to_vec())),
            Kind::Special(check) => Ok((Given::Text(value), check(value)?)),
        }
    }

    fn set(&self, config: &mut Config, value: &[u8]) -> Result<(), String> {
        let (given, printed) = self.check(value)?;
        let is_truthful = |known: &&str| known.as_bytes() == printed;
        if !self.only.is_empty() && !self.only.iter().any(is_truthful) {
            let only = self.only.join("', '");
            return Err(match self.only {
                [_] => format!("redouble knows only the value '{only}'"),
                _ => format!("redouble knows only the values '{only}'"),
            });
        }
        match self.place {
            Place::Field(_, write) => Ok(write(config, &given)?),
            Place::Settled(read) if read(config) == printed => Ok(()),
            // No socket is bound while the server runs.
            Place::Settled(_) => Err(match self.name {
                "bind" => "Failed to bind to specified addresses.",
                _ => "Unable to listen on this port. Check server logs.",
            }
            .to_owned()),
            Place::Others => {
                config.others.0.insert(self.name, printed);
                Ok(())
            }
            Place::Immutable(_) | Place::Protected(_) => Ok(()),
        }
    }
}

fn c_string(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn printed(value: impl ToString) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn yes_or_no(value: bool) -> Vec<u8> {
    if value { &b"yes"[..] } else { b"no" }.to_vec()
}

/// As C's `%f` prints it, without zeros at its end.
fn percentile(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Longest name of a host (`NET_HOST_STR_LEN`).
const HOSTNAME_MAX: usize = 256;

/// `config.c: isValidAnnouncedHostname`.
fn announced_hostname(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    if value.len() >= HOSTNAME_MAX {
        return Err("Hostnames must be less than 256 characters");
    }
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-.".contains(byte);
    if !value.iter().all(is_allowed) {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots");
    }
    Ok(value.to_vec())
}

impl Config {
    /// The value of a parameter, as CONFIG GET prints it; empty if there is none.
    pub(crate) fn value_of(&self, name: &str) -> Vec<u8> {
        let found = find(name.as_bytes());
        debug_assert!(found.is_some_and(|(_, row)| row.has_effect()), "{name}");
        found.map_or_else(Vec::new, |(_, row)| row.value(self))
    }

    /// The value of a numeric parameter; 0 if there is none.
    pub(crate) fn number_of(&self, name: &str) -> i64 {
        parse_integer(&self.value_of(name)).unwrap_or(0)
    }

    /// The value of a parameter that is a number of bytes or of elements.
    pub(crate) fn size_of(&self, name: &str) -> usize {
        usize::try_from(self.number_of(name)).unwrap_or(0)
    }

    /// True if a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.value_of(name) == b"yes"
    }

    /// The percentiles that INFO tells of, with their names.
    pub(crate) fn percentiles(&self) -> impl Iterator<Item = (f64, String)> {
        let all = self.latency_tracking_info_percentiles.iter();
        all.map(|value| (*value, percentile(*value)))
    }
}

fn write_percentiles(config: &mut Config, given: &Given<'_>) -> Result<(), &'static str> {
    const INVALID: &str = "Invalid latency-tracking-info-percentiles parameters";
    let text = std::str::from_utf8(given.text()).map_err(|_| INVALID)?;
    let words = text.split(' ').filter(|_| !text.is_empty());
    let mut percentiles = Vec::new();
    for word in words {
        let value: f64 = word.parse().map_err(|_| INVALID)?;
        if !(0.0..=100.0).contains(&value) {
            return Err(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            );
        }
        percentiles.push(value);
    }
    config.latency_tracking_info_percentiles = percentiles;
    Ok(())
}

/// `save`: pairs of seconds and changes. The server saves only at a client's request.
fn save_points(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    const INVALID: &str = "Invalid save parameters";
    if value.is_empty() {
        return Ok(Vec::new());
    }
    let words: Vec<&[u8]> = value.split(|byte| *byte == b' ').collect();
    let is_pair = |pair: &[&[u8]]| match pair {
        [seconds, changes] => {
            parse_integer(seconds).is_some_and(|seconds| seconds >= 1)
                && parse_integer(changes).is_some_and(|changes| changes >= 0)
        }
        _ => false,
    };
    if words.chunks(2).all(is_pair) {
        Ok(value.to_vec())
    } else {
        Err(INVALID)
    }
}

/// `oom-score-adj`: `relative` is the same as `yes`.
fn oom_score(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let value = value.to_ascii_lowercase();
    match &value[..] {
        b"no" | b"yes" | b"absolute" => Ok(value),
        b"relative" => Ok(b"yes".to_vec()),
        _ => Err("argument(s) must be one of the following: no, yes, relative, absolute"),
    }
}

/// `shutdown-on-sigint` and `shutdown-on-sigterm`: several options of SHUTDOWN.
fn shutdown_options(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut chosen = [false; SHUTDOWN_OPTIONS.len()];
    for word in value.split(|byte| *byte == b' ') {
        let is_it = |option: &&str| word.eq_ignore_ascii_case(option.as_bytes());
        let Some(at) = SHUTDOWN_OPTIONS.iter().position(is_it) else {
            return Err(
                "argument(s) must be one of the following: default, save, nosave, now, force",
            );
        };
        chosen[at] = true;
    }
    let [_, saves, saves_not, ..] = chosen;
    if saves && saves_not {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously");
    }
    // Any other option outweighs `default`.
    chosen[0] = !chosen[1..].contains(&true);
    let names = SHUTDOWN_OPTIONS.iter().zip(chosen);
    let names: Vec<&str> = names
        .filter_map(|(name, is_chosen)| is_chosen.then_some(*name))
        .collect();
    Ok(names.join(" ").into_bytes())
}

/// `activedefrag`: as on a server with an ordinary allocator.
fn active_defrag(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    match &value.to_ascii_lowercase()[..] {
        b"no" => Ok(b"no".to_vec()),
        b"yes" => Err(
            "Active defragmentation cannot be enabled: it requires a Redis server compiled with a modified Jemalloc \
             like the one shipped by default with the Redis source distribution",
        ),
        _ => Err("argument must be 'yes' or 'no'"),
    }
}

fn oom_score_values(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    let words: Vec<&[u8]> = value.split(|byte| *byte == b' ').collect();
    if words.len() != 3 {
        return Err("wrong number of arguments");
    }
    let is_score =
        |word: &&[u8]| parse_integer(word).is_some_and(|score| (-2000..=2000).contains(&score));
    if words.iter().all(is_score) {
        Ok(value.to_vec())
    } else {
        Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")
    }
}

fn clamped_hz(config: &mut Config, given: &Given<'_>) -> Result<(), &'static str> {
    config.hz = given.number().clamp(HZ.0, HZ.1);
    Ok(())
}

const U16: i64 = 65_535;
const I32: i64 = 2_147_483_647;
const PORT: (i64, i64) = (0, U16);

/// All parameters of 7.0.15, by name.
#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
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
    switch("cluster-allow-replica-migration", "yes"),
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
    memory("maxmemory", "", 0).kept(
        |config| printed(config.maxmemory),
        |config, given| { config.maxmemory = given.number().unsigned_abs(); Ok(()) },
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
    text("proc-title-template", "{title} {listen-addr} {server-mode}"),
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
    memory("repl-backlog-size", "1048576", 1).honoured(),
    integer("repl-backlog-ttl", "3600", 0, i64::MAX),
    switch("repl-disable-tcp-nodelay", "no"),
    parameter("repl-diskless-load", "disabled", Kind::Choice(&["disabled", "on-empty-db", "swapdb"])),
    switch("repl-diskless-sync", "yes"),
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
    parameter("save", "", Kind::Special(save_points)),
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

const SHUTDOWN_OPTIONS: [&str; 5] = ["default", "save", "nosave", "now", "force"];

fn find(name: &[u8]) -> Option<(&'static str, &'static Parameter)> {
    PARAMETERS.iter().find_map(|row| {
        let mut names = row.names();
        let name = names.find(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some((name, row))
    })
}

/// Names of the parameters that CONFIG SET checks and keeps, and that have no effect: they govern what a double does not
/// have, such as memory layouts, other processes and files that are written at intervals.
///
/// ```
/// let names = redouble::parameters_without_effect();
/// assert!(names.contains(&"activerehashing") && !names.contains(&"maxmemory"));
/// ```
pub fn parameters_without_effect() -> Vec<&'static str> {
    let rows = PARAMETERS.iter();
    let idle = rows.filter(|row| !row.has_effect() && !row.is_hidden);
    idle.map(|row| row.name).collect()
}

/// True if the value of this parameter is a secret, which no command shows.
pub(crate) fn is_secret(name: &[u8]) -> bool {
    find(name).is_some_and(|(_, row)| row.is_secret)
}

fn failed(name: &[u8], why: &str) -> CommandError {
    let before = "ERR CONFIG SET failed (possibly related to argument '";
    CommandError::echoing(before, name, &format!("') - {why}"))
}

impl Config {
    /// Parameters whose names match, sorted by name. One that is asked for by its name is called as
    /// it was asked for (`config.c: configGetCommand`).
    pub(crate) fn matching(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let is_pattern = |pattern: &[u8]| pattern.iter().any(|byte| b"[*?".contains(byte));
        let called = |name: &str, is_hidden: bool| {
            patterns
                .iter()
                .find_map(|pattern| match is_pattern(pattern) {
                    true if is_hidden => None,
                    true if glob_match(&pattern.to_ascii_lowercase(), name.as_bytes()) => {
                        Some(name.as_bytes().to_vec())
                    }
                    false if pattern.eq_ignore_ascii_case(name.as_bytes()) => {
                        Some(pattern.to_vec())
                    }
                    true | false => None,
                })
        };
        let rows = PARAMETERS.iter();
        let mut found: Vec<_> = rows
            .filter(|row| self.profile.has(row.since))
            .flat_map(|row| row.names().map(move |name| (name, row)))
            .filter_map(|(name, row)| {
                called(name, row.is_hidden).map(|called| (called, row.value(self)))
            })
            .collect();
        found.sort();
        found
    }

    /// The configuration with some parameters changed: all or none (`config.c: configSetCommand`).
    ///
    /// # Errors
    /// First for a name that is wrong, then for a value.
    pub(crate) fn with(&self, changes: &[(&[u8], &[u8])]) -> Result<Self, CommandError> {
        let mut rows: Vec<(&'static str, &'static Parameter)> = Vec::new();
        for (name, _) in changes {
            let found = find(name).filter(|(_, row)| self.profile.has(row.since));
            let Some(found) = found else {
                let before = "ERR Unknown option or number of arguments for CONFIG SET - '";
                return Err(CommandError::echoing(before, name, "'"));
            };
            match found.1.place {
                Place::Immutable(_) => return Err(failed(name, "can't set immutable config")),
                Place::Protected(_) => return Err(failed(name, "can't set protected config")),
                Place::Others | Place::Field(..) | Place::Settled(_) => {}
            }
            if rows.iter().any(|(known, _)| *known == found.0) {
                return Err(failed(name, "duplicate parameter"));
            }
            rows.push(found);
        }
        let mut next = self.clone();
        for ((name, row), (_, value)) in rows.iter().zip(changes) {
            let set = row.set(&mut next, value);
            set.map_err(|why| failed(name.as_bytes(), &why))?;
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_valid_and_comes_back() {
        let config = Config::default();
        for row in PARAMETERS {
            let value = row.value(&config);
            let (_, printed) = row.check(&value).expect(row.name);
            if row.name != "hz" {
                assert_eq!(printed, value, "{}", row.name);
            }
            assert!(
                row.only.is_empty() || row.only.iter().any(|only| only.as_bytes() == value),
                "{}",
                row.name
            );
            let has_field = matches!(row.place, Place::Field(..) | Place::Settled(_));
            assert!(row.set(&mut config.clone(), &value).is_ok(), "{}", row.name);
            assert!(
                !has_field || row.default.is_empty() || row.default.as_bytes() == value,
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn names_are_sorted_and_single() {
        let mut names: Vec<&str> = PARAMETERS.iter().map(|row| row.name).collect();
        assert!(names.is_sorted());
        names.extend(
            PARAMETERS
                .iter()
                .map(|row| row.alias)
                .filter(|name| !name.is_empty()),
        );
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (count, 199));
    }

    #[test]
    fn most_values_end_at_a_zero() {
        let set = |name: &[u8], value: &[u8]| Config::default().with(&[(name, value)]);
        let letters = |config: Config| config.notify_keyspace_events.letters();
        assert_eq!(
            letters(set(b"notify-keyspace-events", b"KE\0Z").unwrap()),
            "KE"
        );
        assert!(set(b"notify-keyspace-events", b"KEZ").is_err());
        assert_eq!(set(b"maxmemory", b"1mb\0x").unwrap().maxmemory, 1 << 20);
        assert!(set(b"hz", b"12\0").is_err());
    }

    #[test]
    fn a_change_is_whole_or_none() {
        let config = Config::default();
        let error = |changes: &[(&[u8], &[u8])]| match config.with(changes) {
            Ok(_) => String::new(),
            Err(error) => crate::resp::ErrorReply::from(error).text().to_owned(),
        };
        assert!(error(&[(b"timeout", b"x"), (b"nosuch", b"1")]).contains("Unknown option"));
        assert!(error(&[(b"timeout", b"1"), (b"TIMEOUT", b"2")]).contains("'TIMEOUT') - dup"));
        assert!(error(&[(b"tls-cluster", b"yes")]).contains("redouble knows only the value 'no'"));
        let next = config.with(&[(b"Timeout", b"7"), (b"slave-priority", b"3")]);
        let next = next.expect("valid");
        assert_eq!(next.timeout.as_secs(), 7);
        let found = next.matching(&[b"*priority"]);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|(_, value)| value == b"3"));
    }
}
