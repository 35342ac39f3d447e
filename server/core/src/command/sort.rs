//! SORT: sorts the elements of a key by their own values, or by values at other keys.
//!
//! Texts are compared as in the C locale, where Redis stops at a zero byte.

use super::connection::not_in_cluster;
use super::partial_sort::sort_range;
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Class, Ctx, Hash, Kind, List, Origin, SortedSet, Text, Ttl, Value};
use crate::resp::{Blob, LongDouble, Reply, Request};
use std::cmp::Ordering;
use std::ops::Range;

#[derive(Default)]
struct Options<'a> {
    descending: bool,
    alpha: bool,
    limit: Option<(i64, i64)>,
    by: Option<&'a [u8]>,
    /// True for a BY without a `*`: the elements keep their order.
    unsorted: bool,
    get: Vec<&'a [u8]>,
    store: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(ctx: &Ctx<'_>, args: &mut Args<'a>, may_store: bool) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let request = args.request();
        while let Some(word) = args.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let left = args.remaining();
            if is("ASC") {
                options.descending = false;
            } else if is("DESC") {
                options.descending = true;
            } else if is("ALPHA") {
                options.alpha = true;
            } else if is("LIMIT") && left >= 2 {
                options.limit = Some((args.integer()?, args.integer()?));
            } else if may_store && is("STORE") && left >= 1 {
                options.store = args.next();
            } else if is("BY") && left >= 1 {
                let pattern = args.required()?;
                options.by = Some(pattern);
                options.unsorted |= !c_text(pattern).contains(&b'*');
                if !options.unsorted {
                    not_in_cluster(ctx, "ERR BY option of SORT denied in Cluster mode.")?;
                    let text = "ERR BY option of SORT denied due to insufficient ACL permissions.";
                    reads_every_key(ctx, request, text)?;
                }
            } else if is("GET") && left >= 1 {
                not_in_cluster(ctx, "ERR GET option of SORT denied in Cluster mode.")?;
                let text = "ERR GET option of SORT denied due to insufficient ACL permissions.";
                reads_every_key(ctx, request, text)?;
                options.get.push(args.required()?);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    /// Returns the range of elements that LIMIT selects.
    fn range(&self, len: usize) -> Range<usize> {
        let (start, count) = self.limit.unwrap_or((0, -1));
        let start = usize::try_from(start.max(0)).unwrap_or(usize::MAX).min(len);
        let count = usize::try_from(count).unwrap_or(len).min(len - start);
        start..start + count
    }

    fn compare(&self, a: &Item, b: &Item) -> Ordering {
        let order = match (&a.weight, &b.weight) {
            // Elements with equal scores are ordered by their bytes, so that the result is deterministic.
            (Weight::Score(x), Weight::Score(y)) => x
                .partial_cmp(y)
                .unwrap_or(Ordering::Equal)
                .then_with(|| a.element.cmp(&b.element)),
            (Weight::Text(x), Weight::Text(y)) => match (x, y) {
                // A stored result has to be the same on all servers, so all bytes count.
                (Some(x), Some(y)) if self.store.is_some() => x.cmp(y),
                (Some(x), Some(y)) => c_text(x).cmp(c_text(y)),
                (x, y) => x.is_some().cmp(&y.is_some()),
            },
            (Weight::Score(_), Weight::Text(_)) | (Weight::Text(_), Weight::Score(_)) => {
                Ordering::Equal
            }
        };
        if self.descending {
            order.reverse()
        } else {
            order
        }
    }
}

/// Refuses patterns of keys if the user may not read every key.
fn reads_every_key(
    ctx: &Ctx<'_>,
    request: Request<'_>,
    text: &'static str,
) -> Result<(), CommandError> {
    if ctx.session.is_unrestricted {
        return Ok(());
    }
    let allowed = super::table(ctx)
        .resolve(request)
        .is_ok_and(|(entry, first)| {
            let asked = entry.spec.asked(entry.number, first, request, true);
            ctx.may_read_every_key(&asked)
        });
    if allowed {
        Ok(())
    } else {
        Err(CommandError::Text(text.into()))
    }
}

struct Item {
    element: Blob,
    weight: Weight,
}

/// Sort key of an element.
enum Weight {
    Score(f64),
    Text(Option<Blob>),
}

