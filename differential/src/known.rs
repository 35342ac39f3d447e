//! Every deliberate difference between the double and Redis 7.0.15, with its reason, and what cannot be
//! compared byte for byte.

use std::fmt;

/// A deliberate difference.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Name in transcripts (`% known: name`).
    pub name: &'static str,
    /// The double's behaviour, and the reason.
    pub reason: &'static str,
    /// False if no transcript can show it.
    pub is_seen_in_a_transcript: bool,
}

/// All deliberate differences.
pub const KNOWN: &[Known] = &[
    Known {
        name: "own-words",
        reason: "summaries, complexities, histories and notes of COMMAND DOCS and COMMAND INFO are texts of Redis's authors; the \
                 double has its own, or none; MEMORY DOCTOR and LATENCY DOCTOR have texts of their own too",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "debug",
        reason: "DEBUG is allowed (`enable-debug-command` is yes), has the subcommands that tests need, and refuses others with an error that says so; HTSTATS omits the chains of \
                 hash tables, which the double does not have",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "help",
        reason: "HELP texts are Redis's own and long; the double lists its subcommands in its own words",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "no-file",
        reason: "a server without a folder (`--dir`) writes no file, and SAVE, BGSAVE and BGREWRITEAOF answer an error \
                 that says so",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "figures",
        reason: "addresses, ports and parameters of TLS are fixed when the server starts; CONFIG SET refuses another value and never ignores it",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "last-words",
        reason: "when a browser connects, Redis closes the connection and drops unwritten replies; the double writes them first",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "no-crash",
        reason: "a script's error({}) or error({err = nil}) is a null pointer in Redis 7.0.15, which crashes, and COMMAND GETKEYS \
                 with a number of keys that is too large for LMPOP, ZMPOP or ZINTER can crash it; the double answers an error",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "tail-call",
        reason: "a library function that is C in Redis and Lua here replaces the frame of a script's function in a tail \
                 call: an error message then lacks the line, and whether it was a method call",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "nil-name",
        reason: "for call(nil), where call is redis.call under another name, the double answers the error for a call \
                 without arguments, Redis the error for an argument of a wrong type; telling the two apart would \
                 slow every call down",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "line-limit",
        reason: "Redis refuses a line of more than 64 KiB only if it reads a part without the line's end, so it accepts \
                 some such lines; the double refuses all of them",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "frozen-time",
        reason: "TIME stands still within a script, as from Redis 7.2 on; in 7.0.15 it moves",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "stale-errno",
        reason: "SORT in Redis reads errno without clearing it first: after any command has parsed a number out of \
                 C's range, SORT refuses valid scores too, until another system call fails; the double's SORT \
                 checks only its own scores",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "nodes",
        reason: "DUMP, MEMORY USAGE and DEBUG OBJECT of a long list depend on its division into nodes; the double divides \
                 it as if it were filled from head to tail with the present list-max-listpack-size, Redis keeps the \
                 nodes that earlier commands made",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "whole-replies",
        reason: "a RESP3 connection that subscribes to its own keyspace events gets them in the middle of the reply to \
                 ZPOPMIN and similar commands, where no client can read them; the double sends the whole reply first, as Redis 7.2 does",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "cursor",
        reason: "the values of SCAN cursors, the points where an iteration pauses and the order of keys differ from \
                 Redis; the guarantee that SCAN returns every key is the same",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "order",
        reason: "KEYS, SCAN, large hashes, sets that are tables (also for a SORT that does not sort), sorted sets for a SORT \
                 whose weights are equal, channels and patterns, and the rows of FUNCTION LIST, ACL LIST, CONFIG GET with a \
                 pattern and COMMAND INFO have no order in Redis; the double has an order of its own, or sorts",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "random-count",
        reason: "HRANDFIELD, SRANDMEMBER and ZRANDMEMBER give no more than 4,194,304 random elements at once; Redis writes any \
                 number until the output limit of the client ends it",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "silent-end",
        reason: "Redis does not disconnect a client without replies (CLIENT REPLY OFF or SKIP) at QUIT or at a protocol error: it \
                 reads nothing more from it, and the connection stays open; the double disconnects it",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "script-memory",
        reason: "the memory of a script is limited, including the replies that it receives (256 MiB by default), so that a wrong script fails and does not take the machine's memory; Redis has no limit",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "expiry",
        reason: "the active expiry cycle removes each key one millisecond after its deadline; Redis looks at samples",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "background-save",
        reason: "BGSAVE and BGREWRITEAOF write their file before they answer, because a double has no other process",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "append-only",
        reason: "the server never appends commands to a file: BGREWRITEAOF writes all data at once, and the option `persistence` decides what a crash leaves",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "migrate",
        reason: "MIGRATE reaches only nodes of the same deployment, and moves the keys at one instant",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "eviction",
        reason: "eviction compares all keys up to 1,000, and beyond that a seeded sample of 100; of the memory of clients it counts requests and replies that wait",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "offsets",
        reason: "nodes of a deployment and disks receive states of keys and not commands, so replication offsets differ from Redis's byte counts until a replica outside of the deployment reads the stream of commands",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "tracking-limit",
        reason: "the limit of the tracking table applies after a command, transaction or script as a whole",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "delayed-messages",
        reason: "messages that a fault delays or holds follow the shared true time, because they are outside of the server; everything else follows the server's clock",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "no-modules",
        reason: "there are no modules: MODULE LOAD refuses every file",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "no-copy",
        reason: "no server copies data from a Redis outside of its deployment: REPLICAOF makes it a replica whose link to that server is down; a real Redis can be the replica of a master, and a replica of a deployment sends its data alone (`REPLCONF rdb-only`), without the stream of commands",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "no-election",
        reason: "a cluster promotes no replica by itself when a master is missing, so that a test decides when it happens: CLUSTER FAILOVER, REDOUBLE.NODE PROMOTE or `Deployment::promote` promote one",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "no-bus",
        reason: "nodes of a cluster have no cluster bus: deployments model the messages between nodes by their effects on clients",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "no-gossip",
        reason: "sentinels publish no messages to `__sentinel__:hello` and keep no INFO of the nodes (SENTINEL INFO-CACHE is empty); \
                 sentinels know each other and the replicas at once: SENTINEL RESET forgets nothing, the events of discovery (+slave, +sentinel, +slave-reconf-sent and the like) are missing, and SENTINEL MONITOR refuses a second master",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "no-links",
        reason: "nodes of a deployment replicate without connections: CLIENT LIST shows a replica outside of the deployment (flag S), \
                 and none within it",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "process",
        reason: "a double is a part of a process and has neither its processor time nor its buffers: in INFO `used_cpu_*` and \
                 `client_recent_max_*` are 0 and `executable` is empty, and CONFIG GET dir is empty without a folder (`--dir`)",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "mean-ttl",
        reason: "`avg_ttl` in INFO is the mean time to live of all keys with a deadline; Redis keeps a moving estimate from samples",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "live-socket",
        reason: "a server does not take the path of a Unix socket on which another server listens; Redis does",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "lua-depth",
        reason: "C calls, metamethods and blocks of a script nest one level less than the 200 of Redis, and a returned table fewer \
                 levels, after which the reply is Redis's error for an exhausted stack",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "no-script-debugger",
        reason: "there is no debugger of scripts: SCRIPT DEBUG YES and SYNC, and `redis-cli --ldb`, get an error that says so",
        is_seen_in_a_transcript: false,
    },
];

