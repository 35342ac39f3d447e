//! Pools of values for generated arguments. They are small, so that requests meet on the same values. The
//! pool of an argument follows from its command, its name, or its type.

use super::table::{Argument, Kind, Row};

/// Source of an argument's values.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pool {
    /// Mostly a value of the first list, sometimes one of the second.
    Words(&'static [&'static str], &'static [&'static str]),
    /// Times to live, far in the future or past. Transcripts cover keys that expire meanwhile.
    Seconds,
    Milliseconds,
    /// Points in time, in the far future or long past.
    AtSeconds,
    AtMilliseconds,
    /// The name of a command of the table.
    CommandName,
    /// The name of a command with its arguments.
    Request,
    /// The name of a setting with a value.
    Setting,
    /// No values: they were drawn before.
    Nothing,
}

/// Values outside of all pools.
pub(super) const ODD: &[&str] = &[
    "",
    "a b",
    "\r\n",
    "\0\u{1}",
    "é",
    "nan",
    "-0",
    "01",
    "+1",
    " 1",
    "1 ",
    "1.0",
    "1e3",
    "0x10",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "a text that is longer than sixty-four bytes, which is where several encodings end",
];

const VALUES: Pool = Pool::Words(
    &["a", "b", "hello", "1", "10", "-1", "3.5", "0"],
    &[
        "",
        "a b",
        "\r\n",
        "\0\u{1}",
        "é",
        "9223372036854775807",
        "a text that is longer than sixty-four bytes, which is where several encodings end",
    ],
);
const FIELDS: Pool = Pool::Words(&["f1", "f2", "f3"], &["", "a b"]);
const MEMBERS: Pool = Pool::Words(
    &["a", "b", "c", "d", "1", "2", "3"],
    &["", "x y", "4.5", "é"],
);
const INTEGERS: Pool = Pool::Words(
    &["0", "1", "2", "3", "7", "-1", "-2", "100", "-100"],
    &[
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775806",
        "9223372036854775808",
        "-9223372036854775809",
        "01",
        "+1",
        "-0",
        " 1",
        "1 ",
        "",
        "1.0",
        "abc",
        "1e3",
        "0x10",
    ],
);
const SMALL: Pool = Pool::Words(
    &["0", "1", "2", "3", "-1", "-2", "-3"],
    &[
        "10",
        "-10",
        "9223372036854775807",
        "-9223372036854775808",
        "2147483648",
        "abc",
        "",
        "1.5",
    ],
);
const COUNTS: Pool = Pool::Words(
    &["1", "2", "3", "10"],
    &[
        "0",
        "-1",
        "abc",
        "",
        "9223372036854775807",
        "-9223372036854775808",
        "2147483648",
    ],
);
const NUMBERS: Pool = Pool::Words(
    &["0", "1", "-1", "0.1", "2.5", "3.0e3", "-0.3", "100"],
    &[
        "0.2",
        "1e17",
        "1e-17",
        "5e-18",
        "1e300",
        "1e4932",
        "-1e4932",
        "1e5000",
        "inf",
        "-inf",
        "nan",
        "0x10",
        "1.",
        ".5",
        "-0",
        "",
        "abc",
        " 1",
        "1 ",
        "9223372036854775807",
        "123456789.987654321",
    ],
);
const SCORE_BOUNDS: Pool = Pool::Words(
    &["-inf", "+inf", "1", "2", "(1", "(2", "0", "3"],
    &["inf", "(inf", "nan", "(", "abc", "", "-1.5", "( 1", "1e400"],
);
const LEX_BOUNDS: Pool = Pool::Words(
    &["-", "+", "[a", "(a", "[b", "(c", "[c"],
    &["a", "", "(", "["],
);
const PATTERNS: Pool = Pool::Words(
    &["*", "s*", "?1", "[hlz]1", "f*", "a"],
    &["s[^1]", "s[1-3]", "s\\1", "S1", "", "[", "*1*"],
);
const DATABASES: Pool = Pool::Words(
    &["0", "0", "0", "1", "15"],
    &["16", "-1", "abc", "9223372036854775807", "", "1.0"],
);
const STREAM_IDS: Pool = Pool::Words(
    &["1-1", "2-1", "3-0", "5-5", "9", "0"],
    &[
        "-",
        "+",
        "$",
        ">",
        "(1-1",
        "0-0",
        "4-*",
        "abc",
        "",
        "1-",
        "-1",
        "18446744073709551615-18446744073709551615",
    ],
);
const GROUPS: Pool = Pool::Words(&["g1", "g1", "g1", "g2"], &["", "nosuch"]);
const CONSUMERS: Pool = Pool::Words(&["c1", "c2"], &["", "nosuch"]);
const CHANNELS: Pool = Pool::Words(&["ch1", "ch2"], &["", "other"]);
const LONGITUDES: Pool = Pool::Words(
    &["13.361389", "15.087269", "2.349014", "0"],
    &["181", "-180.1", "abc", "nan"],
);
const LATITUDES: Pool = Pool::Words(
    &["38.115556", "37.502669", "48.864716", "0"],
    &["86", "-85.06", "abc", "inf"],
);
const LENGTHS: Pool = Pool::Words(&["100", "200", "500", "1000"], &["0", "-1", "abc", "1e6"]);
const PAUSES: Pool = Pool::Words(&["0", "0", "0", "1000"], &["-1", "abc", "", "1e400", "nan"]);

