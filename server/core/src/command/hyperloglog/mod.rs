//! HyperLogLog: the estimated number of different elements, in a string of at most 12 KiB. The bytes of the string
//! and the arithmetic are in the files of this folder.

mod estimate;
mod sketch;

use super::spec::{CommandResult, CommandSpec, Flags, Group, Handler};
use super::{Args, CommandError};
use crate::engine::{Class, Ctx, EncodingHint, Ttl, Value};
use crate::resp::{Blob, Reply};
use estimate::{Histogram, RANKS, REGISTERS, estimate, register_of};
use sketch::{Corrupted, Run, Sketch, View};

impl From<Corrupted> for CommandError {
    fn from(_: Corrupted) -> Self {
        Self::Text("INVALIDOBJ Corrupted HLL object detected".into())
    }
}

/// A string as a sketch.
fn view(bytes: &[u8]) -> Result<View<'_>, CommandError> {
    View::of(bytes).ok_or_else(|| {
        CommandError::Text("WRONGTYPE Key is not a valid HyperLogLog string value.".into())
    })
}

/// Replaces the string at `key`, which the command has looked up; a deadline stays.
fn store(ctx: &mut Ctx<'_>, key: &[u8], sketch: Sketch) -> Result<(), CommandError> {
    let bytes = Blob::from(sketch.into_bytes());
    match ctx.write_again::<Blob>(key)? {
        Some(value) => {
            *value = bytes;
            ctx.touched(key);
        }
        None => ctx.set_found(None, key, Value::String(bytes), Ttl::Clear),
    }
    ctx.set_form(key, EncodingHint::Raw);
    Ok(())
}

/// Stores another encoding of the same sketch, without a signal to watching clients and caches.
fn store_quietly(ctx: &mut Ctx<'_>, key: &[u8], sketch: Sketch) -> Result<(), CommandError> {
    if let Some(value) = ctx.write_again::<Blob>(key)? {
        *value = Blob::from(sketch.into_bytes());
        ctx.touched_quietly(key);
    }
    ctx.set_form(key, EncodingHint::Raw);
    Ok(())
}

/// `hyperloglog.c: pfaddCommand`. The command ends at an element whose register a corrupted sketch lacks; the
/// elements before it stay.
fn pfadd(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let key = args.required()?;
    let values: Vec<(usize, u8)> = args.rest().map(register_of).collect();
    let bytes_max = ctx.config().hll_sparse_max_bytes;
    let found = ctx.write::<Blob>(key)?;
    let mut changed = found.is_none();
    let mut sketch = match found {
        Some(bytes) => {
            let view = view(bytes)?;
            if view.has_all(&values) {
                return Ok(Reply::Int(0));
            }
            view.to_sketch()
        }
        None => Sketch::new(),
    };
    let mut outcome = Ok(());
    for (index, value) in values {
        match sketch.raise(index, value, bytes_max) {
            Ok(is_raised) => changed |= is_raised,
            Err(corrupted) => {
                outcome = Err(corrupted);
                break;
            }
        }
    }
    if changed {
        sketch.invalidate();
        store(ctx, key, sketch)?;
        outcome?;
        ctx.notify(Class::String, "pfadd", key);
    } else {
        ctx.set_form(key, EncodingHint::Raw);
        outcome?;
    }
    Ok(Reply::Int(changed.into()))
}

/// Registers of the union of several sketches, and whether one of them is dense.
fn union<'k>(
    ctx: &mut Ctx<'_>,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Result<(Vec<u8>, bool), CommandError> {
    let (mut registers, mut is_dense) = (vec![0; REGISTERS], false);
    for key in keys {
        if let Some(bytes) = ctx.read::<Blob>(key)? {
            let view = view(bytes)?;
            is_dense |= !view.is_sparse();
            view.merge_into(&mut registers)?;
        }
    }
    Ok((registers, is_dense))
}

/// `hyperloglog.c: pfcountCommand`. The estimate of one key is cached in its string, which counts as a change
/// of the key.
fn pfcount(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.remaining() > 1 {
        let (registers, _) = union(ctx, args.rest())?;
        let mut histogram: Histogram = [0; RANKS];
        for register in registers {
            histogram[usize::from(register)] += 1;
        }
        return Ok(Reply::Int(estimate(&histogram) as i64));
    }
    let key = args.required()?;
    let Some(bytes) = ctx.read::<Blob>(key)? else {
        return Ok(Reply::Int(0));
    };
    let view = view(bytes)?;
    if let Some(cached) = view.cached() {
        ctx.set_form(key, EncodingHint::Raw);
        return Ok(Reply::Int(cached as i64));
    }
    let count = estimate(&view.histogram()?);
    let mut sketch = view.to_sketch();
    sketch.cache(count);
    store(ctx, key, sketch)?;
    Ok(Reply::Int(count as i64))
}

