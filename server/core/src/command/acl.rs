//! ACL: users, their rights, and denied requests. The rules themselves are in `engine/acl/`.

use super::spec::{CommandResult, CommandSpec, Flags, Group};
use super::{Args, CommandError, help, table};
use crate::engine::{
    Acl, AclDecision, AclLogEntry, Categories, Ctx, DEFAULT_USER, Denial, SelectorTexts, User,
};
use crate::resp::{OwnedRequest, Reply};

/// Number of bits of a password that ACL GENPASS draws by default.
const PASSWORD_BITS: i64 = 256;
/// `GENPASS_MAX_BITS`
const PASSWORD_BITS_MAX: i64 = 4096;
/// Number of entries that ACL LOG returns by default.
const LOG_ENTRIES: i64 = 10;

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users \
    via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) \
    in order to store users in the Redis configuration.";

fn error(text: &[u8]) -> CommandError {
    CommandError::Echo([b"ERR ", text].concat())
}

fn cat(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (category, is_all) = (args.next(), args.is_empty());
    let names: Vec<Reply> = match category {
        _ if !is_all => return Err(args.subcommand_syntax()),
        None => Categories::all()
            .map(|(_, name)| Reply::bulk(name))
            .collect(),
        Some(name) => {
            let unknown = || {
                CommandError::echoing("ERR Unknown category '", &name[..name.len().min(128)], "'")
            };
            let category = Categories::named(name).ok_or_else(unknown)?;
            ctx.acl().members(category).map(Reply::bulk).collect()
        }
    };
    Ok(Reply::Array(names))
}

fn setuser(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let name = args.required()?;
    if !Acl::is_user_name(name) {
        return Err(error(b"Usernames can't contain spaces or null characters"));
    }
    let rules: Vec<&[u8]> = args.rest().collect();
    let user = ctx
        .changed_user(name, &rules)
        .map_err(|text| error(&text))?;
    ctx.set_user(name, user);
    Ok(Reply::Ok)
}

fn deluser(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.clone().rest().any(|name| name == DEFAULT_USER) {
        return Err(error(b"The 'default' user cannot be removed"));
    }
    let removed = args.rest().filter(|name| ctx.remove_user(name)).count();
    Ok(Reply::Int(removed as i64))
}

/// Returns the rights of a selector, as in ACL GETUSER.
fn describe_selector(texts: SelectorTexts) -> [(Reply, Reply); 3] {
    let SelectorTexts {
        commands,
        keys,
        channels,
    } = texts;
    let pair = |name: &str, text: Vec<u8>| (Reply::bulk(name), Reply::bulk(text));
    [
        pair("commands", commands),
        pair("keys", keys),
        pair("channels", channels),
    ]
}

fn describe_user(acl: &Acl, user: &User) -> Reply {
    let mut selectors = acl.describe_selectors(user).into_iter();
    let root = selectors.next().map(describe_selector);
    let selectors = selectors.map(|texts| Reply::Map(describe_selector(texts).into()));
    let mut fields = vec![
        (
            Reply::bulk("flags"),
            Reply::Set(user.flags().map(Reply::bulk).collect()),
        ),
        (
            Reply::bulk("passwords"),
            Reply::Array(user.passwords().iter().map(Reply::bulk).collect()),
        ),
    ];
    fields.extend(root.into_iter().flatten());
    fields.push((Reply::bulk("selectors"), Reply::Array(selectors.collect())));
    Reply::Map(fields)
}

fn getuser(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let (name, acl) = (args.required()?, ctx.acl());
    let user = acl.id(name).and_then(|id| acl.user(id));
    Ok(user.map_or(Reply::Nil, |user| describe_user(acl, user)))
}

fn list(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    let acl = ctx.acl();
    let lines = acl.names().filter_map(|name| acl.describe(name));
    Ok(Reply::Array(lines.map(Reply::bulk).collect()))
}

fn users(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(Reply::Array(ctx.acl().names().map(Reply::bulk).collect()))
}

fn whoami(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    Ok(ctx.user_name().map_or(Reply::Nil, Reply::bulk))
}

fn load(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    match ctx.load_users() {
        None => Err(CommandError::Text(NO_FILE.into())),
        Some(Ok(())) => Ok(Reply::Ok),
        Some(Err(text)) => Err(error(&text)),
    }
}

fn save(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> CommandResult {
    match ctx.save_users() {
        None => Err(CommandError::Text(NO_FILE.into())),
        Some(Ok(())) => Ok(Reply::Ok),
        Some(Err(why)) => {
            tracing::warn!(%why, "ACL SAVE cannot write the file");
            Err(error(
                b"There was an error trying to save the ACLs. Please check the server logs for more information",
            ))
        }
    }
}

fn genpass(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.remaining() > 1 {
        return Err(args.subcommand_syntax());
    }
    let bits = match args.is_empty() {
        true => PASSWORD_BITS,
        false => args.integer()?,
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        let text = format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {PASSWORD_BITS_MAX}"
        );
        return Err(CommandError::Text(text.into()));
    }
    let digits = (bits as usize).div_ceil(4);
    Ok(Reply::bulk(ctx.draw_password(digits)))
}