/// Fields of INFO that the double omits: they describe the memory of a process, its allocator and its machine, so a
/// value of the double would not be true of Redis.
pub const NOT_IN_INFO: &[&str] = &[
    "allocator_active",
    "allocator_allocated",
    "allocator_frag_bytes",
    "allocator_frag_ratio",
    "allocator_resident",
    "allocator_rss_bytes",
    "allocator_rss_ratio",
    "mem_fragmentation_bytes",
    "mem_fragmentation_ratio",
    "rss_overhead_bytes",
    "rss_overhead_ratio",
    "total_system_memory",
    "total_system_memory_human",
    "used_memory_rss",
    "used_memory_rss_human",
];

/// Ways to compare replies that differ in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Compares only the type: an error or not, and which type.
    Type,
    /// Compares only whether it is an error, empty, or a value of the same type.
    Kind,
    /// Members in any order.
    Unordered,
    /// Pairs of members in any order.
    Pairs,
    /// A DUMP: members of a table and libraries in any order, times of a stream within the difference of the
    /// clocks.
    Dump,
    /// A number that depends on a clock.
    Clock {
        /// Units per second.
        per_second: i64,
    },
    /// Compares all fields except these.
    Without(&'static [&'static str]),
    /// A cursor and members in any order; a cursor in the middle of an iteration hides both.
    Cursor {
        /// Number of elements per member.
        each: usize,
    },
    /// Several messages in any order, each with a running count.
    Messages,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type => f.write_str("only the type of the reply"),
            Self::Kind => f.write_str("only the type of the reply, and whether it is empty"),
            Self::Unordered => f.write_str("in any order"),
            Self::Dump => f.write_str(
                "members of a table and libraries in any order, times of a stream by the clocks",
            ),
            Self::Pairs => f.write_str("pairs in any order"),
            Self::Clock { .. } => f.write_str("as far apart as the clocks"),
            Self::Without(fields) => write!(f, "without {}", fields.join(", ")),
            Self::Cursor { .. } => f.write_str("in any order; only the type if it goes on"),
            Self::Messages => f.write_str("messages in any order"),
        }
    }
}