/// Returns the part of a string that C reads.
fn c_text(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Parses a whole text as `strtod` does; `None` if it is not a number or is out of range.
fn score(text: &[u8]) -> Option<f64> {
    let text = c_text(text);
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let begin = text.iter().position(|byte| !is_space(byte));
    let Some(begin) = begin else {
        return text.is_empty().then_some(0.0);
    };
    let number = &text[begin..];
    let unsigned = number
        .strip_prefix(b"-")
        .or_else(|| number.strip_prefix(b"+"));
    let unsigned = unsigned.unwrap_or(number);
    if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
        let is_negative = number.first() == Some(&b'-');
        return Some(if is_negative {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        });
    }
    let is_hex = matches!(unsigned, [b'0', b'x' | b'X', ..]);
    let value = if is_hex {
        LongDouble::parse(number)?.to_f64()
    } else {
        std::str::from_utf8(number).ok()?.parse::<f64>().ok()?
    };
    let is_zero = || {
        let mantissa =
            unsigned.split(|byte| b"eEpP".contains(byte) && !is_hex || b"pP".contains(byte));
        let mut digits = mantissa
            .take(1)
            .flatten()
            .filter(|byte| !b"xX.".contains(byte));
        digits.all(|digit| *digit == b'0')
    };
    let is_in_range = value.is_normal() || value == 0.0 && is_zero();
    is_in_range.then_some(value)
}

/// Returns the value at the place that a pattern names: `*` stands for the element, `->` selects a field of a
/// hash, `#` is the element itself (`sort.c: lookupKeyByPattern`).
fn look_up(ctx: &mut Ctx<'_>, pattern: &[u8], element: &Blob) -> Option<Blob> {
    let text = c_text(pattern);
    if text == b"#" {
        return Some(element.clone());
    }
    let star = text.iter().position(|byte| *byte == b'*')?;
    let arrow = text[star + 1..].windows(2).position(|two| two == b"->");
    let arrow = arrow.map(|at| star + 1 + at);
    // An arrow at the end is part of the key.
    let arrow = arrow.filter(|arrow| arrow + 2 < text.len());
    let behind = &pattern[star + 1..arrow.unwrap_or(pattern.len())];
    let key = [&pattern[..star], element, behind].concat();
    match arrow {
        Some(arrow) => {
            let hash = ctx.read::<Hash>(&key).ok()??;
            hash.get(&pattern[arrow + 2..]).map(Text::to_blob)
        }
        None => ctx.read::<Blob>(&key).ok()?.cloned(),
    }
}

/// Returns the elements with their sort keys.
fn weigh(
    ctx: &mut Ctx<'_>,
    elements: Vec<Blob>,
    options: &Options<'_>,
) -> Result<Vec<Item>, CommandError> {
    let mut are_numbers = true;
    let mut items = Vec::with_capacity(elements.len());
    for element in elements {
        let by = match options.by {
            Some(pattern) => look_up(ctx, pattern, &element),
            None => Some(element.clone()),
        };
        let weight = if options.alpha {
            Weight::Text(by)
        } else {
            let score = by.map_or(Some(0.0), |by| score(&by));
            are_numbers &= score.is_some();
            Weight::Score(score.unwrap_or(0.0))
        };
        items.push(Item { element, weight });
    }
    if are_numbers {
        return Ok(items);
    }
    Err(CommandError::Text(
        "ERR One or more scores can't be converted into double".into(),
    ))
}

