//! Decides whether two replies count as equal: they have the same bytes, except for the parts that depend on
//! a clock, on chance or on a table without order, as listed in `known.rs`.

use super::{
    dump,
    frame::Value,
    known::{self, How},
    sequence::{Output, Request, Step},
    stream_dump,
    table::Table,
};
use std::collections::{BTreeMap, VecDeque};

/// Difference of two servers' clocks, in addition to the time that the real one took, in milliseconds.
const SLACK_MS: i64 = 5;
/// Largest distance from the start of a sequence at which a number counts as the present time, in
/// milliseconds.
const PRESENT_MS: i64 = 60_000;
/// SORT's reply if a score is not a number, or if an earlier number was out of range.
const SCORES_REFUSED: &[u8] = b"-ERR One or more scores can't be converted into double";
/// Largest difference of two numbers for the present time, which may have been rounded to seconds.
const PRESENT_APART_MS: i64 = 1_000;

/// Compares the output of two servers in the course of one sequence.
pub(super) struct Comparer {
    at_ms: i64,
    apart_ms: i64,
    /// Requests of each connection without a reply, with the number of replies that each will get.
    open: BTreeMap<u32, VecDeque<(Request, usize)>>,
    /// Requests of each connection that wait for EXEC.
    queued: BTreeMap<u32, Vec<Request>>,
    /// Requests that EXEC has just executed.
    executed: Vec<Request>,
    /// True if messages and confirmations of channels are among the replies of EXEC: they shift later
    /// replies, some out of the array.
    is_shifted: bool,
    /// A number out of C's range was sent, see `stale-errno` in `known.rs`.
    is_errno_stale: bool,
    /// True after such a refusal of SORT: its result is missing or depends on chance, so nothing is compared
    /// any more.
    is_over: bool,
    /// A command for sets was sent, see `order` in `known.rs`.
    has_sets: bool,
    /// The same for sorted sets.
    has_sorted_sets: bool,
    /// What the scripts that were loaded call.
    loaded: ScriptCalls,
    /// The size of list nodes was changed, see `nodes` in `known.rs`.
    are_nodes_resized: bool,
}

/// How two replies to one request may differ.
#[derive(Clone, Copy, Default)]
struct Lenience {
    how: Option<How>,
    is_unordered: bool,
    /// Numbers may be the time that a key has left, in milliseconds.
    is_time_left: bool,
    are_nodes_resized: bool,
    at_ms: i64,
    apart_ms: i64,
}

impl Comparer {
    /// Makes a comparer for a sequence that the real server started at `at_ms` and that took it `took_ms`.
    /// The double's clock stands still meanwhile.
    pub(super) fn new(at_ms: i64, took_ms: i64) -> Self {
        Self {
            at_ms,
            apart_ms: took_ms + SLACK_MS,
            open: BTreeMap::new(),
            queued: BTreeMap::new(),
            executed: Vec::new(),
            is_shifted: false,
            is_errno_stale: false,
            is_over: false,
            has_sets: false,
            has_sorted_sets: false,
            loaded: ScriptCalls::default(),
            are_nodes_resized: false,
        }
    }

    /// Returns true if two servers sent equal output after a request.
    pub(super) fn agree(
        &mut self,
        table: &Table,
        step: &Step,
        real: &[Output],
        double: &[Output],
    ) -> bool {
        self.executed.clear();
        self.is_shifted = false;
        self.is_errno_stale |= step.request.iter().any(|it| is_beyond_c(it));
        let group = table.row(&step.request).map(|row| &*row.group);
        self.has_sets |= group == Some("set");
        self.has_sorted_sets |= matches!(group, Some("sorted-set" | "geo"));
        for text in &step.request {
            self.loaded = self.loaded.or(ScriptCalls::of(text));
        }
        self.are_nodes_resized |= resizes_nodes(&step.request);
        self.is_over |= stores(&step.request) && self.leaves_order_to_chance("sort", &step.request);
        self.is_over |= self.is_errno_stale && refuses(real) && !refuses(double);
        if self.is_over {
            return true;
        }
        let name = table.name_of(&step.request);
        let open = self.open.entry(step.connection).or_default();
        open.push_back((step.request.clone(), confirmations(&name, &step.request)));
        if known::how(&name) == Some(How::Messages) && real.len() > 1 {
            open.clear();
            return messages(real) == messages(double);
        }
        let (real, double) = (by_pattern(real), by_pattern(double));
        let pairs = real.iter().zip(&double);
        let agree = pairs.fold(true, |agree, (real, double)| {
            real.connection == double.connection && self.same(table, real, double) && agree
        });
        agree && real.len() == double.len()
    }

