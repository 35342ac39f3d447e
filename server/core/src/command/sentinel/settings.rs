//! SENTINEL SET, CONFIG, DEBUG and other commands that change the settings of a sentinel (`sentinel.c:
//! sentinelSetCommand` and related functions). The settings are in `engine/peers/sentinel.rs`.

use super::{known, named, row, text, watched};
use crate::command::spec::{CommandResult, CommandSpec};
use crate::command::{Args, CommandError};
use crate::engine::{Address, Ctx, MasterSettings, Sentinel, SimulatedFailures, glob_match};
use crate::resp::{Reply, parse_integer};
use std::net::IpAddr;
use std::time::Duration;

fn sentinel<'a>(ctx: &'a mut Ctx<'_>) -> Result<&'a mut Sentinel, CommandError> {
    ctx.sentinel_mut().ok_or(CommandError::Syntax)
}

/// Returns the error for an invalid value of an option.
fn invalid(value: &[u8], subcommand: &str, option: &[u8]) -> CommandError {
    let option = String::from_utf8_lossy(option);
    CommandError::echoing(
        "ERR Invalid argument '",
        value,
        &format!("' for SENTINEL {subcommand} '{option}'"),
    )
}

fn unknown(option: &[u8], subcommand: &str) -> CommandError {
    let before = format!("ERR Unknown option or number of arguments for SENTINEL {subcommand} '");
    CommandError::echoing(&before, option, "'")
}

fn positive(value: &[u8]) -> Option<i64> {
    parse_integer(value).filter(|number| *number > 0)
}

fn set(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    known(ctx, &mut args.clone())?;
    let _name = args.required()?;
    while let Some(option) = args.next() {
        let name = &option.to_ascii_lowercase()[..];
        let Some(value) = args.next() else {
            return Err(unknown(option, "SET"));
        };
        let number = || positive(value).ok_or_else(|| invalid(value, "SET", option));
        let settings = &mut sentinel(ctx)?.master;
        match name {
            b"down-after-milliseconds" => {
                settings.down_after = Some(Duration::from_millis(number()?.unsigned_abs()));
            }
            b"failover-timeout" => settings.failover_timeout = number()?,
            b"parallel-syncs" => settings.parallel_syncs = number()?,
            b"quorum" => settings.quorum = Some(usize::try_from(number()?).unwrap_or(usize::MAX)),
            // The nodes of a deployment need no passwords for each other.
            b"auth-pass" | b"auth-user" => {}
            b"master-reboot-down-after-period" => {
                let is_valid = parse_integer(value).is_some_and(|millis| millis >= 0);
                is_valid
                    .then_some(())
                    .ok_or_else(|| invalid(value, "SET", option))?;
            }
            b"notification-script" | b"client-reconfig-script" => {
                return Err(text(
                    "ERR Reconfiguration of scripts path is denied for security reasons. Check the \
                     deny-scripts-reconfig configuration directive in your Sentinel configuration",
                ));
            }
            b"rename-command" => {
                let Some(renamed) = args.next() else {
                    return Err(unknown(option, "SET"));
                };
                if let Some(empty) = [value, renamed].into_iter().find(|name| name.is_empty()) {
                    return Err(invalid(empty, "SET", option));
                }
            }
            _ => return Err(unknown(option, "SET")),
        }
    }
    sentinel(ctx)?.refresh();
    Ok(Reply::Ok)
}

/// Parameters of a sentinel, in the order in which CONFIG GET shows them.
const PARAMETERS: [&str; 6] = [
    "resolve-hostnames",
    "announce-hostnames",
    "announce-ip",
    "announce-port",
    "sentinel-user",
    "sentinel-pass",
];

fn value_of(sentinel: &Sentinel, name: &str) -> Vec<u8> {
    let switch = |is_on: bool| if is_on { &b"yes"[..] } else { b"no" }.to_vec();
    let own = &sentinel.own;
    match name {
        "resolve-hostnames" => switch(own.resolves_hostnames),
        "announce-hostnames" => switch(own.announces_hostnames),
        "announce-ip" => own.announce_ip.clone(),
        "announce-port" => own.announce_port.to_string().into_bytes(),
        "sentinel-user" => own.user.clone(),
        _ => own.password.clone(),
    }
}

