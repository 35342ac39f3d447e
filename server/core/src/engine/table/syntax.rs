//! The notation in which a row describes its arguments, and its reading: COMMAND DOCS shows the
//! result. Knows nothing of what the arguments mean.
//!
//! `name` is an argument, `name:type` one that is no string (`key` alone is a key), `TOKEN name` one
//! behind a word, `TOKEN` a word alone (`name=TOKEN` if its name is another, `'x'` if it is not in
//! capitals). `name=(a | b)` is one of several, `name=(a b)` several together. `[x]` may be left out,
//! `x...` may be repeated, `x...+` with its word each time. `@1.2.3` is since when, `/1.2.3` behind it since
//! when in Valkey, and `!1.2.3` since when no longer wanted. Keys take the key specifications of the row in turn; `#2` is a certain one
//! and `#-` none.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "most kinds are looked up in one table"
)]

use crate::engine::profile::{Profile, Since};
use crate::resp::Reply;
use std::borrow::Cow;

/// Type of an argument, as COMMAND DOCS names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    String,
    Integer,
    Double,
    Key,
    Pattern,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

/// The types that a name may be followed by.
const TYPES: [(&str, Kind); 6] = [
    ("string", Kind::String),
    ("integer", Kind::Integer),
    ("double", Kind::Double),
    ("key", Kind::Key),
    ("pattern", Kind::Pattern),
    ("unix-time", Kind::UnixTime),
];

/// One argument, with those inside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Argument {
    name: Cow<'static, str>,
    kind: Kind,
    token: Option<&'static str>,
    key_spec: Option<usize>,
    since: Option<&'static str>,
    /// The version of Valkey, if it did not inherit the argument.
    valkey_since: Option<&'static str>,
    deprecated: Option<&'static str>,
    optional: bool,
    multiple: bool,
    multiple_token: bool,
    arguments: Vec<Self>,
}

/// Parses the syntax of a row with `key_specs` key specifications.
///
/// # Errors
/// The expected text at the position of a mistake in the table.
pub(crate) fn parse(text: &'static str, key_specs: usize) -> Result<Vec<Argument>, String> {
    let mut parser = Parser {
        rest: text,
        next_spec: 0,
        key_specs,
    };
    let (arguments, _) = parser.sequence()?;
    if parser.rest.is_empty() {
        Ok(arguments)
    } else {
        Err(format!("a superfluous {:?} in {text:?}", parser.rest))
    }
}

/// Arguments of this profile's server, as COMMAND DOCS shows them.
pub(crate) fn describe(arguments: &[Argument], profile: Profile) -> Reply {
    let known = arguments.iter().filter(|it| it.is_in(profile));
    Reply::Array(known.map(|it| it.describe(profile)).collect())
}

impl Argument {
    fn is_in(&self, profile: Profile) -> bool {
        self.since.is_none_or(|redis| {
            let valkey = self.valkey_since.unwrap_or_default();
            profile.has(Since::redis(redis).or_valkey(valkey))
        })
    }

    fn describe(&self, profile: Profile) -> Reply {
        let text = |name: &str, text: &str| (Reply::bulk(name), Reply::bulk(text));
        let kind = match self.kind {
            Kind::PureToken => "pure-token",
            Kind::OneOf => "oneof",
            Kind::Block => "block",
            kind => TYPES
                .iter()
                .find(|(_, other)| *other == kind)
                .map_or("", |(name, _)| name),
        };
        let mut pairs = vec![text("name", &self.name), text("type", kind)];
        if let Some(index) = self.key_spec {
            pairs.push((Reply::bulk("key_spec_index"), Reply::Int(index as i64)));
        }
        let versions = [
            ("token", self.token),
            ("since", self.since),
            ("deprecated_since", self.deprecated),
        ];
        pairs.extend(
            versions
                .iter()
                .filter_map(|(name, it)| Some(text(name, (*it)?))),
        );
        let flags = [
            (self.optional, "optional"),
            (self.multiple, "multiple"),
            (self.multiple_token, "multiple_token"),
        ];
        let flags = flags.iter().filter(|(is, _)| *is);
        let flags: Vec<Reply> = flags.map(|(_, name)| Reply::Static(name)).collect();
        if !flags.is_empty() {
            pairs.push((Reply::bulk("flags"), Reply::Set(flags)));
        }
        if !self.arguments.is_empty() {
            pairs.push((Reply::bulk("arguments"), describe(&self.arguments, profile)));
        }
        Reply::Map(pairs)
    }
}