/// `hyperloglog.c: pfmergeCommand`. The destination is one of the sources.
fn pfmerge(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let bytes_max = ctx.config().hll_sparse_max_bytes;
    let sources = *args;
    let key = args.required()?;
    let (registers, is_dense) = union(ctx, { sources }.rest())?;
    let mut sketch = match ctx.write::<Blob>(key)? {
        Some(bytes) => view(bytes)?.to_sketch(),
        None => Sketch::new(),
    };
    if is_dense {
        sketch.make_dense()?;
    }
    for (index, value) in registers.into_iter().enumerate() {
        if value > 0 {
            sketch.raise(index, value, bytes_max)?;
        }
    }
    sketch.invalidate();
    store(ctx, key, sketch)?;
    ctx.notify(Class::String, "pfadd", key);
    Ok(Reply::Ok)
}

/// `hyperloglog.c: pfdebugCommand`.
fn pfdebug(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (subcommand, key) = (args.required()?, args.required()?);
    let Some(bytes) = ctx.write::<Blob>(key)? else {
        let text = "ERR The specified key does not exist";
        return Err(CommandError::Text(text.into()));
    };
    let mut sketch = view(bytes)?.to_sketch();
    let is = |name: &str| subcommand.eq_ignore_ascii_case(name.as_bytes());
    if is("GETREG") {
        if sketch.make_dense()? {
            store_quietly(ctx, key, sketch.clone())?;
        }
        let mut registers = vec![0; REGISTERS];
        sketch.view().merge_into(&mut registers)?;
        let registers = registers.into_iter().map(|value| Reply::Int(value.into()));
        Ok(Reply::Array(registers.collect()))
    } else if is("DECODE") {
        if !sketch.view().is_sparse() {
            return Err(CommandError::Text("ERR HLL encoding is not sparse".into()));
        }
        let runs: Vec<String> = sketch.view().runs().map(describe).collect();
        Ok(Reply::bulk(runs.join(" ").into_bytes()))
    } else if is("ENCODING") {
        let is_sparse = sketch.view().is_sparse();
        Ok(Reply::Static(if is_sparse { "sparse" } else { "dense" }))
    } else if is("TODENSE") {
        let changed = sketch.make_dense()?;
        if changed {
            store_quietly(ctx, key, sketch)?;
        }
        Ok(Reply::Int(changed.into()))
    } else {
        Err(CommandError::echoing(
            "ERR Unknown PFDEBUG subcommand '",
            subcommand,
            "'",
        ))
    }
}

fn describe(run: Run) -> String {
    match run {
        Run::Zero { len } => format!("z:{len}"),
        Run::LongZero { len } => format!("Z:{len}"),
        Run::Value { value, len } => format!("v:{value},{len}"),
    }
}

/// Number of elements of the self-test.
const TESTED: u64 = 20_000;
/// Size at which the self-test's sparse sketch becomes dense.
const SPARSE_BYTES_MAX: usize = 3_000;
/// Largest relative error in the self-test: four standard errors of the algorithm.
const ERROR_MAX: f64 = 4.0 * 1.04 / 128.0;

/// Checks that the two encodings agree, and that estimates are close to the true number.
fn pfselftest(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let (mut sparse, mut dense) = (Sketch::new(), Sketch::new());
    dense.make_dense()?;
    for number in 1..=TESTED {
        let (index, value) = register_of(&number.to_le_bytes());
        sparse.raise(index, value, SPARSE_BYTES_MAX)?;
        dense.raise(index, value, 0)?;
        if number.is_power_of_two() || number == TESTED {
            let histogram = dense.view().histogram()?;
            let wrong = (estimate(&histogram) as f64 - number as f64).abs();
            if sparse.view().histogram()? != histogram
                || wrong > (number as f64 * ERROR_MAX).max(1.0)
            {
                let text = format!("TESTFAILED at {number} elements");
                return Err(CommandError::Text(text.into()));
            }
        }
    }
    Ok(Reply::Ok)
}

const fn row(name: &'static str, arity: i32, handler: Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::HyperLogLog, handler).since("2.8.9")
}

pub(super) const COMMANDS: &[CommandSpec] = &[
    row("pfadd", -2, pfadd)
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::FAST])
        .keys(1, 1, 1, &["RW", "insert"])
        .syntax("key [element...]")
        .summary("Adds elements to a HyperLogLog."),
    row("pfcount", -2, pfcount)
        .flags(&[Flags::READONLY, Flags::MAY_REPLICATE])
        .keys(1, -1, 1, &["RW", "access"])
        .key_notes("Written to keep the estimate")
        .syntax("key...")
        .summary("The estimated number of different elements of one HyperLogLog, or of several together."),
    row("pfmerge", -2, pfmerge)
        .flags(&[Flags::WRITE, Flags::DENYOOM])
        .keys(1, 1, 1, &["RW", "access", "insert"])
        .keys(2, -1, 1, &["RO", "access"])
        .syntax("destkey:key sourcekey:key...")
        .summary("Adds the elements of several HyperLogLogs to one."),
    row("pfdebug", 3, pfdebug)
        .flags(&[Flags::WRITE, Flags::DENYOOM, Flags::ADMIN])
        .keys(2, 2, 1, &["RW", "access"])
        .system_command()
        .syntax("subcommand key")
        .summary("Registers, runs and encoding of a HyperLogLog."),
    row("pfselftest", 1, pfselftest)
        .flags(&[Flags::ADMIN])
        .system_command()
        .summary("Checks the arithmetic of HyperLogLog."),
];