fn config(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    const FORMS: &str =
        "ERR Only SENTINEL CONFIG GET <option> / SET <option> <value> are supported.";
    let (is_get, is_set) = (args.keyword("GET"), args.keyword("SET"));
    match (is_get, is_set, args.remaining()) {
        (true, false, 1) => {
            let pattern = args.required()?.to_ascii_lowercase();
            let sentinel = sentinel(ctx)?;
            let found = PARAMETERS
                .iter()
                .filter(|name| glob_match(&pattern, name.as_bytes()));
            let pairs = found.map(|name| {
                let value = value_of(sentinel, name);
                (Reply::bulk(name), Reply::bulk(value))
            });
            Ok(Reply::Map(pairs.collect()))
        }
        (false, true, 2) => {
            let (option, value) = (args.required()?, args.required()?);
            change(sentinel(ctx)?, option, value)?;
            Ok(Reply::Ok)
        }
        _ => Err(text(FORMS)),
    }
}

fn change(sentinel: &mut Sentinel, option: &[u8], value: &[u8]) -> Result<(), CommandError> {
    let wrong = || {
        let option = String::from_utf8_lossy(option);
        let after = format!("' to SENTINEL CONFIG SET '{option}'");
        CommandError::echoing("ERR Invalid value '", value, &after)
    };
    let switch = || match &value.to_ascii_lowercase()[..] {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(wrong()),
    };
    let own = &mut sentinel.own;
    match &option.to_ascii_lowercase()[..] {
        b"resolve-hostnames" => own.resolves_hostnames = switch()?,
        b"announce-hostnames" => own.announces_hostnames = switch()?,
        b"announce-ip" => own.announce_ip = value.to_vec(),
        b"announce-port" => {
            let port = parse_integer(value).and_then(|port| u16::try_from(port).ok());
            own.announce_port = port.ok_or_else(wrong)?;
        }
        b"sentinel-user" => own.user = value.to_vec(),
        b"sentinel-pass" => own.password = value.to_vec(),
        _ => {
            let after = "' to SENTINEL CONFIG SET";
            return Err(CommandError::echoing(
                "ERR Invalid argument '",
                option,
                after,
            ));
        }
    }
    Ok(())
}

/// Periods of SENTINEL DEBUG with their defaults, in milliseconds.
const PERIODS: [(&str, i64); 13] = [
    ("INFO-PERIOD", 10_000),
    ("PING-PERIOD", 1_000),
    ("ASK-PERIOD", 1_000),
    ("PUBLISH-PERIOD", 2_000),
    ("DEFAULT-DOWN-AFTER", 30_000),
    ("DEFAULT-FAILOVER-TIMEOUT", 180_000),
    ("TILT-TRIGGER", 2_000),
    ("TILT-PERIOD", 30_000),
    ("SLAVE-RECONF-TIMEOUT", 10_000),
    ("MIN-LINK-RECONNECT-PERIOD", 15_000),
    ("ELECTION-TIMEOUT", 10_000),
    ("SCRIPT-MAX-RUNTIME", 60_000),
    ("SCRIPT-RETRY-DELAY", 30_000),
];

fn debug(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.is_empty() {
        let changed = sentinel(ctx)?.periods.clone();
        let pairs = PERIODS.iter().map(|(name, default)| {
            let value = changed.get(name).unwrap_or(default);
            (Reply::bulk(name), Reply::bulk(value.to_string()))
        });
        return Ok(Reply::Map(pairs.collect()));
    }
    while let Some(option) = args.next() {
        let is_it = |(name, _): &&(&str, i64)| name.as_bytes().eq_ignore_ascii_case(option);
        let known = PERIODS.iter().find(is_it);
        let (Some((name, _)), Some(value)) = (known, args.next()) else {
            return Err(unknown(option, "DEBUG"));
        };
        let period = positive(value).ok_or_else(|| invalid(value, "DEBUG", option))?;
        sentinel(ctx)?.periods.insert(name, period);
    }
    Ok(Reply::Ok)
}

/// There is no file to write.
fn flushconfig(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Ok)
}

/// No scripts run for a sentinel of the double.
fn pending_scripts(_: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Array(Vec::new()))
}

/// A sentinel of the double asks no node for its INFO: its cache is empty, as in Redis right after the start.
fn info_cache(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let mut cached = Vec::new();
    while !args.is_empty() {
        if let Some(watched) = named(ctx, args)? {
            let nodes = 0..=watched.replicas.len();
            let entries = nodes.map(|_| Reply::Array(vec![Reply::Int(0), Reply::Nil]));
            cached.push(Reply::bulk(&watched.name));
            cached.push(Reply::Array(entries.collect()));
        }
    }
    Ok(Reply::Array(cached))
}