const CATEGORIES: Pool = Pool::Words(
    &["hash", "read", "fast", "dangerous"],
    &["nosuch", "@hash", ""],
);

/// Scripts whose replies do not depend on the server.
const SCRIPTS: Pool = Pool::Words(
    &[
        "return redis.call('GET', KEYS[1])",
        "return redis.pcall('GET', KEYS[1])",
        "return redis.call('SET', KEYS[1], ARGV[1], 'NX')",
        "return redis.call('INCRBY', KEYS[1], ARGV[1])",
        "return redis.pcall('HINCRBY', KEYS[1], 'f1', ARGV[1])",
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
        "return {KEYS, ARGV, #KEYS, #ARGV}",
        "return redis.call('HGETALL', KEYS[1])",
        "redis.setresp(3); return redis.call('HGETALL', KEYS[1])",
        "return redis.call('TYPE', KEYS[1])",
    ],
    &[
        "return {1, 2.9, -3.9, 'x', true, false, {1, {}}, nil, 4}",
        "return redis.call('PEXPIREAT', KEYS[1], 4000000000000 + tonumber(ARGV[1] or 0))",
        "return redis.call('TYPE', KEYS[1]).ok",
        "return tostring(tonumber(ARGV[1]))",
        "return tonumber(ARGV[1])",
        "return redis.error_reply(ARGV[1] or 'none')",
        "return redis.status_reply(ARGV[1] or 'none')",
        "return redis.sha1hex(ARGV[1] or '')",
        "error(ARGV[1])",
        "error({err = ARGV[1] or 'none'})",
        "return redis.call('NOSUCH', KEYS[1])",
        "return redis.pcall('SET', KEYS[1])",
        "return {err = ARGV[1]}",
        "return {ok = ARGV[1], err = nil}",
        "return {double = tonumber(ARGV[1])}",
        "local r = redis.pcall('INCR', KEYS[1]); return type(r) == 'table' and r.err or r",
        "redis.call('SET', KEYS[1], 12345678901234567890); return redis.call('GET', KEYS[1])",
        "redis.call('SET', KEYS[1], tonumber(ARGV[1] or 0) + 0.5); return redis.call('GET', KEYS[1])",
        "x = 1",
        "return nosuch",
        "return 1 +",
        "return 1",
    ],
);
/// Scripts that EVAL_RO accepts, and scripts that it refuses.
const READING_SCRIPTS: Pool = Pool::Words(
    &[
        "return redis.pcall('GET', KEYS[1])",
        "return {KEYS, ARGV, #KEYS, #ARGV}",
        "return redis.pcall('HGETALL', KEYS[1])",
        "redis.setresp(3); return redis.pcall('HGETALL', KEYS[1])",
        "return {1, 2.9, -3.9, 'x', true, false, {1, {}}, nil, 4}",
        "return redis.status_reply(ARGV[1] or 'none')",
        "return redis.sha1hex(ARGV[1] or '')",
    ],
    &[
        "return redis.call('SET', KEYS[1], ARGV[1], 'NX')",
        "return redis.call('GET', KEYS[1])",
        "return redis.error_reply(ARGV[1] or 'none')",
        "x = 1",
        "return 1 +",
    ],
);
/// Digests of `return 1`, in both cases, and others.
const DIGESTS: Pool = Pool::Words(
    &["e0e1f9fabfc9d4800c877a703b823ac0578ff8db"],
    &[
        "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB",
        "abc",
        "4e6d8fc8bb01276962cce5371fa795a7763657ae",
    ],
);

