//! What a sentinel answers. SENTINEL is no row of the table: to any other node it is unknown.

use super::{Args, CommandError, CommandSpec};
use crate::engine::{Seen, Sentinel, State, Watched};
use crate::resp::{Reply, Request};

/// Commands of the table that a sentinel knows (`sentinel.c`, CMD_SENTINEL).
const KNOWN: &[&str] = &[
    "acl",
    "auth",
    "client",
    "command",
    "hello",
    "info",
    "ping",
    "psubscribe",
    "punsubscribe",
    "quit",
    "role",
    "shutdown",
    "subscribe",
    "unsubscribe",
];

/// Whether a sentinel has the command of this name.
pub(crate) fn knows(name: &[u8]) -> bool {
    KNOWN.iter().any(|known| known.as_bytes() == name)
}

/// Whether a sentinel has this command, as it was sent; its other subcommands come with it.
pub(crate) fn gate(
    state: &State,
    request: Request<'_>,
    spec: &CommandSpec,
) -> Result<(), CommandError> {
    if state.sentinel.is_none() {
        return Ok(());
    }
    if spec.name == "publish" {
        return Err(CommandError::Text(
            "ERR Only HELLO messages are accepted by Sentinel instances.".into(),
        ));
    }
    if knows(&request.name().to_ascii_lowercase()) {
        Ok(())
    } else {
        Err(super::unknown(request))
    }
}

/// SENTINEL, on a node that is one.
pub(crate) fn sentinel(state: &mut State, request: Request<'_>) -> Result<Reply, CommandError> {
    let Some(sentinel) = state.sentinel.as_deref() else {
        return Err(super::unknown(request));
    };
    let mut args = Args::new(request, 1);
    let arity = |name: &str| CommandError::Arity {
        command: name.to_owned(),
    };
    let Some(subcommand) = args.next() else {
        return Err(arity("sentinel"));
    };
    let subcommand = String::from_utf8_lossy(subcommand).to_ascii_lowercase();
    let wanted = match &*subcommand {
        "masters" | "myid" => 0,
        "master"
        | "replicas"
        | "slaves"
        | "sentinels"
        | "get-master-addr-by-name"
        | "ckquorum"
        | "failover" => 1,
        "is-master-down-by-addr" => 4,
        "reset" => 1,
        "config" | "debug" | "flushconfig" | "help" | "info-cache" | "monitor"
        | "pending-scripts" | "remove" | "set" | "simulate-failure" => {
            let what = format!("SENTINEL {}", subcommand.to_ascii_uppercase());
            return Err(CommandError::NotImplemented { what });
        }
        _ => {
            let text = format!("ERR unknown subcommand '{subcommand}'. Try SENTINEL HELP.");
            return Err(CommandError::Text(text.into()));
        }
    };
    if args.remaining() != wanted {
        return Err(arity(&format!("sentinel|{subcommand}")));
    }
    let watched = sentinel.watched.as_ref();
    let name = if wanted == 1 { args.required()? } else { b"" };
    let asked = watched.filter(|watched| watched.name.as_bytes() == name);
    match &*subcommand {
        "masters" => Ok(Reply::Array(watched.map(master).into_iter().collect())),
        "myid" => Ok(Reply::bulk(&sentinel.id)),
        "get-master-addr-by-name" => Ok(asked.map_or(Reply::NilArray, |watched| {
            let address = &watched.master.address;
            Reply::Array(vec![
                Reply::bulk(&address.host),
                Reply::bulk(address.port.to_string()),
            ])
        })),
        "is-master-down-by-addr" => {
            let is_down = watched.is_some_and(|watched| watched.master.is_down);
            let epoch = Reply::Int(0);
            Ok(Reply::Array(vec![
                Reply::Int(is_down.into()),
                Reply::bulk("*"),
                epoch,
            ]))
        }
        // Nothing is kept that could be forgotten.
        "reset" => Ok(Reply::Int(asked.is_some().into())),
        _ => {
            let watched = asked
                .ok_or_else(|| CommandError::Text("ERR No such master with that name".into()))?;
            about(&subcommand, watched, sentinel).unwrap_or_else(|| fail_over(state))
        }
    }
}