fn remove(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    known(ctx, args)?;
    let sentinel = sentinel(ctx)?;
    sentinel.is_removed = true;
    sentinel.master = MasterSettings::default();
    sentinel.refresh();
    Ok(Reply::Ok)
}

/// SENTINEL MONITOR: a sentinel that watches no master can watch its deployment's master again, under any
/// name.
fn monitor(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (name, host) = (args.required()?, args.required()?);
    let (port, quorum) = (args.required()?, args.required()?);
    let quorum = parse_integer(quorum).ok_or_else(|| text("ERR Invalid quorum"))?;
    let port = parse_integer(port).ok_or_else(|| text("ERR Invalid port"))?;
    let Some(quorum) = usize::try_from(quorum).ok().filter(|quorum| *quorum > 0) else {
        return Err(text("ERR Quorum must be 1 or greater."));
    };
    let ip = std::str::from_utf8(host).ok();
    let Some(ip) = ip.and_then(|host| host.parse::<IpAddr>().ok()) else {
        return Err(text("ERR Invalid IP address or hostname specified"));
    };
    if watched(ctx).is_some_and(|watched| watched.name.as_bytes() == name) {
        return Err(text("ERR Duplicate master name."));
    }
    let Ok(port) = u16::try_from(port) else {
        return Err(text("ERR Invalid port number."));
    };
    let host = ip.to_string();
    let is_here = ctx.replication().reaches(&Address { host, port });
    let sentinel = sentinel(ctx)?;
    if sentinel.watched.is_none() && is_here {
        sentinel.master.name = Some(String::from_utf8_lossy(name).into_owned());
        sentinel.master.quorum = Some(quorum);
        sentinel.is_removed = false;
        sentinel.refresh();
        return Ok(Reply::Ok);
    }
    Err(CommandError::NotImplemented {
        what: "SENTINEL MONITOR of a second master, or of one outside of the deployment".to_owned(),
    })
}

fn simulate_failure(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    const FAILURES: [&str; 2] = ["crash-after-election", "crash-after-promotion"];
    sentinel(ctx)?.ends = SimulatedFailures::default();
    while let Some(word) = args.next() {
        let ends = &mut sentinel(ctx)?.ends;
        match &word.to_ascii_lowercase()[..] {
            b"crash-after-election" => ends.after_election = true,
            b"crash-after-promotion" => ends.after_promotion = true,
            b"help" => {
                let names = FAILURES.into_iter().map(Reply::bulk);
                return Ok(Reply::Array(names.collect()));
            }
            _ => return Err(text("ERR Unknown failure simulation specified")),
        }
    }
    Ok(Reply::Ok)
}

pub(super) const CONFIG: CommandSpec = row("config", -3, config)
    .since("6.2.0")
    .syntax("[set-or-get=(SET parameter_value=(parameter value) | GET parameter)]")
    .summary("Settings of this sentinel.");
pub(super) const DEBUG: CommandSpec = row("debug", -2, debug)
    .since("7.0.0")
    .syntax("[parameter_value=(parameter value)...]")
    .summary("Periods of this sentinel, which have no effect here.");
pub(super) const FLUSHCONFIG: CommandSpec =
    row("flushconfig", 2, flushconfig).summary("Does nothing: there is no file.");
pub(super) const INFO_CACHE: CommandSpec = row("info-cache", -3, info_cache)
    .since("3.2.0")
    .syntax("nodename...")
    .summary("The INFO that was received from the nodes of masters; none.");
pub(super) const MONITOR: CommandSpec = row("monitor", 6, monitor)
    .syntax("name ip port:integer quorum:integer")
    .summary("Watches the master of the deployment again.");
pub(super) const PENDING_SCRIPTS: CommandSpec =
    row("pending-scripts", 2, pending_scripts).summary("The pending scripts; none.");
pub(super) const REMOVE: CommandSpec = row("remove", 3, remove)
    .syntax("master-name")
    .summary("Stops watching a master.");
pub(super) const SET: CommandSpec = row("set", -5, set)
    .syntax("master-name option_value=(option value)...")
    .summary("Changes settings of a watched master.");
pub(super) const SIMULATE_FAILURE: CommandSpec = row("simulate-failure", -3, simulate_failure)
    .since("3.2.0")
    .syntax("[mode=(crash-after-election | crash-after-promotion | HELP)...]")
    .summary("Ends this sentinel during its next failover.");
