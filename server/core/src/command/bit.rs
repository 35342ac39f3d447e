//! Strings as rows of bits, the highest bit of each byte first (`bitops.c`).

use super::bits;
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Class, Ctx, EncodingHint, Ttl, Value};
use crate::resp::{Blob, Reply, parse_integer};

const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// `bitops.c: getBitOffsetFromArgument`. With `width`, `#n` is the n-th integer of that many bits.
fn bit_offset(ctx: &Ctx<'_>, text: &[u8], width: Option<u32>) -> Result<usize, CommandError> {
    let bad = || CommandError::Text(BAD_OFFSET.into());
    let (digits, factor) = match (text.strip_prefix(b"#"), width) {
        (Some(digits), Some(width)) => (digits, i64::from(width)),
        _ => (text, 1),
    };
    let offset = parse_integer(digits).ok_or_else(bad)?;
    // As `bitops.c: getBitOffsetFromArgument`, where the product wraps around.
    let offset = offset.wrapping_mul(factor);
    if offset < 0 || offset >> 3 >= ctx.config().proto_max_bulk_len {
        return Err(bad());
    }
    usize::try_from(offset).map_err(|_| bad())
}

/// Extends the string at `key` to at least `bytes` bytes; true if it was shorter or missing. The caller has
/// to call [`Ctx::touched`].
fn make_room(ctx: &mut Ctx<'_>, key: &[u8], bytes: usize) -> Result<bool, CommandError> {
    let grown = if let Some(value) = ctx.write::<Blob>(key)? {
        let is_shorter = value.len() < bytes;
        if is_shorter {
            value.overwrite(bytes - 1, &[0]);
        }
        is_shorter
    } else {
        let mut value = Blob::default();
        value.overwrite(bytes - 1, &[0]);
        ctx.add(key, Value::String(value));
        true
    };
    ctx.set_form(key, EncodingHint::Raw);
    Ok(grown)
}

fn changed(ctx: &mut Ctx<'_>, key: &[u8]) {
    ctx.touched(key);
    ctx.notify(Class::String, "setbit", key);
}

fn setbit(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, offset) = (args.required()?, args.required()?);
    let offset = bit_offset(ctx, offset, None)?;
    let on = match parse_integer(args.required()?) {
        Some(0) => false,
        Some(1) => true,
        Some(_) | None => {
            return Err(CommandError::Text(
                "ERR bit is not an integer or out of range".into(),
            ));
        }
    };
    let (at, mask) = (offset / 8, 0x80_u8 >> (offset % 8));
    let grown = make_room(ctx, key, at + 1)?;
    let mut was_on = false;
    if let Some(value) = ctx.write_again::<Blob>(key)? {
        let byte = value[at];
        was_on = byte & mask != 0;
        if was_on != on {
            value.overwrite(at, &[byte ^ mask]);
        }
    }
    if grown || was_on != on {
        changed(ctx, key);
    }
    Ok(Reply::Int(i64::from(was_on)))
}

fn getbit(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (key, offset) = (args.required()?, args.required()?);
    let offset = bit_offset(ctx, offset, None)?;
    let byte = match ctx.read::<Blob>(key)? {
        Some(value) => value.get(offset / 8).copied().unwrap_or(0),
        None => 0,
    };
    Ok(Reply::Int(i64::from(byte >> (7 - offset % 8) & 1)))
}

/// Returns true if a range counts bits instead of bytes.
fn counts_bits(unit: &[u8]) -> Result<bool, CommandError> {
    if unit.eq_ignore_ascii_case(b"BIT") {
        Ok(true)
    } else if unit.eq_ignore_ascii_case(b"BYTE") {
        Ok(false)
    } else {
        Err(CommandError::Syntax)
    }
}

/// Returns a range of bits of a string of `len` bytes; `None` if it is empty. Negative ends count from the
/// end of the string.
fn bit_range(len: usize, start: i64, end: i64, in_bits: bool) -> Option<(usize, usize)> {
    let unit = if in_bits { 1 } else { 8 };
    let total = (len * 8 / unit) as i64;
    let absolute = |index: i64| {
        if index < 0 {
            (total + index).max(0)
        } else {
            index
        }
    };
    let (first, last) = (absolute(start), absolute(end).min(total - 1));
    if first > last {
        return None;
    }
    Some((first as usize * unit, (last as usize + 1) * unit))
}

