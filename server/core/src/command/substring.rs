//! Strings: parts, appends, and common subsequences.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Class, Ctx, EncodingHint, Ttl, Value};
use crate::resp::{Blob, Reply};

/// `t_string.c: checkStringLength`.
fn check_length(ctx: &Ctx<'_>, len: usize, more: usize) -> Result<(), CommandError> {
    let total = len
        .checked_add(more)
        .and_then(|total| i64::try_from(total).ok());
    if total.is_some_and(|total| total <= ctx.config().proto_max_bulk_len) {
        return Ok(());
    }
    Err(CommandError::Text(
        "ERR string exceeds maximum allowed size (proto-max-bulk-len)".into(),
    ))
}

/// A string that APPEND creates is like one by SET; one that it extends is a buffer.
fn append(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, more) = (args.required()?, args.required()?);
    let len = if let Some(value) = ctx.write::<Blob>(key)? {
        let len = value.len();
        check_length(ctx, len, more.len())?;
        if let Some(value) = ctx.write_again::<Blob>(key)? {
            value.overwrite(len, more);
        }
        ctx.set_form(key, EncodingHint::Raw);
        ctx.touched(key);
        len + more.len()
    } else {
        ctx.set_found(None, key, Value::String(Blob::new(more)), Ttl::Clear);
        more.len()
    };
    ctx.notify(Class::String, "append", key);
    Ok(Reply::Int(len as i64))
}

/// `t_string.c: setrangeCommand`. An empty value changes nothing and creates no key.
fn setrange(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, offset, bytes) = (args.required()?, args.integer()?, args.required()?);
    let offset = usize::try_from(offset)
        .map_err(|_| CommandError::Text("ERR offset is out of range".into()))?;
    let len = ctx.write::<Blob>(key)?.map(|value| value.len());
    if bytes.is_empty() {
        return Ok(Reply::Int(len.unwrap_or(0) as i64));
    }
    check_length(ctx, offset, bytes.len())?;
    match ctx.write_again::<Blob>(key)? {
        Some(value) => {
            value.overwrite(offset, bytes);
            ctx.touched(key);
        }
        None => {
            let mut value = Blob::default();
            value.overwrite(offset, bytes);
            ctx.set_found(None, key, Value::String(value), Ttl::Clear);
        }
    }
    ctx.set_form(key, EncodingHint::Raw);
    ctx.notify(Class::String, "setrange", key);
    Ok(Reply::Int(
        (offset + bytes.len()).max(len.unwrap_or(0)) as i64
    ))
}

/// `t_string.c: getrangeCommand`: unlike in ranges of lists, an end before the start means the first byte.
fn getrange(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, start, end) = (args.required()?, args.integer()?, args.integer()?);
    let Some(value) = ctx.read::<Blob>(key)? else {
        return Ok(Reply::bulk(""));
    };
    let len = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        return Ok(Reply::bulk(""));
    }
    let absolute = |index: i64| {
        if index < 0 {
            (len + index).max(0)
        } else {
            index
        }
    };
    let (start, end) = (absolute(start), absolute(end).min(len - 1));
    if start > end {
        return Ok(Reply::bulk(""));
    }
    Ok(Reply::bulk(&value[start as usize..=end as usize]))
}

/// Arguments of LCS.
#[derive(Default)]
struct LcsOptions {
    length: bool,
    matches: bool,
    match_len: bool,
    match_len_min: i64,
}

