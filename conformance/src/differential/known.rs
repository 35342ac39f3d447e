//! Every deliberate difference between the double and Redis 7.0.15, with its reason.

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
        name: "filters",
        reason: "COMMAND LIST FILTERBY says that it is not implemented",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "debug",
        reason: "DEBUG has the few subcommands that tests need, and says so of the others",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "help",
        reason: "HELP texts are Redis's own and long; the double says that it has none",
        is_seen_in_a_transcript: true,
    },
    Known {
        name: "figures",
        reason: "settings that change nothing on the double have one value; another one is refused, never ignored",
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
        name: "compile-error-bytes",
        reason: "a compile error that repeats half a character has U+FFFD in its place, as the Lua binding gives it",
        is_seen_in_a_transcript: false,
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
        name: "cursor",
        reason: "a SCAN cursor is a position of the double's own: where an iteration pauses, and the order of \
                 what it finds, are not Redis's; that it finds every key is",
        is_seen_in_a_transcript: false,
    },
    Known {
        name: "order",
        reason: "KEYS, SCAN and big hashes have no order in Redis; the double has the one of insertion",
        is_seen_in_a_transcript: false,
    },
];
