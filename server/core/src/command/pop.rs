//! Pops of lists and sorted sets: elements are removed from an end of the first key that has any; blocking
//! commands wait for them.
//!
//! A blocking command checks its keys as its variant without `B` does, and asks to be run again if none of
//! them has elements.

use super::spec::CommandResult;
use super::{Args, CommandError};
use crate::engine::{Arg, Ctx, Kind, Origin, Typed};
use crate::resp::{LongDouble, Reply};
use std::time::Duration;

/// A type of values whose elements have two ends.
pub(super) trait TwoEnded {
    type End: Copy;
    /// Removed elements.
    type Taken;

    const KIND: Kind;
    /// True if a blocking command looks for a key with elements and then runs its variant without `B`, which looks
    /// the key up again (`t_zset.c: blockingGenericZpopCommand`).
    const IS_LOOKED_UP_TWICE: bool;
    /// Names of the ends.
    const ENDS: [(&'static str, Self::End); 2];

    /// Returns the command that a replica runs in place of a command with several keys, or one that has
    /// waited.
    fn command(end: Self::End) -> Arg<'static>;

    /// Removes up to `count` elements, at least one, from one end; `None` if the key is missing.
    fn take(
        ctx: &mut Ctx<'_>,
        key: &[u8],
        end: Self::End,
        count: usize,
    ) -> Result<Option<Self::Taken>, CommandError>;

    /// The same for a blocking command.
    fn take_or_wait(
        ctx: &mut Ctx<'_>,
        key: &[u8],
        end: Self::End,
        count: usize,
    ) -> Result<Option<Self::Taken>, CommandError>
    where
        Self: Typed,
    {
        let is_first = ctx.origin != Origin::Retry;
        if is_first && Self::IS_LOOKED_UP_TWICE && ctx.write::<Self>(key)?.is_none() {
            return Ok(None);
        }
        Self::take(ctx, key, end, count)
    }

    /// Returns the parts of an element one after another, as they follow the key in the reply of a command
    /// for one element.
    fn flat(taken: Self::Taken) -> Vec<Reply>;

    /// Returns a reply for each element.
    fn nested(taken: Self::Taken) -> Vec<Reply>;

    /// Parses the next argument as an end (`t_list.c: getListPositionFromObjectOrReply`).
    fn end(args: &mut Args<'_>) -> Result<Self::End, CommandError> {
        let mut ends = Self::ENDS.into_iter();
        let found = ends.find(|(word, _)| args.keyword(word));
        found.map(|(_, end)| end).ok_or(CommandError::Syntax)
    }
}

/// `timeout.c: getTimeoutFromObjectOrReply`, in seconds; `None` waits forever.
pub(super) fn timeout(ctx: &Ctx<'_>, text: &[u8]) -> Result<Option<Duration>, CommandError> {
    let seconds = LongDouble::parse(text)
        .ok_or_else(|| CommandError::Text("ERR timeout is not a float or out of range".into()))?;
    match seconds.to_millis_up() {
        0 => Ok(None),
        millis if millis < 0 => Err(CommandError::Text("ERR timeout is negative".into())),
        // A timeout beyond the largest time never ends.
        millis => Ok(ctx
            .now_millis()
            .0
            .checked_add(millis)
            .map(|_| Duration::from_millis(millis.unsigned_abs()))),
    }
}

/// BLPOP, BZPOPMIN and similar commands: the first key with elements, and one of them.
pub(super) fn pop_or_wait<T: TwoEnded + Typed>(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    end: T::End,
) -> CommandResult {
    let mut keys: Vec<&[u8]> = args.rest().collect();
    let timeout = timeout(ctx, keys.pop().unwrap_or_default())?;
    for key in &keys {
        if ctx.may_serve(key)
            && let Some(taken) = T::take_or_wait(ctx, key, end, 1)?
        {
            ctx.propagate_as(&[T::command(end), (*key).into()]);
            let key = std::iter::once(Reply::bulk(key));
            return Ok(Reply::Array(key.chain(T::flat(taken)).collect()));
        }
    }
    ctx.block_on(&keys, T::KIND, timeout, Reply::NilArray)
}

/// [`TwoEnded::take`] or [`TwoEnded::take_or_wait`].
type TakeFrom<T> = fn(
    &mut Ctx<'_>,
    &[u8],
    <T as TwoEnded>::End,
    usize,
) -> Result<Option<<T as TwoEnded>::Taken>, CommandError>;

/// The arguments that LMPOP, ZMPOP and the blocking ones share.
struct Several<'a, T: TwoEnded> {
    keys: Vec<&'a [u8]>,
    end: T::End,
    count: usize,
}

impl<'a, T: TwoEnded> Several<'a, T> {
    /// `t_list.c: lmpopGenericCommand`, `t_zset.c: zmpopGenericCommand`.
    fn parse(args: &mut Args<'a>) -> Result<Self, CommandError> {
        let numkeys = args.integer_from(1, "ERR numkeys should be greater than 0")?;
        let numkeys = usize::try_from(numkeys).unwrap_or(usize::MAX);
        if numkeys >= args.remaining() {
            return Err(CommandError::Syntax);
        }
        let keys = (0..numkeys).filter_map(|_| args.next()).collect();
        let end = T::end(args)?;
        let mut count = None;
        while !args.is_empty() {
            if count.is_some() || !args.keyword("COUNT") {
                return Err(CommandError::Syntax);
            }
            count = Some(args.integer_from(1, "ERR count should be greater than 0")?);
        }
        let count = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
        Ok(Self { keys, end, count })
    }

    /// Removes elements from the first key that has any.
    fn take(&self, ctx: &mut Ctx<'_>, take: TakeFrom<T>) -> Result<Option<Reply>, CommandError> {
        for key in &self.keys {
            if ctx.may_serve(key)
                && let Some(taken) = take(ctx, key, self.end, self.count)?
            {
                let elements = T::nested(taken);
                let count = elements.len().into();
                ctx.propagate_as(&[T::command(self.end), (*key).into(), count]);
                let reply = vec![Reply::bulk(key), Reply::Array(elements)];
                return Ok(Some(Reply::Array(reply)));
            }
        }
        Ok(None)
    }
}

/// LMPOP and ZMPOP.
pub(super) fn pop_several<T: TwoEnded>(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let several = Several::<T>::parse(args)?;
    Ok(several.take(ctx, T::take)?.unwrap_or(Reply::NilArray))
}

/// BLMPOP and BZMPOP.
pub(super) fn pop_several_or_wait<T: TwoEnded + Typed>(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
) -> CommandResult {
    // Redis checks the timeout after the other arguments, although it precedes them.
    let text = args.required()?;
    let several = Several::<T>::parse(args)?;
    let timeout = timeout(ctx, text)?;
    match several.take(ctx, T::take_or_wait)? {
        Some(reply) => Ok(reply),
        None => ctx.block_on(&several.keys, T::KIND, timeout, Reply::NilArray),
    }
}