    /// Returns the request to which a reply belongs; an empty one for a message.
    fn request_of(&mut self, output: &Output) -> Request {
        let open = self.open.entry(output.connection).or_default();
        let is_confirmation = message_word(&output.reply).ends_with("subscribe");
        if !is_confirmation && !message_word(&output.reply).is_empty() {
            return Vec::new();
        }
        match open.front_mut() {
            Some((request, left)) if is_confirmation && *left > 1 => {
                *left -= 1;
                request.clone()
            }
            _ => open.pop_front().unwrap_or_default().0,
        }
    }

    fn same(&mut self, table: &Table, real: &Output, double: &Output) -> bool {
        let request = self.request_of(real);
        let name = table.name_of(&request);
        let queued = self.queued.entry(real.connection).or_default();
        if real.reply == b"+QUEUED\r\n" {
            queued.push(request);
            return real.reply == double.reply;
        }
        if real.reply == double.reply {
            // A MULTI within another one is an error and changes nothing.
            if matches!(&*name, "exec" | "discard" | "reset") {
                self.executed = std::mem::take(queued);
                self.note_shift(table, &real.reply);
            }
            return true;
        }
        if name == "exec" && real.reply.starts_with(b"*") {
            self.executed = std::mem::take(queued);
            self.note_shift(table, &real.reply);
            let (Some(real), Some(double)) =
                (Value::parse(&real.reply), Value::parse(&double.reply))
            else {
                return false;
            };
            let (real, double) = (real.members(), double.members());
            let mut pairs = real.iter().zip(double).enumerate();
            let allows = |at: usize, real: &Value, double: &Value| {
                let request = self.executed.get(at).map_or(&[][..], Vec::as_slice);
                self.lenience(table, request).allows(real, double)
                    || self.allows_shifted(table, real, double)
            };
            return real.len() == double.len()
                && pairs.all(|(at, (real, double))| allows(at, real, double));
        }
        if name == "exec" {
            queued.clear();
        }
        // The Lua binding passes text, in which an incomplete character is invalid.
        if real.reply.starts_with(b"-ERR Error compiling script") {
            return String::from_utf8_lossy(&real.reply).as_bytes() == double.reply;
        }
        let lenience = self.lenience(table, &request);
        match (Value::parse(&real.reply), Value::parse(&double.reply)) {
            (Some(real), Some(double)) => {
                lenience.allows(&real, &double) || self.allows_shifted(table, &real, &double)
            }
            _ => false,
        }
    }

    /// Records whether the reply to EXEC contains more than replies.
    fn note_shift(&mut self, table: &Table, reply: &[u8]) {
        let is_message = |value: &Value| value.kind() == b'>';
        let confirms = |it: &Request| table.name_of(it).ends_with("subscribe");
        self.is_shifted = self.executed.iter().any(confirms)
            || Value::parse(reply).is_some_and(|it| it.members().iter().any(is_message));
    }

    /// Returns true if the value may be the reply to any request of a transaction, because messages or
    /// confirmations have shifted the replies.
    fn allows_shifted(&self, table: &Table, real: &Value, double: &Value) -> bool {
        let mut executed = self.executed.iter();
        self.is_shifted && executed.any(|it| self.lenience(table, it).allows(real, double))
    }

    /// Returns true for a SORT that does not compare the elements themselves. The elements of a set come in
    /// random order, all of them or those that compare equal; those of a sorted set only if they compare
    /// equal.
    fn leaves_order_to_chance(&self, name: &str, request: &[Vec<u8>]) -> bool {
        let has = |word: &str| {
            let mut words = request.iter();
            words.any(|it| it.eq_ignore_ascii_case(word.as_bytes()))
        };
        let leaves = |pair: &[Vec<u8>]| {
            let is_sorted = pair[1].contains(&b'*');
            let by = pair[0].eq_ignore_ascii_case(b"by");
            let has_ties = is_sorted && has("alpha");
            by && (has_ties && (self.has_sets || self.has_sorted_sets)
                || !is_sorted && self.has_sets)
        };
        matches!(name, "sort" | "sort_ro") && request.windows(2).any(leaves)
    }

