//! Changes of our scripts that make no difference: each with the reason why nobody can notice it. They are shown
//! as such and not counted. An entry that fits no mutant any more is an error, so the list cannot outlive the scripts.

use super::{Mutant, Script};

/// A change that makes no difference.
#[derive(Debug, PartialEq, Eq)]
pub struct Equivalent {
    /// What the script says of itself, or the beginning of that; empty for every script that has the line.
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
        "if ttl < tonumber(ARGV[2]) then",
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
        "if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then",
        "`<=` for `<`",
        SAME_END,
    ),
    same(
        "",
        "if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[3]) then",
        "`<=` for `<`",
        SAME_END,
    ),
    same(
        "",
        "elseif redis.call('PTTL', key) < tonumber(ARGV[2]) then",
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
        "Takes a lock that may already be ours, because",
        "if granted then",
        "`false` for `granted`",
        FOUND,
    ),
    same(
        "",
        "last = math.max(last or 0, deadline)",
        "`1` for `0`",
        LONG_AGO,
    ),
    same(
        "",
        "stay(math.max(mine or 0, now + tonumber(ARGV[2])))",
        "`1` for `0`",
        LONG_AGO,
    ),
    same(
        "",
        "stay(now, math.max(mine or 0, now + tonumber(ARGV[2])), ARGV[4])",
        "`1` for `0`",
        LONG_AGO,
    ),
    same(
        "",
        "local fence = math.max(tonumber(last or 0) + 1, time[1] * 1000000 + time[2])",
        "`1` for `0`",
        LONG_AGO,
    ),
    same(
        "Gives back permits",
        "local mine, others, sum = nil, {}, 0",
        "`1` for `0`",
        UNASKED,
    ),
    same(
        "Gives back permits",
        "sum = sum + weight",
        "`-` for `+`",
        UNASKED,
    ),
    same(
        "Gives back permits",
        "others[#others + 1] = {deadline, weight}",
        "`-` for `+`",
        UNASKED,
    ),
    same(
        "Gives back permits",
        "others[#others + 1] = {deadline, weight}",
        "`2` for `1`",
        UNASKED,
    ),
    same(
        "Extends permits",
        "local mine, others, sum = nil, {}, 0",
        "`1` for `0`",
        UNASKED,
    ),
    same(
        "Extends permits",
        "sum = sum + weight",
        "`-` for `+`",
        UNASKED,
    ),
    same(
        "Extends permits",
        "others[#others + 1] = {deadline, weight}",
        "`-` for `+`",
        UNASKED,
    ),
    same(
        "Extends permits",
        "others[#others + 1] = {deadline, weight}",
        "`2` for `1`",
        UNASKED,
    ),
    same("Takes permits", "return -1", "`2` for `1`", NEGATIVE),
    same(
        "Takes all of several locks",
        "return -1",
        "`2` for `1`",
        NEGATIVE,
    ),
    same(
        "",
        "redis.call('LREM', KEYS[2], 0, token)",
        "`1` for `0`",
        ONCE,
    ),
    same(
        "",
        "redis.call('LREM', KEYS[2], 0, ARGV[1])",
        "`1` for `0`",
        ONCE,
    ),
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
        "return grant(4, tonumber(ARGV[4]), true)",
        "`false` for `true`",
        HIGHER,
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
        "wait = math.max(wait or 0, ttl)",
        "`1` for `0`",
        SPREAD,
    ),
    same(
        "Takes a lock that may already be ours, or a place",
        "return time[1] * 1000 + math.floor(time[2] / 1000)",
        "`1001` for `1000`",
        TOLERATED,
    ),
    same(
        "Takes a lock that may already be ours, or a place",
        "if tonumber(waiters[i + 1]) < now then",
        "`<=` for `<`",
        MILLISECOND,
    ),
    same(
        "Takes a lock that may already be ours, or a place",
        "local dead = first and first ~= ARGV[1] and (not alive or tonumber(alive) < now)",
        "`<=` for `<`",
        MILLISECOND,
    ),
    same(
        "Takes a lock that may already be ours, or a place",
        "redis.call('LREM', KEYS[2], 0, ARGV[1])",
        "without `redis.call('LREM', KEYS[2], 0, ARGV[1])`",
        "who is in the list is in the hash as well: both are put there, removed and kept together",
    ),
    same(
        "Takes a lock that may already be ours, or a place",
        "for i = 2, 3 do",
        "`4` for `3`",
        "the last number is kept for a day, and it does no harm to keep it for longer",
    ),
    same(
        "Gives back a lock that is still ours, or a place",
        "if held or waited and redis.call('EXISTS', KEYS[1]) == 0 then",
        "`true` for `held or waited and redis.call('EXISTS', KEYS[1]) == 0`",
        ONE_MORE_LOOK,
    ),
    same(
        "Gives back a lock that is still ours, or a place",
        "if held or waited and redis.call('EXISTS', KEYS[1]) == 0 then",
        "`or` for `and`",
        ONE_MORE_LOOK,
    ),
    same(
        "Takes one off",
        "redis.call('HSET', KEYS[1], 'done:' .. ARGV[1], 1)",
        "`2` for `1`",
        "it is asked whether the field is there, and never what is in it",
    ),
];

const BY_EFFECTS: &str = "since Redis 5 a script is replicated by its effects unless it asks for something else, \
                          and Redis 7 knows nothing else: the call changes nothing";
const SAME_END: &str = "what has just as long to live is given the end that it has";
const ENDS_NOW: &str = "PEXPIRE with 0 removes the key as DEL does";

const FOUND: &str = "what SET has just put there is found to be ours, with the whole lease, and the answer is the same";
const LONG_AGO: &str = "the other number is a time since 1970 and greater than both";
const UNASKED: &str =
    "this script asks for the first thing only that the function tells, and this is not it";
const ONCE: &str = "a token is in the queue once at most: it is removed before it is put there";

const NEGATIVE: &str = "whatever is negative says that the time is not known";
const HIGHER: &str = "the number is higher than it need be, and the next one is higher still: numbers that nobody is told of are \
                      passed over at any time";
const SPREAD: &str =
    "who is told a time asks up to five milliseconds after it, or it would meet all others";
const TOLERATED: &str = "a server's clock may be wrong by far more than a thousandth, see the drift that is allowed for";
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
    fn fits(&self, script: &Script, mutant: &Mutant) -> bool {
        let line = script.text.lines().nth(mutant.change.line - 1);
        script.title().starts_with(self.title)
            && line.is_some_and(|line| line.trim() == self.line)
            && mutant.change.what == self.what
    }
}

/// Why a mutant makes no difference, if that is known.
#[must_use]
pub fn reason(scripts: &[Script], mutant: &Mutant) -> Option<&'static str> {
    let script = scripts.get(mutant.script)?;
    let known = EQUIVALENTS.iter().find(|it| it.fits(script, mutant));
    known.map(|it| it.why)
}

/// Those that fit none of the mutants. If there are `all` scripts of ours; else only those whose script is there.
pub fn stale<'a>(
    scripts: &'a [Script],
    mutants: &'a [Mutant],
    all: bool,
) -> impl Iterator<Item = &'static Equivalent> + 'a {
    EQUIVALENTS.iter().filter(move |known| {
        let is_there = |script: &Script| {
            let mut lines = script.text.lines();
            script.title().starts_with(known.title) && lines.any(|it| it.trim() == known.line)
        };
        let fits = |mutant: &Mutant| {
            let script = scripts.get(mutant.script);
            script.is_some_and(|script| known.fits(script, mutant))
        };
        (all || scripts.iter().any(is_there)) && !mutants.iter().any(fits)
    })
}
