//! The row that describes a command. COMMAND, arity errors, ACL categories, key routing and the
//! README list are read from it.

use super::args::Args;
use super::error::CommandError;
use crate::engine::Ctx;
use crate::resp::{Reply, Request};

/// What a handler returns.
pub(crate) type CommandResult = Result<Reply, CommandError>;
/// A handler: reads its arguments, touches nothing but `Ctx`, returns a value.
pub(crate) type Handler = fn(&mut Ctx<'_>, &mut Args<'_>) -> CommandResult;

/// Flags of a command, as COMMAND INFO names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    pub(crate) const WRITE: Self = Self(1);
    pub(crate) const READONLY: Self = Self(1 << 1);
    pub(crate) const DENYOOM: Self = Self(1 << 2);
    pub(crate) const ADMIN: Self = Self(1 << 3);
    pub(crate) const NOSCRIPT: Self = Self(1 << 4);
    pub(crate) const LOADING: Self = Self(1 << 5);
    pub(crate) const STALE: Self = Self(1 << 6);
    pub(crate) const SKIP_MONITOR: Self = Self(1 << 7);
    pub(crate) const FAST: Self = Self(1 << 8);
    pub(crate) const NO_AUTH: Self = Self(1 << 9);
    pub(crate) const NO_MULTI: Self = Self(1 << 10);
    pub(crate) const NO_MANDATORY_KEYS: Self = Self(1 << 11);
    pub(crate) const ALLOW_BUSY: Self = Self(1 << 12);
    pub(crate) const MOVABLEKEYS: Self = Self(1 << 13);

    /// In the order in which COMMAND INFO prints them.
    const NAMES: [(Self, &'static str); 14] = [
        (Self::WRITE, "write"),
        (Self::READONLY, "readonly"),
        (Self::DENYOOM, "denyoom"),
        (Self::ADMIN, "admin"),
        (Self::NOSCRIPT, "noscript"),
        (Self::LOADING, "loading"),
        (Self::STALE, "stale"),
        (Self::SKIP_MONITOR, "skip_monitor"),
        (Self::FAST, "fast"),
        (Self::NO_AUTH, "no_auth"),
        (Self::NO_MULTI, "no_multi"),
        (Self::NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (Self::ALLOW_BUSY, "allow_busy"),
        (Self::MOVABLEKEYS, "movablekeys"),
    ];

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The group a command is documented under; it also decides its ACL category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Generic,
    String,
    Hash,
    Connection,
    Server,
    Scripting,
}

/// Where the keys of a request stand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeySpec {
    /// From `first` to `last` (negative counts from the end), every `step`-th argument.
    Range {
        first: usize,
        last: i32,
        step: usize,
    },
    /// A count at `count`, the keys after it.
    Count { at: usize },
}

/// One command, or one subcommand of a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandSpec {
    pub(crate) name: &'static str,
    /// Exact number of arguments with the name, or the negated minimum.
    pub(crate) arity: i32,
    pub(crate) handler: Handler,
    pub(crate) flags: Flags,
    pub(crate) group: Group,
    pub(crate) keys: Option<KeySpec>,
    /// Flags of the key specification, as COMMAND INFO prints them.
    pub(crate) key_flags: &'static [&'static str],
    pub(crate) key_notes: Option<&'static str>,
    pub(crate) since: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) tips: &'static [&'static str],
    /// ACL categories that do not follow from group and flags.
    pub(crate) categories: &'static [&'static str],
    pub(crate) subcommands: &'static [Self],
}

const NO_FLAGS: Flags = Flags(0);
/// `acl.c: ACLCommandCategories`, in its order.
const CATEGORIES: [&str; 21] = [
    "@keyspace",
    "@read",
    "@write",
    "@set",
    "@sortedset",
    "@list",
    "@hash",
    "@string",
    "@bitmap",
    "@hyperloglog",
    "@geo",
    "@stream",
    "@pubsub",
    "@admin",
    "@fast",
    "@slow",
    "@blocking",
    "@dangerous",
    "@connection",
    "@transaction",
    "@scripting",
];

impl CommandSpec {
    pub(crate) const fn new(
        name: &'static str,
        arity: i32,
        group: Group,
        handler: Handler,
    ) -> Self {
        Self {
            name,
            arity,
            handler,
            flags: NO_FLAGS,
            group,
            keys: None,
            key_flags: &[],
            key_notes: None,
            since: "1.0.0",
            summary: "",
            tips: &[],
            categories: &[],
            subcommands: &[],
        }
    }

    /// A container: everything happens in its subcommands.
    pub(crate) const fn container(
        name: &'static str,
        arity: i32,
        group: Group,
        subcommands: &'static [Self],
    ) -> Self {
        let mut spec = Self::new(name, arity, group, container_without_subcommand);
        spec.subcommands = subcommands;
        spec
    }

    pub(crate) const fn flags(mut self, flags: &[Flags]) -> Self {
        let mut i = 0;
        while i < flags.len() {
            self.flags = self.flags.or(flags[i]);
            i += 1;
        }
        self
    }

