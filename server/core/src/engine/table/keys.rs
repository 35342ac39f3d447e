//! Where the keys of a request stand: the key specifications of a row, as COMMAND INFO describes
//! them and as COMMAND GETKEYS, faults and routing read them. Knows no value and no handler.

use crate::engine::acl::Access;
use crate::resp::{Reply, Request, parse_integer};

/// Use of a key, as COMMAND INFO names it.
pub(crate) type KeyFlags = &'static [&'static str];
/// Finds the keys of a command whose specifications do not tell them all.
pub(crate) type FindKeys = fn(Request<'_>) -> Vec<KeyPlace>;

/// Specifications of one row at most: those of SORT and GEORADIUS.
const SPECS_MAX: usize = 3;

const RO: KeyFlags = &["RO", "access"];
const RW_DELETE: KeyFlags = &["RW", "access", "delete"];
const RW_UPDATE: KeyFlags = &["RW", "access", "update"];
const OW: KeyFlags = &["OW", "update"];

/// One key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPlace {
    /// The number of its argument; the name of the command is number 0.
    pub(crate) at: usize,
    pub(crate) flags: KeyFlags,
}

impl KeyPlace {
    /// The rights on this key that the request needs.
    pub(crate) fn access(&self) -> Access {
        let has = |flag| self.flags.contains(&flag);
        Access {
            reads: has("access"),
            writes: has("insert") || has("delete") || has("update"),
        }
    }
}

/// How the first key is found.
#[derive(Clone, Copy, Debug)]
enum Begin {
    Index(usize),
    /// Behind a word, searched from this argument on; backwards if it is negative.
    Keyword {
        word: &'static str,
        from: i32,
    },
    Unknown,
}

/// How the other keys are found from the first.
#[derive(Clone, Copy, Debug)]
enum Find {
    /// Up to `last`, counted from the first key, or from the end of the request if it is negative;
    /// only the first `limit`-th part of the rest, if that is not 0.
    Range {
        last: i32,
        step: usize,
        limit: usize,
    },
    /// The first argument is their number, they follow it.
    Count,
    Unknown,
}

/// One key specification.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpec {
    begin: Begin,
    find: Find,
    flags: KeyFlags,
    notes: Option<&'static str>,
}

/// The key specifications of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpecs([Option<KeySpec>; SPECS_MAX]);

/// `getkeys` gave up: a specification is incomplete, or the request does not fit it.
struct Unclear;

impl KeySpec {
    /// Arguments `first` to `last` (negative counts from the end), every `step`-th.
    pub(crate) const fn range(first: usize, last: i32, step: usize, flags: KeyFlags) -> Self {
        // Redis counts the last key from the first one.
        let last = if last < 0 { last } else { last - first as i32 };
        Self {
            begin: Begin::Index(first),
            find: Find::Range {
                last,
                step,
                limit: 0,
            },
            flags,
            notes: None,
        }
    }

    /// The number of keys at `at`, followed by the keys.
    pub(crate) const fn counted(at: usize, flags: KeyFlags) -> Self {
        Self {
            begin: Begin::Index(at),
            find: Find::Count,
            flags,
            notes: None,
        }
    }

    /// Behind a word; `last` counts from the first key.
    pub(crate) const fn after(
        word: &'static str,
        from: i32,
        last: i32,
        step: usize,
        limit: usize,
        flags: KeyFlags,
    ) -> Self {
        Self {
            begin: Begin::Keyword { word, from },
            find: Find::Range { last, step, limit },
            flags,
            notes: None,
        }
    }

    /// Somewhere: only the command itself knows.
    pub(crate) const fn unknown(flags: KeyFlags) -> Self {
        Self {
            begin: Begin::Unknown,
            find: Find::Unknown,
            flags,
            notes: None,
        }
    }

    fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// Adds the keys of a request (`db.c: getKeysUsingKeySpecs`).
    fn places(&self, request: Request<'_>, into: &mut Vec<KeyPlace>) -> Result<(), Unclear> {
        let count = request.len();
        let mut first = match self.begin {
            Begin::Index(index) => index,
            Begin::Keyword { word, from } => match keyword(request, word, from) {
                Some(at) => at + 1,
                None => return Ok(()),
            },
            Begin::Unknown => return Err(Unclear),
        };
        let (last, step) = match self.find {
            Find::Range { last, step, limit } => {
                let last = match (usize::try_from(last), limit) {
                    (Ok(last), _) => Some(first + last),
                    (Err(_), 0) => count.checked_sub(last.unsigned_abs() as usize),
                    (Err(_), limit) => (first + count.saturating_sub(first) / limit).checked_sub(1),
                };
                (last, step)
            }
            Find::Count => {
                let said = request.arg(first).ok_or(Unclear)?;
                let said = parse_integer(said).and_then(|said| usize::try_from(said).ok());
                first += 1;
                let end = first.checked_add(said.ok_or(Unclear)?);
                (end.and_then(|end| end.checked_sub(1)), 1)
            }
            Find::Unknown => return Err(Unclear),
        };
        let last = last.filter(|last| (first..count).contains(last));
        let places = (first..=last.ok_or(Unclear)?).step_by(step);
        into.extend(places.map(|at| KeyPlace {
            at,
            flags: self.flags,
        }));
        if self.has("incomplete") {
            return Err(Unclear);
        }
        Ok(())
    }

