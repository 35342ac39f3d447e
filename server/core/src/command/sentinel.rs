//! SENTINEL, and PUBLISH on a sentinel. Only the table of a sentinel has these rows. Commands that change
//! settings are in `settings.rs`.

mod settings;

use super::spec::{CommandResult, CommandSpec, Flags, Group, Handler};
use super::{Args, CommandError, help};
use crate::engine::{Ctx, MasterSettings, Seen, Sentinel, Watched, glob_match};
use crate::resp::Reply;
use std::sync::LazyLock;

fn text(text: &'static str) -> CommandError {
    CommandError::Text(text.into())
}

/// Returns the master that this sentinel watches, if any.
fn watched<'a>(ctx: &'a Ctx<'_>) -> Option<&'a Watched> {
    ctx.sentinel()?.watched.as_ref()
}

/// The watched master, if it has this name.
fn named<'a>(ctx: &'a Ctx<'_>, args: &mut Args<'_>) -> Result<Option<&'a Watched>, CommandError> {
    let name = args.required()?;
    Ok(watched(ctx).filter(|watched| watched.name.as_bytes() == name))
}

/// The watched master, which has to have this name (`sentinel.c: sentinelGetMasterByNameOrReplyError`).
fn known<'a>(ctx: &'a Ctx<'_>, args: &mut Args<'_>) -> Result<&'a Watched, CommandError> {
    named(ctx, args)?.ok_or_else(|| text("ERR No such master with that name"))
}

/// The settings of the watched master.
fn settings<'a>(ctx: &'a Ctx<'_>) -> &'a MasterSettings {
    static DEFAULT: LazyLock<MasterSettings> = LazyLock::new(MasterSettings::default);
    ctx.sentinel()
        .map_or(&*DEFAULT, |sentinel| &sentinel.master)
}

fn masters(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let masters = watched(ctx).map(|watched| describe_master(watched, settings(ctx)));
    Ok(Reply::Array(masters.into_iter().collect()))
}

fn master(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    Ok(describe_master(known(ctx, args)?, settings(ctx)))
}

fn replicas(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let watched = known(ctx, args)?;
    let replicas = watched.replicas.iter().filter(|seen| seen.is_announced);
    let replicas = replicas.map(|seen| describe_replica(seen, watched));
    Ok(Reply::Array(replicas.collect()))
}

fn sentinels(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let watched = known(ctx, args)?;
    let own = ctx.sentinel().map(|own| &own.id);
    let others = watched.sentinels.iter().filter(|it| Some(&it.id) != own);
    let down_after = watched.down_after.as_millis();
    let others = others.map(|it| {
        let other = Seen {
            address: it.address.clone(),
            run_id: it.id.clone(),
            is_down: it.is_down,
            is_disconnected: it.is_disconnected,
            offset: 0,
            priority: 0,
            is_announced: true,
        };
        let mut fields = seen(it.id.clone(), "sentinel", &other, down_after);
        fields.extend([
            ("last-hello-message", "0".to_owned()),
            ("voted-leader", "?".to_owned()),
            ("voted-leader-epoch", "0".to_owned()),
        ]);
        map(fields)
    });
    Ok(Reply::Array(others.collect()))
}

fn myid(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(ctx
        .sentinel()
        .map_or(Reply::Nil, |own| Reply::bulk(&own.id)))
}

fn get_master_addr_by_name(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    Ok(named(ctx, args)?.map_or(Reply::NilArray, |watched| {
        let address = &watched.master.address;
        Reply::Array(vec![
            Reply::bulk(&address.host),
            Reply::bulk(address.port.to_string()),
        ])
    }))
}

fn is_master_down_by_addr(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (host, port) = (args.required()?, args.integer()?);
    let _epoch = args.integer()?;
    let is_it = |watched: &&Watched| {
        let address = &watched.master.address;
        address.host.as_bytes() == host && i64::from(address.port) == port
    };
    let is_down = watched(ctx)
        .filter(is_it)
        .is_some_and(|it| it.master.is_down);
    let (leader, epoch) = (Reply::bulk("*"), Reply::Int(0));
    Ok(Reply::Array(vec![
        Reply::Int(is_down.into()),
        leader,
        epoch,
    ]))
}

/// SENTINEL RESET: a sentinel stores no state that it could drop.
fn reset(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let pattern = args.required()?;
    let is_meant = |watched: &Watched| glob_match(pattern, watched.name.as_bytes());
    Ok(Reply::Int(watched(ctx).is_some_and(is_meant).into()))
}

