//! REPLICAOF, ROLE, WAIT: a node's master and replicas. `topology/` delivers the units.

use super::client::milliseconds;
use super::connection::not_in_cluster;
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{AckGoal, Address, Config, Ctx, Effect, Replication, UnixMicros};
use crate::resp::{Reply, parse_integer};
use std::time::Duration;

/// `replication.c: replicaofCommand`.
fn replicaof(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    not_in_cluster(ctx, "ERR REPLICAOF not allowed in cluster mode.")?;
    if ctx.is_failing_over() {
        return Err(CommandError::Text(
            "ERR REPLICAOF not allowed while failing over.".into(),
        ));
    }
    if args.keyword("NO") {
        if args.keyword("ONE") {
            ctx.promote();
            if ctx.replication().has_peers() {
                ctx.emit(Effect::Follow { master: None });
            }
            return Ok(Reply::Ok);
        }
        let _a_host_called_no = args.required()?;
        return Err(bad_port());
    }
    let host = String::from_utf8_lossy(args.required()?).into_owned();
    let port = parse_integer(args.required()?).and_then(|port| u16::try_from(port).ok());
    let address = Address {
        host,
        port: port.ok_or_else(bad_port)?,
    };
    let upstream = ctx.replication().upstream.as_ref();
    if upstream.is_some_and(|upstream| upstream.address == address) {
        return Ok(Reply::Static("OK Already connected to specified master"));
    }
    if !ctx.replication().has_peers() {
        ctx.follow_outside(address);
        return Ok(Reply::Ok);
    }
    if !ctx.replication().reaches(&address) {
        return Err(CommandError::NotImplemented {
            what: format!("replication from {address}, which is outside of the deployment"),
        });
    }
    let master = Some(address);
    ctx.emit(Effect::Follow { master });
    Ok(Reply::Ok)
}

fn bad_port() -> CommandError {
    CommandError::Text("ERR Invalid master port".into())
}

fn role(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    if let Some(sentinel) = ctx.sentinel() {
        return Ok(super::sentinel::role(sentinel));
    }
    let replication = ctx.replication();
    let offset = replication.offset as i64;
    if let Some(upstream) = &replication.upstream {
        return Ok(Reply::Array(vec![
            Reply::bulk("slave"),
            Reply::bulk(&upstream.address.host),
            Reply::Int(upstream.address.port.into()),
            Reply::bulk(if upstream.is_up {
                "connected"
            } else {
                "connect"
            }),
            Reply::Int(if upstream.is_up { offset } else { -1 }),
        ]));
    }
    let replicas = replication.all_replicas().map(|replica| {
        Reply::Array(vec![
            Reply::bulk(&replica.address.host),
            Reply::bulk(replica.address.port.to_string()),
            Reply::bulk(replica.offset.to_string()),
        ])
    });
    let replicas = Reply::Array(replicas.collect());
    Ok(Reply::Array(vec![
        Reply::bulk("master"),
        Reply::Int(offset),
        replicas,
    ]))
}

/// `replication.c: waitCommand`.
fn wait(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if ctx.replication().is_replica() {
        return Err(CommandError::Text(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
             configured to be writable (which is not the default) writes to replicas are just local and are not \
             propagated."
                .into(),
        ));
    }
    let wanted = args.integer()?;
    let millis = milliseconds(args.required()?)?;
    let goal = AckGoal {
        offset: ctx.session.wrote_up_to,
        replicas: usize::try_from(wanted).unwrap_or(0),
        own_file: None,
    };
    await_acks(ctx, goal, millis)
}

/// WAITAOF of 7.2 (`replication.c: waitaofCommand`).
fn waitaof(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let local = args.integer()?;
    if !(0..=1).contains(&local) {
        return Err(CommandError::Text(
            "ERR value is out of range, value must between 0 and 1".into(),
        ));
    }
    let replicas = args.integer_from(0, "ERR value is out of range, must be positive")?;
    let millis = milliseconds(args.required()?)?;
    if ctx.replication().is_replica() {
        return Err(CommandError::Text(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just \
             local and are not propagated."
                .into(),
        ));
    }
    if local > 0 && ctx.config().append_only().is_none() {
        return Err(CommandError::Text(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.".into(),
        ));
    }
    let goal = AckGoal {
        offset: ctx.session.wrote_up_to,
        replicas: usize::try_from(replicas).unwrap_or(usize::MAX),
        own_file: Some(local > 0),
    };
    await_acks(ctx, goal, millis)
}

