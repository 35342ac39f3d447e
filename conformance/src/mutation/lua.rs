//! Small mistakes in a Lua script. This file works on tokens and knows little of their meaning.

use std::ops::Range;

/// A changed script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Line of the change, from 1.
    pub line: usize,
    /// Offset of the change in the script, in bytes from 0.
    pub at: usize,
    /// Description of the change.
    pub what: String,
    /// The changed script.
    pub text: String,
}

/// Number of iterations after which a loop of a changed script counts as endless.
const ROUNDS_MAX: u32 = 10_000;

/// Comparisons, connectives and sums, with their replacements.
const MISTAKEN: &[(&str, &[&str])] = &[
    ("==", &["~="]),
    ("~=", &["=="]),
    ("<", &["<=", ">="]),
    ("<=", &["<", ">"]),
    (">", &[">=", "<="]),
    (">=", &[">", "<"]),
    ("+", &["-"]),
    ("-", &["+"]),
    ("*", &["/"]),
    ("/", &["*"]),
    ("and", &["or"]),
    ("or", &["and"]),
    ("not", &[""]),
    ("true", &["false"]),
    ("false", &["true"]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Name,
    Number,
    Text,
    Mark,
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    span: Range<usize>,
}

/// Returns every change of a script, one at a time, in the order of the text. Functions without a call are
/// not changed.
#[must_use]
pub fn changes(script: &str) -> Vec<Change> {
    let tokens = tokens(script);
    let word = |at: usize| tokens.get(at).map_or("", |it| &script[it.span.clone()]);
    let idle = idle(script, &tokens);
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let (said, span) = (word(at), token.span.clone());
        let before = at.checked_sub(1).map_or("", word);
        if token.kind == Kind::Number
            && before != "["
            && let Ok(number) = said.parse::<i64>()
        {
            // A script returns yes or no more often than a number.
            let wrong = match (before, number) {
                ("return", 1..) => 0,
                (_, number) => number + 1,
            };
            edits.push((span.clone(), wrong.to_string()));
        }
        // A sign is not a subtraction.
        let is_sign = said == "-" && !ends_a_value(tokens.get(at.wrapping_sub(1)), before);
        if token.kind != Kind::Text && !is_sign {
            let known = MISTAKEN.iter().find(|(right, _)| *right == said);
            for wrong in known.map_or(&[][..], |(_, wrong)| wrong) {
                edits.push((span.clone(), (*wrong).to_owned()));
            }
        }
        if matches!(said, "if" | "elseif") && token.kind == Kind::Name {
            let then = (at..tokens.len()).find(|&then| word(then) == "then");
            if let Some(then) = then {
                let condition = tokens[at + 1].span.start..tokens[then - 1].span.end;
                edits.push((condition.clone(), "true".to_owned()));
                edits.push((condition, "false".to_owned()));
            }
        }
        if let Some(end) = call_alone(script, &tokens, at) {
            edits.push((span.start..end, String::new()));
        }
    }
    edits.retain(|(span, _)| !idle.iter().any(|idle| idle.contains(&span.start)));
    let changes = edits.into_iter().map(|(span, wrong)| {
        let line = 1 + script[..span.start].matches('\n').count();
        let right = &script[span.clone()];
        let what = match (right, &*wrong) {
            (right, "") => format!("without `{right}`"),
            (right, wrong) => format!("`{wrong}` for `{right}`"),
        };
        let text = format!("{}{wrong}{}", &script[..span.start], &script[span.end..]);
        Change {
            line,
            at: span.start,
            what,
            text: bounded(&text),
        }
    });
    changes.collect()
}

