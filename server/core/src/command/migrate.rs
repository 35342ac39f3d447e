//! MIGRATE: moves keys to another node of the same deployment, see `engine/migration.rs`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, keys};
use crate::engine::{Address, Ctx, Effect, Migration, NO_ANSWER, Origin};
use crate::resp::{Blob, OwnedRequest, Reply, parse_integer};
use std::net::IpAddr;
use std::time::Duration;

/// Timeout if the caller gives 0, in milliseconds.
const TIMEOUT_DEFAULT_MS: i64 = 1000;

impl Address {
    /// Error for an address without a node. Redis notices that only when it writes, unless the host is
    /// unknown.
    pub(crate) fn unreachable(&self) -> CommandError {
        let is_here = self.host == "localhost"
            || (self.host.parse()).is_ok_and(|address: IpAddr| address.is_loopback());
        let text = if is_here {
            "IOERR error or timeout writing to target instance"
        } else {
            "IOERR error or timeout connecting to the client"
        };
        CommandError::Text(text.into())
    }
}

#[derive(Default)]
struct Options<'a> {
    copies: bool,
    replaces: bool,
    /// AUTH, if the request has credentials.
    greeting: Vec<OwnedRequest>,
    /// The keys after KEYS.
    keys: Option<Vec<&'a [u8]>>,
}

impl<'a> Options<'a> {
    fn parse(args: &mut Args<'a>, key: &[u8]) -> Result<Self, CommandError> {
        let mut options = Self::default();
        while !args.is_empty() {
            if args.keyword("COPY") {
                options.copies = true;
            } else if args.keyword("REPLACE") {
                options.replaces = true;
            } else if args.keyword("AUTH") {
                options.greeting = vec![auth(args, 1)?];
            } else if args.keyword("AUTH2") {
                options.greeting = vec![auth(args, 2)?];
            } else if args.keyword("KEYS") {
                if !key.is_empty() {
                    let text = "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string";
                    return Err(CommandError::Text(text.into()));
                }
                options.keys = Some(args.rest().collect());
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

fn auth(args: &mut Args<'_>, words: usize) -> Result<OwnedRequest, CommandError> {
    let mut request = OwnedRequest::new([&b"AUTH"[..]]);
    for _ in 0..words {
        request.push(args.required()?);
    }
    Ok(request)
}

/// `cluster.c: migrateCommand`.
fn migrate(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (host, port, key) = (args.required()?, args.required()?, args.required()?);
    let (db, timeout) = (args.required()?, args.required()?);
    let options = Options::parse(args, key)?;
    let timeout = super::integer_of(timeout)?;
    let target_db = super::integer_of(db)?;
    let keys = options.keys.unwrap_or_else(|| vec![key]);
    let keys: Vec<Blob> = keys
        .into_iter()
        .filter(|key| ctx.find_for_read(key).is_some())
        .map(Blob::new)
        .collect();
    if keys.is_empty() {
        return Ok(Reply::Static("NOKEY"));
    }
    let port = parse_integer(port).and_then(|port| u16::try_from(port).ok());
    let to = Address {
        host: String::from_utf8_lossy(host).into_owned(),
        port: port.unwrap_or(0),
    };
    if !ctx.replication().reaches(&to) {
        return Err(to.unreachable());
    }
    if matches!(ctx.origin, Origin::Exec | Origin::Script) {
        return Err(CommandError::NotImplemented {
            what: "MIGRATE within a transaction or a script".to_owned(),
        });
    }
    let mut greeting = options.greeting;
    let target_db = target_db.to_string();
    greeting.push(OwnedRequest::new([b"SELECT", target_db.as_bytes()]));
    let millis = if timeout > 0 {
        timeout
    } else {
        TIMEOUT_DEFAULT_MS
    };
    let timeout = Duration::from_millis(millis.unsigned_abs());
    let migration = Migration {
        conn: ctx.session.conn,
        to,
        db: ctx.session.db,
        keys,
        greeting,
        copies: options.copies,
        replaces: options.replaces,
        timeout,
    };
    ctx.emit(Effect::Migrate(Box::new(migration)));
    ctx.block_for(Some(timeout), Reply::error(NO_ANSWER))
}

pub(crate) const COMMANDS: &[CommandSpec] =
    &[CommandSpec::new("migrate", -6, Group::Generic, migrate)
        .flags(&[Flags::WRITE])
        .keys(3, 3, 1, &["RW", "access", "delete"])
        .keys_after(
            "KEYS",
            -2,
            -1,
            1,
            0,
            &["RW", "access", "delete", "incomplete"],
        )
        .find_keys(keys::migrate)
        .acl(&["@dangerous"])
        .tips(&["nondeterministic_output"])
        .since("2.6.0")
        .syntax(
            "host port:integer key_or_empty_string=(key | empty_string='') destination-db:integer \
         timeout:integer [COPY]@3.0.0 [REPLACE]@3.0.0 [authentication=([AUTH password]@4.0.7 | [AUTH2 \
         username_password=(username password)]@6.0.0)] [KEYS key...]@3.0.6",
        )
        .summary("Moves keys to another node of the same deployment.")];
