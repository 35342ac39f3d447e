//! Decodes JSON to Lua values. Incomplete values are in a list instead of on the stack, so deep
//! nesting needs no recursion.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most tokens and errors are treated alike"
)]

use super::super::tools::{Budget, Fault, SLOTS_MAX};
use super::number;
use crate::engine::scripting::Settings;
use mlua::{Error, Lua, LuaString, Table, Value};

/// A kind of token.
#[derive(PartialEq)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(LuaString),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    /// Invalid input, with this description.
    Wrong(&'static str),
}

impl Kind {
    /// The name of the token in error messages.
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::Text(_) => "T_STRING",
            Self::Number(_) => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Wrong(what) => what,
        }
    }
}

struct Token {
    kind: Kind,
    /// Position of the token, or of the error in it.
    at: usize,
}

/// A value that is being filled.
enum Open {
    Array { table: Table, index: i64 },
    Object { table: Table, key: LuaString },
}

impl Open {
    /// Slots of the C stack that this value takes while its content is read.
    fn slots(&self) -> usize {
        match self {
            Self::Array { .. } => 1,
            Self::Object { .. } => 2,
        }
    }
}

struct Decoder<'a, 'b> {
    lua: &'a Lua,
    settings: Settings,
    budget: &'a mut Budget<'b>,
    text: &'a [u8],
    at: usize,
    open: Vec<Open>,
    slots: usize,
}