struct Parser {
    rest: &'static str,
    next_spec: usize,
    key_specs: usize,
}

impl Parser {
    /// Arguments up to a closing bracket or the end; whether bars stood between them.
    fn sequence(&mut self) -> Result<(Vec<Argument>, bool), String> {
        let (mut arguments, mut alternatives) = (Vec::new(), false);
        loop {
            self.rest = self.rest.trim_start();
            if self.eat("|") {
                alternatives = true;
            } else if self.rest.is_empty() || self.rest.starts_with([')', ']']) {
                return Ok((arguments, alternatives));
            } else {
                arguments.push(self.argument()?);
            }
        }
    }

    /// One argument with everything that belongs to it.
    fn argument(&mut self) -> Result<Argument, String> {
        let optional = self.eat("[");
        let mut argument = self.element()?;
        argument.multiple = self.eat("...");
        argument.multiple_token = self.eat("+");
        if optional {
            self.expect("]")?;
            argument.optional = true;
        }
        argument.since = self.version("@");
        argument.valkey_since = self.version("/");
        argument.deprecated = self.version("!");
        Ok(argument)
    }

    fn element(&mut self) -> Result<Argument, String> {
        if let Some(token) = self.token() {
            // A word belongs to the name or group that follows it.
            let follows = self.rest.strip_prefix(' ');
            let is_name = |text: &&str| text.starts_with(|next: char| next.is_ascii_lowercase());
            return match (token, follows.filter(is_name)) {
                (Token::Word(word), Some(rest)) => {
                    self.rest = rest;
                    let mut argument = self.named()?;
                    argument.token = Some(word);
                    Ok(argument)
                }
                (Token::Word(word) | Token::Quoted(word), _) => {
                    Ok(pure_token(word.to_ascii_lowercase(), word))
                }
            };
        }
        self.named()
    }

    /// Parses a name, with its type or placeholder.
    fn named(&mut self) -> Result<Argument, String> {
        let is_end = |(at, c): &(usize, char)| {
            " ()[]|@!=+'".contains(*c) || self.rest[*at..].starts_with("...")
        };
        let end = self.rest.char_indices().find(is_end);
        let word = self.take(end.map_or(self.rest.len(), |(at, _)| at));
        if word.is_empty() {
            return Err(format!("a name is missing before {:?}", self.rest));
        }
        if !self.eat("=") {
            return self.plain(word);
        }
        if let Some(Token::Word(token) | Token::Quoted(token)) = self.token() {
            return Ok(pure_token(word, token));
        }
        self.expect("(")?;
        let (arguments, alternatives) = self.sequence()?;
        self.expect(")")?;
        let kind = if alternatives {
            Kind::OneOf
        } else {
            Kind::Block
        };
        Ok(Argument {
            arguments,
            ..blank(word, kind)
        })
    }

    fn plain(&mut self, word: &'static str) -> Result<Argument, String> {
        let (word, index) = match word.split_once('#') {
            Some((word, index)) => (word, Some(index)),
            None => (word, None),
        };
        let typed = word.rsplit_once(':').and_then(|(name, kind)| {
            let (_, kind) = TYPES.iter().find(|(name, _)| *name == kind)?;
            Some((name, *kind))
        });
        let (name, kind) = match typed {
            Some(typed) => typed,
            None if word == "key" => (word, Kind::Key),
            // A colon may be part of a name, as in `ip:port`.
            None => (word, Kind::String),
        };
        let key_spec = match index {
            Some("-") => None,
            Some(index) => {
                let index = index.parse().ok().filter(|index| *index < self.key_specs);
                Some(index.ok_or_else(|| format!("no such key specification: {word:?}"))?)
            }
            None if kind == Kind::Key && self.key_specs > 0 => {
                Some(self.next_spec.min(self.key_specs - 1))
            }
            None => None,
        };
        self.next_spec = key_spec.map_or(self.next_spec, |index| index + 1);
        Ok(Argument {
            key_spec,
            ..blank(name, kind)
        })
    }

