//! Changes of our scripts that make no difference: each with the reason why nobody can notice it. They are shown
//! as such and not counted. An entry that fits no mutant any more is an error, so the list cannot outlive the scripts.

use super::{Change, Mutant, Script};

/// A change that makes no difference.
#[derive(Debug, PartialEq, Eq)]
pub struct Equivalent {
    /// What the script says of itself, or a script that it is put around, or the beginning of that; empty for every
    /// script that has the line.
    pub title: &'static str,
    /// The changed line as it should be, without the blanks around it.
    pub line: &'static str,
    /// What was made of what.
    pub what: &'static str,
    /// Why nobody can tell.
    pub why: &'static str,
}

/// All that are known.
pub const EQUIVALENTS: &[Equivalent] = &[
    same(
        "",
        "if redis.replicate_commands then",
        "`true` for `redis.replicate_commands`",
        BY_EFFECTS,
    ),
    same(
        "",
        "if redis.replicate_commands then",
        "`false` for `redis.replicate_commands`",
        BY_EFFECTS,
    ),
    same(
        "",
        "redis.replicate_commands()",
        "without `redis.replicate_commands()`",
        BY_EFFECTS,
    ),
    same(
        "",
        "if reply == 1 and redis.call('PTTL', KEYS[#KEYS]) < tonumber(ARGV[2]) then",
        "`<=` for `<`",
        SAME_END,
    ),
    same(
        "",
        "if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then",
        "`<=` for `<`",
        SAME_END,
    ),
    same(
        "",
        "if redis.call('GET', KEYS[i]) ~= ARGV[1] or redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then",
        "`<=` for `<`",
        SAME_END,
    ),
    same(
        "",
        "elseif redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then",
        "`<=` for `<`",
        SAME_END,
    ),
    same(
        "Gives back a lock that is still ours, or lets",
        "if tonumber(ARGV[2]) > 0 then",
        "`>=` for `>`",
        ENDS_NOW,
    ),
    same(
        "Gives back a lock that is still ours, or lets",
        "if tonumber(ARGV[2]) > 0 then",
        "`true` for `tonumber(ARGV[2]) > 0`",
        ENDS_NOW,
    ),
    same(
        "",
        "local fence = math.max(tonumber(last or 0) + 1, time[1] * 1000000 + time[2])",
        "`1` for `0`",
        LONG_AGO,
    ),
    same("Takes permits", "return -1", "`2` for `1`", NEGATIVE),
    same(
        "",
        "local fence = math.max(tonumber(last or 0) + 1, time[1] * 1000000 + time[2])",
        "`2` for `1`",
        HIGHER,
    ),
    same(
        "",
        "local fence = math.max(tonumber(last or 0) + 1, time[1] * 1000000 + time[2])",
        "`1000001` for `1000000`",
        HIGHER,
    ),
    same(
        "",
        "if again and last then",
        "`false` for `again and last`",
        HIGHER,
    ),
    same(
        "",
        "return mint(4, tonumber(ARGV[5]), true)",
        "`false` for `true`",
        HIGHER,
    ),
    same(
        "",
        "return mint(5, tonumber(ARGV[6]), true)",
        "`false` for `true`",
        HIGHER,
    ),
    same(
        "Takes a lock that may already be ours, or a place",
        "dead = alive < now",
        "`<=` for `<`",
        MILLISECOND,
    ),
    same("", "local highest = 0", "`1` for `0`", LONG_AGO),
    same(
        "",
        "highest = math.max(highest, tonumber(redis.call('GET', KEYS[i]) or 0))",
        "`1` for `0`",
        LONG_AGO,
    ),
    same(
        "",
        "local fence = math.max(highest + 1, time[1] * 1000000 + time[2])",
        "`2` for `1`",
        HIGHER,
    ),
    same(
        "",
        "local fence = math.max(highest + 1, time[1] * 1000000 + time[2])",
        "`1000001` for `1000000`",
        HIGHER,
    ),
    same(
        "Takes all of several locks",
        "wait = (ttl < 0 or wait == -1) and -1 or math.max(wait or 0, ttl)",
        "`1` for `0`",
        SPREAD,
    ),
    same(
        "Gives back a lock that is still ours, or lets",
        "if held or waited and not holder then",
        "`true` for `held or waited and not holder`",
        ONE_MORE_LOOK,
    ),
    same(
        "Gives back a lock that is still ours, or lets",
        "if held or waited and not holder then",
        "`or` for `and`",
        ONE_MORE_LOOK,
    ),
    same("", "if tonumber(ARGV[2]) > 0 then", "`1` for `0`", A_MS),
    same(
        "",
        "if held and tonumber(ARGV[2]) > 0 then",
        "`1` for `0`",
        A_MS,
    ),
    same("", "elseif tonumber(ARGV[2]) > 0 then", "`1` for `0`", A_MS),
    same(
        "",
        "if redis.call('PTTL', KEYS[1]) < deadline - now then",
        "`<=` for `<`",
        SAME_END,
    ),
    same(
        "Takes a write lock",
        "if tonumber(ARGV[5]) > 0 and (not waits or waits == ARGV[1]) then",
        "`1` for `0`",
        "it is 0 or more than a second",
    ),
    same(
        "Gives back a write lock",
        "if held or not holder and (waited or called) then",
        "`true` for `held or not holder and (waited or called)`",
        IN_VAIN,
    ),
];