fn ckquorum(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let watched = known(ctx, args)?;
    let usable = watched.usable();
    let lacks_quorum = usable < watched.quorum;
    let lacks_majority = usable <= watched.sentinels.len() / 2;
    if !lacks_quorum && !lacks_majority {
        let text = format!(
            "OK {usable} usable Sentinels. Quorum and failover authorization can be reached"
        );
        return Ok(Reply::Status(text.into()));
    }
    let reasons = [
        (
            lacks_quorum,
            "Not enough available Sentinels to reach the specified quorum for this master",
        ),
        (
            lacks_majority,
            "Not enough available Sentinels to reach the majority and authorize a failover",
        ),
    ];
    let reasons = reasons.iter().filter(|(lacks, _)| *lacks);
    let reasons: Vec<&str> = reasons.map(|(_, reason)| *reason).collect();
    let text = format!("NOQUORUM {usable} usable Sentinels. {}", reasons.join(". "));
    Err(CommandError::Text(text.into()))
}

fn failover(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let watched = known(ctx, args)?;
    if watched.is_failing_over {
        return Err(text("INPROG Failover already in progress"));
    }
    let is_good = |replica: &Seen| !replica.is_down && replica.priority > 0;
    if !watched.replicas.iter().any(is_good) {
        return Err(text("NOGOODSLAVE No suitable replica to promote"));
    }
    ctx.ask_for_failover();
    Ok(Reply::Ok)
}

/// PUBLISH: only other sentinels publish to a sentinel. What they say is known already.
fn publish(_: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.required()? == b"__sentinel__:hello" {
        return Ok(Reply::Int(1));
    }
    Err(text(
        "ERR Only HELLO messages are accepted by Sentinel instances.",
    ))
}

fn map(fields: Vec<(&str, String)>) -> Reply {
    let fields = fields.into_iter();
    Reply::Map(
        fields
            .map(|(name, value)| (Reply::bulk(name), Reply::bulk(value)))
            .collect(),
    )
}

/// The fields that masters, replicas and sentinels share, as `sentinel.c: addReplySentinelRedisInstance` has them.
fn seen<'a>(name: String, kind: &'a str, seen: &Seen, down_after: u128) -> Vec<(&'a str, String)> {
    let down = if seen.is_down { "s_down," } else { "" };
    let left = match seen.is_disconnected {
        true => ",disconnected",
        false => "",
    };
    let flags = format!("{down}{kind}{left}");
    let zero = || "0".to_owned();
    vec![
        ("name", name),
        ("ip", seen.address.host.clone()),
        ("port", seen.address.port.to_string()),
        ("runid", seen.run_id.clone()),
        ("flags", flags),
        ("link-pending-commands", zero()),
        ("link-refcount", "1".to_owned()),
        ("last-ping-sent", zero()),
        ("last-ok-ping-reply", zero()),
        ("last-ping-reply", zero()),
        ("down-after-milliseconds", down_after.to_string()),
    ]
}

/// Indices of fields in [`seen`]: the flags, and the first field after the link.
const FLAGS: usize = 4;
const LINK_END: usize = 7;

/// Returns the additional fields of masters and replicas.
fn reported(kind: &str) -> [(&str, String); 3] {
    [
        ("info-refresh", "0".to_owned()),
        ("role-reported", kind.to_owned()),
        ("role-reported-time", "0".to_owned()),
    ]
}

fn describe_master(watched: &Watched, settings: &MasterSettings) -> Reply {
    let down_after = watched.down_after.as_millis();
    let mut fields = seen(watched.name.clone(), "master", &watched.master, down_after);
    if watched.is_agreed_down() {
        fields[FLAGS].1 = fields[FLAGS].1.replace("s_down,", "s_down,o_down,");
    }
    if watched.is_failing_over {
        fields[FLAGS].1.push_str(",failover_in_progress");
        fields.insert(LINK_END, ("failover-state", "wait_promotion".to_owned()));
    }
    fields.extend(reported("master"));
    fields.extend([
        ("config-epoch", watched.epoch.to_string()),
        ("num-slaves", watched.replicas.len().to_string()),
        (
            "num-other-sentinels",
            (watched.sentinels.len() - 1).to_string(),
        ),
        ("quorum", watched.quorum.to_string()),
        ("failover-timeout", settings.failover_timeout.to_string()),
        ("parallel-syncs", settings.parallel_syncs.to_string()),
    ]);
    map(fields)
}