impl LcsOptions {
    fn parse(args: &mut Args<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while !args.is_empty() {
            if args.keyword("IDX") {
                options.matches = true;
            } else if args.keyword("LEN") {
                options.length = true;
            } else if args.keyword("WITHMATCHLEN") {
                options.match_len = true;
            } else if args.keyword("MINMATCHLEN") {
                options.match_len_min = args.integer()?.max(0);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if options.matches && options.length {
            return Err(CommandError::Text(
                "ERR If you want both the length and indexes, please just use IDX.".into(),
            ));
        }
        Ok(options)
    }
}

/// A run of bytes that two strings share: its start in each, and its length.
struct Match {
    first: usize,
    second: usize,
    len: usize,
}

/// The longest common subsequence, found from the end of both strings to their beginning.
struct Common {
    bytes: Vec<u8>,
    /// Last match first.
    matches: Vec<Match>,
}

impl Common {
    fn find(a: &[u8], b: &[u8]) -> Self {
        let width = b.len() + 1;
        // lengths[i * width + j] is the result for the first i bytes of one and j of the other.
        let mut lengths = vec![0_u32; (a.len() + 1) * width];
        for (i, byte) in a.iter().enumerate() {
            for (j, other) in b.iter().enumerate() {
                let at = (i + 1) * width + j + 1;
                lengths[at] = if byte == other {
                    lengths[at - width - 1] + 1
                } else {
                    lengths[at - width].max(lengths[at - 1])
                };
            }
        }
        let (mut i, mut j) = (a.len(), b.len());
        let (mut bytes, mut matches) = (Vec::new(), Vec::<Match>::new());
        let mut goes_on = false;
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                bytes.push(a[i]);
                match matches.last_mut().filter(|_| goes_on) {
                    Some(run) => (run.first, run.second, run.len) = (i, j, run.len + 1),
                    None => matches.push(Match {
                        first: i,
                        second: j,
                        len: 1,
                    }),
                }
                goes_on = true;
            } else {
                if lengths[(i - 1) * width + j] > lengths[i * width + j - 1] {
                    i -= 1;
                } else {
                    j -= 1;
                }
                goes_on = false;
            }
        }
        bytes.reverse();
        Self { bytes, matches }
    }
}

/// `t_string.c: lcsCommand`.
fn lcs(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (first, second) = (args.required()?, args.required()?);
    let mut string = |key: &[u8]| {
        let found = ctx.read::<Blob>(key).ok()?;
        Some(found.cloned().unwrap_or_default())
    };
    // Redis looks up both before it checks either.
    let (Some(a), Some(b)) = (string(first), string(second)) else {
        return Err(CommandError::Text(
            "ERR The specified keys must contain string values".into(),
        ));
    };
    let options = LcsOptions::parse(args)?;
    let bytes = (a.len() as u128 + 1) * (b.len() as u128 + 1) * size_of::<u32>() as u128;
    if bytes > ctx.config().proto_max_bulk_len.unsigned_abs().into() {
        return Err(CommandError::Text(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len".into(),
        ));
    }
    let common = Common::find(&a, &b);
    let len = Reply::Int(common.bytes.len() as i64);
    if !options.matches {
        return Ok(if options.length {
            len
        } else {
            Reply::bulk(common.bytes)
        });
    }
    let range = |from: usize, len: usize| {
        Reply::Array(vec![
            Reply::Int(from as i64),
            Reply::Int((from + len - 1) as i64),
        ])
    };
    let describe = |run: Match| {
        let mut items = vec![range(run.first, run.len), range(run.second, run.len)];
        items.extend(options.match_len.then_some(Reply::Int(run.len as i64)));
        Reply::Array(items)
    };
    let long = |run: &Match| run.len as i64 >= options.match_len_min;
    let matches = common.matches.into_iter().filter(long).map(describe);
    Ok(Reply::Map(vec![
        (Reply::bulk("matches"), Reply::Array(matches.collect())),
        (Reply::bulk("len"), len),
    ]))
}

const RO: &[Flags] = &[Flags::READONLY];
const ACCESS: &[&str] = &["RO", "access"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("append", 3, append)
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .keys(1, 1, 1, &["RW", "insert"])
        .since("2.0.0")
        .syntax("key value")
        .summary("Adds bytes to the end of a string."),
    row("setrange", 4, setrange)
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .keys(1, 1, 1, &["RW", "update"])
        .since("2.2.0")
        .syntax("key offset:integer value")
        .summary("Overwrites bytes of a string."),
    row("getrange", 4, getrange)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("2.4.0")
        .syntax("key start:integer end:integer")
        .summary("A part of a string, including both ends."),
    row("substr", 4, getrange)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .deprecated("2.0.0", "`GETRANGE`")
        .syntax("key start:integer end:integer")
        .summary("A part of a string, including both ends."),
    row("lcs", -3, lcs)
        .flags(RO)
        .keys(1, 2, 1, ACCESS)
        .since("7.0.0")
        .syntax("key1:key key2:key [LEN] [IDX] [MINMATCHLEN len:integer] [WITHMATCHLEN]")
        .summary("The longest common subsequence of two strings."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::String, handler)
}
