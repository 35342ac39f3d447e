//! Sorted sets: unions, intersections and differences of several keys.

use super::bound::double;
use super::range::store;
use super::{ACCESS, elements_reply, row};
use crate::command::spec::{CommandResult, CommandSpec, Flags};
use crate::command::{Args, CommandError};
use crate::engine::{Ctx, Set, SortedSet, Value, sorted_set_order};
use crate::resp::{Blob, Reply};
use indexmap::IndexMap;

/// Operation on several sorted sets.
#[derive(Clone, Copy, PartialEq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// AGGREGATE: combines the scores of a member that several keys have.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    /// `t_zset.c: zunionInterAggregate`.
    fn of(self, score: f64, other: f64) -> f64 {
        match self {
            // The sum of both infinities is zero.
            Self::Sum => number(score + other),
            Self::Min => {
                if other < score {
                    other
                } else {
                    score
                }
            }
            Self::Max => {
                if other > score {
                    other
                } else {
                    score
                }
            }
        }
    }
}

fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// The value at a key of a request. It shares data with the key, so that the request may overwrite the key.
enum Source {
    Missing,
    SortedSet(SortedSet),
    /// Each member counts as having the score 1.
    Set(Set),
}

impl Source {
    fn find(ctx: &mut Ctx<'_>, key: &[u8]) -> Result<Self, CommandError> {
        let Some(slot) = ctx.find_for_read(key) else {
            return Ok(Self::Missing);
        };
        let value = ctx.db().value(slot);
        if let Value::SortedSet(set) = value {
            Ok(Self::SortedSet(set.clone()))
        } else if let Value::Set(set) = value {
            Ok(Self::Set(set.clone()))
        } else {
            Err(CommandError::WrongType)
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Missing => 0,
            Self::SortedSet(set) => set.len(),
            Self::Set(set) => set.len(),
        }
    }

    fn score(&self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Missing => None,
            Self::SortedSet(set) => set.score(member),
            Self::Set(set) => set.contains(member).then_some(1.0),
        }
    }

    fn elements(&self) -> Vec<(Blob, f64)> {
        match self {
            Self::Missing => Vec::new(),
            Self::SortedSet(set) => set.elements(0..set.len()),
            Self::Set(set) => set.iter().map(|member| (member.to_blob(), 1.0)).collect(),
        }
    }
}

/// A request of this family (`t_zset.c: zunionInterDiffGenericCommand`).
struct Request {
    operation: Operation,
    /// The keys with their weights.
    sources: Vec<(Source, f64)>,
    aggregate: Aggregate,
    with_scores: bool,
    /// Largest number of members to count; 0 for all.
    limit: usize,
}

/// Destination of the result.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    Reply,
    Store,
    Count,
}