/// Returns the parts of a script. Each part starts with a comment at the start of a line.
#[must_use]
pub fn parts(script: &str) -> Vec<Range<usize>> {
    let mut starts = vec![0];
    let (mut at, mut in_comment) = (0, true);
    for line in script.split_inclusive('\n') {
        let is_comment = line.starts_with("--");
        if is_comment && !in_comment {
            starts.push(at);
        }
        in_comment = is_comment;
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([script.len()]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(start, end)| start..end)
        .collect()
}

/// Returns the functions without a call: several scripts may start with the same functions. A function ends
/// at a line that starts with `end`.
fn idle(script: &str, tokens: &[Token]) -> Vec<Range<usize>> {
    let word = |at: usize| tokens.get(at).map_or("", |it| &script[it.span.clone()]);
    let mut idle = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if word(at) != "local" || word(at + 1) != "function" {
            continue;
        }
        let start = token.span.start;
        let named = (0..tokens.len()).filter(|&other| word(other) == word(at + 2));
        let end = script[start..].find("\nend");
        if let Some(end) = end.filter(|_| named.count() == 1) {
            idle.push(start..start + end);
        }
    }
    idle
}

/// Returns true if a minus after this token is a subtraction.
fn ends_a_value(token: Option<&Token>, said: &str) -> bool {
    match token.map(|it| it.kind) {
        Some(Kind::Number | Kind::Text) => true,
        Some(Kind::Name) => !matches!(said, "return" | "and" | "or" | "not"),
        Some(Kind::Mark) => matches!(said, ")" | "]" | "}"),
        None => false,
    }
}

/// Returns the end of a call that is a statement of its own and fills its lines.
fn call_alone(script: &str, tokens: &[Token], at: usize) -> Option<usize> {
    let word = |at: usize| tokens.get(at).map_or("", |it| &script[it.span.clone()]);
    let start = tokens[at].span.start;
    let line = script[..start].rfind('\n').map_or(0, |end| end + 1);
    let keywords = [
        "return", "local", "if", "for", "end", "else", "elseif", "until", "function",
    ];
    if tokens[at].kind != Kind::Name
        || keywords.contains(&word(at))
        || !script[line..start].trim().is_empty()
    {
        return None;
    }
    let mut open = at + 1;
    while word(open) == "." {
        open += 2;
    }
    if word(open) != "(" {
        return None;
    }
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        match word(place) {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let rest = script[token.span.end..].lines().next().unwrap_or_default();
            let is_alone = rest.trim().is_empty() || rest.trim().starts_with("--");
            return is_alone.then_some(token.span.end);
        }
    }
    None
}

/// Returns the script with a limit on every loop that may be endless.
fn bounded(script: &str) -> String {
    let mut text = script.to_owned();
    let count = format!(
        " if redouble_rounds > {ROUNDS_MAX} then error('endless') end \
         redouble_rounds = redouble_rounds + 1 "
    );
    let (mut is_while, mut loops) = (false, Vec::new());
    for token in tokens(script) {
        match &script[token.span.clone()] {
            "repeat" => loops.push(token.span.end),
            "while" => is_while = true,
            "do" if is_while => {
                is_while = false;
                loops.push(token.span.end);
            }
            _ => {}
        }
    }
    for &at in loops.iter().rev() {
        text.insert_str(at, &count);
    }
    if loops.is_empty() {
        text
    } else {
        format!("local redouble_rounds = 0 {text}")
    }
}

