//! Channels, patterns and sharded channels. Deliveries are decided in `engine/clients/pubsub.rs`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, help};
use crate::engine::{Ctx, Origin, Space};
use crate::resp::{Blob, Reply};

/// Returns the number of subscriptions of the connection in a space: sharded channels count separately.
fn count(ctx: &Ctx<'_>, space: Space) -> Reply {
    let counts = ctx.pubsub().counts(ctx.session.conn);
    Reply::Int(match space {
        Space::Shard => counts.shards as i64,
        Space::Channel | Space::Pattern => (counts.channels + counts.patterns) as i64,
    })
}

fn confirmation(word: &'static str, name: Option<&[u8]>, count: Reply) -> Reply {
    let name = name.map_or(Reply::Nil, Reply::bulk);
    Reply::Push(vec![Reply::bulk(word), name, count])
}

fn subscribe_to(ctx: &mut Ctx<'_>, args: &mut Args<'_>, space: Space) -> CommandResult {
    let (word, ..) = space.words();
    // `pubsub.c: ssubscribeCommand`; Redis allows the other commands inside a transaction.
    if ctx.origin == Origin::Exec && space == Space::Shard {
        return Err(CommandError::Text(
            "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client".into(),
        ));
    }
    let frames = args.rest().map(|name| {
        ctx.subscribe(space, name);
        confirmation(word, Some(name), count(ctx, space))
    });
    Ok(Reply::Several(frames.collect()))
}

fn unsubscribe_from(ctx: &mut Ctx<'_>, args: &mut Args<'_>, space: Space) -> CommandResult {
    let (_, word, _) = space.words();
    let names: Vec<Blob> = if args.is_empty() {
        ctx.pubsub().names(ctx.session.conn, space)
    } else {
        args.rest().map(Blob::new).collect()
    };
    let mut frames = Vec::with_capacity(names.len());
    for name in &names {
        ctx.unsubscribe(space, name);
        frames.push(confirmation(word, Some(name), count(ctx, space)));
    }
    if frames.is_empty() {
        frames.push(confirmation(word, None, count(ctx, space)));
    }
    Ok(Reply::Several(frames))
}

fn subscribe(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    subscribe_to(ctx, args, Space::Channel)
}

fn psubscribe(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    subscribe_to(ctx, args, Space::Pattern)
}

fn ssubscribe(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    subscribe_to(ctx, args, Space::Shard)
}

fn unsubscribe(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    unsubscribe_from(ctx, args, Space::Channel)
}

fn punsubscribe(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    unsubscribe_from(ctx, args, Space::Pattern)
}

fn sunsubscribe(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    unsubscribe_from(ctx, args, Space::Shard)
}

fn publish_to(ctx: &mut Ctx<'_>, args: &mut Args<'_>, space: Space) -> CommandResult {
    let (channel, message) = (args.required()?, args.required()?);
    if ctx.cluster().is_none() {
        ctx.propagate_always();
    }
    Ok(Reply::Int(ctx.publish(space, channel, message) as i64))
}

fn publish(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    publish_to(ctx, args, Space::Channel)
}

fn spublish(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    publish_to(ctx, args, Space::Shard)
}

fn names_of(ctx: &mut Ctx<'_>, args: &mut Args<'_>, space: Space) -> CommandResult {
    let pattern = args.next();
    if !args.is_empty() {
        return Err(args.subcommand_syntax());
    }
    let names = ctx.pubsub().channels(space, pattern);
    Ok(Reply::Array(names.into_iter().map(Reply::Bulk).collect()))
}

fn counts_of(ctx: &mut Ctx<'_>, args: &mut Args<'_>, space: Space) -> CommandResult {
    let pubsub = ctx.pubsub();
    let counts = args.rest().flat_map(|name| {
        let count = pubsub.listener_count(space, name);
        [Reply::bulk(name), Reply::Int(count as i64)]
    });
    Ok(Reply::Array(counts.collect()))
}

fn pubsub_channels(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    names_of(ctx, args, Space::Channel)
}