    /// Returns what a script calls whose reply cannot be compared byte for byte. A digest stands for any script
    /// that was loaded.
    fn script_calls(&self, name: &str, request: &[Vec<u8>]) -> ScriptCalls {
        match name {
            "eval" | "eval_ro" => ScriptCalls::of(request.get(1).map_or(b"", Vec::as_slice)),
            "evalsha" | "evalsha_ro" => self.loaded,
            _ => ScriptCalls::default(),
        }
    }

    fn lenience(&self, table: &Table, request: &[Vec<u8>]) -> Lenience {
        let name = table.name_of(request);
        let how = known::how(&name);
        let calls = self.script_calls(&name, request);
        let is_start = |at: usize| request.get(at).is_some_and(|cursor| cursor == b"0");
        let how = match how {
            None if calls.pairs => known::how("hgetall"),
            None if self.leaves_order_to_chance(&name, request) => {
                let is_limited = request.iter().any(|it| it.eq_ignore_ascii_case(b"limit"));
                Some(if is_limited {
                    How::Kind
                } else {
                    How::Unordered
                })
            }
            // Cursors in the middle of an iteration cannot be compared.
            Some(How::Cursor { .. }) if !is_start(if name == "scan" { 1 } else { 2 }) => {
                Some(How::Kind)
            }
            how => how,
        };
        Lenience {
            how,
            // Scripts return maps in random order in RESP3.
            is_unordered: table.row(request).is_some_and(|row| row.is_unordered),
            // Scripts may store it as a score.
            is_time_left: calls.time_left || self.loaded.time_left && name == "zrange",
            are_nodes_resized: self.are_nodes_resized,
            at_ms: self.at_ms,
            apart_ms: self.apart_ms,
        }
    }
}

impl Lenience {
    fn allows(self, real: &Value, double: &Value) -> bool {
        let is_error = |value: &Value| matches!(value, Value::Scalar(b'-' | b'!', _));
        if is_error(real) || is_error(double) {
            return real == double;
        }
        match self.how {
            Some(How::Type) => real.kind() == double.kind(),
            Some(How::Kind) => same_kind(real, double),
            Some(How::Cursor { .. }) if !is_whole(real) || !is_whole(double) => {
                same_kind(real, double)
            }
            _ => self.alike(real, double),
        }
    }

    fn alike(self, real: &Value, double: &Value) -> bool {
        match (real, double) {
            (Value::Scalar(kind, Some(real)), Value::Scalar(other, Some(double))) => {
                let is_dump = self.how == Some(How::Dump);
                kind == other
                    && (real == double
                        || is_dump && dump::same(real, double)
                        || is_dump && self.are_nodes_resized && dump::are_lists(real, double)
                        || is_dump && self.same_stream(real, double)
                        || self.same_time(real, double))
            }
            (Value::Group(kind, real), Value::Group(other, double)) if kind == other => {
                let (real, double) = (self.kept(real), self.kept(double));
                let is_map = *kind == b'%';
                if real.len() != double.len() {
                    return false;
                }
                match self.how {
                    Some(How::Pairs) if real.len() % 2 == 0 => self.same_members(&real, &double, 2),
                    // The cursor and the list of members are in order; the members are not.
                    Some(How::Cursor { each })
                        if !real.iter().any(|it| !it.members().is_empty()) =>
                    {
                        self.same_members(&real, &double, each)
                    }
                    Some(How::Cursor { .. }) => self.in_order(&real, &double),
                    Some(How::Unordered) => self.same_members(&real, &double, 1),
                    _ if is_map => self.same_members(&real, &double, 2),
                    _ if self.is_unordered || *kind == b'~' => self.same_members(&real, &double, 1),
                    _ => self.in_order(&real, &double),
                }
            }
            _ => real == double,
        }
    }

    fn in_order(self, real: &[&Value], double: &[&Value]) -> bool {
        real.iter()
            .zip(double)
            .all(|(real, double)| self.alike(real, double))
    }