fn describe_replica(of: &Seen, watched: &Watched) -> Reply {
    let down_after = watched.down_after.as_millis();
    let mut fields = seen(of.address.to_string(), "slave", of, down_after);
    let master = &watched.master;
    let status = if master.is_down || of.is_down {
        "err"
    } else {
        "ok"
    };
    fields.extend(reported("slave"));
    fields.extend([
        ("master-link-down-time", "0".to_owned()),
        ("master-link-status", status.to_owned()),
        ("master-host", master.address.host.clone()),
        ("master-port", master.address.port.to_string()),
        ("slave-priority", of.priority.to_string()),
        ("slave-repl-offset", of.offset.to_string()),
        ("replica-announced", u8::from(of.is_announced).to_string()),
    ]);
    map(fields)
}

/// ROLE of a sentinel.
pub(super) fn role(sentinel: &Sentinel) -> Reply {
    let names = sentinel
        .watched
        .iter()
        .map(|watched| Reply::bulk(&watched.name));
    Reply::Array(vec![Reply::bulk("sentinel"), Reply::Array(names.collect())])
}

/// INFO of a sentinel.
pub(super) fn describe(sentinel: &Sentinel, mut field: impl FnMut(&str, String)) {
    field(
        "sentinel_masters",
        sentinel.watched.iter().count().to_string(),
    );
    field("sentinel_tilt", "0".to_owned());
    field("sentinel_tilt_since_seconds", "-1".to_owned());
    for name in [
        "sentinel_running_scripts",
        "sentinel_scripts_queue_length",
        "sentinel_simulate_failure_flags",
    ] {
        field(name, "0".to_owned());
    }
    if let Some(watched) = &sentinel.watched {
        let status = match watched.master.is_down {
            true if watched.is_agreed_down() => "odown",
            true => "sdown",
            false => "ok",
        };
        let text = format!(
            "name={},status={status},address={},slaves={},sentinels={}",
            watched.name,
            watched.master.address,
            watched.replicas.len(),
            watched.sentinels.len()
        );
        field("master0", text);
    }
}

const SUBCOMMANDS: &[CommandSpec] = &[
    row("masters", 2, masters).summary("The watched masters."),
    row("master", 3, master)
        .syntax("master-name")
        .summary("The state of a watched master."),
    row("replicas", 3, replicas)
        .since("5.0.0")
        .syntax("master-name")
        .summary("The replicas of a watched master."),
    row("slaves", 3, replicas)
        .deprecated("5.0.0", "`SENTINEL REPLICAS`")
        .syntax("master-name")
        .summary("The replicas of a watched master."),
    row("sentinels", 3, sentinels)
        .syntax("master-name")
        .summary("The other sentinels that watch a master."),
    row("myid", 2, myid)
        .since("6.2.0")
        .summary("The id of this sentinel."),
    row("get-master-addr-by-name", 3, get_master_addr_by_name)
        .syntax("master-name")
        .summary("The address of a master."),
    row("is-master-down-by-addr", 6, is_master_down_by_addr)
        .syntax("ip port:integer current-epoch:integer runid")
        .summary("True if this sentinel sees the master as down."),
    row("reset", 3, reset)
        .syntax("pattern:pattern")
        .summary("The number of masters that would be reset."),
    row("ckquorum", 3, ckquorum)
        .syntax("master-name")
        .summary("Checks whether enough sentinels are reachable for a failover."),
    row("failover", 3, failover)
        .syntax("master-name")
        .summary("Asks for a failover without the agreement of other sentinels."),
    settings::CONFIG,
    settings::DEBUG,
    settings::FLUSHCONFIG,
    help::row(Group::Sentinel, "6.2.0").flags(&[Flags::ADMIN]),
    settings::INFO_CACHE,
    settings::MONITOR,
    settings::PENDING_SCRIPTS,
    settings::REMOVE,
    settings::SET,
    settings::SIMULATE_FAILURE,
];

/// The rows that only a sentinel has.
pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::container("sentinel", -2, Group::Sentinel, SUBCOMMANDS)
        .flags(&[Flags::ADMIN])
        .since("2.8.4")
        .summary("State of the nodes that a sentinel watches."),
    CommandSpec::new("publish", 3, Group::PubSub, publish)
        .flags(&[Flags::PUBSUB, Flags::LOADING, Flags::STALE, Flags::FAST])
        .since("2.0.0")
        .syntax("channel message")
        .summary("Refused: sentinels publish only their own messages."),
];

pub(super) const fn row(name: &'static str, arity: i32, handler: Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Sentinel, handler)
        .flags(&[Flags::ADMIN])
        .since("2.8.4")
}