/// Times to live that are refused, or expire at once.
pub(super) const TTLS: &[&str] = &[
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775",
    "abc",
    "",
    "1.5",
    "1e3",
];
/// Points in time that are refused, or past.
pub(super) const TIMES: &[&str] = &[
    "0",
    "1",
    "-1",
    "1000",
    "9223372036854775807",
    "9223372036854775",
    "-9223372036854775808",
    "abc",
    "",
];

/// Settings with values; every sequence starts with the first value.
pub(super) const SETTINGS: &[(&str, &[&str])] = &[
    ("hash-max-listpack-entries", &["512", "2"]),
    ("hash-max-listpack-value", &["64", "3"]),
    ("list-max-listpack-size", &["-2", "2"]),
    ("set-max-intset-entries", &["512", "2"]),
    ("hll-sparse-max-bytes", &["3000", "25"]),
    ("zset-max-listpack-entries", &["128", "2"]),
    ("zset-max-listpack-value", &["64", "3"]),
    ("notify-keyspace-events", &["", "KEA", "Kg$l", "Exz", "q"]),
    ("maxmemory-policy", &["noeviction", "allkeys-lru", "nosuch"]),
    ("slowlog-max-len", &["128", "-1", "abc"]),
];

/// Pools by command (`*` for all) and name of the argument; the first match counts.
const HINTS: &[(&str, &str, Pool)] = &[
    ("xread", "milliseconds", PAUSES),
    ("xreadgroup", "milliseconds", PAUSES),
    (
        "xread",
        "id",
        Pool::Words(&["0", "1-1", "$", "2-0"], &["", "-", "abc", ">"]),
    ),
    (
        "xreadgroup",
        "id",
        Pool::Words(&[">", ">", "0", "1-1"], &["$", "", "-", "abc"]),
    ),
    ("wait", "numreplicas", Pool::Words(&["0"], &["-1", "abc"])),
    ("wait", "timeout", PAUSES),
    ("expireat", "unix-time-seconds", Pool::AtSeconds),
    ("psetex", "milliseconds", Pool::Milliseconds),
    ("*", "seconds", Pool::Seconds),
    ("*", "milliseconds", Pool::Milliseconds),
    ("*", "unix-time-seconds", Pool::AtSeconds),
    ("*", "unix-time-milliseconds", Pool::AtMilliseconds),
    ("*", "ttl", Pool::Milliseconds),
    ("select", "index", DATABASES),
    (
        "lset",
        "index",
        Pool::Words(&["0", "1", "-1", "-2"], &["100", "-100", "abc", ""]),
    ),
    // A key that stays in its database is an error.
    (
        "move",
        "db",
        Pool::Words(&["1", "15"], &["0", "16", "-1", "abc", "1.0"]),
    ),
    ("*", "db", DATABASES),
    ("*", "destination-db", DATABASES),
    ("*", "index1", DATABASES),
    ("*", "index2", DATABASES),
    (
        "scan",
        "cursor",
        Pool::Words(&["0"], &["abc", "-1", "99999999999999999999"]),
    ),
    (
        "*",
        "cursor",
        Pool::Words(&["0"], &["abc", "-1", "99999999999999999999"]),
    ),
    ("scan", "count", Pool::Words(&["1000"], &["0", "-1", "abc"])),
    (
        "scan",
        "type",
        Pool::Words(
            &["string", "hash", "list", "set", "zset", "stream"],
            &["nosuch", ""],
        ),
    ),
    // A smaller count would return random members.
    ("spop", "count", Pool::Words(&["100"], &["0", "-1", "abc"])),
    ("*", "count", COUNTS),
    (
        "lpos",
        "rank",
        Pool::Words(&["1", "2", "-1", "-2"], &["0", "abc", ""]),
    ),
    ("*", "rank", SMALL),
    ("*", "limit", COUNTS),
    ("*", "start", SMALL),
    ("*", "stop", SMALL),
    ("*", "end", SMALL),
    ("xrange", "start", STREAM_IDS),
    ("*", "min", LEX_BOUNDS),
    ("*", "max", LEX_BOUNDS),
    ("*", "timeout", PAUSES),
    ("*", "field", FIELDS),
    ("*", "value", VALUES),
    ("*", "member", MEMBERS),
    ("*", "member1", MEMBERS),
    ("*", "member2", MEMBERS),
    ("*", "element", MEMBERS),
    ("*", "pivot", MEMBERS),
    ("*", "score", NUMBERS),
    ("*", "increment", NUMBERS),
    ("*", "longitude", LONGITUDES),
    ("*", "latitude", LATITUDES),
    ("*", "radius", LENGTHS),
    ("*", "width", LENGTHS),
    ("*", "height", LENGTHS),
    // The last id is not below the ids of the stream and of the deleted entry.
    (
        "xsetid",
        "last-id",
        Pool::Words(&["5-5", "9", "9-1"], &["0", "0-0", "1-", "abc", ""]),
    ),
    (
        "xsetid",
        "max_deleted_entry_id",
        Pool::Words(&["0", "1-1", "2-1"], &["10", "-", "abc"]),
    ),
    ("*", "group", GROUPS),
    ("*", "groupname", GROUPS),
    ("*", "consumer", CONSUMERS),
    ("*", "consumername", CONSUMERS),
    ("*", "id", STREAM_IDS),
    ("*", "last-id", STREAM_IDS),
    ("*", "max_deleted_entry_id", STREAM_IDS),
    (
        "*",
        "threshold",
        Pool::Words(&["0", "1", "2"], &["2-1", "-1", "abc", ""]),
    ),
    (
        "*",
        "min-idle-time",
        Pool::Words(&["0", "0", "100000000"], &["-1", "abc"]),
    ),
    ("*", "ms", Pool::Words(&["0", "1000"], &["-1", "abc"])),
    ("*", "channel", CHANNELS),
    ("*", "shardchannel", CHANNELS),
    ("eval_ro", "script", READING_SCRIPTS),
    ("*", "script", SCRIPTS),
    ("*", "sha1", DIGESTS),
    (
        "*",
        "encoding",
        Pool::Words(
            &["u8", "i8", "u4", "i16", "u63", "i64"],
            &["u64", "u0", "i65", "x8", ""],
        ),
    ),
    (
        "bitfield",
        "offset",
        Pool::Words(&["0", "8", "#1", "100"], &["-1", "abc", "#", "4294967296"]),
    ),
    (
        "bitfield_ro",
        "offset",
        Pool::Words(&["0", "8", "#1", "100"], &["-1", "abc", "#", "4294967296"]),
    ),
    // The command makes a string of that many bytes: at most some thousands.
    (
        "setrange",
        "offset",
        Pool::Words(
            &["0", "1", "3", "10"],
            &["-1", "abc", "9223372036854775807", "536870912"],
        ),
    ),
    (
        "setbit",
        "offset",
        Pool::Words(&["0", "1", "7", "100"], &["-1", "abc", "4294967296"]),
    ),
    (
        "getbit",
        "offset",
        Pool::Words(&["0", "1", "7", "100"], &["-1", "abc", "4294967296"]),
    ),
    (
        "setbit",
        "value",
        Pool::Words(&["0", "1"], &["2", "-1", "abc", ""]),
    ),
    (
        "bitop",
        "operation",
        Pool::Words(&["AND", "OR", "XOR", "NOT", "not"], &["", "NAND"]),
    ),
    (
        "*",
        "bit",
        Pool::Words(&["0", "1"], &["2", "-1", "abc", ""]),
    ),
    (
        "config|get",
        "parameter",
        Pool::Words(
            &["maxmemory-policy", "appendonly", "nosuch*"],
            &["", "MAXMEMORY-POLICY"],
        ),
    ),
    ("config|set", "parameter", Pool::Setting),
    ("config|set", "value", Pool::Nothing),
    ("acl|dryrun", "command", Pool::Request),
    ("acl|dryrun", "arg", Pool::Nothing),
    ("*", "command-name", Pool::CommandName),
    ("*", "category", CATEGORIES),
    ("*", "categoryname", CATEGORIES),
    ("*", "username", Pool::Words(&["default"], &["nosuch", ""])),
    ("*", "password", Pool::Words(&["secret"], &[""])),
    (
        "*",
        "protover",
        Pool::Words(&["2", "3"], &["1", "4", "abc", ""]),
    ),
    ("*", "clientname", Pool::Words(&["me"], &["a b", "", "\n"])),
    (
        "*",
        "connection-name",
        Pool::Words(&["me", "you"], &["a b", "", "\n"]),
    ),
    (
        "*",
        "client-id",
        Pool::Words(&["0", "99999999"], &["-1", "abc"]),
    ),
    ("*", "message", VALUES),
    (
        "*",
        "section",
        Pool::Words(&["server", "keyspace"], &["nosuch"]),
    ),
    (
        "pfdebug",
        "subcommand",
        Pool::Words(&["ENCODING", "DECODE", "TODENSE"], &["nosuch"]),
    ),
    ("*", "function", Pool::Words(&["f"], &["nosuch", ""])),
    ("*", "library-name", Pool::Words(&["lib"], &["nosuch", ""])),
    (
        "*",
        "function-code",
        Pool::Words(
            &[
                "#!lua name=lib\nredis.register_function('f', function() return 1 end)",
                "#!lua name=other\nredis.register_function('g', function() return 1 end)",
            ],
            &["#!lua name=lib\n", "#!lua", "return 1", ""],
        ),
    ),
    // A DUMP of a string, all of it ASCII by chance.
    (
        "*",
        "serialized-value",
        Pool::Words(
            &["\0\u{4}vatb\n\0\u{5}\u{3}#\u{1b}bJh("],
            &["", "abc", "\0\u{4}vatc\n\0\u{5}\u{3}#\u{1b}bJh("],
        ),
    ),
    (
        "psubscribe",
        "pattern",
        Pool::Words(&["ch*", "__key*__:*", "*"], &["", "s[^1]"]),
    ),
    (
        "sort",
        "pattern",
        Pool::Words(
            &["#", "s*", "h*->f1", "nosort"],
            &["*", "", "h*->", "*->f1"],
        ),
    ),
    (
        "sort_ro",
        "pattern",
        Pool::Words(
            &["#", "s*", "h*->f1", "nosort"],
            &["*", "", "h*->", "*->f1"],
        ),
    ),
    ("*", "pattern", PATTERNS),
];

