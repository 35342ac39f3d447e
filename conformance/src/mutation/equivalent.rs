//! Mutants of our scripts that behave like the original, each with the reason. They are listed and not
//! counted. An entry that matches no mutant is an error, so the list stays true when the scripts change.

use super::{Change, Mutant, Script};

/// An equivalent mutant.
#[derive(Debug, PartialEq, Eq)]
pub struct Equivalent {
    /// Start of the title of the script, or of a part that it contains; empty for every script that contains
    /// the line.
    pub title: &'static str,
    /// The original line without indentation.
    pub line: &'static str,
    /// Description of the change.
    pub what: &'static str,
    /// Reason why the change has no effect.
    pub why: &'static str,
}

/// All known equivalent mutants.
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
        "if redis.call('GET', KEYS[i]) ~= ARGV[1] or redis.call('PTTL', KEYS[i]) <= tonumber(ARGV[2]) then",
        "`<` for `<=`",
        SAME_END,
    ),
    same(
        "",
        "if redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[2]) then",
        "`<` for `<=`",
        SAME_END,
    ),
    same(
        "",
        "elseif redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then",
        "`<=` for `<`",
        SAME_END,
    ),
    same(
        "Releases a lock that this token holds, or lets",
        "if tonumber(ARGV[2]) > 0 then",
        "`>=` for `>`",
        ENDS_NOW,
    ),
    same(
        "Releases a lock that this token holds, or lets",
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
        "Takes a lock, which this token may already hold, or a place",
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
        "Releases a lock that this token holds, or lets",
        "if held or waited and not holder then",
        "`true` for `held or waited and not holder`",
        ONE_MORE_LOOK,
    ),
    same(
        "Releases a lock that this token holds, or lets",
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
        "if is_first or redis.call('PTTL', KEYS[1]) < deadline - now then",
        "`<=` for `<`",
        SAME_END,
    ),
    same(
        "Takes a write lock",
        "if tonumber(ARGV[5]) > 0 and (not waits or waits == ARGV[1]) then",
        "`1` for `0`",
        "the argument is 0 or more than a second",
    ),
    same(
        "Releases a write lock",
        "if held or not holder and (waited or called) then",
        "`true` for `held or not holder and (waited or called)`",
        IN_VAIN,
    ),
    same(
        "",
        "return publish(string.sub(name, 1, 16), string.sub(name, 17, 48))",
        "`49` for `48`",
        WHOLE_TOKENS,
    ),
    same(
        "",
        "return string.sub(first[1], 17, 48)",
        "`49` for `48`",
        ENDS_WITH_TOKEN,
    ),
    same("", "for _ = 1, 8 do", "`2` for `1`", ASKS_BY_ITSELF),
    same("", FULL, "`or` for `and`", BOUND),
    same("", FULL, "`<=` for `>`", BOUND),
    same("", FULL, "`>=` for `>`", BOUND),
    same("", FULL, "`1001` for `1000`", BOUND),
    same("", FULL, "`2` for `1`", BOUND),
    same("", FULL, "`~=` for `==`", BOUND),
    same(
        "",
        FULL,
        "`false` for `added == 1 and redis.call('ZCARD', waiters) > 1000`",
        BOUND,
    ),
    same(
        "",
        FULL,
        "`true` for `added == 1 and redis.call('ZCARD', waiters) > 1000`",
        BOUND,
    ),
    same(
        "",
        "redis.call('ZREMRANGEBYRANK', waiters, 1000, -1)",
        "`1001` for `1000`",
        BOUND,
    ),
    same("", "for _ = 1, 10 do", "`2` for `1`", BOUND),
    same("", "for _ = 1, 10 do", "`11` for `10`", BOUND),
    same("", "for _ = 1, 8 do", "`9` for `8`", ASKS_BY_ITSELF),
    same(
        "",
        "if tonumber(first[2]) >= now_ms() then",
        "`>` for `>=`",
        MILLISECOND,
    ),
    same("", RESERVE, "`<=` for `<`", RESERVED),
    same("", RESERVE, "`1` for `0`", RESERVED),
    same("", RESERVE, "`51` for `50`", RESERVED),
    same("", RESERVE, "`25` for `24`", RESERVED),
    same("", AT_LEAST, "`2` for `1`", RESERVED),
];

/// The line that bounds the number of waiters.
const FULL: &str = "if added == 1 and redis.call('ZCARD', waiters) > 1000 then";
/// The line that reserves a lock for a waiter.
const AT_LEAST: &str = "redis.call('SET', lock, '?' .. token, 'PX', math.max(1, ms))";
/// The line that decides for how long.
const RESERVE: &str =
    "reserve(lock, waiters, left < 0 and 50 or math.min(50, math.floor(left / 24)))";
const RESERVED: &str = "the lock is reserved for a few milliseconds more or less; the tests of redouble-lock check the exact time";
const WHOLE_TOKENS: &str =
    "the receiver reads tokens of 32 digits and ignores the rest of the message";
const ENDS_WITH_TOKEN: &str = "only mutexes and multi-key locks reserve a lock, and the names of their waiters end with the token";
const ASKS_BY_ITSELF: &str = "a release passes over one crashed waiter more or less; a waiter behind them asks again by itself. The tests \
                              of redouble-lock check the exact number";
const A_MS: &str = "it differs only for a lock that stays held for one more millisecond, and clocks of client and server are not more exact";
const IN_VAIN: &str = "a waiter gets one more wake-up, and tries in vain";
const BY_EFFECTS: &str = "since Redis 5 the server replicates the effects of a script unless the script asks for something else, \
                          and Redis 7 supports nothing else: the call changes nothing";
const SAME_END: &str = "a key with the same time to live keeps its expiry; only WAIT tells whether it was written, and the tests of \
                        redouble-lock check that";
const BOUND: &str =
    "no scenario has as many waiters; the tests of redouble-lock check the exact number";
const ENDS_NOW: &str = "PEXPIRE with 0 removes the key as DEL does";

const LONG_AGO: &str = "the other number is a time since 1970 and greater than both";

const NEGATIVE: &str = "every negative number means that the time is unknown";
const HIGHER: &str = "the token is higher than necessary, and the next one is higher still: tokens that no client gets may be \
                      skipped at any time";
const SPREAD: &str = "a waiter adds up to five milliseconds to this time anyway, so that not all waiters ask at once";
const MILLISECOND: &str =
    "the duration of a request is not known to the millisecond, and no client asks so late";
const ONE_MORE_LOOK: &str =
    "it publishes a superfluous message: the waiter checks the lock and is refused as before";

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

/// Returns the entries for a mutant, one per script that contains it; `None` if one is missing.
fn known(scripts: &[Script], mutant: &Mutant) -> Option<Vec<&'static Equivalent>> {
    let of = |(script, change): &(usize, Change)| {
        let script = scripts.get(*script)?;
        EQUIVALENTS.iter().find(|it| it.fits(script, change))
    };
    mutant.changes.iter().map(of).collect()
}

/// Returns the reason why a mutant has no effect, if it is known.
#[must_use]
pub fn reason(scripts: &[Script], mutant: &Mutant) -> Option<&'static str> {
    known(scripts, mutant)?.first().map(|it| it.why)
}

/// Returns the entries that match no mutant. Without `all` only entries whose script is among `scripts`.
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