    /// Compares members in any order, in groups of `each`.
    fn same_members(self, real: &[&Value], double: &[&Value], each: usize) -> bool {
        let mut left: Vec<&[&Value]> = double.chunks(each).collect();
        real.chunks(each).all(|wanted| {
            let found = left.iter().position(|it| self.in_order(wanted, it));
            found.map(|at| left.remove(at)).is_some()
        })
    }

    /// Returns the members without the ignored fields.
    fn kept<'v>(&self, members: &'v [Value]) -> Vec<&'v Value> {
        let Some(How::Without(names)) = self.how else {
            return members.iter().collect();
        };
        let is_out = |value: &Value| {
            let text = value.text().unwrap_or_default();
            names.iter().any(|name| name.as_bytes() == text)
        };
        let mut kept = Vec::new();
        let mut members = members.iter();
        while let Some(member) = members.next() {
            if is_out(member) {
                members.next();
            } else {
                kept.push(member);
            }
        }
        kept
    }

    /// Returns true if two dumps of streams differ only by the clocks.
    fn same_stream(self, real: &[u8], double: &[u8]) -> bool {
        match (stream_dump::words(real), stream_dump::words(double)) {
            (Some(real), Some(double)) => {
                let mut pairs = real.iter().zip(&double);
                real.len() == double.len()
                    && pairs.all(|(real, double)| real == double || self.same_time(real, double))
            }
            (_, _) => false,
        }
    }

    /// Returns true if two numbers differ only by the clocks.
    fn same_time(self, real: &[u8], double: &[u8]) -> bool {
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
        let per_second = match self.how {
            Some(How::Clock { per_second }) => Some(per_second),
            _ => self.is_time_left.then_some(1000),
        };
        if let (Some(per_second), Some(real @ 0..), Some(double @ 0..)) =
            (per_second, number(real), number(double))
        {
            // Seconds are rounded.
            let apart = self.apart_ms * per_second / 1000 + i64::from(per_second == 1);
            return real.abs_diff(double) <= apart.unsigned_abs();
        }
        match (present(real, self.at_ms), present(double, self.at_ms)) {
            (Some(real), Some(double)) => {
                (real - double).abs() <= self.apart_ms.max(PRESENT_APART_MS)
            }
            _ => false,
        }
    }
}

/// Returns the milliseconds in a text that is the present time: in milliseconds, seconds or microseconds, or
/// as the id of a stream entry.
fn present(text: &[u8], at_ms: i64) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let number = match text.split_once('-') {
        Some((number, sequence)) => {
            sequence.parse::<u64>().ok()?;
            number
        }
        None => text,
    };
    let number: i64 = number.parse().ok()?;
    let scales = [Some(number), number.checked_mul(1000), Some(number / 1000)];
    let is_near = |ms: &i64| (at_ms - PRESENT_MS..at_ms + PRESENT_MS).contains(ms);
    scales.into_iter().flatten().find(is_near)
}

/// Returns the number of replies to a request that is not refused.
fn confirmations(name: &str, request: &[Vec<u8>]) -> usize {
    if name.ends_with("subscribe") {
        request.len().saturating_sub(1).max(1)
    } else {
        1
    }
}

/// Returns the first word of a message or of a confirmation of channels; empty for other replies.
fn message_word(reply: &[u8]) -> String {
    let value = Value::parse(reply);
    let first = value.as_ref().and_then(|it| it.members().first()?.text());
    let word = String::from_utf8_lossy(first.unwrap_or_default()).into_owned();
    let is_one = matches!(&*word, "message" | "pmessage" | "smessage" | "invalidate")
        || word.ends_with("subscribe");
    if is_one { word } else { String::new() }
}

/// Returns true if a script or argument contains a number that may be out of C's range: with many digits, or
/// a long exponent.
fn is_beyond_c(argument: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|it| it.is_ascii_digit()).count();
    let exponent = |text: &[u8]| match text {
        [b'e' | b'E', b'-' | b'+', rest @ ..] | [b'e' | b'E', rest @ ..] => digits(rest),
        _ => 0,
    };
    (0..argument.len()).any(|at| {
        let text = &argument[at..];
        digits(text) >= 19 || exponent(text) >= 3
    })
}

/// Returns true for a SORT that stores its result.
fn stores(request: &[Vec<u8>]) -> bool {
    let is_sort = request
        .first()
        .is_some_and(|name| name.eq_ignore_ascii_case(b"sort"));
    is_sort && request.iter().any(|it| it.eq_ignore_ascii_case(b"store"))
}

