//! Replaces the calls of commands in a script's text, so that constant arguments need not pass
//! through Lua.
//!
//! `redis.call('GET', KEYS[1])` becomes `__CALL(1)`. The number names a [`Template`], which holds the
//! arguments: literals as bytes, elements of KEYS and ARGV as places in the request. Arguments that
//! the script computes stay: `redis.call('SET', KEYS[1], v)` becomes `__CALL_WITH(2,v)`. Line breaks
//! keep their places, so errors name the same lines. This is done only for scripts that read the
//! elements of KEYS and ARGV and the fields of `redis`, and do nothing else with them (`reuse.rs`).

use super::reuse::Tokens;
use crate::resp::{OwnedRequest, Request};

/// Number of digits up to which `%.14g` and `%.17g` print an integer alike.
const DIGITS_MAX: usize = 14;

/// The arguments of one call in a script's text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template(Box<[Part]>);

/// One argument of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A literal.
    Text(Box<[u8]>),
    /// An element of KEYS or ARGV, as an index into [`Inputs`].
    Input(usize),
    /// A value that the script computes.
    Computed,
    /// The last argument, if the script computes it: a function call there may return several values, or none.
    Rest,
}

impl Template {
    pub(crate) fn parts(&self) -> &[Part] {
        &self.0
    }
}

/// An element of KEYS or ARGV, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Key(usize),
    Arg(usize),
}

/// Elements of KEYS and ARGV that the templates of the running script name.
#[derive(Default)]
pub(crate) struct Inputs {
    values: OwnedRequest,
    /// False for an element past the end of the list; in Lua it is nil.
    is_present: Vec<bool>,
}

impl Inputs {
    /// Copies the elements from a request. Its `keys` keys begin at argument `first_key`.
    pub(super) fn fill(
        &mut self,
        inputs: &[Input],
        request: Request<'_>,
        first_key: usize,
        keys: usize,
    ) {
        self.values.clear();
        self.is_present.clear();
        for input in inputs {
            let value = match *input {
                Input::Key(index) if index < keys => request.arg(first_key + index),
                Input::Key(_) => None,
                Input::Arg(index) => request.arg(first_key + keys + index),
            };
            self.values.push(value.unwrap_or_default());
            self.is_present.push(value.is_some());
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let is_present = self.is_present.get(index).copied().unwrap_or_default();
        is_present.then(|| self.values.as_request()?.arg(index))?
    }
}

/// A script's text with its calls replaced, and the templates of these calls.
#[derive(Debug, Default)]
pub(super) struct Compact {
    pub(super) text: Vec<u8>,
    pub(super) templates: Vec<Template>,
    pub(super) inputs: Vec<Input>,
}

/// Replaces the calls of a script. `first` is the number of the first template, above 0.
pub(super) fn compact(body: &[u8], first: usize) -> Compact {
    let mut rewriter = Rewriter {
        tokens: Tokens::of(body),
        copied: 0,
        first,
        compact: Compact::default(),
    };
    let mut previous: &[u8] = b"";
    while let Some(token) = rewriter.tokens.next() {
        rewriter.meet(token, previous);
        previous = token;
    }
    rewriter.copy_to(body.len());
    rewriter.compact
}

struct Rewriter<'a> {
    tokens: Tokens<'a>,
    /// End of the part of the body that is in the new text already.
    copied: usize,
    first: usize,
    compact: Compact,
}