fn bitcount(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    // Redis replies for a missing key before it checks the other arguments.
    let Some(bytes) = ctx.read::<Blob>(key)? else {
        return Ok(Reply::Int(0));
    };
    let bytes = bytes.clone();
    let range = if args.is_empty() {
        bit_range(bytes.len(), 0, -1, false)
    } else {
        if !matches!(args.remaining(), 2 | 3) {
            return Err(CommandError::Syntax);
        }
        let (start, end) = (args.integer()?, args.integer()?);
        // Redis replies for a range that is visibly empty before it reads the unit.
        if start < 0 && end < 0 && start > end {
            return Ok(Reply::Int(0));
        }
        let in_bits = args.next().map_or(Ok(false), counts_bits)?;
        bit_range(bytes.len(), start, end, in_bits)
    };
    let count = range.map_or(0, |(from, to)| bits::count(&bytes, from, to));
    Ok(Reply::Int(count as i64))
}

fn bitpos(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let bit = match args.integer()? {
        0 => false,
        1 => true,
        _ => {
            return Err(CommandError::Text(
                "ERR The bit argument must be 1 or 0.".into(),
            ));
        }
    };
    // Redis replies for a missing key before it checks the range.
    let Some(bytes) = ctx.read::<Blob>(key)? else {
        return Ok(Reply::Int(if bit { -1 } else { 0 }));
    };
    let bytes = bytes.clone();
    if args.remaining() > 3 {
        return Err(CommandError::Syntax);
    }
    let start = if args.is_empty() { 0 } else { args.integer()? };
    let end = args.next();
    let in_bits = args.next().map_or(Ok(false), counts_bits)?;
    let has_end = end.is_some();
    let end = match end {
        Some(end) => super::integer_of(end)?,
        None => -1,
    };
    let Some((from, to)) = bit_range(bytes.len(), start, end, in_bits) else {
        return Ok(Reply::Int(-1));
    };
    let found = bits::find(&bytes, from, to, bit);
    Ok(Reply::Int(match found {
        Some(at) => at as i64,
        // The bits after the end of the string are zeros, unless the range ends before them.
        None if !bit && !has_end => bytes.len() as i64 * 8,
        None => -1,
    }))
}

fn bitop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let operation = args.required()?;
    let operation = match operation.to_ascii_uppercase().as_slice() {
        b"AND" => bits::Operation::And,
        b"OR" => bits::Operation::Or,
        b"XOR" => bits::Operation::Xor,
        b"NOT" => bits::Operation::Not,
        _ => return Err(CommandError::Syntax),
    };
    let destination = args.required()?;
    if operation == bits::Operation::Not && args.remaining() != 1 {
        return Err(CommandError::Text(
            "ERR BITOP NOT must be called with a single source key.".into(),
        ));
    }
    let mut sources = Vec::with_capacity(args.remaining());
    for key in args.rest() {
        sources.push(ctx.read::<Blob>(key)?.cloned().unwrap_or_default());
    }
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    if len == 0 {
        if ctx.clear_destination(destination) {
            ctx.notify(Class::Generic, "del", destination);
        }
        return Ok(Reply::Int(0));
    }
    let result = bits::combine(operation, &sources);
    ctx.set(destination, Value::String(result), Ttl::Clear);
    ctx.set_form(destination, EncodingHint::Raw);
    ctx.notify(Class::String, "set", destination);
    Ok(Reply::Int(len as i64))
}

/// OVERFLOW: treatment of a result that its integer cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// An integer within a string.
#[derive(Clone, Copy, Debug)]
struct Field {
    is_signed: bool,
    width: u32,
    offset: usize,
}

impl Field {
    /// `bitops.c: getBitfieldTypeFromArgument` and its offset.
    fn parse(ctx: &Ctx<'_>, args: &mut Args<'_>) -> Result<Self, CommandError> {
        let bad = || {
            CommandError::Text(
                "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but \
                 i64 is."
                    .into(),
            )
        };
        let (kind, width) = args.required()?.split_first().ok_or_else(bad)?;
        let (is_signed, width_max) = match kind {
            b'i' => (true, 64),
            b'u' => (false, 63),
            _ => return Err(bad()),
        };
        let width = parse_integer(width).filter(|width| (1..=width_max).contains(width));
        let width = width.ok_or_else(bad)? as u32;
        let offset = bit_offset(ctx, args.required()?, Some(width))?;
        Ok(Self {
            is_signed,
            width,
            offset,
        })
    }

