//! Every deliberate difference between the double and Redis 7.0.15, with its reason, and what cannot be
//! compared byte for byte.

use std::fmt;

/// A difference that is meant.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// How transcripts refer to it (`% known: name`).
    pub name: &'static str,
    /// What the double does instead, and why.
    pub reason: &'static str,
    /// False for one that no transcript can show.
    pub is_seen_in_a_transcript: bool,
}

/// All of them.
pub const KNOWN: &[Known] = &[
    Known {
        name: "fewer-commands",
        reason: "COMMAND, COMMAND COUNT and COMMAND LIST tell of the commands that are implemented, no more",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "own-words",
        reason: "summaries, histories and notes of COMMAND DOCS and COMMAND INFO are texts of Redis's authors; the \
                 double has its own, or none",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "debug",
        reason: "DEBUG has the subcommands that tests need, and says so of the others; HTSTATS tells nothing of the chains of \
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
        reason: "a server that was started without a folder (`--dir`) writes no file, and SAVE, BGSAVE and BGREWRITEAOF \
                 say so",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "figures",
        reason: "parameters of TLS are settled when the server starts; CONFIG SET of another value is refused, never ignored",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "last-words",
        reason: "Redis drops what it has not yet written to a browser that it shows out; the double writes it first",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "no-crash",
        reason: "a script's error({}) or error({err = nil}) is a null pointer in Redis 7.0.15, which dies of it; \
                 the double answers an error",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "tail-call",
        reason: "a library function that is Lua here and C in Redis takes the place of a script's function that \
                 calls it last: whether it was called as a method, and in which line, is then lost",
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
        reason: "Redis notices a line of more than 64 KiB when it reads a piece without its end, so some such \
                 lines pass; the double refuses them all",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "frozen-time",
        reason: "TIME stands still within a script, as from Redis 7.2 on; 7.0.15 lets it move",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "stale-errno",
        reason: "SORT in Redis looks at errno without having cleared it: once any command has read a number out of \
                 C's range, it refuses good scores too, until another call of the system fails; the double's SORT \
                 looks at its own scores",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "nodes",
        reason: "how the elements of a long list are spread over nodes, which DUMP, MEMORY USAGE and DEBUG OBJECT show, \
                 is that of one filled from its head to its tail with list-max-listpack-size as it is now; Redis \
                 keeps the nodes that came about",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "whole-replies",
        reason: "a connection that listens to its own events in RESP3 gets them in the middle of the reply to ZPOPMIN and \
                 its like, where no client can read them; the double sends the whole reply first, as Redis 7.2 does",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "cursor",
        reason: "a SCAN cursor is a position of the double's own: where an iteration pauses, and the order of \
                 what it finds, are not Redis's; that it finds every key is",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "order",
        reason: "KEYS, SCAN, big hashes, sets that are tables (also for a SORT that does not sort), sorted sets for a SORT \
                 whose weights are equal, channels and patterns have no order in Redis; the double has an order of its \
                 own, or sorts",
        is_seen_in_a_transcript: false,
    },
];

/// Fields of INFO that the double leaves out: they tell of a process's memory, its allocator and its machine, and what
/// the double could say would not be true of Redis.
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

/// How the replies to a command are compared where bytes cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Only that it is an error or none, and of which type.
    Type,
    /// Only whether it is an error, nothing, or something of the same kind.
    Kind,
    /// Members in any order.
    Unordered,
    /// Pairs of members in any order.
    Pairs,
    /// What DUMP gives: the members of a table and libraries in any order, the times of a stream as far apart as the clocks.
    Dump,
    /// A number that a clock moves.
    Clock {
        /// How many of it make a second.
        per_second: i64,
    },
    /// All fields but these.
    Without(&'static [&'static str]),
    /// A cursor and what was found in any order; a cursor that goes on hides both.
    Cursor {
        /// How many members make one of those that were found.
        each: usize,
    },
    /// Several messages in any order, each with a number that counts them.
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