/// A command that is not compared byte for byte.
#[derive(Clone, Copy, Debug)]
pub struct Lenient {
    /// Name of the command, as in `config|get`.
    pub name: &'static str,
    /// The comparison.
    pub how: How,
    /// Reason.
    pub reason: &'static str,
}

/// A command or option that is left out.
#[derive(Clone, Copy, Debug)]
pub struct Excused {
    /// Name, as in `config|get`.
    pub name: &'static str,
    /// Reason.
    pub reason: &'static str,
}

const fn excused(name: &'static str, reason: &'static str) -> Excused {
    Excused { name, reason }
}

const fn row(name: &'static str, how: How, reason: &'static str) -> Lenient {
    Lenient { name, how, reason }
}

const SECONDS: How = How::Clock { per_second: 1 };
const MILLISECONDS: How = How::Clock { per_second: 1000 };
const ENDS: &str = "ends or occupies the server";
const STAYS: &str = "changes later sequences";
const OUTSIDE: &str = "accesses files or other servers";
const SELF: &str = "describes the process and its connections";
const CHANCE: &str = "chance decides";
const NO_CLUSTER: &str = "the servers are no cluster";
const OWN_WORDS: &str = "see `help`";

/// Commands that are not generated; transcripts test them as far as possible.
pub const NOT_SENT: &[Excused] = &[
    excused("shutdown", ENDS),
    excused("debug", ENDS),
    excused("monitor", ENDS),
    excused("sync", ENDS),
    excused("psync", ENDS),
    excused("client|pause", ENDS),
    excused("client|kill", "ends connections of other sequences"),
    excused("client|reply", "silence looks like waiting"),
    excused("script|debug", ENDS),
    excused("pfselftest", ENDS),
    excused("config|rewrite", OUTSIDE),
    excused("acl|setuser", STAYS),
    excused("acl|deluser", STAYS),
    excused("acl|load", OUTSIDE),
    excused("acl|save", OUTSIDE),
    excused("acl|log", STAYS),
    excused("save", OUTSIDE),
    excused("bgsave", OUTSIDE),
    excused("bgrewriteaof", OUTSIDE),
    excused("replicaof", OUTSIDE),
    excused("slaveof", OUTSIDE),
    excused("replconf", OUTSIDE),
    excused("failover", OUTSIDE),
    excused("migrate", OUTSIDE),
    excused("module|load", OUTSIDE),
    excused("module|loadex", OUTSIDE),
    excused("module|unload", OUTSIDE),
];

