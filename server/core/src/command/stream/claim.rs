//! Pending entries that move from one consumer to another.

use super::group::{consumer, no_group, propagate_last_id, propagate_pending};
use super::{entry_reply, id_reply, row, start_of, strict_id};
use crate::command::spec::{CommandResult, CommandSpec, Flags};
use crate::engine::{Args, CommandError};
use crate::engine::{Ctx, Stream, StreamId, UnixMillis, feature};
use crate::resp::{Reply, parse_integer};

/// Number of pending entries that XAUTOCLAIM checks for each entry to return.
const LOOKS_PER_ENTRY: usize = 10;
/// Number of entries that XAUTOCLAIM returns by default.
const COUNT: usize = 100;
/// Greatest COUNT of XAUTOCLAIM.
const COUNT_MAX: i64 = i64::MAX / 16;

fn integer(args: &mut Args<'_>, error: &'static str) -> Result<i64, CommandError> {
    parse_integer(args.required()?).ok_or_else(|| CommandError::Text(error.into()))
}

/// The consumer that claims entries.
struct Claimant<'a> {
    key: &'a [u8],
    group: &'a [u8],
    consumer: &'a [u8],
}

impl<'a> Claimant<'a> {
    fn parse(args: &mut Args<'a>) -> Result<Self, CommandError> {
        Ok(Self {
            key: args.required()?,
            group: args.required()?,
            consumer: args.required()?,
        })
    }

    /// Fails without the group.
    fn check(&self, ctx: &mut Ctx<'_>) -> Result<(), CommandError> {
        ctx.find_for_read(self.key);
        self.check_again(ctx)
    }

    /// The same for a key that was looked up before.
    fn check_again(&self, ctx: &mut Ctx<'_>) -> Result<(), CommandError> {
        let stream = ctx.write_again::<Stream>(self.key)?;
        match stream.and_then(|stream| stream.group(self.group)) {
            Some(_) => Ok(()),
            None => Err(no_group(self.key, self.group, "'")),
        }
    }

    /// Records that the consumer asked, and creates it if it is missing. Redis 7.0 does so when it gets its first entry.
    fn see(&self, ctx: &mut Ctx<'_>) -> Result<(), CommandError> {
        if ctx.config().profile.has(feature::CONSUMER_ACTIVITY) {
            consumer(ctx, self.key, self.group, self.consumer)?;
        }
        Ok(())
    }

    /// Returns the reply for one existing entry; `None` if it is not claimed. The consumer is created when it
    /// gets its first entry.
    fn claim(
        &self,
        ctx: &mut Ctx<'_>,
        claim: &Claim,
        id: StreamId,
    ) -> Result<Option<Reply>, CommandError> {
        let now = ctx.now_millis();
        let group = ctx
            .write_again::<Stream>(self.key)?
            .and_then(|stream| stream.group(self.group));
        let pending = group.and_then(|group| group.pending().get(id));
        let before = match pending {
            Some(pending) => {
                let idle = now.0.wrapping_sub(pending.delivered_at.0);
                if claim.min_idle > 0 && idle < claim.min_idle {
                    return Ok(None);
                }
                pending.deliveries
            }
            None if claim.force => 1,
            None => return Ok(None),
        };
        let deliveries = claim
            .deliveries
            .unwrap_or_else(|| before.wrapping_add(u64::from(!claim.only_ids)));
        let number = consumer(ctx, self.key, self.group, self.consumer)?;
        let (Some(number), Some(stream)) = (number, ctx.write_again::<Stream>(self.key)?) else {
            return Ok(None);
        };
        if let Some(group) = stream.group_mut(self.group) {
            group.be_active(number, Some(now));
            group.deliver(id, number, claim.delivered_at, deliveries);
        }
        let reply = if claim.only_ids {
            Some(id_reply(id))
        } else {
            stream.get(id).map(entry_reply)
        };
        propagate_pending(ctx, self.key, self.group, id)?;
        Ok(reply)
    }

    /// Removes a pending entry whose entry was deleted, and returns whether it was pending; `None` if the
    /// entry exists.
    fn forget_deleted(
        &self,
        ctx: &mut Ctx<'_>,
        id: StreamId,
    ) -> Result<Option<bool>, CommandError> {
        let Some(stream) = ctx.write_again::<Stream>(self.key)? else {
            return Ok(None);
        };
        if stream.get(id).is_some() {
            return Ok(None);
        }
        // Replicas claim it too, and find it deleted.
        propagate_pending(ctx, self.key, self.group, id)?;
        let stream = ctx.write_again::<Stream>(self.key)?;
        let group = stream.and_then(|stream| stream.group_mut(self.group));
        Ok(Some(group.is_some_and(|group| group.acknowledge(id))))
    }
}

/// How an entry is claimed.
struct Claim {
    min_idle: i64,
    force: bool,
    only_ids: bool,
    delivered_at: UnixMillis,
    deliveries: Option<u64>,
}

