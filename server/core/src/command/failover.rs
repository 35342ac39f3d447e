//! FAILOVER: a master hands over to one of its replicas.

use super::connection::not_in_cluster;
use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Address, Ctx, Failover, UnixMillis};
use crate::resp::Reply;

fn error(text: &'static str) -> CommandError {
    CommandError::Text(text.into())
}

#[derive(Default)]
struct Options<'a> {
    /// A host and a port, which need not belong to a replica.
    target: Option<(&'a [u8], i64)>,
    timeout_ms: Option<i64>,
    is_forced: bool,
}

impl<'a> Options<'a> {
    fn parse(args: &mut Args<'a>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while !args.is_empty() {
            let left = args.remaining();
            if left > 1 && options.timeout_ms.is_none() && args.keyword("TIMEOUT") {
                let millis = args.integer()?;
                if millis <= 0 {
                    return Err(error("ERR FAILOVER timeout must be greater than 0"));
                }
                options.timeout_ms = Some(millis);
            } else if left > 2 && options.target.is_none() && args.keyword("TO") {
                options.target = Some((args.required()?, args.integer()?));
            } else if !options.is_forced && args.keyword("FORCE") {
                options.is_forced = true;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

/// `replication.c: failoverCommand`.
fn failover(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    not_in_cluster(
        ctx,
        "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
    )?;
    if args.remaining() == 1 && args.keyword("ABORT") {
        if !ctx.is_failing_over() {
            return Err(error("ERR No failover in progress."));
        }
        ctx.abort_failover();
        return Ok(Reply::Ok);
    }
    let options = Options::parse(args)?;
    if ctx.is_failing_over() {
        return Err(error("ERR FAILOVER already in progress."));
    }
    if ctx.replication().is_replica() {
        return Err(error("ERR FAILOVER is not valid when server is a replica."));
    }
    if ctx.replication().replicas.is_empty() {
        return Err(error("ERR FAILOVER requires connected replicas."));
    }
    if options.is_forced && (options.timeout_ms.is_none() || options.target.is_none()) {
        return Err(error(
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ));
    }
    let target = match options.target {
        Some((host, port)) => Some(replica(ctx, host, port)?),
        None => None,
    };
    let now = ctx.now_millis();
    let until = options.timeout_ms;
    let until = until.map(|millis| UnixMillis(now.0.saturating_add(millis)));
    let failover = Failover::new(target, until, options.is_forced);
    ctx.begin_failover(failover);
    Ok(Reply::Ok)
}

/// The replica at an address (`replication.c: findReplica`).
fn replica(ctx: &Ctx<'_>, host: &[u8], port: i64) -> Result<Address, CommandError> {
    let mut replicas = ctx.replication().replicas.iter();
    let found = replicas.find(|replica| {
        let address = &replica.address;
        address.host.as_bytes().eq_ignore_ascii_case(host) && i64::from(address.port) == port
    });
    let found = found.map(|replica| replica.address.clone());
    found.ok_or_else(|| error("ERR FAILOVER target HOST and PORT is not a replica."))
}

pub(crate) const COMMANDS: &[CommandSpec] =
    &[CommandSpec::new("failover", -1, Group::Server, failover)
        .flags(&[Flags::ADMIN, Flags::NOSCRIPT, Flags::STALE])
        .since("6.2.0")
        .syntax("[TO target=(host port:integer [FORCE])] [ABORT] [TIMEOUT milliseconds:integer]")
        .summary("Hands over to a replica that has all writes.")];