impl Request {
    fn parse(
        ctx: &mut Ctx<'_>,
        args: &mut Args<'_>,
        operation: Operation,
        purpose: Purpose,
    ) -> Result<Self, CommandError> {
        let count = args.integer()?;
        if count < 1 {
            let command = String::from_utf8_lossy(args.request().name()).to_ascii_lowercase();
            let text = format!("ERR at least 1 input key is needed for '{command}' command");
            return Err(CommandError::Text(text.into()));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > args.remaining() {
            return Err(CommandError::Syntax);
        }
        let mut sources = Vec::with_capacity(count);
        for _ in 0..count {
            sources.push((Source::find(ctx, args.required()?)?, 1.0));
        }
        let mut request = Self {
            operation,
            sources,
            aggregate: Aggregate::Sum,
            with_scores: false,
            limit: 0,
        };
        request.options(args, purpose)?;
        Ok(request)
    }

    fn options(&mut self, args: &mut Args<'_>, purpose: Purpose) -> Result<(), CommandError> {
        let has_scores = self.operation != Operation::Difference && purpose != Purpose::Count;
        let count = self.sources.len();
        while !args.is_empty() {
            if has_scores && args.remaining() > count && args.keyword("WEIGHTS") {
                for (_, weight) in &mut self.sources {
                    *weight = double(args.required()?).ok_or_else(|| {
                        CommandError::Text("ERR weight value is not a float".into())
                    })?;
                }
            } else if has_scores && args.remaining() >= 2 && args.keyword("AGGREGATE") {
                self.aggregate = match () {
                    () if args.keyword("SUM") => Aggregate::Sum,
                    () if args.keyword("MIN") => Aggregate::Min,
                    () if args.keyword("MAX") => Aggregate::Max,
                    () => return Err(CommandError::Syntax),
                };
            } else if purpose == Purpose::Reply && args.keyword("WITHSCORES") {
                self.with_scores = true;
            } else if purpose == Purpose::Count && args.remaining() >= 2 && args.keyword("LIMIT") {
                let limit = args.integer_from(0, "ERR LIMIT can't be negative")?;
                self.limit = usize::try_from(limit).unwrap_or(usize::MAX);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if self.operation != Operation::Difference {
            // The smallest source comes first, so that fewer members are looked up.
            self.sources.sort_by_key(|(source, _)| source.len());
        }
        Ok(())
    }

    /// The members of the result with their scores, in no order.
    fn result(&self) -> Vec<(Blob, f64)> {
        match self.operation {
            Operation::Union => self.union(),
            Operation::Intersection => self.intersection(usize::MAX),
            Operation::Difference => self.difference(),
        }
    }

    fn union(&self) -> Vec<(Blob, f64)> {
        let mut scores: IndexMap<Blob, f64> = IndexMap::new();
        for (source, weight) in &self.sources {
            for (member, score) in source.elements() {
                let score = number(score * weight);
                scores
                    .entry(member)
                    .and_modify(|known| *known = self.aggregate.of(*known, score))
                    .or_insert(score);
            }
        }
        scores.into_iter().collect()
    }

    fn intersection(&self, limit: usize) -> Vec<(Blob, f64)> {
        let Some(((first, weight), others)) = self.sources.split_first() else {
            return Vec::new();
        };
        let common = |(member, score): (Blob, f64)| {
            let mut sum = number(score * weight);
            for (source, weight) in others {
                sum = self.aggregate.of(sum, source.score(&member)? * weight);
            }
            Some((member, sum))
        };
        first
            .elements()
            .into_iter()
            .filter_map(common)
            .take(limit)
            .collect()
    }

    fn difference(&self) -> Vec<(Blob, f64)> {
        let Some(((first, _), others)) = self.sources.split_first() else {
            return Vec::new();
        };
        let is_alone = |member: &Blob| {
            others
                .iter()
                .all(|(other, _)| other.score(member).is_none())
        };
        let elements = first.elements().into_iter();
        elements.filter(|(member, _)| is_alone(member)).collect()
    }
}

fn answer(ctx: &mut Ctx<'_>, args: &mut Args<'_>, operation: Operation) -> CommandResult {
    let request = Request::parse(ctx, args, operation, Purpose::Reply)?;
    let mut elements = request.result();
    elements.sort_by(|a, b| sorted_set_order((a.1, &a.0), (b.1, &b.0)));
    Ok(elements_reply(elements, request.with_scores))
}

fn zunion(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    answer(ctx, args, Operation::Union)
}

fn zinter(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    answer(ctx, args, Operation::Intersection)
}

fn zdiff(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    answer(ctx, args, Operation::Difference)
}

fn stored(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    operation: Operation,
    event: &'static str,
) -> CommandResult {
    let destination = args.required()?;
    let request = Request::parse(ctx, args, operation, Purpose::Store)?;
    let elements = request.result();
    drop(request);
    Ok(store(ctx, destination, elements, event))
}

fn zunionstore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    stored(ctx, args, Operation::Union, "zunionstore")
}

fn zinterstore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    stored(ctx, args, Operation::Intersection, "zinterstore")
}

fn zdiffstore(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    stored(ctx, args, Operation::Difference, "zdiffstore")
}

fn zintercard(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let request = Request::parse(ctx, args, Operation::Intersection, Purpose::Count)?;
    let limit = match request.limit {
        0 => usize::MAX,
        limit => limit,
    };
    Ok(Reply::Int(request.intersection(limit).len() as i64))
}

const RO: &[Flags] = &[Flags::READONLY];
const STORE: &[Flags] = &[Flags::WRITE, Flags::DENYOOM];
const OVERWRITE: &[&str] = &["OW", "update"];

pub(in crate::command) const COMMANDS: &[CommandSpec] = &[
    row("zunion", -3, zunion)
        .flags(RO)
        .counted_keys(1, ACCESS)
        .since("6.2.0")
        .syntax(
            "numkeys:integer key... [WEIGHTS weight:integer...] [AGGREGATE aggregate=(SUM | MIN | MAX)] \
             [WITHSCORES]",
        )
        .summary("The members that any of the keys has."),
    row("zinter", -3, zinter)
        .flags(RO)
        .counted_keys(1, ACCESS)
        .since("6.2.0")
        .syntax(
            "numkeys:integer key... [WEIGHTS weight:integer...] [AGGREGATE aggregate=(SUM | MIN | MAX)] \
             [WITHSCORES]",
        )
        .summary("The members that all of the keys have."),
    row("zdiff", -3, zdiff)
        .flags(RO)
        .counted_keys(1, ACCESS)
        .since("6.2.0")
        .syntax("numkeys:integer key... [WITHSCORES]")
        .summary("The members that only the first key has."),
    row("zunionstore", -4, zunionstore)
        .flags(STORE)
        .keys(1, 1, 1, OVERWRITE)
        .counted_keys(2, ACCESS)
        .since("2.0.0")
        .syntax(
            "destination:key numkeys:integer key... [WEIGHTS weight:integer...] [AGGREGATE \
             aggregate=(SUM | MIN | MAX)]",
        )
        .summary("Stores the members that any of the keys has."),
    row("zinterstore", -4, zinterstore)
        .flags(STORE)
        .keys(1, 1, 1, OVERWRITE)
        .counted_keys(2, ACCESS)
        .since("2.0.0")
        .syntax(
            "destination:key numkeys:integer key... [WEIGHTS weight:integer...] [AGGREGATE \
             aggregate=(SUM | MIN | MAX)]",
        )
        .summary("Stores the members that all of the keys have."),
    row("zdiffstore", -4, zdiffstore)
        .flags(STORE)
        .keys(1, 1, 1, OVERWRITE)
        .counted_keys(2, ACCESS)
        .since("6.2.0")
        .syntax("destination:key numkeys:integer key...")
        .summary("Stores the members that only the first key has."),
    row("zintercard", -3, zintercard)
        .flags(RO)
        .counted_keys(1, ACCESS)
        .since("7.0.0")
        .syntax("numkeys:integer key... [LIMIT limit:integer]")
        .summary("The number of members that all of the keys have."),
];