/// Decodes a text that consists of one value.
pub(super) fn decode(
    lua: &Lua,
    text: &[u8],
    settings: Settings,
    budget: &mut Budget<'_>,
) -> Result<Value, Fault> {
    if text.len() >= 2 && text[..2].contains(&0) {
        return Err(Fault::text("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder {
        lua,
        settings,
        budget,
        text,
        at: 0,
        open: Vec::new(),
        slots: 1,
    };
    decoder.run()
}

fn expected(what: &str, found: &Token) -> Fault {
    let (name, at) = (found.kind.name(), found.at + 1);
    Fault::text(format!(
        "Expected {what} but found {name} at character {at}"
    ))
}

impl Decoder<'_, '_> {
    fn run(&mut self) -> Result<Value, Fault> {
        let mut token = self.token()?;
        loop {
            let value = match token.kind {
                Kind::Text(text) => Value::String(text),
                Kind::Number(number) => Value::Number(number),
                Kind::Boolean(value) => Value::Boolean(value),
                Kind::Null => Value::NULL,
                Kind::ArrayBegin => {
                    let table = self.descend(2)?;
                    token = self.token()?;
                    if token.kind != Kind::ArrayEnd {
                        self.push(Open::Array { table, index: 1 });
                        continue;
                    }
                    Value::Table(table)
                }
                Kind::ObjectBegin => {
                    let table = self.descend(3)?;
                    token = self.token()?;
                    if token.kind != Kind::ObjectEnd {
                        let key = self.key(token)?;
                        self.push(Open::Object { table, key });
                        token = self.token()?;
                        continue;
                    }
                    Value::Table(table)
                }
                Kind::ObjectEnd
                | Kind::ArrayEnd
                | Kind::Colon
                | Kind::Comma
                | Kind::End
                | Kind::Wrong(_) => return Err(expected("value", &token)),
            };
            match self.put(value)? {
                Ok(whole) => return Ok(whole),
                Err(next) => token = next,
            }
        }
    }

    fn push(&mut self, open: Open) {
        self.slots += open.slots();
        self.open.push(open);
    }

    /// Puts a value into the innermost table. A table that is now complete goes into the one around
    /// it, and so on. Returns the outermost value when it is complete, or else the first token of
    /// the next value.
    fn put(&mut self, mut value: Value) -> Result<Result<Value, Token>, Fault> {
        loop {
            let Some(open) = self.open.last_mut() else {
                let token = self.token()?;
                return match token.kind {
                    Kind::End => Ok(Ok(value)),
                    _ => Err(expected("the end", &token)),
                };
            };
            let (end, wanted) = match open {
                Open::Array { table, index } => {
                    table.raw_set(*index, value)?;
                    *index += 1;
                    (Kind::ArrayEnd, "comma or array end")
                }
                Open::Object { table, key } => {
                    table.raw_set(&*key, value)?;
                    (Kind::ObjectEnd, "comma or object end")
                }
            };
            let token = self.token()?;
            if token.kind == Kind::Comma {
                let mut token = self.token()?;
                if end == Kind::ObjectEnd {
                    let next = self.key(token)?;
                    if let Some(Open::Object { key, .. }) = self.open.last_mut() {
                        *key = next;
                    }
                    token = self.token()?;
                }
                return Ok(Err(token));
            }
            if token.kind != end {
                return Err(expected(wanted, &token));
            }
            let Some(full) = self.open.pop() else {
                return Ok(Err(token));
            };
            self.slots -= full.slots();
            let (Open::Array { table, .. } | Open::Object { table, .. }) = full;
            value = Value::Table(table);
        }
    }

    /// Reads a key and the colon after it.
    fn key(&mut self, token: Token) -> Result<LuaString, Fault> {
        let Kind::Text(key) = token.kind else {
            return Err(expected("object key string", &token));
        };
        let colon = self.token()?;
        if colon.kind != Kind::Colon {
            return Err(expected("colon", &colon));
        }
        Ok(key)
    }

    /// Creates a nested table, if the nesting is not too deep. `room` is the number of slots that
    /// the C code reserves.
    fn descend(&mut self, room: usize) -> Result<Table, Fault> {
        let (depth, at) = (self.open.len() + 1, self.at);
        let too_deep = || {
            Fault::text(format!(
                "Found too many nested data structures ({depth}) at character {at}"
            ))
        };
        if depth > usize::try_from(self.settings.decode_depth_max).unwrap_or(0)
            || self.slots + room > SLOTS_MAX
        {
            return Err(too_deep());
        }
        self.lua.create_table().map_err(|error| match error {
            Error::StackError => too_deep(),
            other => other.into(),
        })
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn token(&mut self) -> Result<Token, Fault> {
        self.budget.spend(1)?;
        let blank = self.text[self.at..]
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
            .count();
        self.budget.spend_bytes(blank)?;
        self.at += blank;
        let at = self.at;
        let (kind, len) = match self.peek(0) {
            b'{' => (Kind::ObjectBegin, 1),
            b'}' => (Kind::ObjectEnd, 1),
            b'[' => (Kind::ArrayBegin, 1),
            b']' => (Kind::ArrayEnd, 1),
            b':' => (Kind::Colon, 1),
            b',' => (Kind::Comma, 1),
            // Like a C string, the text also ends at a zero byte.
            0 => (Kind::End, 0),
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                let is_refused = !self.settings.decode_invalid && self.is_invalid_number();
                match number::parse(&self.text[at..]).filter(|_| !is_refused) {
                    Some((number, len)) => (Kind::Number(number), len),
                    None => (Kind::Wrong("invalid number"), 0),
                }
            }
            _ if self.text[at..].starts_with(b"true") => (Kind::Boolean(true), 4),
            _ if self.text[at..].starts_with(b"false") => (Kind::Boolean(false), 5),
            _ if self.text[at..].starts_with(b"null") => (Kind::Null, 4),
            b'+' | b'i' | b'I' | b'n' | b'N'
                if self.settings.decode_invalid && self.is_invalid_number() =>
            {
                match number::parse(&self.text[at..]) {
                    Some((number, len)) => (Kind::Number(number), len),
                    None => (Kind::Wrong("invalid number"), 0),
                }
            }
            _ => (Kind::Wrong("invalid token"), 0),
        };
        self.at += len;
        Ok(Token { kind, at })
    }

    /// True for a number that C parses but JSON does not allow: hexadecimal, with a leading zero,
    /// or not finite.
    fn is_invalid_number(&self) -> bool {
        let at = usize::from(self.peek(0) == b'-');
        let word = [self.peek(at), self.peek(at + 1), self.peek(at + 2)];
        match word[0] {
            b'+' => at == 0,
            b'0' => matches!(word[1], b'x' | b'X' | b'0'..=b'9'),
            _ => word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"nan"),
        }
    }

    fn string(&mut self) -> Result<Token, Fault> {
        let begin = self.at;
        let wrong = |what, at| {
            Ok(Token {
                kind: Kind::Wrong(what),
                at,
            })
        };
        let mut out = Vec::new();
        let mut at = begin + 1;
        loop {
            let rest = &self.text[at..];
            let plain = rest
                .iter()
                .take_while(|byte| !matches!(byte, 0 | b'"' | b'\\'))
                .count();
            self.budget.reserve(&mut out, plain + 4)?;
            self.budget.spend_bytes(plain)?;
            out.extend_from_slice(&rest[..plain]);
            at += plain;
            let byte = |ahead: usize| self.text.get(at + ahead).copied().unwrap_or(0);
            match byte(0) {
                b'"' => break,
                b'\\' => {}
                _ => return wrong("unexpected end of string", at),
            }
            let escaped = match byte(1) {
                same @ (b'"' | b'\\' | b'/') => same,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'f' => 12,
                b'r' => b'\r',
                b'u' => {
                    let Some((character, len)) = character(&self.text[at..]) else {
                        return wrong("invalid unicode escape code", at);
                    };
                    let mut utf8 = [0; 4];
                    out.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                    at += len;
                    continue;
                }
                _ => return wrong("invalid escape code", at),
            };
            out.push(escaped);
            at += 2;
        }
        self.at = at + 1;
        Ok(Token {
            kind: Kind::Text(self.lua.create_string(&out)?),
            at: begin,
        })
    }
}

/// The character of `\uXXXX`, or of a surrogate pair; with its length in bytes.
fn character(text: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| {
            Some(unit * 16 + char::from(*digit).to_digit(16)?)
        })
    };
    let first = unit(0)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 6));
    }
    let (0xd800..=0xdbff, second @ 0xdc00..=0xdfff) = (first, unit(6)?) else {
        return None;
    };
    let joined = 0x1_0000 + ((first & 0x3ff) << 10 | (second & 0x3ff));
    char::from_u32(joined).map(|character| (character, 12))
}