fn pubsub_shardchannels(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    names_of(ctx, args, Space::Shard)
}

fn pubsub_numsub(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    counts_of(ctx, args, Space::Channel)
}

fn pubsub_shardnumsub(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    counts_of(ctx, args, Space::Shard)
}

fn pubsub_numpat(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Int(ctx.pubsub().pattern_count() as i64))
}

const LISTEN: &[Flags] = &[
    Flags::PUBSUB,
    Flags::NOSCRIPT,
    Flags::LOADING,
    Flags::STALE,
    Flags::WHILE_SUBSCRIBED,
];
const SPEAK: &[Flags] = &[
    Flags::PUBSUB,
    Flags::LOADING,
    Flags::STALE,
    Flags::FAST,
    Flags::MAY_REPLICATE,
];
const ASK: &[Flags] = &[Flags::PUBSUB, Flags::LOADING, Flags::STALE];

const PUBSUB: &[CommandSpec] = &[
    help::row(Group::PubSub, "6.2.0").acl_without(&["@pubsub"]),
    row("channels", -2, pubsub_channels)
        .flags(ASK)
        .since("2.8.0")
        .syntax("[pattern:pattern]")
        .summary("The channels with subscribers."),
    row("numpat", 2, pubsub_numpat)
        .flags(ASK)
        .since("2.8.0")
        .summary("Number of patterns with subscribers."),
    row("numsub", -2, pubsub_numsub)
        .flags(ASK)
        .since("2.8.0")
        .syntax("[channel...]")
        .summary("Number of subscribers of each channel."),
    row("shardchannels", -2, pubsub_shardchannels)
        .flags(ASK)
        .since("7.0.0")
        .syntax("[pattern:pattern]")
        .summary("The sharded channels with subscribers."),
    row("shardnumsub", -2, pubsub_shardnumsub)
        .flags(ASK)
        .since("7.0.0")
        .syntax("[shardchannel...]")
        .summary("Number of subscribers of each sharded channel."),
];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("subscribe", -2, subscribe)
        .flags(&[Flags::SENTINEL])
        .flags(LISTEN)
        .since("2.0.0")
        .syntax("channel...")
        .summary("Subscribes to channels."),
    row("unsubscribe", -1, unsubscribe)
        .flags(&[Flags::SENTINEL])
        .flags(LISTEN)
        .since("2.0.0")
        .syntax("[channel...]")
        .summary("Unsubscribes from some channels, or from all."),
    row("psubscribe", -2, psubscribe)
        .flags(&[Flags::SENTINEL])
        .flags(LISTEN)
        .since("2.0.0")
        .syntax("pattern=(pattern:pattern)...")
        .summary("Subscribes to the channels that match patterns."),
    row("punsubscribe", -1, punsubscribe)
        .flags(&[Flags::SENTINEL])
        .flags(LISTEN)
        .since("2.0.0")
        .syntax("[pattern:pattern...]")
        .summary("Unsubscribes from some patterns, or from all."),
    row("ssubscribe", -2, ssubscribe)
        .flags(LISTEN)
        .keys(1, -1, 1, &["not_key"])
        .since("7.0.0")
        .syntax("shardchannel...")
        .summary("Subscribes to sharded channels."),
    row("sunsubscribe", -1, sunsubscribe)
        .flags(LISTEN)
        .keys(1, -1, 1, &["not_key"])
        .since("7.0.0")
        .syntax("[shardchannel...]")
        .summary("Unsubscribes from some sharded channels, or from all."),
    row("publish", 3, publish)
        .flags(SPEAK)
        .since("2.0.0")
        .syntax("channel message")
        .summary("Publishes a message, and returns the number of receivers."),
    row("spublish", 3, spublish)
        .flags(SPEAK)
        .keys(1, 1, 1, &["not_key"])
        .since("7.0.0")
        .syntax("shardchannel message")
        .summary("Publishes a message to a sharded channel."),
    CommandSpec::container("pubsub", -2, Group::PubSub, PUBSUB)
        .since("2.8.0")
        .summary("Lists subscribers and channels."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::PubSub, handler)
}