    /// The numbers of its first and last argument, if it is a plain range.
    fn plain(&self) -> Option<(usize, i32, usize)> {
        match (self.begin, self.find) {
            (Begin::Index(first), Find::Range { last, step, .. }) => {
                let last = if last < 0 { last } else { last + first as i32 };
                Some((first, last, step))
            }
            _ => None,
        }
    }

    /// Its entry in the reply of COMMAND INFO.
    fn describe(&self) -> Reply {
        let number = |name: &str, value: i64| (Reply::bulk(name), Reply::Int(value));
        let typed = |kind: &str, spec| {
            Reply::Map(vec![
                (Reply::bulk("type"), Reply::bulk(kind)),
                (Reply::bulk("spec"), Reply::Map(spec)),
            ])
        };
        let begin = match self.begin {
            Begin::Index(index) => typed("index", vec![number("index", index as i64)]),
            Begin::Keyword { word, from } => {
                let word = (Reply::bulk("keyword"), Reply::bulk(word));
                typed("keyword", vec![word, number("startfrom", from.into())])
            }
            Begin::Unknown => typed("unknown", Vec::new()),
        };
        let find = match self.find {
            Find::Range { last, step, limit } => {
                let last = number("lastkey", last.into());
                let (step, limit) = (
                    number("keystep", step as i64),
                    number("limit", limit as i64),
                );
                typed("range", vec![last, step, limit])
            }
            Find::Count => {
                let fields = [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)];
                let fields = fields.map(|(name, value)| number(name, value));
                typed("keynum", fields.to_vec())
            }
            Find::Unknown => typed("unknown", Vec::new()),
        };
        let notes = self
            .notes
            .map(|notes| (Reply::bulk("notes"), Reply::bulk(notes)));
        let fields = [
            (Reply::bulk("flags"), describe_flags(self.flags)),
            (Reply::bulk("begin_search"), begin),
            (Reply::bulk("find_keys"), find),
        ];
        Reply::Map(notes.into_iter().chain(fields).collect())
    }
}

impl KeySpecs {
    pub(crate) const NONE: Self = Self([None; SPECS_MAX]);

    /// The same with one more.
    pub(crate) const fn with(mut self, spec: KeySpec) -> Self {
        let mut at = 0;
        while self.0[at].is_some() {
            at += 1;
        }
        self.0[at] = Some(spec);
        self
    }

    /// The same with a note on the last one.
    pub(crate) const fn with_notes(mut self, notes: &'static str) -> Self {
        let mut at = SPECS_MAX - 1;
        while self.0[at].is_none() {
            at -= 1;
        }
        if let Some(spec) = &mut self.0[at] {
            spec.notes = Some(notes);
        }
        self
    }