/// Answers at once if the goal is met, or blocks for up to `millis`; 0 is no limit.
fn await_acks(ctx: &mut Ctx<'_>, goal: AckGoal, millis: i64) -> CommandResult {
    let (answer, is_reached) = ctx.acks(goal);
    if is_reached {
        return Ok(answer);
    }
    let timeout = Duration::from_millis(millis.unsigned_abs());
    let timeout = Some(timeout).filter(|timeout| !timeout.is_zero());
    ctx.await_acks(goal);
    ctx.block_for(timeout, answer)
}

/// Parameters of a replica that INFO shows.
pub(super) struct ReplicaFacts {
    priority: i64,
    is_read_only: bool,
    is_announced: bool,
}

impl ReplicaFacts {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            priority: config.number_of("replica-priority"),
            is_read_only: config.replica_read_only,
            is_announced: config.is_on("replica-announced"),
        }
    }
}

/// Lines of INFO.
pub(super) fn describe(
    replication: &Replication,
    facts: &ReplicaFacts,
    now: UnixMicros,
    mut field: impl FnMut(&str, String),
) {
    if let Some(upstream) = &replication.upstream {
        let seconds = |at: UnixMicros| at.0.div_euclid(1_000_000);
        let since = upstream.since.map(|at| (seconds(now) - seconds(at)).max(0));
        let since = since.unwrap_or(-1);
        field("role", "slave".to_owned());
        field("master_host", upstream.address.host.clone());
        field("master_port", upstream.address.port.to_string());
        field(
            "master_link_status",
            if upstream.is_up { "up" } else { "down" }.to_owned(),
        );
        let last_io = if upstream.is_up { since } else { -1 };
        field("master_last_io_seconds_ago", last_io.to_string());
        field("master_sync_in_progress", "0".to_owned());
        field("slave_read_repl_offset", replication.offset.to_string());
        field("slave_repl_offset", replication.offset.to_string());
        if !upstream.is_up {
            field("master_link_down_since_seconds", since.to_string());
        }
        field("slave_priority", facts.priority.to_string());
        field("slave_read_only", u8::from(facts.is_read_only).to_string());
        field(
            "replica_announced",
            u8::from(facts.is_announced).to_string(),
        );
    } else {
        field("role", "master".to_owned());
    }
    let count = replication.all_replicas().count();
    field("connected_slaves", count.to_string());
    for (index, replica) in replication.all_replicas().enumerate() {
        let text = format!(
            "ip={},port={},state=online,offset={},lag={}",
            replica.address.host,
            replica.address.port,
            replica.offset,
            replica.lag_seconds(now)
        );
        field(&format!("slave{index}"), text);
    }
}

const FOLLOW: &[Flags] = &[
    Flags::ADMIN,
    Flags::NOSCRIPT,
    Flags::STALE,
    Flags::NO_ASYNC_LOADING,
];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("replicaof", 3, replicaof)
        .flags(FOLLOW)
        .since("5.0.0")
        .syntax("args=(host-port=(host port:integer) | no-one=(NO ONE))")
        .summary("Makes this node a replica of another node of its deployment, or a master."),
    row("slaveof", 3, replicaof)
        .flags(FOLLOW)
        .deprecated("5.0.0", "`REPLICAOF`")
        .syntax("args=(host-port=(host port:integer) | no-one=(NO ONE))")
        .summary("The former name of REPLICAOF."),
    row("role", 1, role)
        .flags(&[Flags::SENTINEL])
        .flags(&[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST])
        .acl(&["@admin", "@dangerous"])
        .since("2.8.12")
        .summary("The place of this node in replication."),
    CommandSpec::new("wait", 3, Group::Generic, wait)
        .flags(&[Flags::NOSCRIPT])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .acl(&["@connection"])
        .acl_without(&["@keyspace"])
        .since("3.0.0")
        .syntax("numreplicas:integer timeout:integer")
        .summary("Waits until replicas have the writes of this connection."),
    CommandSpec::new("waitaof", 4, Group::Generic, waitaof)
        .flags(&[Flags::NOSCRIPT])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"])
        .acl(&["@connection"])
        .acl_without(&["@keyspace"])
        .since("7.2.0")
        .syntax("numlocal:integer numreplicas:integer timeout:integer")
        .summary("Waits until append-only files have the writes of this connection."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler)
}
