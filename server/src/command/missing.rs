//! Commands of Redis 7.0 that are not implemented: they answer an error that says so, instead of
//! one that says they do not exist. Empty one day.

/// Whole commands.
#[rustfmt::skip]
pub(super) const COMMANDS: &[&str] = &[
    "acl", "append", "asking", "bgrewriteaof", "bgsave", "bitcount", "bitfield", "bitfield_ro", "bitop",
    "bitpos", "blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin", "cluster",
    "copy", "discard", "dump", "eval_ro", "evalsha_ro", "exec", "failover", "fcall", "fcall_ro", "function",
    "geoadd", "geodist", "geohash", "geopos", "georadius", "georadius_ro", "georadiusbymember",
    "georadiusbymember_ro", "geosearch", "geosearchstore", "getbit", "getrange", "hincrbyfloat", "hkeys",
    "hmset", "hrandfield", "hscan", "hsetnx", "hstrlen", "hvals", "lastsave", "latency", "lcs",
    "lindex", "linsert", "llen", "lmove", "lmpop", "lolwut", "lpop", "lpos", "lpush", "lpushx", "lrange",
    "lrem", "lset", "ltrim", "memory", "mget", "migrate", "module", "monitor", "move", "mset", "msetnx",
    "multi", "object", "pfadd", "pfcount", "pfdebug", "pfmerge", "pfselftest", "psubscribe", "psync",
    "publish", "pubsub", "punsubscribe", "randomkey", "readonly", "readwrite", "rename", "renamenx",
    "replconf", "replicaof", "restore", "restore-asking", "role", "rpop", "rpoplpush", "rpush", "rpushx",
    "sadd", "save", "scard", "sdiff", "sdiffstore", "setbit", "setrange", "sinter", "sintercard",
    "sinterstore", "sismember", "slaveof", "slowlog", "smembers", "smismember", "smove", "sort", "sort_ro",
    "spop", "spublish", "srandmember", "srem", "sscan", "ssubscribe", "subscribe", "substr", "sunion",
    "sunionstore", "sunsubscribe", "swapdb", "sync", "touch", "unsubscribe", "unwatch", "wait", "watch",
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
    ("client", &["caching", "getredir", "help", "info", "kill", "list", "no-evict", "pause", "reply", "tracking", "trackinginfo", "unblock", "unpause"]),
    ("command", &["docs", "getkeysandflags", "help"]),
    ("config", &["help", "resetstat", "rewrite"]),
    ("script", &["debug", "help"]),
];