/// Returns true if a request changes the node size of lists, also within a script.
fn resizes_nodes(request: &[Vec<u8>]) -> bool {
    let names = ["list-max-listpack-size", "list-max-ziplist-size"];
    let text = request.join(&b' ').to_ascii_lowercase();
    let text = String::from_utf8_lossy(&text);
    !text.starts_with("config get ") && names.iter().any(|name| text.contains(name))
}

/// Commands in the text of a script whose replies cannot be compared byte for byte.
#[derive(Clone, Copy, Default)]
struct ScriptCalls {
    /// The pairs of a hash, see `order` in `known.rs`.
    pairs: bool,
    /// The time that a key has left.
    time_left: bool,
}

impl ScriptCalls {
    fn of(text: &[u8]) -> Self {
        // A call has a parenthesis; the name of a command alone is an argument like any other.
        let text = match text.contains(&b'(') {
            true => String::from_utf8_lossy(text).to_ascii_lowercase(),
            false => String::new(),
        };
        Self {
            pairs: text.contains("hgetall"),
            time_left: text.contains("pttl"),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            pairs: self.pairs || other.pairs,
            time_left: self.time_left || other.time_left,
        }
    }
}

/// Returns true if SORT refuses its scores, also within a transaction.
fn refuses(outputs: &[Output]) -> bool {
    let mut windows = outputs
        .iter()
        .flat_map(|it| it.reply.windows(SCORES_REFUSED.len()));
    windows.any(|it| it == SCORES_REFUSED)
}

/// Sorts the messages that several patterns of a connection matched: Redis sends them in no defined order.
fn by_pattern(outputs: &[Output]) -> Vec<Output> {
    let message = |output: &Output| {
        let value = Value::parse(&output.reply)?;
        let text = |at: usize| value.members().get(at)?.text().map(<[u8]>::to_vec);
        let is_pattern = text(0).is_some_and(|word| word == b"pmessage");
        is_pattern.then(|| (output.connection, text(2), text(3)))
    };
    let mut outputs = outputs.to_vec();
    let same = |a: &Output, b: &Output| message(a).is_some_and(|a| message(b) == Some(a));
    for group in outputs.chunk_by_mut(same) {
        group.sort_by(|a, b| a.reply.cmp(&b.reply));
    }
    outputs
}

/// Sorts messages, and removes the numbers at their ends.
fn messages(outputs: &[Output]) -> Vec<(u32, Vec<Value>)> {
    let message = |output: &Output| {
        let value = Value::parse(&output.reply);
        let members = value.as_ref().map_or(&[][..], Value::members);
        let kept = members.len().saturating_sub(1);
        (output.connection, members[..kept].to_vec())
    };
    let mut messages: Vec<_> = outputs.iter().map(message).collect();
    messages.sort_by_key(|message| format!("{message:?}"));
    messages
}

fn same_kind(real: &Value, double: &Value) -> bool {
    match (real, double) {
        (Value::Scalar(kind, real), Value::Scalar(other, double)) => {
            kind == other && real.is_some() == double.is_some()
        }
        (Value::Group(kind, real), Value::Group(other, double)) => {
            kind == other && real.is_empty() == double.is_empty()
        }
        _ => false,
    }
}

