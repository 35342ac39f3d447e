//! Lua 5.1 patterns (`lstrlib.c: do_match`), with a limit on depth and a count of steps.
//!
//! The C original recurses once per quantifier and does not count its work: a long pattern
//! overflows the stack, and a short one can run for years. Here the depth is limited, and a meter
//! decides every few thousand steps whether to continue. Knows nothing of Lua values or of the
//! virtual machine.

/// `lua.h: LUA_MAXCAPTURES`.
const CAPTURES_MAX: usize = 32;
/// Limit of nested quantifiers and captures. Redis has no limit and crashes.
const DEPTH_MAX: u32 = 1_000;
/// Steps between two calls of the meter.
const STEPS_PER_TICK: u64 = 10_000;

const ESCAPE: u8 = b'%';

/// Why a match ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// The pattern is malformed; the message is that of Lua.
    Malformed(&'static str),
    /// The meter returned false.
    Stopped,
}

/// Receives the number of steps done, and returns whether to continue.
pub(crate) type Meter<'m> = dyn FnMut(u64) -> bool + 'm;

/// The value of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capture {
    /// The bytes from start to end.
    Span(usize, usize),
    /// `()`: the position, counted from 1.
    Position(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Length {
    Open,
    Position,
    Closed(usize),
}

/// Matches one pattern against one subject.
pub(crate) struct Matcher<'a, 'm> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: [(usize, Length); CAPTURES_MAX],
    level: usize,
    depth: u32,
    steps: u64,
    meter: &'m mut Meter<'m>,
}

type Found = Result<Option<usize>, PatternError>;

impl<'a, 'm> Matcher<'a, 'm> {
    pub(crate) fn new(subject: &'a [u8], pattern: &'a [u8], meter: &'m mut Meter<'m>) -> Self {
        let captures = [(0, Length::Open); CAPTURES_MAX];
        Self {
            subject,
            pattern,
            captures,
            level: 0,
            depth: 0,
            steps: 0,
            meter,
        }
    }

    /// Matches at exactly `start` and returns the end of the match. The pattern is read from `skip`
    /// on.
    pub(crate) fn match_at(&mut self, start: usize, skip: usize) -> Found {
        self.level = 0;
        self.depth = 0;
        self.run(start, skip)
    }

    /// Finds the first match at or after `start`; returns its start and end. With `once`, only
    /// `start` itself is tried.
    pub(crate) fn search(
        &mut self,
        start: usize,
        skip: usize,
        once: bool,
    ) -> Result<Option<(usize, usize)>, PatternError> {
        let mut from = start;
        loop {
            if let Some(end) = self.match_at(from, skip)? {
                return Ok(Some((from, end)));
            }
            from += 1;
            if once || from > self.subject.len() {
                return Ok(None);
            }
        }
    }

    /// Number of captures of the last match.
    pub(crate) fn captures(&self) -> usize {
        self.level
    }

    /// The capture at `index`. Index 0 is the whole match if the pattern has no captures.
    pub(crate) fn capture(
        &self,
        index: usize,
        whole: (usize, usize),
    ) -> Result<Capture, PatternError> {
        if index >= self.level {
            return if index == 0 {
                Ok(Capture::Span(whole.0, whole.1))
            } else {
                Err(PatternError::Malformed("invalid capture index"))
            };
        }
        let (start, length) = self.captures[index];
        match length {
            Length::Closed(len) => Ok(Capture::Span(start, start + len)),
            Length::Position => Ok(Capture::Position(start + 1)),
            Length::Open => Err(PatternError::Malformed("unfinished capture")),
        }
    }

    fn step(&mut self) -> Result<(), PatternError> {
        self.steps += 1;
        if self.steps < STEPS_PER_TICK {
            return Ok(());
        }
        self.steps = 0;
        if (self.meter)(STEPS_PER_TICK) {
            Ok(())
        } else {
            Err(PatternError::Stopped)
        }
    }

    /// The byte of the pattern at `p`. Past the end it is zero, as in C.
    fn at(&self, p: usize) -> u8 {
        self.pattern.get(p).copied().unwrap_or(0)
    }