/// `sort.c: sortCommandGeneric`.
fn sort_in(ctx: &mut Ctx<'_>, args: &mut Args<'_>, may_store: bool) -> CommandResult {
    let key = args.required()?;
    let mut options = Options::parse(ctx, args, may_store)?;
    let (mut elements, has_order) = match ctx.find_for_read(key) {
        Some(slot) => {
            let value = ctx.db().value(slot);
            let (kind, has_order) = (value.kind(), value.as_type().has_order());
            let elements = value.as_type().sortable();
            if kind == Kind::SortedSet {
                // As in Redis, a sorted set that was sorted is no longer packed.
                let seed = ctx.config().seed;
                if let Some(set) = ctx.write_again::<SortedSet>(key)? {
                    set.unpack(seed);
                }
            }
            (elements.ok_or(CommandError::WrongType)?, has_order)
        }
        None => (Vec::new(), true),
    };
    if options.unsorted && !has_order && (options.store.is_some() || ctx.origin == Origin::Script) {
        // The result has to be the same on every replica.
        (options.unsorted, options.alpha, options.by) = (false, true, None);
    }
    let range = options.range(elements.len());
    if options.unsorted {
        if options.descending && has_order {
            elements.reverse();
        }
    } else {
        let mut items = weigh(ctx, elements, &options)?;
        if options.by.is_some() && range != (0..items.len()) {
            sort_range(&mut items, range.clone(), |a, b| options.compare(a, b));
        } else {
            items.sort_by(|a, b| options.compare(a, b));
        }
        elements = items.into_iter().map(|item| item.element).collect();
    }
    let mut found = Vec::new();
    for element in &elements[range] {
        if options.get.is_empty() {
            found.push(Some(element.clone()));
        }
        for pattern in &options.get {
            found.push(look_up(ctx, pattern, element));
        }
    }
    let Some(destination) = options.store else {
        let replies = found
            .into_iter()
            .map(|value| value.map_or(Reply::Nil, Reply::Bulk));
        return Ok(Reply::Array(replies.collect()));
    };
    let len = found.len();
    if len > 0 {
        let elements = found.into_iter().map(Option::unwrap_or_default);
        let list: List = elements.collect();
        ctx.set(destination, Value::List(list), Ttl::Clear);
        ctx.resized_list(destination, false);
        ctx.notify(Class::List, "sortstore", destination);
    } else if ctx.clear_destination(destination) {
        ctx.notify(Class::Generic, "del", destination);
    }
    Ok(Reply::Int(len as i64))
}

fn sort(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    sort_in(ctx, args, true)
}

fn sort_ro(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    sort_in(ctx, args, false)
}

const CATEGORIES: &[&str] = &["@set", "@sortedset", "@list", "@dangerous"];
const ACCESS: &[&str] = &["RO", "access"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("sort", sort)
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .key_notes("Patterns of `BY` and `GET` name any keys")
        .unknown_keys(&["OW", "update"])
        .key_notes("Behind `STORE`, where it stands last")
        .find_keys(super::keys::sort)
        .syntax(
            "key [BY pattern:pattern#1] [LIMIT offset_count=(offset:integer count:integer)] [GET \
             pattern:pattern#1...+] [order=(ASC | DESC)] [sorting=ALPHA] [STORE destination:key]",
        )
        .summary("The sorted elements of a collection; can store the result."),
    row("sort_ro", sort_ro)
        .flags(&[Flags::READONLY])
        .key_notes("Patterns of `BY` and `GET` name any keys")
        .find_keys(super::keys::sort_ro)
        .since("7.0.0")
        .syntax(
            "key [BY pattern:pattern#1] [LIMIT offset_count=(offset:integer count:integer)] [GET \
             pattern:pattern#1...+] [order=(ASC | DESC)] [sorting=ALPHA]",
        )
        .summary("The sorted elements of a collection."),
];

const fn row(name: &'static str, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, -2, Group::Generic, handler)
        .keys(1, 1, 1, ACCESS)
        .unknown_keys(ACCESS)
        .acl(CATEGORIES)
        .acl_without(&["@keyspace"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_read_as_strtod_reads_them() {
        for (text, expected) in [
            ("", Some(0.0)),
            (" ", None),
            ("1", Some(1.0)),
            (" \t-2.5", Some(-2.5)),
            ("1 ", None),
            ("1\0x", Some(1.0)),
            ("0x10", Some(16.0)),
            ("-0x1p-1", Some(-0.5)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("nan", None),
            ("1e400", None),
            ("1e-400", None),
            ("0e5", Some(0.0)),
            ("0.0", Some(0.0)),
            ("0x0", Some(0.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("1e", None),
            ("abc", None),
            ("+1", Some(1.0)),
        ] {
            assert_eq!(score(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn limits_are_clamped() {
        for (limit, expected) in [
            (None, 0..5),
            (Some((1, 2)), 1..3),
            (Some((-7, 2)), 0..2),
            (Some((3, 100)), 3..5),
            (Some((9, 1)), 5..5),
            (Some((2, -1)), 2..5),
            (Some((2, 0)), 2..2),
            (Some((i64::MIN, i64::MAX)), 0..5),
        ] {
            let options = Options {
                limit,
                ..Options::default()
            };
            assert_eq!(options.range(5), expected, "{limit:?}");
        }
    }
}