/// Optional arguments that are always given.
const GIVEN: &[(&str, &str)] = &[
    // Without names the command describes every command, with a smaller count random ones.
    ("command|docs", "command-name"),
    ("command|info", "command-name"),
    ("scan", "count"),
    ("spop", "count"),
    // Without a password there is only a user to log in.
    ("auth", "username"),
];

/// Arguments that COMMAND DOCS does not list.
const UNDOCUMENTED: &[(&str, Pool)] = &[
    ("command|getkeys", Pool::Request),
    ("command|getkeysandflags", Pool::Request),
];

/// Requests that give each group data to work on.
pub(super) const SETUP: &[(&str, &str)] = &[
    ("string", "SET s1 hello"),
    ("string", "SET s2 10"),
    ("string", "SET s3 3.5"),
    ("bitmap", "SET s1 foobar"),
    ("hash", "HSET h1 f1 1 f2 b f3 2.5"),
    ("hash", "HSET h2 f1 x"),
    ("list", "RPUSH l1 a b c 1 a"),
    ("list", "RPUSH l2 3 1 2"),
    ("set", "SADD t1 a b c"),
    ("set", "SADD t2 1 2 3"),
    ("set", "SADD t3 b c d"),
    ("sorted-set", "ZADD z1 1 a 2 b 3 c"),
    ("sorted-set", "ZADD z2 0 a 0 b 0 c 0 d"),
    ("sorted-set", "ZADD z3 -1.5 a inf b"),
    (
        "geo",
        "GEOADD g1 13.361389 38.115556 a 15.087269 37.502669 b",
    ),
    ("hyperloglog", "PFADD p1 a b c"),
    ("hyperloglog", "PFADD p2 c d"),
    ("stream", "XADD x1 1-1 f1 a"),
    ("stream", "XADD x1 2-1 f1 b f2 c"),
    ("stream", "XGROUP CREATE x1 g1 0 MKSTREAM"),
    ("stream", "XGROUP CREATE x2 g1 0 MKSTREAM"),
    ("stream", "XREADGROUP GROUP g1 c1 COUNT 1 STREAMS x1 >"),
    ("generic", "SET s1 1 EX 1000000"),
    ("generic", "HSET h1 f1 v"),
    ("transactions", "WATCH s1"),
    // A script for EVALSHA.
    ("scripting", "EVAL \"return 1\" 0"),
    (
        "scripting",
        "FUNCTION LOAD \"#!lua name=lib\\nredis.register_function{function_name='f', flags={'no-writes'}, \
         callback=function(keys, args) return {keys, args} end}\"",
    ),
];