    /// Number of bytes that a string needs to hold it.
    fn end(self) -> usize {
        (self.offset + self.width as usize - 1) / 8 + 1
    }

    fn limits(self) -> (i128, i128) {
        if self.is_signed {
            let max = (1_i128 << (self.width - 1)) - 1;
            (-max - 1, max)
        } else {
            (0, (1_i128 << self.width) - 1)
        }
    }

    fn read(self, bytes: &[u8]) -> i128 {
        let bits = (self.offset..self.offset + self.width as usize).map(|at| {
            let byte = bytes.get(at / 8).copied().unwrap_or(0);
            byte >> (7 - at % 8) & 1
        });
        let value = bits.fold(0_i128, |value, bit| value << 1 | i128::from(bit));
        self.wrap(value)
    }

    /// The low bits of a value, this many.
    fn wrap(self, value: i128) -> i128 {
        let low = value & ((1 << self.width) - 1);
        if low > self.limits().1 {
            low - (1 << self.width)
        } else {
            low
        }
    }

    /// The value to store in place of one that may not fit; `None` to store nothing.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i128> {
        let (min, max) = self.limits();
        if (min..=max).contains(&value) {
            return Some(value);
        }
        match overflow {
            Overflow::Wrap => Some(self.wrap(value)),
            Overflow::Saturate => Some(value.clamp(min, max)),
            Overflow::Fail => None,
        }
    }

    fn write(self, bytes: &mut Blob, value: i128) {
        let first = self.offset / 8;
        let mut part = bytes[first..self.end()].to_vec();
        for nth in 0..self.width as usize {
            let at = self.offset + nth - first * 8;
            let mask = 0x80 >> (at % 8);
            if value >> (self.width as usize - 1 - nth) & 1 == 1 {
                part[at / 8] |= mask;
            } else {
                part[at / 8] &= !mask;
            }
        }
        bytes.overwrite(first, &part);
    }
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Get,
    Set(i64),
    Add(i64),
}

struct Step {
    operation: Operation,
    field: Field,
    overflow: Overflow,
}

impl Step {
    /// Returns the value to store and the reply; only a reply for a read and for an overflow.
    fn run(&self, old: i128) -> (Option<i128>, Reply) {
        let field = self.field;
        let wanted = match self.operation {
            Operation::Get => return (None, Reply::Int(old as i64)),
            Operation::Set(value) if field.is_signed => i128::from(value),
            // A negative number is one too large for the field.
            Operation::Set(value) => i128::from(value as u64),
            Operation::Add(more) => old + i128::from(more),
        };
        let Some(new) = field.fit(wanted, self.overflow) else {
            return (None, Reply::Nil);
        };
        let told = match self.operation {
            Operation::Add(_) => new,
            Operation::Get | Operation::Set(_) => old,
        };
        (Some(new), Reply::Int(told as i64))
    }
}

fn parse_steps(ctx: &Ctx<'_>, args: &mut Args<'_>) -> Result<Vec<Step>, CommandError> {
    let (mut steps, mut overflow) = (Vec::new(), Overflow::Wrap);
    while !args.is_empty() {
        let left = args.remaining();
        if left >= 3 && args.keyword("GET") {
            steps.push(Step {
                operation: Operation::Get,
                field: Field::parse(ctx, args)?,
                overflow,
            });
        } else if left >= 4 && args.keyword("SET") {
            let field = Field::parse(ctx, args)?;
            steps.push(Step {
                operation: Operation::Set(args.integer()?),
                field,
                overflow,
            });
        } else if left >= 4 && args.keyword("INCRBY") {
            let field = Field::parse(ctx, args)?;
            steps.push(Step {
                operation: Operation::Add(args.integer()?),
                field,
                overflow,
            });
        } else if left >= 2 && args.keyword("OVERFLOW") {
            overflow = match args.required()?.to_ascii_uppercase().as_slice() {
                b"WRAP" => Overflow::Wrap,
                b"SAT" => Overflow::Saturate,
                b"FAIL" => Overflow::Fail,
                _ => {
                    return Err(CommandError::Text(
                        "ERR Invalid OVERFLOW type specified".into(),
                    ));
                }
            };
        } else {
            return Err(CommandError::Syntax);
        }
    }
    Ok(steps)
}