    /// `do_match`, one level deeper.
    fn run(&mut self, s: usize, p: usize) -> Found {
        if self.depth >= DEPTH_MAX {
            return Err(PatternError::Malformed("pattern too complex"));
        }
        self.depth += 1;
        let found = self.walk(s, p);
        self.depth -= 1;
        found
    }

    fn walk(&mut self, mut s: usize, mut p: usize) -> Found {
        loop {
            self.step()?;
            // Like the C code, stops at the end of the pattern or at a zero byte.
            match self.at(p) {
                0 => return Ok(Some(s)),
                b'(' if self.at(p + 1) == b')' => {
                    return self.start_capture(s, p + 2, Length::Position);
                }
                b'(' => return self.start_capture(s, p + 1, Length::Open),
                b')' => return self.end_capture(s, p + 1),
                ESCAPE => match self.at(p + 1) {
                    b'b' => match self.balance(s, p + 2)? {
                        Some(after) => {
                            s = after;
                            p += 4;
                            continue;
                        }
                        None => return Ok(None),
                    },
                    b'f' => {
                        p += 2;
                        if self.at(p) != b'[' {
                            return Err(PatternError::Malformed(
                                "missing '[' after '%f' in pattern",
                            ));
                        }
                        let end = self.class_end(p)?;
                        let previous = if s == 0 { 0 } else { self.subject[s - 1] };
                        let current = self.subject.get(s).copied().unwrap_or(0);
                        if self.in_set(previous, p, end - 1) || !self.in_set(current, p, end - 1) {
                            return Ok(None);
                        }
                        p = end;
                        continue;
                    }
                    digit if digit.is_ascii_digit() => match self.back_reference(s, digit)? {
                        Some(after) => {
                            s = after;
                            p += 2;
                            continue;
                        }
                        None => return Ok(None),
                    },
                    _ => {}
                },
                b'$' if self.at(p + 1) == 0 => {
                    return Ok((s == self.subject.len()).then_some(s));
                }
                _ => {}
            }
            let end = self.class_end(p)?;
            let here = s < self.subject.len() && self.single(self.subject[s], p, end);
            match self.at(end) {
                b'?' => {
                    if here && let Some(found) = self.run(s + 1, end + 1)? {
                        return Ok(Some(found));
                    }
                    p = end + 1;
                }
                b'*' => return self.expand(s, p, end),
                b'+' => {
                    return if here {
                        self.expand(s + 1, p, end)
                    } else {
                        Ok(None)
                    };
                }
                b'-' => return self.expand_least(s, p, end),
                _ if here => {
                    s += 1;
                    p = end;
                }
                _ => return Ok(None),
            }
        }
    }

    /// End of the single-character class at `p`.
    fn class_end(&self, mut p: usize) -> Result<usize, PatternError> {
        let first = self.at(p);
        p += 1;
        match first {
            ESCAPE => {
                if self.at(p) == 0 {
                    return Err(PatternError::Malformed("malformed pattern (ends with '%')"));
                }
                Ok(p + 1)
            }
            b'[' => {
                if self.at(p) == b'^' {
                    p += 1;
                }
                loop {
                    if self.at(p) == 0 {
                        return Err(PatternError::Malformed("malformed pattern (missing ']')"));
                    }
                    let byte = self.at(p);
                    p += 1;
                    if byte == ESCAPE && self.at(p) != 0 {
                        p += 1;
                    }
                    if self.at(p) == b']' {
                        return Ok(p + 1);
                    }
                }
            }
            _ => Ok(p),
        }
    }

    fn single(&self, byte: u8, p: usize, end: usize) -> bool {
        match self.at(p) {
            b'.' => true,
            ESCAPE => in_class(byte, self.at(p + 1)),
            b'[' => self.in_set(byte, p, end - 1),
            other => other == byte,
        }
    }

    /// `matchbracketclass`: `p` is at the opening bracket, `last` at the closing one.
    fn in_set(&self, byte: u8, mut p: usize, last: usize) -> bool {
        let mut wanted = true;
        if self.at(p + 1) == b'^' {
            wanted = false;
            p += 1;
        }
        loop {
            p += 1;
            if p >= last {
                return !wanted;
            }
            if self.at(p) == ESCAPE {
                p += 1;
                if in_class(byte, self.at(p)) {
                    return wanted;
                }
            } else if self.at(p + 1) == b'-' && p + 2 < last {
                p += 2;
                if self.at(p - 2) <= byte && byte <= self.at(p) {
                    return wanted;
                }
            } else if self.at(p) == byte {
                return wanted;
            }
        }
    }