/// Keys that commands of each group mostly use.
const KEYS: &[(&str, &[&str])] = &[
    ("string", &["s1", "s2", "s3"]),
    ("bitmap", &["s1", "s2", "s3"]),
    ("hash", &["h1", "h2", "h3"]),
    ("list", &["l1", "l2", "l3"]),
    ("set", &["t1", "t2", "t3"]),
    ("sorted-set", &["z1", "z2", "z3"]),
    ("geo", &["g1", "g2"]),
    ("hyperloglog", &["p1", "p2"]),
    ("stream", &["x1", "x2"]),
    ("transactions", &["s1", "s2", "h1"]),
];
/// Keys that the other commands use.
pub(super) const ANY_KEYS: &[&str] = &[
    "s1", "s2", "h1", "l1", "l2", "t1", "t2", "z1", "z2", "g1", "p1", "x1", "none", "",
];

/// Returns the keys for commands of a group.
pub(super) fn keys_of(group: &str) -> &'static [&'static str] {
    let own = KEYS.iter().find(|(of, _)| *of == group);
    own.map_or(ANY_KEYS, |(_, keys)| keys)
}

/// Returns true if an optional argument is always given.
pub(super) fn is_given(row: &Row, argument: &Argument) -> bool {
    GIVEN.contains(&(&row.name, &argument.name))
}

