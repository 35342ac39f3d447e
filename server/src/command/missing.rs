//! Commands of Redis 7.0 that are not implemented: they answer an error that says so, instead of
//! one that says they do not exist. Empty one day.

/// Whole commands.
#[rustfmt::skip]
pub(super) const COMMANDS: &[&str] = &[
    "bgrewriteaof", "bgsave", 
    
    "fcall", "fcall_ro", "function",
    "geoadd", "geodist", "geohash", "geopos", "georadius", "georadius_ro", "georadiusbymember",
    "georadiusbymember_ro", "geosearch", "geosearchstore", 
    "psync",
    "replconf",
    "save", "sync",
];

/// Subcommands of commands that are implemented.
#[rustfmt::skip]
pub(super) const SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("acl", &["cat", "deluser", "dryrun", "genpass", "getuser", "help", "list", "load", "log", "save", "setuser", "users"]),
    ("client", &["help"]),
    ("command", &["help"]),
    ("config", &["help"]),
    ("latency", &["doctor", "graph", "help"]),
    ("memory", &["doctor", "help"]),
    ("module", &["help", "load", "loadex", "unload"]),
    ("object", &["help"]),
    ("pubsub", &["help"]),
    ("slowlog", &["help"]),
    ("script", &["help"]),
    ("xgroup", &["help"]),
    ("xinfo", &["help"]),
    ("sentinel", &[
        "config", "debug", "flushconfig", "help", "info-cache", "monitor", "pending-scripts", "remove", "set",
        "simulate-failure",
    ]),
];