/// Splits a script into tokens, without comments and white space.
fn tokens(script: &str) -> Vec<Token> {
    let bytes = script.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    let run = |from: usize, is: &dyn Fn(u8) -> bool| {
        let len = bytes[from..].iter().take_while(|byte| is(**byte)).count();
        from + len
    };
    while let Some(&byte) = bytes.get(at) {
        let rest = &script[at..];
        let (kind, end) = if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        } else if rest.starts_with("--[[") {
            at = rest.find("]]").map_or(bytes.len(), |end| at + end + 2);
            continue;
        } else if rest.starts_with("--") {
            at = run(at, &|byte| byte != b'\n');
            continue;
        } else if rest.starts_with("[[") {
            let end = rest.find("]]").map_or(bytes.len(), |end| at + end + 2);
            (Kind::Text, end)
        } else if matches!(byte, b'\'' | b'"') {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != byte {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            (Kind::Text, (end + 1).min(bytes.len()))
        } else if byte.is_ascii_alphabetic() || byte == b'_' {
            let end = run(at, &|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            (Kind::Name, end)
        } else if byte.is_ascii_digit() {
            let end = run(at, &|byte| byte.is_ascii_alphanumeric() || byte == b'.');
            (Kind::Number, end)
        } else {
            let long = ["...", "==", "~=", "<=", ">=", ".."];
            let found = long.iter().find(|mark| rest.starts_with(**mark));
            // An unknown token is a single character.
            let len = rest.chars().next().map_or(1, char::len_utf8);
            (Kind::Mark, at + found.map_or(len, |mark| mark.len()))
        };
        tokens.push(Token {
            kind,
            span: at..end,
        });
        at = end;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(script: &str) -> Vec<(usize, String)> {
        let changes = changes(script).into_iter();
        changes.map(|change| (change.line, change.text)).collect()
    }

    fn texts(script: &str) -> Vec<String> {
        all(script).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn comparisons_and_numbers() {
        let found = texts("return a == 1");
        assert_eq!(found, ["return a ~= 1", "return a == 2"]);
        assert_eq!(texts("return 0"), ["return 1"]);
        assert_eq!(texts("return 1"), ["return 0"]);
        let found = texts("return x < y and not z");
        assert_eq!(
            found,
            [
                "return x <= y and not z",
                "return x >= y and not z",
                "return x < y or not z",
                "return x < y and  z"
            ]
        );
    }

    #[test]
    fn comments_and_strings_are_not_changed() {
        assert_eq!(
            texts("-- a == 1\nreturn 'a == 1' .. \"x\\\" < 2\""),
            [""; 0]
        );
        assert_eq!(texts("--[[ 1\n2 ]] return KEYS[1], -x"), [""; 0]);
    }

    #[test]
    fn conditions_and_calls() {
        let script = "if f(x) then\n  redis.call('DEL', g(x)) -- gone\nend";
        assert_eq!(
            all(script),
            [
                (
                    1,
                    "if true then\n  redis.call('DEL', g(x)) -- gone\nend".to_owned()
                ),
                (
                    1,
                    "if false then\n  redis.call('DEL', g(x)) -- gone\nend".to_owned()
                ),
                (2, "if f(x) then\n   -- gone\nend".to_owned()),
            ]
        );
        assert_eq!(texts("local a = f(\n  b\n)\nreturn g(a)"), [""; 0]);
    }

    #[test]
    fn a_changed_loop_has_an_end() {
        let [change] = &changes("repeat\n until not x")[..] else {
            panic!("one change")
        };
        assert!(
            change
                .text
                .starts_with("local redouble_rounds = 0 repeat if redouble_rounds > ")
        );
        assert!(change.text.ends_with("until  x"));
        assert_eq!((change.line, &*change.what), (2, "without `not`"));
    }

    #[test]
    fn functions_without_a_call_are_not_changed() {
        let script = "local function f(x)\n  return x < 1\nend\nreturn KEYS[2] == 3";
        let lines: Vec<_> = changes(script).iter().map(|it| it.line).collect();
        assert_eq!(lines, [4, 4]);
        let called = script.replace("KEYS[2]", "f(2)");
        assert!(changes(&called).iter().any(|it| it.line == 2));
    }

    #[test]
    fn a_part_begins_with_its_comment() {
        let of = |script: &'static str| -> Vec<&str> {
            parts(script).into_iter().map(|it| &script[it]).collect()
        };
        let (clock, lock) = (
            "-- A clock.\n-- Of ms.\nlocal x\n",
            "-- A lock.\nif x then\n  -- Why.\n  y()\nend\n",
        );
        assert_eq!(
            of("-- A clock.\n-- Of ms.\nlocal x\n-- A lock.\nif x then\n  -- Why.\n  y()\nend\n"),
            [clock, lock]
        );
        assert_eq!(of("return 1"), ["return 1"]);
        assert_eq!(of(""), [""]);
    }

    #[test]
    fn invalid_lua_does_not_panic() {
        for odd in [
            "'", "\"\\", "[[", "--[[", "é == ü", "f(", "if", "1 -", "repeat",
        ] {
            let _ = changes(odd);
        }
    }
}