fn describe_entry(ctx: &Ctx<'_>, entry: &AclLogEntry) -> Reply {
    let age_millis = ctx.now_millis().0.saturating_sub(entry.at.0);
    let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
    Reply::Map(vec![
        pair("count", Reply::Int(entry.count)),
        pair("reason", Reply::bulk(entry.reason.name())),
        pair("context", Reply::bulk(entry.place.name())),
        pair("object", Reply::bulk(&entry.object)),
        pair("username", Reply::bulk(&entry.user)),
        pair("age-seconds", Reply::Double(age_millis as f64 / 1000.0)),
        pair("client-info", Reply::bulk(&entry.client)),
    ])
}

fn log(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    if args.remaining() > 1 {
        return Err(args.subcommand_syntax());
    }
    if args.keyword("RESET") {
        ctx.clear_acl_log();
        return Ok(Reply::Ok);
    }
    let count = match args.is_empty() {
        true => LOG_ENTRIES,
        false => args.integer()?,
    };
    let entries = ctx.acl_log().take(usize::try_from(count).unwrap_or(0));
    let entries = entries.map(|entry| describe_entry(ctx, entry));
    Ok(Reply::Array(entries.collect()))
}

fn dryrun(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> CommandResult {
    let name = args.required()?;
    let unknown = || CommandError::echoing("ERR User '", name, "' not found");
    let user = ctx.acl().id(name).ok_or_else(unknown)?;
    let inner = OwnedRequest::new(args.rest());
    let request = inner.as_request().ok_or(CommandError::Syntax)?;
    let Ok((entry, first)) = table(ctx).resolve(request) else {
        let before = "ERR Command '";
        return Err(CommandError::echoing(before, request.name(), "' not found"));
    };
    let command = table(ctx).name(entry.number);
    if !entry.spec.accepts(request.len()) {
        let command = command.to_owned();
        return Err(CommandError::Arity { command });
    }
    let asked = entry.spec.asked(entry.number, first, request, true);
    let AclDecision::Denied(denial) = ctx.decide(user, &asked) else {
        return Ok(Reply::Ok);
    };
    let object = denial.at().and_then(|at| request.arg(at));
    let object = object.unwrap_or_default().split(|byte| *byte == 0).next();
    let (before, object, after) = match denial {
        Denial::Command => ("run the '", command.as_bytes(), "' command"),
        Denial::Key(_) => ("access the '", object.unwrap_or_default(), "' key"),
        Denial::Channel(_) => ("access the '", object.unwrap_or_default(), "' channel"),
    };
    let before = [b"This user has no permissions to ", before.as_bytes()].concat();
    Ok(Reply::bulk([&before, object, after.as_bytes()].concat()))
}

const OPEN: &[Flags] = &[Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];
const ADMIN: &[Flags] = &[Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE];

pub(super) const ACL: CommandSpec = CommandSpec::container("acl", -2, Group::Server, SUBCOMMANDS)
    .flags(&[Flags::SENTINEL])
    .since("6.0.0")
    .summary("Users and their rights.");

const SUBCOMMANDS: &[CommandSpec] = &[
    row("cat", -2, cat)
        .flags(OPEN)
        .syntax("[categoryname]")
        .summary("Lists the categories, or the commands of a category."),
    row("deluser", -3, deluser)
        .flags(ADMIN)
        .syntax("username...")
        .summary("Removes users and ends their connections."),
    row("dryrun", -4, dryrun)
        .flags(ADMIN)
        .since("7.0.0")
        .syntax("username command [arg...]")
        .summary("Checks whether a user may run a command, without running it."),
    row("genpass", -2, genpass)
        .flags(OPEN)
        .syntax("[bits:integer]")
        .summary("Draws a random password."),
    row("getuser", 3, getuser)
        .flags(ADMIN)
        .syntax("username")
        .summary("Describes a user."),
    help::row(Group::Server, "6.0.0"),
    row("list", 2, list)
        .flags(ADMIN)
        .summary("Lists the rules that define the users."),
    row("load", 2, load)
        .flags(ADMIN)
        .summary("Replaces all users by those of the ACL file."),
    row("log", -2, log)
        .flags(ADMIN)
        .syntax("[operation=(count:integer | RESET)]")
        .summary("Lists denied requests and logins, or deletes the list."),
    row("save", 2, save)
        .flags(ADMIN)
        .summary("Writes all users to the ACL file."),
    row("setuser", -3, setuser)
        .flags(ADMIN)
        .syntax("username [rule...]")
        .summary("Adds a user or changes its rights."),
    row("users", 2, users)
        .flags(ADMIN)
        .summary("Lists the names of the users."),
    row("whoami", 2, whoami)
        .flags(OPEN)
        .summary("The name of the caller's user."),
];

const fn row(name: &'static str, arity: i32, handler: super::spec::Handler) -> CommandSpec {
    CommandSpec::new(name, arity, Group::Server, handler).since("6.0.0")
}