/// A command that is compared in another way.
#[derive(Clone, Copy, Debug)]
pub struct Lenient {
    /// Its name, as in `config|get`.
    pub name: &'static str,
    /// How it is compared.
    pub how: How,
    /// Why.
    pub reason: &'static str,
}

/// A command, or an option of one, that is left out.
#[derive(Clone, Copy, Debug)]
pub struct Excused {
    /// Its name, as in `config|get`.
    pub name: &'static str,
    /// Why.
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
const STAYS: &str = "changes what the next sequences meet";
const OUTSIDE: &str = "reaches for files or other servers";
const SELF: &str = "tells of the process and its connections";
const CHANCE: &str = "chance decides";
const NO_CLUSTER: &str = "the servers are no cluster";
const OWN_WORDS: &str = "see `help`";

/// Commands that are not generated; transcripts show what can be shown of them.
pub const NOT_SENT: &[Excused] = &[
    excused("shutdown", ENDS),
    excused("debug", ENDS),
    excused("monitor", ENDS),
    excused("sync", ENDS),
    excused("psync", ENDS),
    excused("client|pause", ENDS),
    excused(
        "client|kill",
        "ends connections that are not the sequence's",
    ),
    excused("client|reply", "silence cannot be told from waiting"),
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

/// Commands, with their options, and single options that no generated request can have accepted. They are sent all the
/// same. [`super::Generator::tallies`] gives them these names.
pub const NEVER_ACCEPTED: &[Excused] = &[
    excused("script|kill", "no script runs for long enough"),
    excused("function|kill", "no script runs for long enough"),
    excused("function|restore", "FUNCTION DUMP gives no text"),
    excused("latency|graph", "nothing is slow"),
    excused("client|caching", "only after CLIENT TRACKING ON OPTIN"),
    excused(
        "client|tracking REDIRECT",
        "no connection knows the id of another",
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

/// All that are not compared byte for byte. Order that the table itself calls undefined is not listed,
/// nor are times of the present, wherever they stand.
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
        "the double starts at an hour of its own",
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
        "inner matters of Redis's tree",
    ),
    row("randomkey", How::Kind, CHANCE),
    row("hrandfield", How::Kind, CHANCE),
    row("srandmember", How::Kind, CHANCE),
    row("zrandmember", How::Kind, CHANCE),
    row("spop", How::Unordered, CHANCE),
    row(
        "scan",
        How::Cursor { each: 1 },
        "a cursor is an inner matter",
    ),
    row(
        "hscan",
        How::Cursor { each: 2 },
        "a cursor is an inner matter",
    ),
    row(
        "sscan",
        How::Cursor { each: 1 },
        "a cursor is an inner matter",
    ),
    row(
        "zscan",
        How::Cursor { each: 2 },
        "a cursor is an inner matter",
    ),
    row("unsubscribe", How::Messages, "channels have no order"),
    row("sunsubscribe", How::Messages, "channels have no order"),
    row(
        "dump",
        How::Dump,
        "big sets and hashes have no order, streams note times",
    ),
    row("hgetall", How::Pairs, "hashes have no order"),
    row("config|get", How::Pairs, "parameters have no order"),
    row("pubsub|channels", How::Unordered, "channels have no order"),
    row(
        "pubsub|shardchannels",
        How::Unordered,
        "channels have no order",
    ),
    row("command", How::Kind, "see `fewer-commands`"),
    row("command|count", How::Kind, "see `fewer-commands`"),
    row("command|list", How::Kind, "see `fewer-commands`"),
    row(
        "command|docs",
        How::Without(&["summary", "complexity", "history", "replaced_by"]),
        "see `own-words`",
    ),
    row("command|info", How::Without(&["notes"]), "see `own-words`"),
];

/// True if no generated request can have this command or option accepted.
pub(super) fn is_never_accepted(name: &str) -> bool {
    let is_part = |of: &str| {
        name.strip_prefix(of)
            .is_some_and(|rest| rest.starts_with(' '))
    };
    NEVER_ACCEPTED
        .iter()
        .any(|it| it.name == name || is_part(it.name))
}

/// How a command is compared, if not byte for byte.
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
        // No beginning of several names: each is a command, or an option of one.
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