/// `t_stream.c: xclaimCommand`.
fn xclaim(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let claimant = Claimant::parse(args)?;
    claimant.check(ctx)?;
    let now = ctx.now_millis();
    let mut claim = Claim {
        min_idle: integer(args, "ERR Invalid min-idle-time argument for XCLAIM")?,
        force: false,
        only_ids: false,
        delivered_at: now,
        deliveries: None,
    };
    let mut ids = Vec::new();
    while let Some(id) = args.peek().and_then(|text| StreamId::parse(text, 0)) {
        ids.push(id);
        args.next();
    }
    let (mut delivered_at, mut last_id) = (None, StreamId::MIN);
    while !args.is_empty() {
        let has_more = args.remaining() > 1;
        if args.keyword("FORCE") {
            claim.force = true;
        } else if args.keyword("JUSTID") {
            claim.only_ids = true;
        } else if has_more && args.keyword("IDLE") {
            let idle = integer(args, "ERR Invalid IDLE option argument for XCLAIM")?;
            delivered_at = Some(now.0.wrapping_sub(idle));
        } else if has_more && args.keyword("TIME") {
            delivered_at = Some(integer(
                args,
                "ERR Invalid TIME option argument for XCLAIM",
            )?);
        } else if has_more && args.keyword("RETRYCOUNT") {
            let count = integer(args, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
            claim.deliveries = u64::try_from(count).ok();
        } else if has_more && args.keyword("LASTID") {
            last_id = strict_id(args.required()?)?;
        } else {
            let option = args.next().unwrap_or_default();
            return Err(CommandError::echoing(
                "ERR Unrecognized XCLAIM option '",
                option,
                "'",
            ));
        }
    }
    // An invalid time means now.
    let delivered_at = delivered_at.filter(|time| (0..=now.0).contains(time));
    claim.delivered_at = delivered_at.map_or(now, UnixMillis);
    let mut is_ahead = false;
    if let Some(stream) = ctx.write_again::<Stream>(claimant.key)?
        && let Some(group) = stream.group_mut(claimant.group)
    {
        is_ahead = last_id > group.last_id;
        group.last_id = group.last_id.max(last_id);
    }
    ctx.propagate_nothing();
    claimant.see(ctx)?;
    let mut replies = Vec::new();
    for id in ids {
        if let Some(was_pending) = claimant.forget_deleted(ctx, id)? {
            is_ahead &= !was_pending;
        } else if let Some(reply) = claimant.claim(ctx, &claim, id)? {
            is_ahead = false;
            replies.push(reply);
        }
    }
    if is_ahead {
        propagate_last_id(ctx, claimant.key, claimant.group)?;
    }
    ctx.touched_quietly(claimant.key);
    Ok(Reply::Array(replies))
}

/// `t_stream.c: xautoclaimCommand`.
fn xautoclaim(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let claimant = Claimant::parse(args)?;
    // Redis looks the key up before it reads the other arguments.
    ctx.find_for_read(claimant.key);
    let min_idle = integer(args, "ERR Invalid min-idle-time argument for XAUTOCLAIM")?;
    let start = start_of(args.required()?)?;
    let (mut count, mut only_ids) = (COUNT, false);
    while !args.is_empty() {
        if args.remaining() > 1 && args.keyword("COUNT") {
            let error = || CommandError::Text("ERR COUNT must be > 0".into());
            let given =
                parse_integer(args.required()?).filter(|count| (1..=COUNT_MAX).contains(count));
            count = usize::try_from(given.ok_or_else(error)?).map_err(|_| error())?;
        } else if args.keyword("JUSTID") {
            only_ids = true;
        } else {
            return Err(CommandError::Syntax);
        }
    }
    claimant.check_again(ctx)?;
    let now = ctx.now_millis();
    let claim = Claim {
        min_idle,
        force: false,
        only_ids,
        delivered_at: now,
        deliveries: None,
    };
    ctx.propagate_nothing();
    claimant.see(ctx)?;
    let (mut replies, mut deleted) = (Vec::new(), Vec::new());
    let mut next = start;
    let mut cursor = StreamId::MIN;
    let mut left = count.saturating_mul(LOOKS_PER_ENTRY);
    loop {
        let stream = ctx.write_again::<Stream>(claimant.key)?;
        let group = stream.and_then(|stream| stream.group(claimant.group));
        let found = group.and_then(|group| group.pending().iter_from(next).next());
        let Some((id, _)) = found else {
            break;
        };
        if left == 0 || replies.len() + deleted.len() >= count {
            cursor = id;
            break;
        }
        left -= 1;
        if claimant.forget_deleted(ctx, id)?.is_some() {
            deleted.push(id_reply(id));
        } else {
            replies.extend(claimant.claim(ctx, &claim, id)?);
        }
        let Some(behind) = id.next() else {
            break;
        };
        next = behind;
    }
    ctx.touched_quietly(claimant.key);
    Ok(Reply::Array(vec![
        id_reply(cursor),
        Reply::Array(replies),
        Reply::Array(deleted),
    ]))
}

const FAST: &[Flags] = &[Flags::WRITE, Flags::FAST];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("xclaim", -6, xclaim)
        .flags(FAST)
        .keys(1, 1, 1, &["RW", "update"])
        .tips(&["nondeterministic_output"])
        .syntax(
            "key group consumer min-idle-time id... [IDLE ms:integer] [TIME unix-time-milliseconds:unix-time] \
             [RETRYCOUNT count:integer] [FORCE] [JUSTID] [LASTID id]",
        )
        .summary("Assigns pending entries to another consumer."),
    row("xautoclaim", -6, xautoclaim)
        .flags(FAST)
        .keys(1, 1, 1, &["RW", "delete"])
        .since("6.2.0")
        .tips(&["nondeterministic_output"])
        .syntax("key group consumer min-idle-time start [COUNT count:integer] [JUSTID]")
        .summary("Assigns all entries that have been pending for long enough to another consumer."),
];