/// Returns true if a row always has an optional argument.
pub(super) fn is_whole(row: &Row) -> bool {
    GIVEN.iter().any(|(command, _)| *command == row.name)
}

/// Returns the undocumented arguments of a row.
pub(super) fn undocumented(row: &Row) -> Option<Pool> {
    let found = UNDOCUMENTED.iter().find(|(name, _)| *name == row.name);
    found.map(|(_, pool)| *pool)
}

/// Returns the pool of an argument.
pub(super) fn pool(row: &Row, argument: &Argument) -> Pool {
    let fits = |command: &str, name: &str| {
        (command == row.name || command == "*") && name == argument.name
    };
    let hints = || {
        HINTS
            .iter()
            .filter(|(command, name, _)| fits(command, name))
    };
    let own = hints().find(|(command, ..)| *command != "*");
    if let Some((_, _, pool)) = own.or_else(|| hints().next()) {
        return adapted(row, argument, *pool);
    }
    match argument.kind {
        Kind::Integer => INTEGERS,
        Kind::Double => NUMBERS,
        Kind::UnixTime => Pool::AtMilliseconds,
        Kind::Key | Kind::Text | Kind::PureToken | Kind::OneOf | Kind::Block => VALUES,
    }
}

/// Adapts a pool: `start`, `min`, `increment` and similar names have different meanings for different types.
fn adapted(row: &Row, argument: &Argument, pool: Pool) -> Pool {
    let is_text = argument.kind == Kind::Text;
    match &*argument.name {
        "start" | "end" if row.group == "stream" => STREAM_IDS,
        "start" | "stop" if is_text => Pool::Words(
            &[
                "0", "-1", "1", "2", "-inf", "+inf", "(1", "-", "+", "[a", "(c",
            ],
            &["abc", "", "nan"],
        ),
        "min" | "max" if argument.kind == Kind::Double => SCORE_BOUNDS,
        "min" | "max" if row.name == "zrangestore" => Pool::Words(
            &["0", "-1", "1", "-inf", "(1", "-", "+", "[a", "(c"],
            &["abc", "", "nan"],
        ),
        "increment" if argument.kind == Kind::Integer => INTEGERS,
        "member" if row.group == "geo" => Pool::Words(&["a", "b", "c"], &["nosuch", ""]),
        _ => pool,
    }
}

#[cfg(test)]
pub(super) fn hints() -> impl Iterator<Item = (&'static str, &'static str)> {
    let hints = HINTS.iter().map(|(command, name, _)| (*command, *name));
    hints.chain(GIVEN.iter().copied())
}
