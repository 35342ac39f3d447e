//! SYNC, PSYNC and REPLCONF: requests of a replica outside of the deployment to its master.
//!
//! *Policy* (`replication.c: syncCommand`). A replica gets all data as an RDB file, then the stream of
//! commands. It gets only the part that it has missed if it names the history of this master and the backlog
//! reaches back so far. The file is sent at once: between two marks with `repl-diskless-sync` if the replica can receive it so, else
//! with its length in front.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError};
use crate::engine::{Ctx, ReplicaSide};
use crate::resp::Reply;
use std::sync::Arc;

/// Longest host name that a replica may give, in bytes (`NET_HOST_STR_LEN`).
const HOST_BYTES_MAX: usize = 256;

fn error(text: &'static str) -> CommandError {
    CommandError::Text(text.into())
}

/// Refuses a synchronization that is not possible now.
fn check(ctx: &Ctx<'_>) -> Result<(), CommandError> {
    // A replica or a monitor that asks again gets no reply.
    if ctx.session.is_monitor || ctx.session.reads_stream() {
        return Err(CommandError::NoAnswer);
    }
    if ctx.is_failing_over() {
        return Err(error("NOMASTERLINK Can't SYNC while failing over"));
    }
    if let Some(upstream) = &ctx.replication().upstream {
        if !upstream.is_up {
            return Err(error(
                "NOMASTERLINK Can't SYNC while not connected with my master",
            ));
        }
        let side = ctx.session.replica_side.as_deref();
        if !side.is_some_and(|side| side.wants_data_only) {
            return Err(CommandError::NotImplemented {
                what: "a stream of commands from a node that is a replica itself".to_owned(),
            });
        }
    }
    let side = ctx.session.replica_side.as_deref();
    if side.is_some_and(|side| side.filter.is_some() && !side.has_eof) {
        return Err(error("ERR Filtered replica requires EOF capability"));
    }
    Ok(())
}

/// Length of the mark around a file without a length, in hexadecimal digits.
const MARK_DIGITS: usize = 40;

/// The file as it is sent.
fn framed(ctx: &mut Ctx<'_>, file: Vec<u8>) -> Vec<u8> {
    let side = ctx.session.replica_side.as_deref();
    if side.is_some_and(|side| side.has_eof) && ctx.config().is_on("repl-diskless-sync") {
        let mark = ctx.draw_password(MARK_DIGITS);
        return [b"$EOF:", mark.as_bytes(), b"\r\n", &file, mark.as_bytes()].concat();
    }
    [format!("${}\r\n", file.len()).as_bytes(), &file].concat()
}

/// All data, and the stream from here on. `line` comes before the file.
fn full(ctx: &mut Ctx<'_>, acknowledges: bool) -> CommandResult {
    let (line, file) = ctx.full_sync(acknowledges);
    let file = Reply::Raw(Arc::from(framed(ctx, file)));
    if !ctx.session.reads_stream() {
        ctx.close(); // it asked for the data only
    }
    Ok(match acknowledges {
        true => Reply::Several(vec![Reply::Status(line.into_bytes()), file]),
        false => file,
    })
}

fn sync(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    check(ctx)?;
    full(ctx, false)
}

fn psync(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let asks_for_failover = args
        .request()
        .arg(3)
        .is_some_and(|word| word.eq_ignore_ascii_case(b"failover"));
    if asks_for_failover && !ctx.session.reads_stream() && !ctx.session.is_monitor {
        if !ctx.replication().is_replica() {
            return Err(error("ERR PSYNC FAILOVER can't be sent to a master."));
        }
        return Err(CommandError::NotImplemented {
            what: "PSYNC FAILOVER".to_owned(),
        });
    }
    check(ctx)?;
    let id = args.required()?;
    let offset = args.integer()?;
    let missed = ctx.partial_sync(id, offset);
    if let Some(missed) = missed {
        let id = ctx.replication_id();
        let side = ctx.session.replica_side.as_deref();
        let line = match side.is_some_and(|side| side.has_psync2) {
            true => format!("CONTINUE {id}"),
            false => "CONTINUE".to_owned(),
        };
        return Ok(Reply::Several(vec![
            Reply::Status(line.into_bytes()),
            Reply::Raw(Arc::from(missed)),
        ]));
    }
    full(ctx, true)
}