impl Rewriter<'_> {
    /// Copies the body up to `to`.
    fn copy_to(&mut self, to: usize) {
        let part = &self.tokens.body[self.copied..to];
        self.compact.text.extend_from_slice(part);
        self.copied = to;
    }

    /// Leaves out the body up to `to`, except for its line breaks.
    fn skip_to(&mut self, to: usize) {
        let skipped = &self.tokens.body[self.copied..to];
        let breaks = skipped.iter().filter(|byte| **byte == b'\n').count();
        self.compact
            .text
            .resize(self.compact.text.len() + breaks, b'\n');
        self.copied = to;
    }

    /// Replaces the call that begins with `token`, if there is one.
    fn meet(&mut self, token: &[u8], previous: &[u8]) {
        if token != b"redis" || previous == b"." {
            return;
        }
        let start = self.tokens.at - token.len();
        let mut ahead = self.tokens.clone();
        let head = [ahead.next(), ahead.next(), ahead.next()];
        let [Some(b"."), Some(name @ (b"call" | b"pcall")), Some(b"(")] = head else {
            return;
        };
        // Lua refuses a parenthesis at the beginning of a line. `redis.call()` has no arguments.
        let is_one_line = !self.tokens.body[start..ahead.at].contains(&b'\n');
        if !is_one_line || ahead.clone().next() == Some(b")") {
            return;
        }
        self.copy_to(start);
        self.copied = ahead.at;
        self.tokens = ahead;
        let number = self.first + self.compact.templates.len();
        // Reserves the number before calls inside the arguments take the next ones.
        self.compact.templates.push(Template(Box::default()));
        let at = self.compact.text.len();
        let parts = self.arguments();
        let is_constant = |part: &Part| matches!(part, Part::Text(_) | Part::Input(_));
        let function = match (name, parts.iter().all(is_constant)) {
            (b"call", true) => "__CALL",
            (b"call", false) => "__CALL_WITH",
            (_, true) => "__PCALL",
            (_, false) => "__PCALL_WITH",
        };
        let head = format!("{function}({number}");
        self.compact.text.splice(at..at, head.into_bytes());
        self.compact.templates[number - self.first] = Template(parts.into());
        self.compact.text.push(b')');
    }

    /// Reads the arguments up to and including the closing parenthesis.
    fn arguments(&mut self) -> Vec<Part> {
        let mut parts = Vec::new();
        loop {
            let part = self.constant().unwrap_or_else(|| {
                self.compact.text.push(b',');
                self.computed();
                Part::Computed
            });
            parts.push(part);
            let end = self.tokens.next();
            self.skip_to(self.tokens.at);
            if end != Some(b",") {
                if let Some(last @ Part::Computed) = parts.last_mut() {
                    *last = Part::Rest;
                }
                return parts;
            }
        }
    }

    /// Reads the argument that begins here, if it is constant while the script runs, but not the
    /// comma or the parenthesis behind it.
    fn constant(&mut self) -> Option<Part> {
        let mut ahead = self.tokens.clone();
        let first = ahead.next()?;
        let element = match first {
            b"KEYS" | b"ARGV" => {
                let [b"[", digits, b"]"] = [ahead.next()?, ahead.next()?, ahead.next()?] else {
                    return None;
                };
                let index = usize::try_from(integer(digits)? - 1).ok()?;
                let is_key = first == b"KEYS";
                Some(if is_key {
                    Input::Key(index)
                } else {
                    Input::Arg(index)
                })
            }
            _ => None,
        };
        if !matches!(ahead.clone().next()?, b"," | b")") {
            return None;
        }
        let part = match (element, first) {
            (Some(element), _) => Part::Input(self.input(element)),
            (None, [b'"' | b'\'', inside @ .., last])
                if *last == first[0] && !inside.contains(&b'\n') =>
            {
                Part::Text(inside.into())
            }
            (None, digits) => Part::Text(integer(digits)?.to_string().into_bytes().into()),
        };
        self.tokens = ahead;
        Some(part)
    }

    /// Copies an expression up to the comma or the parenthesis behind it.
    fn computed(&mut self) {
        let mut nesting = 0_u32;
        let mut previous: &[u8] = b"";
        while let Some(token) = self.tokens.clone().next() {
            match token {
                b"," | b")" if nesting == 0 => break,
                b"(" | b"{" | b"[" => nesting += 1,
                b")" | b"}" | b"]" => nesting = nesting.saturating_sub(1),
                _ => {}
            }
            let token = self.tokens.next().unwrap_or_default();
            self.meet(token, previous);
            previous = token;
        }
        self.copy_to(self.tokens.at);
    }

    /// Returns the index of an element among the script's inputs. Adds it if it is new.
    fn input(&mut self, input: Input) -> usize {
        let inputs = &mut self.compact.inputs;
        inputs
            .iter()
            .position(|known| *known == input)
            .unwrap_or_else(|| {
                inputs.push(input);
                inputs.len() - 1
            })
    }
}