    pub(crate) const fn keys(
        mut self,
        first: usize,
        last: i32,
        step: usize,
        flags: &'static [&'static str],
    ) -> Self {
        self.keys = Some(KeySpec::Range { first, last, step });
        self.key_flags = flags;
        self
    }

    pub(crate) const fn counted_keys(mut self, at: usize, flags: &'static [&'static str]) -> Self {
        self.keys = Some(KeySpec::Count { at });
        self.key_flags = flags;
        self
    }

    pub(crate) const fn key_notes(mut self, notes: &'static str) -> Self {
        self.key_notes = Some(notes);
        self
    }

    pub(crate) const fn since(mut self, version: &'static str) -> Self {
        self.since = version;
        self
    }

    pub(crate) const fn summary(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    pub(crate) const fn tips(mut self, tips: &'static [&'static str]) -> Self {
        self.tips = tips;
        self
    }

    pub(crate) const fn acl(mut self, categories: &'static [&'static str]) -> Self {
        self.categories = categories;
        self
    }

    pub(crate) fn accepts(&self, count: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 {
            count >= wanted
        } else {
            count == wanted
        }
    }

    /// The keys of a request that has passed the arity check.
    pub(crate) fn keys_of<'a>(&self, request: Request<'a>) -> Vec<&'a [u8]> {
        let (from, to, step) = match self.keys {
            None => return Vec::new(),
            Some(KeySpec::Range { first, last, step }) => {
                let last = if last < 0 {
                    request.len().saturating_sub(last.unsigned_abs() as usize)
                } else {
                    last as usize
                };
                (first, last + 1, step)
            }
            Some(KeySpec::Count { at }) => {
                // More than there are arguments makes the request malformed: it has no keys.
                let count = request.arg(at).map_or(0, leading_number);
                let end = (at + 1).saturating_add(count);
                (at + 1, if end <= request.len() { end } else { at + 1 }, 1)
            }
        };
        (from..to)
            .step_by(step)
            .filter_map(|index| request.arg(index))
            .collect()
    }

    /// Its own ACL categories, in the order of `acl.c`.
    fn acl_categories(&self) -> impl Iterator<Item = &'static str> {
        let has = |flag| self.flags.has(flag);
        let by_group = match self.group {
            _ if !self.subcommands.is_empty() => "",
            Group::Generic => "@keyspace",
            Group::String => "@string",
            Group::Hash => "@hash",
            Group::Connection => "@connection",
            Group::Scripting => "@scripting",
            Group::Server => "",
        };
        CATEGORIES.into_iter().filter(move |category| {
            *category == by_group
                || self.categories.contains(category)
                || match *category {
                    "@read" => has(Flags::READONLY),
                    "@write" => has(Flags::WRITE),
                    "@admin" => has(Flags::ADMIN),
                    "@dangerous" => has(Flags::ADMIN),
                    "@fast" => has(Flags::FAST),
                    "@slow" => !has(Flags::FAST),
                    _ => false,
                }
        })
    }

    /// Its entry in the reply of COMMAND INFO.
    pub(crate) fn describe(&self, parent: Option<&str>) -> Reply {
        let name = parent.map_or_else(
            || self.name.to_owned(),
            |parent| format!("{parent}|{}", self.name),
        );
        let names = |names: &mut dyn Iterator<Item = &'static str>| {
            Reply::Set(names.map(Reply::Static).collect())
        };
        let flags = names(
            &mut Flags::NAMES
                .iter()
                .filter(|(flag, _)| self.flags.has(*flag))
                .map(|(_, name)| *name),
        );
        let (first, last, step) = match self.keys {
            Some(KeySpec::Range { first, last, step }) => {
                (first as i64, i64::from(last), step as i64)
            }
            Some(KeySpec::Count { .. }) | None => (0, 0, 0),
        };
        let tips = self.tips.iter().map(Reply::bulk).collect();
        let key_specs = self
            .keys
            .map(|keys| self.describe_keys(keys))
            .into_iter()
            .collect();
        let subcommands = self
            .subcommands
            .iter()
            .map(|sub| sub.describe(Some(self.name)))
            .collect();
        Reply::Array(vec![
            Reply::bulk(&name),
            Reply::Int(self.arity.into()),
            flags,
            Reply::Int(first),
            Reply::Int(last),
            Reply::Int(step),
            names(&mut self.acl_categories()),
            Reply::Set(tips),
            Reply::Set(key_specs),
            Reply::Set(subcommands),
        ])
    }

    fn describe_keys(&self, keys: KeySpec) -> Reply {
        let text = |text: &str| Reply::bulk(text);
        let number = |name: &str, value: i64| (Reply::bulk(name), Reply::Int(value));
        let (index, kind, spec) = match keys {
            KeySpec::Range { first, last, step } => {
                // Redis counts the last key from the first one.
                let last = if last < 0 {
                    i64::from(last)
                } else {
                    i64::from(last) - first as i64
                };
                (
                    first,
                    "range",
                    vec![
                        number("lastkey", last),
                        number("keystep", step as i64),
                        number("limit", 0),
                    ],
                )
            }
            KeySpec::Count { at } => (
                at,
                "keynum",
                vec![
                    number("keynumidx", 0),
                    number("firstkey", 1),
                    number("keystep", 1),
                ],
            ),
        };
        let typed = |kind: &str, spec| {
            Reply::Map(vec![
                (text("type"), text(kind)),
                (text("spec"), Reply::Map(spec)),
            ])
        };
        let mut pairs = Vec::new();
        if let Some(notes) = self.key_notes {
            pairs.push((text("notes"), text(notes)));
        }
        pairs.push((
            text("flags"),
            Reply::Set(self.key_flags.iter().copied().map(Reply::Static).collect()),
        ));
        pairs.push((
            text("begin_search"),
            typed("index", vec![number("index", index as i64)]),
        ));
        pairs.push((text("find_keys"), typed(kind, spec)));
        Reply::Map(pairs)
    }
}

/// The number that a text begins with, as `atoi` reads it; 0 for a negative one.
fn leading_number(text: &[u8]) -> usize {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text).iter();
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    digits.fold(0_usize, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(usize::from(digit - b'0'))
    })
}

/// COMMAND alone lists everything; the other containers need a subcommand, which the arity ensures.
fn container_without_subcommand(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Err(CommandError::Syntax)
}