/// Returns true if a reply of SCAN is complete.
fn is_whole(reply: &Value) -> bool {
    let cursor = reply.members().first();
    cursor.is_none_or(|cursor| cursor.text() == Some(b"0"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Peer;

    const NOW: i64 = 1_700_000_000_000;

    fn agree(table: &Table, requests: &[(&str, &str, &str)]) -> bool {
        let mut comparer = Comparer::new(NOW, 5);
        requests.iter().all(|(line, real, double)| {
            let words = line.split(' ').map(|word| word.as_bytes().to_vec());
            let step = Step {
                connection: 1,
                request: words.collect(),
                is_held: false,
            };
            let sent = |reply: &str| {
                vec![Output {
                    connection: 1,
                    reply: reply.as_bytes().to_vec(),
                }]
            };
            comparer.agree(table, &step, &sent(real), &sent(double))
        })
    }

    #[test]
    fn only_clocks_chance_and_order_may_differ() {
        let double = Peer::double().expect("a double");
        let table = double.table();
        for (line, real, double, expected) in [
            ("pttl k", ":1000\r\n", ":1004\r\n", true),
            ("pttl k", ":1000\r\n", ":-1\r\n", false),
            ("pttl k", ":1000\r\n", ":1011\r\n", false),
            ("ttl k", ":1000\r\n", ":1001\r\n", true),
            ("ttl k", ":1000\r\n", ":1002\r\n", false),
            ("incr k", ":1\r\n", ":2\r\n", false),
            ("incr k", ":1700000000005\r\n", ":1700000000000\r\n", true),
            (
                "get k",
                "$15\r\n1700000000005-7\r\n",
                "$15\r\n1700000000000-0\r\n",
                true,
            ),
            ("get k", "$3\r\n5-7\r\n", "$3\r\n5-0\r\n", false),
            ("keys *", "*2\r\n+a\r\n+b\r\n", "*2\r\n+b\r\n+a\r\n", true),
            ("keys *", "*2\r\n+a\r\n+a\r\n", "*2\r\n+b\r\n+a\r\n", false),
            (
                "hmget h a b",
                "*2\r\n+a\r\n+b\r\n",
                "*2\r\n+b\r\n+a\r\n",
                false,
            ),
            (
                "hgetall h",
                "*4\r\n+a\r\n+b\r\n+c\r\n+d\r\n",
                "*4\r\n+c\r\n+d\r\n+a\r\n+b\r\n",
                true,
            ),
            (
                "hgetall h",
                "*4\r\n+a\r\n+b\r\n+c\r\n+d\r\n",
                "*4\r\n+a\r\n+d\r\n+c\r\n+b\r\n",
                false,
            ),
            (
                "time",
                "*2\r\n$1\r\n1\r\n$1\r\n2\r\n",
                "*2\r\n$1\r\n3\r\n$1\r\n4\r\n",
                true,
            ),
            (
                "scan 0",
                "*2\r\n+0\r\n*2\r\n+a\r\n+b\r\n",
                "*2\r\n+0\r\n*2\r\n+b\r\n+a\r\n",
                true,
            ),
            (
                "scan 0",
                "*2\r\n+0\r\n*2\r\n+a\r\n+b\r\n",
                "*2\r\n+0\r\n*2\r\n+c\r\n+a\r\n",
                false,
            ),
            (
                "scan -1",
                "*2\r\n+0\r\n*1\r\n+a\r\n",
                "*2\r\n+0\r\n*0\r\n",
                true,
            ),
            ("slowlog get", "*0\r\n", "*1\r\n+a\r\n", true),
            ("slowlog get", "*0\r\n", ":0\r\n", false),
            (
                "scan 0",
                "*2\r\n+0\r\n*1\r\n+a\r\n",
                "*2\r\n+9\r\n*1\r\n+b\r\n",
                true,
            ),
            ("time", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n", "-ERR no\r\n", false),
            ("get k", "-ERR a\r\n", "-ERR b\r\n", false),
            (
                "hello 3",
                "%1\r\n$2\r\nid\r\n:1\r\n",
                "%1\r\n$2\r\nid\r\n:2\r\n",
                true,
            ),
            (
                "hello 3",
                "%1\r\n$2\r\nix\r\n:1\r\n",
                "%1\r\n$2\r\nix\r\n:2\r\n",
                false,
            ),
        ] {
            let found = agree(table, &[(line, real, double)]);
            assert_eq!(found, expected, "{line}: {real:?} and {double:?}");
        }
    }

    #[test]
    fn a_sort_may_be_refused_after_a_number_out_of_range_alone() {
        let double = Peer::double().expect("a double");
        let table = double.table();
        let refused = "-ERR One or more scores can't be converted into double\r\n";
        let sort = ("sort l by s*", refused, "*1\r\n+1\r\n");
        let invalid = "-ERR invalid cursor\r\n";
        let scan = |cursor| (cursor, invalid, invalid);
        assert!(agree(table, &[scan("scan 99999999999999999999"), sort]));
        assert!(!agree(table, &[scan("scan x9"), sort]));
        assert!(!agree(table, &[sort]));
        assert!(agree(
            table,
            &[("zadd z 1e999 a", ":1\r\n", ":1\r\n"), sort]
        ));
    }

    #[test]
    fn nodes_of_lists_may_differ_once_their_size_was_changed() {
        let double = Peer::double().expect("a double");
        let table = double.table();
        let ask = |request| (request, "+OK\r\n", "+OK\r\n");
        let resize = ask("config set List-Max-Listpack-Size 2");
        let list = ("dump l", "$2\r\n\x12a\r\n", "$2\r\n\x12b\r\n");
        assert!(agree(table, &[resize, list]));
        assert!(!agree(table, &[list, resize]));
        let look = ask("config get list-max-listpack-size");
        assert!(!agree(table, &[look, list]));
        let text = ("dump s", "$2\r\n\x00a\r\n", "$2\r\n\x00b\r\n");
        let gone = ("dump l", "$2\r\n\x12a\r\n", "$-1\r\n");
        assert!(!agree(table, &[resize, text]) && !agree(table, &[resize, gone]));
    }

    #[test]
    fn the_pairs_of_a_hash_have_no_order_in_scripts_either() {
        let double = Peer::double().expect("a double");
        let table = double.table();
        let [real, other] = [
            "*4\r\n+a\r\n+b\r\n+c\r\n+d\r\n",
            "*4\r\n+c\r\n+d\r\n+a\r\n+b\r\n",
        ];
        assert!(agree(
            table,
            &[("eval redis.call('HGETALL','h') 0", real, other)]
        ));
        assert!(!agree(
            table,
            &[("eval redis.call('HKEYS','h') 0", real, other)]
        ));
        assert!(!agree(table, &[("get HGETALL", real, other)]));
        let load = |script| (script, "$1\r\n0\r\n", "$1\r\n0\r\n");
        let pairs = load("script load redis.call('HGETALL','h')");
        let keys = load("script load redis.call('HKEYS','h')");
        let runs = ("evalsha 0 0", real, other);
        assert!(agree(table, &[pairs, runs]));
        assert!(!agree(table, &[keys, runs]));
    }

    #[test]
    fn a_script_may_return_the_time_that_a_key_has_left() {
        let double = Peer::double().expect("a double");
        let table = double.table();
        let runs = |script, real, double| {
            let load = (script, "$1\r\n0\r\n", "$1\r\n0\r\n");
            agree(table, &[load, ("evalsha 0 0", real, double)])
        };
        let time_left = "script load redis.call('PTTL','k')";
        assert!(runs(time_left, ":5000\r\n", ":4999\r\n"));
        assert!(!runs(time_left, ":5000\r\n", ":4000\r\n"));
        assert!(!runs(time_left, ":-1\r\n", ":-2\r\n"));
        let load = (time_left, "$1\r\n0\r\n", "$1\r\n0\r\n");
        let score = ("zrange z 0 -1", "*1\r\n+5000\r\n", "*1\r\n+4999\r\n");
        assert!(agree(table, &[load, score]) && !agree(table, &[score, load]));
        assert!(!runs(
            "script load redis.call('INCR','k')",
            ":5000\r\n",
            ":4999\r\n"
        ));
    }

    #[test]
    fn the_replies_within_exec_are_those_of_their_commands() {
        let double = Peer::double().expect("a double");
        let table = double.table();
        let exec = |command, real, double| {
            let queued = "+QUEUED\r\n";
            let requests = [
                ("multi", "+OK\r\n", "+OK\r\n"),
                ("get k", queued, queued),
                (command, queued, queued),
                ("exec", real, double),
            ];
            agree(table, &requests)
        };
        assert!(exec(
            "pttl k",
            "*2\r\n+a\r\n:1000\r\n",
            "*2\r\n+a\r\n:1001\r\n"
        ));
        assert!(!exec(
            "incr k",
            "*2\r\n+a\r\n:1000\r\n",
            "*2\r\n+a\r\n:1001\r\n"
        ));
        assert!(!exec(
            "pttl k",
            "*2\r\n:1000\r\n+a\r\n",
            "*2\r\n:1001\r\n+a\r\n"
        ));
        // A value beside confirmations may be any of the replies, but must be one of them.
        assert!(exec("time", "*2\r\n+a\r\n+b\r\n", "*2\r\n+a\r\n+c\r\n"));
        assert!(!exec(
            "subscribe c",
            "*2\r\n+a\r\n+b\r\n",
            "*2\r\n+a\r\n+c\r\n"
        ));
    }
}