fn bitfield(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let steps = parse_steps(ctx, args)?;
    let writes = steps
        .iter()
        .filter(|step| !matches!(step.operation, Operation::Get));
    let Some(room) = writes.map(|step| step.field.end()).max() else {
        return read_fields(ctx, key, &steps);
    };
    let grown = make_room(ctx, key, room)?;
    let (mut replies, mut is_changed) = (Vec::with_capacity(steps.len()), false);
    if let Some(bytes) = ctx.write_again::<Blob>(key)? {
        for step in &steps {
            let old = step.field.read(bytes);
            let (new, reply) = step.run(old);
            if let Some(new) = new {
                step.field.write(bytes, new);
                is_changed |= grown || new != old;
            }
            replies.push(reply);
        }
    }
    ctx.replies_here();
    if is_changed {
        changed(ctx, key);
    } else if grown {
        ctx.touched(key);
    }
    Ok(Reply::Array(replies))
}

fn bitfield_ro(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let steps = parse_steps(ctx, args)?;
    if steps
        .iter()
        .any(|step| !matches!(step.operation, Operation::Get))
    {
        return Err(CommandError::Text(
            "ERR BITFIELD_RO only supports the GET subcommand".into(),
        ));
    }
    read_fields(ctx, key, &steps)
}

fn read_fields(ctx: &mut Ctx<'_>, key: &[u8], steps: &[Step]) -> CommandResult {
    let bytes = ctx.read::<Blob>(key)?.cloned().unwrap_or_default();
    let replies = steps.iter().map(|step| step.run(step.field.read(&bytes)).1);
    Ok(Reply::Array(replies.collect()))
}

const RO: &[Flags] = &[Flags::READONLY];
const RO_FAST: &[Flags] = &[Flags::READONLY, Flags::FAST];
const WRITE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];
const ACCESS: &[&str] = &["RO", "access"];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("setbit", 4, setbit)
        .flags(WRITE)
        .keys(1, 1, 1, &["RW", "access", "update"])
        .since("2.2.0")
        .syntax("key offset:integer value:integer")
        .summary("Sets or clears a bit of a string."),
    row("getbit", 3, getbit)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("2.2.0")
        .syntax("key offset:integer")
        .summary("A bit of a string."),
    row("bitcount", -2, bitcount)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("2.6.0")
        .syntax("key [index=(start:integer end:integer [index_unit=(byte=BYTE | bit=BIT)]@7.0.0)]")
        .summary("Counts the bits that are set."),
    row("bitpos", -3, bitpos)
        .flags(RO)
        .keys(1, 1, 1, ACCESS)
        .since("2.8.7")
        .syntax(
            "key bit:integer [index=(start:integer [end_index=(end:integer [index_unit=(byte=BYTE | bit=BIT)]@7.0.0)])]",
        )
        .summary("Finds the first set bit, or the first clear one."),
    row("bitop", -4, bitop)
        .flags(WRITE)
        .keys(2, 2, 1, &["OW", "update"])
        .keys(3, -1, 1, ACCESS)
        .since("2.6.0")
        .syntax("operation destkey:key key...")
        .summary("Combines the bits of strings."),
    row("bitfield", -2, bitfield)
        .flags(WRITE)
        .keys(1, 1, 1, &["RW", "access", "update", "variable_flags"])
        .key_notes("Reads alone without `SET` and `INCRBY`")
        .find_keys(super::keys::bitfield)
        .since("3.2.0")
        .syntax(
            "key [operation=(GET encoding_offset=(encoding offset:integer) | write=([OVERFLOW \
             wrap_sat_fail=(WRAP | SAT | FAIL)] write_operation=(SET encoding_offset_value=(encoding \
             offset:integer value:integer) | INCRBY encoding_offset_increment=(encoding offset:integer \
             increment:integer))))...]",
        )
        .summary("Reads and changes integers of any width within a string."),
    row("bitfield_ro", -2, bitfield_ro)
        .flags(RO_FAST)
        .keys(1, 1, 1, ACCESS)
        .since("6.0.0")
        .syntax("key [GET encoding_offset=(encoding offset:integer)...+]")
        .summary("Reads integers of any width within a string."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Bitmap, handler)
}