const A_MS: &str = "a lock that shall stay taken for one more millisecond: the clocks of client and server agree on no less";
const IN_VAIN: &str = "who waits is told once more, and asks in vain";
const BY_EFFECTS: &str = "since Redis 5 a script is replicated by its effects unless it asks for something else, \
                          and Redis 7 knows nothing else: the call changes nothing";
const SAME_END: &str = "what has just as long to live is given the end that it has";
const ENDS_NOW: &str = "PEXPIRE with 0 removes the key as DEL does";

const LONG_AGO: &str = "the other number is a time since 1970 and greater than both";

const NEGATIVE: &str = "whatever is negative says that the time is not known";
const HIGHER: &str = "the number is higher than it need be, and the next one is higher still: numbers that nobody is told of are \
                      passed over at any time";
const SPREAD: &str =
    "who is told a time asks up to five milliseconds after it, or it would meet all others";
const MILLISECOND: &str =
    "how long a request takes is not known to the millisecond, and nobody asks so late";
const ONE_MORE_LOOK: &str =
    "a message more than needed: who is told looks, and is refused as before";

const fn same(
    title: &'static str,
    line: &'static str,
    what: &'static str,
    why: &'static str,
) -> Equivalent {
    Equivalent {
        title,
        line,
        what,
        why,
    }
}

impl Equivalent {
    fn fits(&self, script: &Script, change: &Change) -> bool {
        let line = script.text.lines().nth(change.line - 1);
        script.says(self.title)
            && line.is_some_and(|line| line.trim() == self.line)
            && change.what == self.what
    }
}

/// Those that say together why a mutant makes no difference: one for each script that it is in. None if one is missing.
fn known(scripts: &[Script], mutant: &Mutant) -> Option<Vec<&'static Equivalent>> {
    let of = |(script, change): &(usize, Change)| {
        let script = scripts.get(*script)?;
        EQUIVALENTS.iter().find(|it| it.fits(script, change))
    };
    mutant.changes.iter().map(of).collect()
}

/// Why a mutant makes no difference, if that is known.
#[must_use]
pub fn reason(scripts: &[Script], mutant: &Mutant) -> Option<&'static str> {
    known(scripts, mutant)?.first().map(|it| it.why)
}

/// Those that excuse none of the mutants. If there are `all` scripts of ours; else only those whose script is there.
pub fn stale<'a>(
    scripts: &'a [Script],
    mutants: &'a [Mutant],
    all: bool,
) -> impl Iterator<Item = &'static Equivalent> + 'a {
    let excused = mutants.iter().filter_map(|it| known(scripts, it)).flatten();
    let used: Vec<&Equivalent> = excused.collect();
    EQUIVALENTS.iter().filter(move |known| {
        let is_there = |script: &Script| {
            let mut lines = script.text.lines();
            script.says(known.title) && lines.any(|it| it.trim() == known.line)
        };
        (all || scripts.iter().any(is_there)) && !used.contains(known)
    })
}