/// What concerns one master; `None` for what changes it.
fn about(
    subcommand: &str,
    watched: &Watched,
    own: &Sentinel,
) -> Option<Result<Reply, CommandError>> {
    Some(match subcommand {
        "master" => Ok(master(watched)),
        "replicas" | "slaves" => {
            let replicas = watched.replicas.iter().map(|seen| replica(seen, watched));
            Ok(Reply::Array(replicas.collect()))
        }
        "sentinels" => {
            let others = watched.sentinels.iter().filter(|(_, id)| *id != own.id);
            let others = others.map(|(address, id)| {
                map(vec![
                    ("name", id.clone()),
                    ("ip", address.host.clone()),
                    ("port", address.port.to_string()),
                    ("runid", id.clone()),
                    ("flags", "sentinel".to_owned()),
                ])
            });
            Ok(Reply::Array(others.collect()))
        }
        "ckquorum" => {
            let usable = watched.sentinels.len();
            if usable >= watched.quorum {
                let text = format!(
                    "OK {usable} usable Sentinels. Quorum and failover authorization can be reached"
                );
                Ok(Reply::Status(text.into()))
            } else {
                let text = format!(
                    "NOQUORUM {usable} usable Sentinels. Not enough available Sentinels to reach the specified quorum for this master"
                );
                Err(CommandError::Text(text.into()))
            }
        }
        "failover" if watched.replicas.iter().all(|replica| replica.is_down) => Err(
            CommandError::Text("NOGOODSLAVE No suitable replica to promote".into()),
        ),
        _ => return None,
    })
}

fn fail_over(state: &mut State) -> Result<Reply, CommandError> {
    state.ask_for_failover();
    Ok(Reply::Ok)
}

fn map(fields: Vec<(&str, String)>) -> Reply {
    let fields = fields.into_iter();
    Reply::Map(
        fields
            .map(|(name, value)| (Reply::bulk(name), Reply::bulk(value)))
            .collect(),
    )
}

/// The fields that masters and replicas share, as `sentinel.c: addReplySentinelRedisInstance` has them.
fn seen<'a>(name: String, kind: &'a str, seen: &Seen, down_after: u128) -> Vec<(&'a str, String)> {
    let flags = match (seen.is_down, kind) {
        (false, _) => kind.to_owned(),
        (true, "master") => "s_down,o_down,master".to_owned(),
        (true, _) => format!("s_down,{kind}"),
    };
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
        ("info-refresh", zero()),
        ("role-reported", kind.to_owned()),
        ("role-reported-time", zero()),
    ]
}

fn master(watched: &Watched) -> Reply {
    let down_after = watched.down_after.as_millis();
    let mut fields = seen(watched.name.clone(), "master", &watched.master, down_after);
    fields.extend([
        ("config-epoch", watched.epoch.to_string()),
        ("num-slaves", watched.replicas.len().to_string()),
        (
            "num-other-sentinels",
            (watched.sentinels.len() - 1).to_string(),
        ),
        ("quorum", watched.quorum.to_string()),
        ("failover-timeout", "180000".to_owned()),
        ("parallel-syncs", "1".to_owned()),
    ]);
    map(fields)
}

fn replica(of: &Seen, watched: &Watched) -> Reply {
    let down_after = watched.down_after.as_millis();
    let mut fields = seen(of.address.to_string(), "slave", of, down_after);
    let master = &watched.master;
    let status = if master.is_down || of.is_down {
        "err"
    } else {
        "ok"
    };
    fields.extend([
        ("master-link-down-time", "0".to_owned()),
        ("master-link-status", status.to_owned()),
        ("master-host", master.address.host.clone()),
        ("master-port", master.address.port.to_string()),
        ("slave-priority", "100".to_owned()),
        ("slave-repl-offset", of.offset.to_string()),
        ("replica-announced", "1".to_owned()),
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
        let status = if watched.master.is_down {
            "odown"
        } else {
            "ok"
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