    fn token(&mut self) -> Option<Token> {
        if let Some(quoted) = self.rest.strip_prefix('\'') {
            let (word, rest) = quoted.split_once('\'')?;
            self.rest = rest;
            return Some(Token::Quoted(word));
        }
        if !self.rest.starts_with(|c: char| c.is_ascii_uppercase()) {
            return None;
        }
        let is_end = |c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || "_-".contains(c));
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        Some(Token::Word(self.take(end)))
    }

    fn version(&mut self, mark: &str) -> Option<&'static str> {
        self.eat(mark).then(|| {
            let is_end = |c: char| !(c.is_ascii_digit() || c == '.');
            self.take(self.rest.find(is_end).unwrap_or(self.rest.len()))
        })
    }

    fn take(&mut self, count: usize) -> &'static str {
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        taken
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.eat(text) {
            Ok(())
        } else {
            Err(format!("{text:?} is missing before {:?}", self.rest))
        }
    }
}

enum Token {
    Word(&'static str),
    Quoted(&'static str),
}

fn blank(name: impl Into<Cow<'static, str>>, kind: Kind) -> Argument {
    Argument {
        name: name.into(),
        kind,
        token: None,
        key_spec: None,
        since: None,
        valkey_since: None,
        deprecated: None,
        optional: false,
        multiple: false,
        multiple_token: false,
        arguments: Vec::new(),
    }
}

fn pure_token(name: impl Into<Cow<'static, str>>, token: &'static str) -> Argument {
    Argument {
        token: Some(token),
        ..blank(name, Kind::PureToken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_the_notation_is_read() {
        let text = "a=(first:key | second:key#0 | none:key#-) [LIMIT pair=(offset:integer ip:port)]@6.2.0 \
                    [GET pattern:pattern#1...+] 'PURE' [equal='=']!7.0.0 [sorting=ALPHA] ONE | TWO";
        let read = parse(text, 2).expect("a well-formed text");
        let one_of = &read[0];
        assert_eq!((one_of.kind, one_of.arguments.len()), (Kind::OneOf, 3));
        let specs = |argument: &Argument| argument.arguments.iter().map(|it| it.key_spec).collect();
        let found: Vec<Option<usize>> = specs(one_of);
        assert_eq!(found, [Some(0), Some(0), None]);
        let limit = &read[1];
        assert_eq!((limit.kind, limit.token), (Kind::Block, Some("LIMIT")));
        assert!(limit.optional && limit.since == Some("6.2.0"));
        let ip = &limit.arguments[1];
        assert_eq!((&*ip.name, ip.kind), ("ip:port", Kind::String));
        let get = &read[2];
        assert!(get.optional && get.multiple && get.multiple_token);
        assert_eq!((get.token, get.key_spec), (Some("GET"), Some(1)));
        let pure = |at: usize| (&*read[at].name, read[at].kind, read[at].token);
        assert_eq!(pure(3), ("pure", Kind::PureToken, Some("PURE")));
        assert_eq!(pure(4), ("equal", Kind::PureToken, Some("=")));
        assert_eq!(read[4].deprecated, Some("7.0.0"));
        assert_eq!(pure(5), ("sorting", Kind::PureToken, Some("ALPHA")));
        assert_eq!(read.len(), 8);
    }

    #[test]
    fn mistakes_are_told() {
        for text in ["[a", "a=(b", "a)", "=x", "key#2", "a=b", "'x"] {
            assert!(parse(text, 1).is_err(), "{text:?}");
        }
    }
}