/// Parses a decimal integer above 0. A 0 stays in the script: Lua 5.1 makes 0 and -0 of one function the same
/// constant, whichever comes first.
fn integer(digits: &[u8]) -> Option<u64> {
    let is_plain = digits.len() <= DIGITS_MAX && digits.iter().all(u8::is_ascii_digit);
    let number = is_plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?;
    number.filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Part {
        Part::Text(text.as_bytes().into())
    }

    #[track_caller]
    fn check(body: &str, expected: &str, templates: &[&[Part]], inputs: &[Input]) {
        let compact = compact(body.as_bytes(), 7);
        assert_eq!(String::from_utf8_lossy(&compact.text), expected, "{body}");
        let found: Vec<_> = compact.templates.iter().map(Template::parts).collect();
        assert_eq!(found, templates, "{body}");
        assert_eq!(compact.inputs, inputs, "{body}");
    }

    #[test]
    fn constant_arguments_move_into_the_template() {
        use self::Input::{Arg, Key};
        use Part::{Computed, Input, Rest};
        check(
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call(\"DEL\",KEYS[1]) end",
            "if __CALL(7) == ARGV[1] then return __CALL(8) end",
            &[&[text("GET"), Input(0)], &[text("DEL"), Input(0)]],
            &[Key(0)],
        );
        check(
            "redis.pcall('set', KEYS[2], ARGV[3], 'PX', 030)",
            "__PCALL(7)",
            &[&[text("set"), Input(0), Input(1), text("PX"), text("30")]],
            &[Key(1), Arg(2)],
        );
        check(
            "redis.call('set', KEYS[1], v, 'px', ARGV[1] + 1) -- '(",
            "__CALL_WITH(7, v, ARGV[1] + 1) -- '(",
            &[&[text("set"), Input(0), Computed, text("px"), Rest]],
            &[Key(0)],
        );
        check(
            "return redis.call('a', redis.call('b', f(1, {2, KEYS[1]})), unpack(ARGV))",
            "return __CALL_WITH(7, __CALL_WITH(8, f(1, {2, KEYS[1]})), unpack(ARGV))",
            &[&[text("a"), Computed, Rest], &[text("b"), Rest]],
            &[],
        );
    }

    #[test]
    fn computed_arguments_and_other_calls_stay_in_the_script() {
        for body in [
            "return redis.call()",
            "redis.call\n('GET', 'k')",
            "return redis.log(redis.LOG_NOTICE, 'redis.call(1)')",
            "local call = redis.call",
            "t.redis.call('GET')",
            "redis.call 'PING'",
            "-- redis.call('GET')",
        ] {
            check(body, body, &[], &[]);
        }
        for argument in [
            "1.5",
            "-1",
            "1e3",
            "0x1",
            "KEYS[0]",
            "KEYS[i]",
            "'a'..'b'",
            "123456789012345",
            "KEYS[1]:x()",
        ] {
            let body = format!("redis.call({argument})");
            let expected = format!("__CALL_WITH(7,{argument})");
            check(&body, &expected, &[&[Part::Rest]], &[]);
        }
    }

    #[test]
    fn line_breaks_keep_their_places() {
        check(
            "redis.call('a', -- one\n  'b',\n  c,\n  'd'\n) x()",
            "__CALL_WITH(7\n,\n  c\n\n) x()",
            &[&[text("a"), text("b"), Part::Computed, text("d")]],
            &[],
        );
    }
}