/// REPLCONF: settings of the caller as a replica.
fn side<'a>(ctx: &'a mut Ctx<'_>) -> &'a mut ReplicaSide {
    ctx.session.replica_side.get_or_insert_default()
}

/// `replication.c: replconfCommand`.
fn replconf(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if !args.remaining().is_multiple_of(2) {
        return Err(CommandError::Syntax);
    }
    while let (Some(option), Some(value)) = (args.next(), args.next()) {
        match &option.to_ascii_lowercase()[..] {
            b"listening-port" => {
                let port = super::integer_of(value)?;
                side(ctx).port = u16::try_from(port).unwrap_or(0);
            }
            b"ip-address" => {
                if value.len() >= HOST_BYTES_MAX {
                    let text = format!(
                        "ERR REPLCONF ip-address provided by replica instance is too long: {} bytes",
                        value.len()
                    );
                    return Err(CommandError::Text(text.into()));
                }
                let host = String::from_utf8_lossy(value).into_owned();
                side(ctx).host = Some(host).filter(|host| !host.is_empty());
            }
            b"capa" => {
                side(ctx).has_eof |= value.eq_ignore_ascii_case(b"eof");
                side(ctx).has_psync2 |= value.eq_ignore_ascii_case(b"psync2");
            }
            b"ack" => {
                let offset = |text: &[u8]| {
                    let offset = crate::resp::parse_integer(text)?;
                    Some(u64::try_from(offset).unwrap_or(0))
                };
                if ctx.session.reads_stream()
                    && let Some(reached) = offset(value)
                {
                    // The append-only file of a replica of 7.2.
                    let is_synced = args.keyword("FACK");
                    let synced = args.next().filter(|_| is_synced).and_then(offset);
                    ctx.acknowledge(reached, synced);
                }
                return Err(CommandError::NoAnswer);
            }
            // The master of a node of a deployment does not send this request.
            b"getack" => return Err(CommandError::NoAnswer),
            b"rdb-only" => {
                let only = super::integer_of(value)?;
                if !(0..=1).contains(&only) {
                    return Err(error(
                        "ERR value is out of range, value must between 0 and 1",
                    ));
                }
                side(ctx).wants_data_only = only == 1;
            }
            b"rdb-filter-only" => {
                let mut filter = crate::engine::RdbFilter::default();
                let words = value.split(u8::is_ascii_whitespace);
                for word in words.filter(|word| !word.is_empty()) {
                    if !word.eq_ignore_ascii_case(b"functions") {
                        let before = "ERR Unsupported rdb-filter-only option: ";
                        return Err(CommandError::echoing(before, word, ""));
                    }
                    filter.has_functions = true;
                }
                side(ctx).filter = Some(filter);
            }
            _ => {
                let before = "ERR Unrecognized REPLCONF option: ";
                return Err(CommandError::echoing(before, option, ""));
            }
        }
    }
    Ok(Reply::Ok)
}

const SYNC: &[Flags] = &[
    Flags::ADMIN,
    Flags::NOSCRIPT,
    Flags::NO_ASYNC_LOADING,
    Flags::NO_MULTI,
];

pub(crate) const COMMANDS: &[CommandSpec] = &[
    row("sync", 1, sync)
        .flags(SYNC)
        .since("1.0.0")
        .summary("Sends all data to a replica, then every change."),
    row("psync", -3, psync)
        .flags(SYNC)
        .since("2.8.0")
        .syntax("replicationid offset:integer")
        .summary("Sends a replica the changes that it has missed, then every change."),
    row("replconf", -1, replconf)
        .flags(&[
            Flags::ADMIN,
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::ALLOW_BUSY,
        ])
        .since("3.0.0")
        .system_command()
        .summary("Settings of a replica."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler)
}