/// Commands with all of their options, and single options, that no generated request can have accepted. They
/// are sent all the same, under the names of [`super::Generator::tallies`].
pub const NEVER_ACCEPTED: &[Excused] = &[
    excused("script|kill", "no script runs for long enough"),
    excused("function|kill", "no script runs for long enough"),
    excused("function|restore", "FUNCTION DUMP gives no text"),
    excused("latency|graph", "nothing is slow"),
    excused("client|caching", "only after CLIENT TRACKING ON OPTIN"),
    excused(
        "client|tracking REDIRECT",
        "no connection knows another connection's id",
    ),
    excused("cluster|addslots", NO_CLUSTER),
    excused("cluster|addslotsrange", NO_CLUSTER),
    excused("cluster|bumpepoch", NO_CLUSTER),
    excused("cluster|count-failure-reports", NO_CLUSTER),
    excused("cluster|countkeysinslot", NO_CLUSTER),
    excused("cluster|delslots", NO_CLUSTER),
    excused("cluster|delslotsrange", NO_CLUSTER),
    excused("cluster|failover", NO_CLUSTER),
    excused("cluster|flushslots", NO_CLUSTER),
    excused("cluster|forget", NO_CLUSTER),
    excused("cluster|getkeysinslot", NO_CLUSTER),
    excused("cluster|help", NO_CLUSTER),
    excused("cluster|info", NO_CLUSTER),
    excused("cluster|keyslot", NO_CLUSTER),
    excused("cluster|links", NO_CLUSTER),
    excused("cluster|meet", NO_CLUSTER),
    excused("cluster|myid", NO_CLUSTER),
    excused("cluster|nodes", NO_CLUSTER),
    excused("cluster|replicas", NO_CLUSTER),
    excused("cluster|replicate", NO_CLUSTER),
    excused("cluster|reset", NO_CLUSTER),
    excused("cluster|saveconfig", NO_CLUSTER),
    excused("cluster|set-config-epoch", NO_CLUSTER),
    excused("cluster|setslot", NO_CLUSTER),
    excused("cluster|shards", NO_CLUSTER),
    excused("cluster|slaves", NO_CLUSTER),
    excused("cluster|slots", NO_CLUSTER),
    excused("asking", NO_CLUSTER),
    excused("readonly", NO_CLUSTER),
    excused("readwrite", NO_CLUSTER),
    excused("restore-asking", NO_CLUSTER),
];