    fn balance(&mut self, s: usize, p: usize) -> Found {
        let (open, close) = (self.at(p), self.at(p + 1));
        if open == 0 || close == 0 {
            return Err(PatternError::Malformed("unbalanced pattern"));
        }
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut nesting = 1;
        for at in s + 1..self.subject.len() {
            self.step()?;
            let byte = self.subject[at];
            if byte == close {
                nesting -= 1;
                if nesting == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                nesting += 1;
            }
        }
        Ok(None)
    }

    fn expand(&mut self, s: usize, p: usize, end: usize) -> Found {
        let mut count = 0;
        while s + count < self.subject.len() && self.single(self.subject[s + count], p, end) {
            self.step()?;
            count += 1;
        }
        loop {
            if let Some(found) = self.run(s + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn expand_least(&mut self, mut s: usize, p: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if s < self.subject.len() && self.single(self.subject[s], p, end) {
                s += 1;
            } else {
                return Ok(None);
            }
        }
    }

    fn start_capture(&mut self, s: usize, p: usize, length: Length) -> Found {
        if self.level >= CAPTURES_MAX {
            return Err(PatternError::Malformed("too many captures"));
        }
        self.captures[self.level] = (s, length);
        self.level += 1;
        let found = self.run(s, p)?;
        if found.is_none() {
            self.level -= 1;
        }
        Ok(found)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Found {
        let open = (0..self.level)
            .rev()
            .find(|&index| self.captures[index].1 == Length::Open);
        let Some(index) = open else {
            return Err(PatternError::Malformed("invalid pattern capture"));
        };
        self.captures[index].1 = Length::Closed(s - self.captures[index].0);
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures[index].1 = Length::Open;
        }
        Ok(found)
    }

    fn back_reference(&mut self, s: usize, digit: u8) -> Found {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let span = (index < self.level).then(|| self.captures[index]);
        let (start, len) = match span {
            Some((start, Length::Closed(len))) => (start, len),
            // In C the length of a position capture is -2, which as an unsigned number never fits.
            Some((_, Length::Position)) => return Ok(None),
            Some((_, Length::Open)) | None => {
                return Err(PatternError::Malformed("invalid capture index"));
            }
        };
        for offset in 0..len {
            self.step()?;
            if self.subject.get(s + offset) != Some(&self.subject[start + offset]) {
                return Ok(None);
            }
        }
        Ok(Some(s + len))
    }
}

/// `match_class`: a letter is a class, its capital the complement. Any other byte matches itself.
fn in_class(byte: u8, class: u8) -> bool {
    let inside = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    inside != class.is_ascii_uppercase()
}

/// True if `pattern` has no special characters before its first zero byte, so that a plain search
/// suffices.
pub(crate) fn is_plain(pattern: &[u8]) -> bool {
    !pattern
        .iter()
        .take_while(|&&byte| byte != 0)
        .any(|byte| b"^$*+?.([%-".contains(byte))
}

/// Position of the first `needle` in `haystack`. Counts work.
pub(crate) fn find_plain(haystack: &[u8], needle: &[u8], meter: &mut Meter<'_>) -> Found {
    let Some(&first) = needle.first() else {
        return Ok(Some(0));
    };
    let mut work = 0;
    let mut from = 0;
    while from + needle.len() <= haystack.len() {
        let window = &haystack[from..=haystack.len() - needle.len()];
        let Some(skip) = window.iter().position(|&byte| byte == first) else {
            return Ok(None);
        };
        from += skip;
        let same = haystack[from..]
            .iter()
            .zip(needle)
            .take_while(|(a, b)| a == b)
            .count();
        if same == needle.len() {
            return Ok(Some(from));
        }
        work += skip + same;
        from += 1;
        if work as u64 >= 16 * STEPS_PER_TICK {
            work = 0;
            if !meter(STEPS_PER_TICK) {
                return Err(PatternError::Stopped);
            }
        }
    }
    Ok(None)
}

/// A replaced text and the number of replacements.
pub(crate) type Replaced = (Vec<u8>, usize);

/// `string.gsub` with a string as replacement, in which `%0` to `%9` are captures.
pub(crate) fn replace(
    subject: &[u8],
    pattern: &[u8],
    replacement: &[u8],
    count_max: usize,
    bytes_max: usize,
    meter: &mut Meter<'_>,
) -> Result<Replaced, PatternError> {
    let (anchored, skip) = if pattern.first() == Some(&b'^') {
        (true, 1)
    } else {
        (false, 0)
    };
    let mut steps = 0;
    let mut counted = |amount: u64| {
        steps += amount;
        meter(amount)
    };
    let mut matcher = Matcher::new(subject, pattern, &mut counted);
    let mut out = Vec::new();
    let (mut at, mut count) = (0, 0);
    while count < count_max {
        let found = matcher.match_at(at, skip)?;
        if let Some(end) = found {
            count += 1;
            push_replacement(&matcher, replacement, (at, end), &mut out)?;
        }
        match found {
            Some(end) if end > at => at = end,
            _ if at < subject.len() => {
                out.push(subject[at]);
                at += 1;
            }
            _ => break,
        }
        if out.len() > bytes_max {
            return Err(PatternError::Malformed("not enough memory"));
        }
        if anchored {
            break;
        }
    }
    out.extend_from_slice(&subject[at.min(subject.len())..]);
    Ok((out, count))
}

fn push_replacement(
    matcher: &Matcher<'_, '_>,
    replacement: &[u8],
    whole: (usize, usize),
    out: &mut Vec<u8>,
) -> Result<(), PatternError> {
    let mut bytes = replacement.iter();
    while let Some(&byte) = bytes.next() {
        if byte != ESCAPE {
            out.push(byte);
            continue;
        }
        // After a `%` at the end, C reads the terminating zero.
        match bytes.next().copied().unwrap_or(0) {
            b'0' => out.extend_from_slice(&matcher.subject[whole.0..whole.1]),
            digit if digit.is_ascii_digit() => match matcher
                .capture(usize::from(digit - b'1'), whole)?
            {
                Capture::Span(start, end) => out.extend_from_slice(&matcher.subject[start..end]),
                Capture::Position(at) => out.extend_from_slice(at.to_string().as_bytes()),
            },
            other => out.push(other),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small random generator with the same output in every run.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) as usize % sides
        }

        fn text(&mut self, pieces: &[&[u8]], len_max: usize) -> Vec<u8> {
            let len = self.roll(len_max + 1);
            (0..len)
                .flat_map(|_| pieces[self.roll(pieces.len())].to_vec())
                .collect()
        }
    }

    const SUBJECT: &[&[u8]] = &[
        b"a", b"b", b"c", b"1", b" ", b"(", b")", b"]", b"-", b"%", b"^", b"\0", b"\xff", b"A",
        b"_",
    ];
    const PATTERN: &[&[u8]] = &[
        b"a", b"b", b"c", b"1", b".", b"%a", b"%d", b"%S", b"%w", b"%W", b"%z", b"%p", b"%x",
        b"%%", b"%]", b"[ab]", b"[^ab]", b"[a-c]", b"[%a1]", b"[%w-_]", b"[]a]", b"[^]a]", b"[a-]",
        b"[-a]", b"[^%s]", b"*", b"+", b"-", b"?", b"(", b")", b"()", b"%1", b"%2", b"%b()",
        b"%f[%w]", b"%f[^%a]", b"^", b"$", b"[", b"]", b"%", b"\0", b"\xff",
    ];

    /// The result of the original: its results joined, or its error without the position.
    fn original(
        lua: &mlua::Lua,
        function: &str,
        args: impl mlua::IntoLuaMulti,
    ) -> Result<String, String> {
        let code = format!(
            "local r = {{pcall(string.{function}, ...)}} local n = select('#', unpack(r, 1, table.maxn(r))) \
             local t = {{}} for i = 2, table.maxn(r) do t[#t + 1] = type(r[i]) .. ':' .. tostring(r[i]) end \
             return r[1], table.concat(t, '|')"
        );
        let (ok, text): (bool, mlua::LuaString) =
            lua.load(code).call(args).expect("the original runs");
        let text: String = text
            .as_bytes()
            .iter()
            .map(|&byte| char::from(byte))
            .collect();
        if ok {
            Ok(text)
        } else {
            Err(text.trim_start_matches("string:").into())
        }
    }

    fn latin(bytes: &[u8]) -> String {
        bytes.iter().map(|&byte| char::from(byte)).collect()
    }

    fn ours_find(subject: &[u8], pattern: &[u8]) -> Result<String, PatternError> {
        let mut meter = |_| true;
        if is_plain(pattern) {
            return Ok(match find_plain(subject, pattern, &mut meter)? {
                Some(at) => format!("number:{}|number:{}", at + 1, at + pattern.len()),
                None => String::new(),
            });
        }
        let anchored = pattern.first() == Some(&b'^');
        let mut matcher = Matcher::new(subject, pattern, &mut meter);
        let Some(whole) = matcher.search(0, usize::from(anchored), anchored)? else {
            return Ok(String::new());
        };
        let mut out = format!("number:{}|number:{}", whole.0 + 1, whole.1);
        for index in 0..matcher.captures() {
            out += &match matcher.capture(index, whole)? {
                Capture::Span(start, end) => format!("|string:{}", latin(&subject[start..end])),
                Capture::Position(at) => format!("|number:{at}"),
            };
        }
        Ok(out)
    }

    #[test]
    fn random_patterns_match_as_the_original_does() {
        let lua = mlua::Lua::new();
        let mut dice = Dice(7);
        let mut matched = 0;
        for round in 0..40_000 {
            let (subject, pattern) = (dice.text(SUBJECT, 12), dice.text(PATTERN, 6));
            let raw = (
                lua.create_string(&subject).expect("a text"),
                lua.create_string(&pattern).expect("a text"),
            );
            let expected = original(&lua, "find", raw.clone());
            let found = ours_find(&subject, &pattern);
            let place = format!(
                "round {round}: {:?} in {:?}",
                latin(&pattern),
                latin(&subject)
            );
            match (&expected, &found) {
                (Ok(expected), Ok(found)) => assert_eq!(expected, found, "{place}"),
                (Err(expected), Err(PatternError::Malformed(found))) => {
                    assert_eq!(expected, found, "{place}")
                }
                _ => panic!("{place}: {expected:?}, {found:?}"),
            }
            matched += usize::from(found.is_ok_and(|text| !text.is_empty()));
            let replacement = dice.text(&[b"x", b"%0", b"%1", b"%2", b"%%", b"%", b"-"], 3);
            let expected = original(
                &lua,
                "gsub",
                (
                    raw.0,
                    raw.1,
                    lua.create_string(&replacement).expect("a text"),
                ),
            );
            let replaced = replace(
                &subject,
                &pattern,
                &replacement,
                subject.len() + 1,
                1 << 20,
                &mut |_| true,
            );
            match (&expected, &replaced) {
                (Ok(expected), Ok((text, count))) => {
                    assert_eq!(
                        *expected,
                        format!("string:{}|number:{count}", latin(text)),
                        "{place}"
                    );
                }
                (Err(expected), Err(PatternError::Malformed(found))) => {
                    assert_eq!(expected, found, "{place}")
                }
                _ => panic!(
                    "{place}, {:?}: {expected:?}, {replaced:?}",
                    latin(&replacement)
                ),
            }
        }
        assert!(matched > 5_000, "only {matched} patterns matched");
    }

    #[test]
    fn work_is_metered_and_depth_is_bounded() {
        let subject = vec![b'a'; 5_000];
        let mut ticks = 0;
        let mut meter = |_| {
            ticks += 1;
            ticks < 100
        };
        let found = Matcher::new(&subject, b".-.-.-.-b", &mut meter).search(0, 0, false);
        assert_eq!((found, ticks), (Err(PatternError::Stopped), 100));
        let deep = b"a?".repeat(300_000);
        let found = Matcher::new(&subject, &deep, &mut |_| true).search(0, 0, false);
        assert_eq!(found, Err(PatternError::Malformed("pattern too complex")));
    }
}
