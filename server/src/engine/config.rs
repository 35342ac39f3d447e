//! The parameters of CONFIG, and which of them can be changed while the server runs.

use super::glob::glob_match;
use crate::command::CommandError;
use crate::resp::parse_integer;
use std::time::Duration;

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// `databases`.
    pub databases: usize,
    /// `requirepass`; empty for none.
    pub requirepass: Vec<u8>,
    /// `proto-max-bulk-len`, bytes.
    pub proto_max_bulk_len: i64,
    /// `client-query-buffer-limit`, bytes.
    pub client_query_buffer_limit: i64,
    /// `busy-reply-threshold`, formerly `lua-time-limit`.
    pub busy_reply_threshold: Duration,
    /// `maxclients`.
    pub maxclients: usize,
    /// `port`, as CONFIG GET and INFO show it; 0 for a node without a socket.
    pub port: u16,
    /// All randomness of the node comes from here.
    pub seed: u64,
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
            proto_max_bulk_len: 512 * 1024 * 1024,
            client_query_buffer_limit: 1024 * 1024 * 1024,
            busy_reply_threshold: Duration::from_secs(5),
            maxclients: 10_000,
            port: 0,
            seed: 0,
            script_memory_bytes_max: 256 * 1024 * 1024,
            script_instructions_max: 20_000_000,
        }
    }
}

/// Parameters that clients read and that have one true value here.
const FIXED: &[(&str, &str)] = &[
    ("activedefrag", "no"),
    ("appendfsync", "everysec"),
    ("appendonly", "no"),
    ("bind", "127.0.0.1"),
    ("cluster-enabled", "no"),
    ("hash-max-listpack-entries", "128"),
    ("hash-max-listpack-value", "64"),
    ("hz", "10"),
    ("lazyfree-lazy-expire", "no"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("notify-keyspace-events", ""),
    ("save", ""),
    ("tcp-keepalive", "300"),
    ("timeout", "0"),
];

impl Config {
    fn changeable(&self) -> [(&'static str, String); 9] {
        let millis = self.busy_reply_threshold.as_millis().to_string();
        [
            ("busy-reply-threshold", millis.clone()),
            (
                "client-query-buffer-limit",
                self.client_query_buffer_limit.to_string(),
            ),
            ("databases", self.databases.to_string()),
            ("io-threads", "1".to_owned()),
            ("lua-time-limit", millis),
            ("maxclients", self.maxclients.to_string()),
            ("port", self.port.to_string()),
            ("proto-max-bulk-len", self.proto_max_bulk_len.to_string()),
            (
                "requirepass",
                String::from_utf8_lossy(&self.requirepass).into_owned(),
            ),
        ]
    }

    /// Parameters whose names match, sorted by name. One that is asked for by its name is called as
    /// it was asked for (`config.c: configGetCommand`).
    pub(crate) fn matching(&self, patterns: &[&[u8]]) -> Vec<(String, String)> {
        let is_pattern = |pattern: &[u8]| pattern.iter().any(|byte| b"[*?".contains(byte));
        let called = |name: &str| {
            patterns
                .iter()
                .find_map(|pattern| match is_pattern(pattern) {
                    true if glob_match(&pattern.to_ascii_lowercase(), name.as_bytes()) => {
                        Some(name.to_owned())
                    }
                    false if pattern.eq_ignore_ascii_case(name.as_bytes()) => {
                        Some(String::from_utf8_lossy(pattern).into_owned())
                    }
                    true | false => None,
                })
        };
        let fixed = FIXED
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let mut found: Vec<_> = self
            .changeable()
            .into_iter()
            .chain(fixed)
            .filter_map(|(name, value)| called(name).map(|called| (called, value)))
            .collect();
        found.sort();
        found
    }

    /// Sets one parameter, all or nothing being the caller's affair.
    pub(crate) fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), CommandError> {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let fail = |why: &str| {
            let text =
                format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
            Err(CommandError::Text(text.into()))
        };
        let number = |low: i64, high: i64| match parse_memory(value) {
            None => Err("argument must be a memory value".to_owned()),
            Some(number) if (low..=high).contains(&number) => Ok(number),
            Some(_) => Err(format!(
                "argument must be between {low} and {high} inclusive"
            )),
        };
        match &*name {
            "requirepass" => self.requirepass = value.to_vec(),
            "busy-reply-threshold" | "lua-time-limit" => match parse_integer(value) {
                Some(millis @ 0..) => {
                    self.busy_reply_threshold = Duration::from_millis(millis.unsigned_abs())
                }
                Some(_) => {
                    return fail("argument must be between 0 and 9223372036854775807 inclusive");
                }
                None => return fail("argument couldn't be parsed into an integer"),
            },
            "maxclients" => match parse_integer(value) {
                Some(count @ 1..=4_294_967_295) => {
                    self.maxclients = usize::try_from(count).unwrap_or(usize::MAX)
                }
                Some(_) => return fail("argument must be between 1 and 4294967295 inclusive"),
                None => return fail("argument couldn't be parsed into an integer"),
            },
            "proto-max-bulk-len" => match number(1024 * 1024, i64::MAX) {
                Ok(bytes) => self.proto_max_bulk_len = bytes,
                Err(why) => return fail(&why),
            },
            "client-query-buffer-limit" => match number(1024 * 1024, i64::MAX) {
                Ok(bytes) => self.client_query_buffer_limit = bytes,
                Err(why) => return fail(&why),
            },
            "databases" | "port" | "cluster-enabled" | "io-threads" | "bind" => {
                return fail("can't set immutable config");
            }
            known => match FIXED.iter().find(|(name, _)| *name == known) {
                Some((_, fixed)) if fixed.as_bytes() == value => {}
                Some((_, fixed)) => {
                    return fail(&format!("redouble knows only the value '{fixed}'"));
                }
                None => {
                    let text = format!(
                        "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                    );
                    return Err(CommandError::Text(text.into()));
                }
            },
        }
        Ok(())
    }
}

/// A number of bytes with an optional unit, as `util.c: memtoull`.
fn parse_memory(text: &[u8]) -> Option<i64> {
    let digits = text
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'-')
        .count();
    let unit = match &text[digits..].to_ascii_lowercase()[..] {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1024,
        b"m" => 1_000_000,
        b"mb" => 1024 * 1024,
        b"g" => 1_000_000_000,
        b"gb" => 1024 * 1024 * 1024,
        _ => return None,
    };
    parse_integer(&text[..digits])?.checked_mul(unit)
}