/// Commands that are not compared byte for byte. Orders that the table itself calls undefined and present
/// times are not listed.
pub const LENIENT: &[Lenient] = &[
    row("acl|genpass", How::Kind, CHANCE),
    row("acl|cat", How::Unordered, "commands have no order"),
    row("acl|help", How::Kind, OWN_WORDS),
    row("client|help", How::Kind, OWN_WORDS),
    row("command|help", How::Kind, OWN_WORDS),
    row("config|help", How::Kind, OWN_WORDS),
    row("function|help", How::Kind, OWN_WORDS),
    row("function|dump", How::Dump, "libraries have no order"),
    row("latency|help", How::Kind, OWN_WORDS),
    row("memory|help", How::Kind, OWN_WORDS),
    row("module|help", How::Kind, OWN_WORDS),
    row("object|help", How::Kind, OWN_WORDS),
    row("pubsub|help", How::Kind, OWN_WORDS),
    row("slowlog|help", How::Kind, OWN_WORDS),
    row("script|help", How::Kind, OWN_WORDS),
    row("xgroup|help", How::Kind, OWN_WORDS),
    row("xinfo|help", How::Kind, OWN_WORDS),
    row(
        "lastsave",
        How::Kind,
        "the double's clock starts at another time",
    ),
    row("info", How::Kind, SELF),
    row("lolwut", How::Kind, CHANCE),
    row("memory|usage", How::Kind, SELF),
    row("memory|stats", How::Kind, SELF),
    row("memory|doctor", How::Kind, SELF),
    row("memory|malloc-stats", How::Kind, SELF),
    row("latency|doctor", How::Type, SELF),
    row("latency|histogram", How::Type, SELF),
    row("slowlog|get", How::Type, SELF),
    row("slowlog|len", How::Kind, SELF),
    row("client|id", How::Kind, SELF),
    row("client|info", How::Kind, SELF),
    row("client|list", How::Kind, SELF),
    row("hello", How::Without(&["id"]), SELF),
    row("time", How::Kind, "two clocks"),
    row("ttl", SECONDS, "two clocks"),
    row("pttl", MILLISECONDS, "two clocks"),
    row("expiretime", SECONDS, "two clocks"),
    row("pexpiretime", MILLISECONDS, "two clocks"),
    row("object|idletime", SECONDS, "two clocks"),
    row("xpending", MILLISECONDS, "two clocks"),
    row("xinfo|consumers", MILLISECONDS, "two clocks"),
    row(
        "xinfo|stream",
        How::Without(&["radix-tree-keys", "radix-tree-nodes"]),
        "implementation details of Redis's tree",
    ),
    row("randomkey", How::Kind, CHANCE),
    row("hrandfield", How::Kind, CHANCE),
    row("srandmember", How::Kind, CHANCE),
    row("zrandmember", How::Kind, CHANCE),
    row("spop", How::Unordered, CHANCE),
    row(
        "scan",
        How::Cursor { each: 1 },
        "a cursor is an implementation detail",
    ),
    row(
        "hscan",
        How::Cursor { each: 2 },
        "a cursor is an implementation detail",
    ),
    row(
        "sscan",
        How::Cursor { each: 1 },
        "a cursor is an implementation detail",
    ),
    row(
        "zscan",
        How::Cursor { each: 2 },
        "a cursor is an implementation detail",
    ),
    row("unsubscribe", How::Messages, "channels have no order"),
    row("sunsubscribe", How::Messages, "channels have no order"),
    row(
        "dump",
        How::Dump,
        "large sets and hashes have no order, streams store times",
    ),
    row("hgetall", How::Pairs, "hashes have no order"),
    row("config|get", How::Pairs, "parameters have no order"),
    row("pubsub|channels", How::Unordered, "channels have no order"),
    row(
        "pubsub|shardchannels",
        How::Unordered,
        "channels have no order",
    ),
    row("command", How::Kind, "commands have no order"),
    row("command|list", How::Unordered, "commands have no order"),
    row(
        "command|docs",
        How::Without(&["summary", "complexity", "history", "replaced_by"]),
        "see `own-words`",
    ),
    row("command|info", How::Without(&["notes"]), "see `own-words`"),
];

/// Returns true if no generated request can have this command or option accepted.
pub(super) fn is_never_accepted(name: &str) -> bool {
    let is_part = |of: &str| {
        name.strip_prefix(of)
            .is_some_and(|rest| rest.starts_with(' '))
    };
    NEVER_ACCEPTED
        .iter()
        .any(|it| it.name == name || is_part(it.name))
}

/// Returns how a command is compared, if not byte for byte.
pub(super) fn how(name: &str) -> Option<How> {
    let found = LENIENT.iter().find(|lenient| lenient.name == name);
    found.map(|lenient| lenient.how)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;
    use redouble_conformance::backend::redis_server;
    use std::collections::BTreeSet;

    #[test]
    fn every_lenient_command_exists_once() {
        let lenient = LENIENT.iter().map(|lenient| lenient.name);
        let listed = lenient.chain(NOT_SENT.iter().map(|it| it.name));
        let mut names: BTreeSet<&str> = listed.clone().collect();
        assert_eq!(names.len(), listed.count(), "a name twice");
        let never = NEVER_ACCEPTED.iter().map(|it| it.name);
        assert_eq!(
            never.clone().collect::<BTreeSet<_>>().len(),
            never.clone().count()
        );
        // Each name must be a command, or an option of one.
        names.extend(never.filter_map(|name| name.split(' ').next()));
        let Some(program) = redis_server::find().expect("a usable REDOUBLE_REDIS") else {
            // The double alone may lack commands that are listed for the day when it has them.
            return;
        };
        let real = Peer::real(&program).expect("the server starts");
        let known = real.table().names().chain(["command"]).collect();
        let stale: Vec<&&str> = names.difference(&known).collect();
        assert!(stale.is_empty(), "no commands of Redis: {stale:?}");
    }
}