    fn iter(&self) -> impl Iterator<Item = &KeySpec> {
        self.0.iter().flatten()
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// Returns true if any of them stands for keys; the channels of SPUBLISH are none.
    pub(crate) fn hold_keys(&self) -> bool {
        self.iter().any(|spec| !spec.has("not_key"))
    }

    /// The keys of a request that has passed the arity check, in the order of the specifications
    /// (`db.c: getKeysFromCommandWithSpecs`).
    pub(crate) fn places(&self, request: Request<'_>, find: Option<FindKeys>) -> Vec<KeyPlace> {
        let specs = || self.iter().filter(|spec| !spec.has("not_key"));
        if specs().all(|spec| !spec.has("variable_flags")) {
            let mut places = Vec::new();
            if specs()
                .try_for_each(|spec| spec.places(request, &mut places))
                .is_ok()
            {
                return places;
            }
        }
        find.map_or_else(|| self.loosely_counted(request), |find| find(request))
    }

    /// The same where the number of keys is no clean number (`db.c: genericGetKeys`): read as
    /// `atoi` does, and no key at all if it is none or more than there are arguments.
    fn loosely_counted(&self, request: Request<'_>) -> Vec<KeyPlace> {
        let Some(at) = self.iter().find_map(|spec| match (spec.begin, spec.find) {
            (Begin::Index(at), Find::Count) => Some(at),
            _ => None,
        }) else {
            return Vec::new();
        };
        let count = request.arg(at).map_or(0, leading_number);
        if count == 0 || count > request.len().saturating_sub(at + 1) {
            return Vec::new();
        }
        let places = (at + 1..=at + count).chain(self.iter().filter_map(|spec| {
            let (first, _, _) = spec.plain()?;
            Some(first)
        }));
        places.map(|at| KeyPlace { at, flags: &[] }).collect()
    }

    /// First key, last key and step as COMMAND had them before there were specifications, and
    /// whether they leave out some keys (`server.c: populateCommandLegacyRangeSpec`).
    pub(crate) fn legacy(&self) -> ((i64, i64, i64), bool) {
        if let [Some(only), None, ..] = &self.0
            && let Some((first, last, step)) = only.plain()
        {
            let range = (first as i64, last.into(), step as i64);
            return (range, only.has("incomplete"));
        }
        let (mut range, mut movable) = (None, false);
        for spec in self.iter() {
            let follows =
                |(_, last): (usize, i32), first: usize| i64::from(last) + 1 == first as i64;
            match spec.plain() {
                Some((first, last, 1)) if range.is_none_or(|range| follows(range, first)) => {
                    movable |= spec.has("incomplete");
                    let begin = range.map_or(first, |(begin, _)| begin);
                    range = Some((begin, last));
                }
                _ => movable = true,
            }
        }
        let range = range.map_or((0, 0, 0), |(first, last)| (first as i64, last.into(), 1));
        (range, movable)
    }

    /// Their entry in the reply of COMMAND INFO.
    pub(crate) fn describe(&self) -> Reply {
        Reply::Set(self.iter().map(KeySpec::describe).collect())
    }
}

/// Key flags as COMMAND INFO and COMMAND GETKEYSANDFLAGS show them.
pub(crate) fn describe_flags(flags: KeyFlags) -> Reply {
    Reply::Set(flags.iter().copied().map(Reply::Static).collect())
}

/// The argument that is this word, from `from` on, or backwards from there if it is negative.
fn keyword(request: Request<'_>, word: &str, from: i32) -> Option<usize> {
    let is_it = |at: &usize| is_word(request, *at, word);
    let behind = from.unsigned_abs() as usize;
    if from >= 0 {
        // The last argument has no value after it.
        (behind..request.len() - 1).find(is_it)
    } else {
        // As in Redis, neither the name nor the first argument is looked at.
        let start = request.len().checked_sub(behind)?;
        (2..=start).rev().find(is_it)
    }
}

fn is_word(request: Request<'_>, at: usize, word: &str) -> bool {
    let arg = request.arg(at);
    arg.is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()))
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

/// SET reads its key only with GET (`db.c: setGetKeys`).
pub(crate) fn set(request: Request<'_>) -> Vec<KeyPlace> {
    let reads = (3..request.len()).any(|at| is_word(request, at, "GET"));
    let flags = if reads { RW_UPDATE } else { OW };
    vec![KeyPlace { at: 1, flags }]
}

/// BITFIELD without SET and INCRBY only reads its key; an unknown operation counts as a write (`db.c:
/// bitfieldGetKeys`).
pub(crate) fn bitfield(request: Request<'_>) -> Vec<KeyPlace> {
    let mut at = 2;
    let mut reads_only = true;
    while at < request.len() && reads_only {
        let left = request.len() - at - 1;
        let is = |word| is_word(request, at, word);
        at += match () {
            () if is("GET") && left >= 2 => 3,
            () if is("OVERFLOW") && left >= 1 => 2,
            () => {
                reads_only = false;
                1
            }
        };
    }
    let flags = if reads_only { RO } else { RW_UPDATE };
    vec![KeyPlace { at: 1, flags }]
}

/// SORT: its key, and the last key behind STORE (`db.c: sortGetKeys`).
pub(crate) fn sort(request: Request<'_>) -> Vec<KeyPlace> {
    let mut places = vec![KeyPlace { at: 1, flags: RO }];
    let mut at = 2;
    while at < request.len() {
        let is = |word| is_word(request, at, word);
        if is("LIMIT") {
            at += 2;
        } else if is("GET") || is("BY") {
            at += 1;
        } else if is("STORE") && at + 1 < request.len() {
            places.truncate(1);
            places.push(KeyPlace {
                at: at + 1,
                flags: OW,
            });
        }
        at += 1;
    }
    places
}

/// SORT_RO: what its patterns name is not told.
pub(crate) fn sort_ro(_: Request<'_>) -> Vec<KeyPlace> {
    vec![KeyPlace { at: 1, flags: RO }]
}

/// MIGRATE: one key at its place, or those behind KEYS (`db.c: migrateGetKeys`).
pub(crate) fn migrate(request: Request<'_>) -> Vec<KeyPlace> {
    let mut at = 6;
    let place = |at| KeyPlace {
        at,
        flags: RW_DELETE,
    };
    while at < request.len() {
        let is = |word| is_word(request, at, word);
        if is("KEYS") {
            // With a key at its place too, this is a syntax error without keys.
            if request.arg(3).is_some_and(|key| !key.is_empty()) {
                return Vec::new();
            }
            return (at + 1..request.len()).map(place).collect();
        }
        at += match () {
            () if is("AUTH") => 2,
            () if is("AUTH2") => 3,
            () => 1,
        };
    }
    vec![place(3)]
}
