//! Commands of Redis 7.0 that are not implemented: they answer an error that says so, instead of
//! one that says they do not exist. Empty one day.

/// Whole commands.
#[rustfmt::skip]
pub(super) const COMMANDS: &[&str] = &[
    "acl", "asking", "bgrewriteaof", "bgsave", "bitcount", "bitfield", "bitfield_ro", "bitop",
    "bitpos", "bzmpop", "bzpopmax", "bzpopmin", "cluster",
    "eval_ro", "evalsha_ro", "failover", "fcall", "fcall_ro", "function",
    "geoadd", "geodist", "geohash", "geopos", "georadius", "georadius_ro", "georadiusbymember",
    "georadiusbymember_ro", "geosearch", "geosearchstore", "getbit",
    "lastsave", "latency",
    "lolwut",
    "memory", "migrate", "module",
    "pfadd", "pfcount", "pfdebug", "pfmerge", "pfselftest", "psync",
    "readonly", "readwrite",
    "replconf", "replicaof", "restore-asking", "role",
    "sadd", "save", "scard", "sdiff", "sdiffstore", "setbit", "sinter", "sintercard",
    "sinterstore", "sismember", "slaveof", "slowlog", "smembers", "smismember", "smove",
    "spop", "srandmember", "srem", "sscan", "sunion",
    "sunionstore", "sync", "wait",
    "xack", "xadd", "xautoclaim", "xclaim", "xdel", "xgroup", "xinfo", "xlen", "xpending", "xrange", "xread",
    "xreadgroup", "xrevrange", "xsetid", "xtrim", "zadd", "zcard", "zcount", "zdiff", "zdiffstore", "zincrby",
    "zinter", "zintercard", "zinterstore", "zlexcount", "zmpop", "zmscore", "zpopmax", "zpopmin",
    "zrandmember", "zrange", "zrangebylex", "zrangebyscore", "zrangestore", "zrank", "zrem", "zremrangebylex",
    "zremrangebyrank", "zremrangebyscore", "zrevrange", "zrevrangebylex", "zrevrangebyscore", "zrevrank",
    "zscan", "zscore", "zunion", "zunionstore",
];

/// Subcommands of commands that are implemented.
#[rustfmt::skip]
pub(super) const SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("client", &["caching", "getredir", "help", "info", "kill", "list", "tracking", "trackinginfo"]),
    ("command", &["help"]),
    ("config", &["help", "resetstat", "rewrite"]),
    ("pubsub", &["help"]),
    ("script", &["debug", "help"]),
];
