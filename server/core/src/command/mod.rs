//! All commands: their handlers, with a row for each. COMMAND, arity errors, ACL categories and the README list are
//! read from the rows.
//!
//! A handler knows `engine::Ctx` and its arguments, nothing else. The engine imports nothing from here: it
//! receives the finished tables ([`Engine::new`]).

/// Names for writing rows in a file of commands.
mod spec {
    pub(super) use crate::engine::{CommandResult, CommandSpec, Flags, Group, Handler};
}
/// Functions that find keys beyond the specification of a row.
mod keys {
    pub(super) use crate::engine::table::{bitfield, describe_flags, migrate, set, sort, sort_ro};
}

mod acl;
mod bit;
mod bits;
mod client;
mod cluster;
mod config;
mod connection;
mod debug;
mod dump;
mod expire;
mod failover;
#[cfg(feature = "script")]
mod function;
mod generic;
mod geo;
mod hash;
mod hash_expire;
mod hash_walk;
mod help;
mod hyperloglog;
mod info;
mod introspection;
mod latency;
mod list;
mod list_pop;
mod lolwut;
mod memory;
mod migrate;
mod missing;
mod partial_sort;
mod persistence;
mod pop;
mod pubsub;
mod random;
mod replication;
mod replication_stream;
mod scan;
#[cfg(feature = "script")]
mod scripting;
mod sentinel;
mod server;
mod set;
mod slowlog;
mod sort;
mod sorted_set;
mod sparkline;
mod stream;
mod string;
mod substring;
mod tracking;
mod transaction;

use crate::engine::{
    Args, CommandError, CommandSpec, CommandTable, Config, Ctx, Engine, Entry, Flags, Profile,
    Tables, UnixMicros, UnknownCommand, UnknownSubcommand, integer_of,
};
use crate::resp::Request;
use std::sync::OnceLock;

/// All commands, group by group, in the order of the files.
const ROWS: &[&[CommandSpec]] = &[
    string::COMMANDS,
    substring::COMMANDS,
    bit::COMMANDS,
    generic::COMMANDS,
    expire::COMMANDS,
    scan::COMMANDS,
    sort::COMMANDS,
    dump::COMMANDS,
    migrate::COMMANDS,
    hash::COMMANDS,
    hash_walk::COMMANDS,
    hash_expire::COMMANDS,
    set::COMMANDS,
    set::walk::COMMANDS,
    set::algebra::COMMANDS,
    list::COMMANDS,
    list_pop::COMMANDS,
    sorted_set::COMMANDS,
    sorted_set::range::COMMANDS,
    sorted_set::algebra::COMMANDS,
    sorted_set::pop::COMMANDS,
    sorted_set::walk::COMMANDS,
    geo::COMMANDS,
    geo::search::COMMANDS,
    stream::COMMANDS,
    stream::read::COMMANDS,
    stream::group::COMMANDS,
    stream::claim::COMMANDS,
    stream::info::COMMANDS,
    hyperloglog::COMMANDS,
    pubsub::COMMANDS,
    transaction::COMMANDS,
    connection::COMMANDS,
    server::COMMANDS,
    replication::COMMANDS,
    replication_stream::COMMANDS,
    persistence::COMMANDS,
    failover::COMMANDS,
    cluster::COMMANDS,
    introspection::COMMANDS,
    #[cfg(feature = "script")]
    scripting::COMMANDS,
    #[cfg(feature = "script")]
    function::COMMANDS,
];

/// The rows of a profile, made at its first use.
type RowsOfProfile = [OnceLock<Vec<CommandSpec>>; Profile::ALL.len()];
/// The table of a profile, made at its first use.
type TableOfProfile = [OnceLock<CommandTable>; Profile::ALL.len()];

/// The rows that the server of a profile has.
fn rows_of(profile: Profile) -> &'static [CommandSpec] {
    static ROWS_OF: RowsOfProfile = [const { OnceLock::new() }; Profile::ALL.len()];
    ROWS_OF[profile.place()]
        .get_or_init(|| rows().filter_map(|row| row.of_profile(profile)).collect())
}

/// The commands of an ordinary node.
fn ordinary(profile: Profile) -> &'static CommandTable {
    static ORDINARY: TableOfProfile = [const { OnceLock::new() }; Profile::ALL.len()];
    ORDINARY[profile.place()].get_or_init(|| {
        let rows = rows_of(profile).iter();
        CommandTable::new(rows, unknown, unknown_subcommand)
    })
}

/// The commands of a sentinel: SENTINEL, its own PUBLISH, and the rows that it shares with other nodes.
fn of_sentinels(profile: Profile) -> &'static CommandTable {
    static SENTINEL: TableOfProfile = [const { OnceLock::new() }; Profile::ALL.len()];
    SENTINEL[profile.place()].get_or_init(|| {
        let rows = rows_of(profile).iter();
        let shared = rows.filter(|row| row.flags.has(Flags::SENTINEL));
        let own = sentinel::COMMANDS.iter();
        CommandTable::new(shared.chain(own), unknown, unknown_subcommand)
    })
}

/// The tables for a new node.
fn tables(profile: Profile) -> Tables {
    Tables {
        ordinary: ordinary(profile),
        sentinel: of_sentinels(profile),
    }
}

/// The table of the node that runs this command.
fn table(ctx: &Ctx<'_>) -> &'static CommandTable {
    let profile = ctx.config().profile;
    match ctx.sentinel() {
        Some(_) => of_sentinels(profile),
        None => ordinary(profile),
    }
}

impl Engine {
    /// An empty node with all commands, whose clock shows `now`.
    pub fn new(config: Config, now: UnixMicros) -> Self {
        let tables = tables(config.profile);
        Self::with_tables(config, tables, now)
    }
}

/// Checks the users with which a node is to start.
///
/// # Errors
/// The reason why a user is invalid.
pub fn check_users(config: &Config) -> Result<(), String> {
    Engine::check_users(config, tables(config.profile))
}

/// Returns every row of an ordinary node, of all profiles.
fn rows() -> impl Iterator<Item = &'static CommandSpec> {
    ROWS.iter().flat_map(|group| group.iter())
}

/// Returns the tables of the newest profiles, which together contain all rows.
fn newest() -> [&'static CommandTable; 2] {
    [Profile::REDIS_8_4, Profile::VALKEY_9].map(ordinary)
}

/// The keys of a request, by the key specification of its command; none for a malformed one.
pub fn keys_of(request: Request<'_>) -> Vec<&[u8]> {
    let mut found = newest().into_iter();
    match found.find_map(|table| table.find(request.name())) {
        Some(Entry { spec, .. }) if spec.accepts(request.len()) => spec.keys_of(request),
        Some(_) | None => Vec::new(),
    }
}

/// The flags of the command or subcommand that a request names; `None` if there is no such command.
pub fn flags_of(request: Request<'_>) -> Option<Flags> {
    let mut found = newest().into_iter();
    let row = found.find_map(|table| table.resolve(request).ok());
    row.map(|(entry, _)| entry.spec.flags)
}

/// Names of the commands of Redis 7.0 that are implemented, sorted; subcommands as `config get`. [`command_names_of`]
/// lists those of other profiles.
///
/// ```
/// # extern crate redouble_core as redouble;
/// assert!(redouble::command_names().iter().any(|name| name == "client setname"));
/// ```
pub fn command_names() -> Vec<String> {
    command_names_of(Profile::default())
}

/// Names of the commands that a server of this profile has, sorted; subcommands as `config get`.
///
/// ```
/// # extern crate redouble_core as redouble;
/// use redouble::{Profile, command_names_of};
///
/// let names = command_names_of(Profile::REDIS_7_2);
/// assert!(names.iter().any(|name| name == "client setinfo"));
/// ```
pub fn command_names_of(profile: Profile) -> Vec<String> {
    let mut names: Vec<String> = rows_of(profile)
        .iter()
        .flat_map(|row| match row.subcommands {
            [] => vec![row.name.to_owned()],
            subcommands => subcommands
                .iter()
                .map(|sub| format!("{} {}", row.name, sub.name))
                .collect(),
        })
        .collect();
    names.sort();
    names
}

/// Names of the commands of Redis 7.0 that are not implemented, sorted; subcommands as `sentinel debug`. The server answers
/// them with an error that says so. There are none: the list is for the next version.
///
/// ```
/// # extern crate redouble_core as redouble;
/// assert!(redouble::missing_command_names().is_empty());
/// ```
pub fn missing_command_names() -> Vec<String> {
    let commands = missing::COMMANDS.iter().map(|name| (*name).to_owned());
    let subcommands = missing::SUBCOMMANDS
        .iter()
        .flat_map(|(name, subs)| subs.iter().map(move |sub| format!("{name} {sub}")));
    let there = command_names();
    let mut names: Vec<String> = commands.chain(subcommands).collect();
    names.retain(|name| !there.contains(name));
    names.sort();
    names
}

/// Prefix of the names of control commands, which are in no table: `control/` carries them out.
pub const CONTROL_PREFIX: &[u8] = b"REDOUBLE.";

/// True if this is the name of a control command.
pub fn is_control(name: &[u8]) -> bool {
    name.get(..CONTROL_PREFIX.len())
        .is_some_and(|prefix| prefix.eq_ignore_ascii_case(CONTROL_PREFIX))
}

/// Returns the error for a name that is not in the table: Redis's own if Redis does not have the command
/// either, otherwise "not implemented".
fn unknown(request: Request<'_>) -> CommandError {
    let name = request.name();
    if missing::COMMANDS
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    {
        let what = String::from_utf8_lossy(name).to_ascii_uppercase();
        return CommandError::NotImplemented { what };
    }
    #[cfg(not(feature = "script"))]
    if ["eval", "evalsha", "script", "fcall", "fcall_ro", "function"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    {
        return CommandError::NotImplemented {
            what: "scripts without its feature `script`".to_owned(),
        };
    }
    if is_control(name) {
        return CommandError::Text(
            "ERR REDOUBLE.* is not enabled on this port: start the server with --control, or use its control port".into(),
        );
    }
    let mut args = Vec::new();
    for arg in request.iter().skip(1) {
        if args.len() >= 128 {
            break;
        }
        let arg = &arg[..arg.len().min(128 - args.len())];
        args.push(b'\'');
        args.extend_from_slice(arg.split(|byte| *byte == 0).next().unwrap_or_default());
        args.extend_from_slice(b"' ");
    }
    CommandError::UnknownCommand(Box::new(UnknownCommand {
        name: name.to_vec(),
        args,
    }))
}

/// Returns the error for an unknown subcommand.
fn unknown_subcommand(command: &CommandSpec, name: &[u8]) -> CommandError {
    let known = missing::SUBCOMMANDS
        .iter()
        .find(|(parent, _)| *parent == command.name);
    if known.is_some_and(|(_, subs)| {
        subs.iter()
            .any(|sub| name.eq_ignore_ascii_case(sub.as_bytes()))
    }) {
        let what =
            format!("{} {}", command.name, String::from_utf8_lossy(name)).to_ascii_uppercase();
        return CommandError::NotImplemented { what };
    }
    CommandError::UnknownSubcommand(Box::new(UnknownSubcommand {
        command: command.name,
        name: name.to_vec(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::table::parse_syntax;
    use std::collections::HashSet;

    fn find_in_any(name: &str) -> Option<Entry> {
        let name = name.as_bytes();
        let profile = Profile::default();
        let found = ordinary(profile).find(name);
        found.or_else(|| of_sentinels(profile).find(name))
    }

    #[test]
    fn the_syntax_of_every_row_reads() {
        let (mut count, mut wrong) = (0, Vec::new());
        let rows = rows().chain(sentinel::COMMANDS);
        for row in rows.flat_map(|row| std::iter::once(row).chain(row.subcommands)) {
            match parse_syntax(row.syntax, row.keys.len()) {
                Ok(arguments) => count += arguments.len(),
                Err(error) => wrong.push(format!("{}: {error}", row.name)),
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(count > 50, "{count} arguments");
    }

    #[test]
    fn rows_are_complete_and_single() {
        let mut names: Vec<_> = rows().map(|row| row.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "two rows have the same name");
        for row in rows().flat_map(|row| std::iter::once(row).chain(row.subcommands)) {
            assert!(
                !row.name.contains(|c: char| c.is_ascii_uppercase()),
                "{}",
                row.name
            );
            assert!(!row.summary.is_empty(), "{} has no summary", row.name);
            assert!(row.arity != 0, "{} has no arity", row.name);
        }
    }

    #[test]
    fn a_name_is_found_in_any_case_and_nothing_else_is() {
        for profile in Profile::ALL {
            a_name_is_found_in_any_case_with(profile);
        }
    }

    fn a_name_is_found_in_any_case_with(profile: Profile) {
        let rows = rows_of(profile);
        let known: HashSet<&str> = rows.iter().map(|row| row.name).collect();
        let mut found = 0;
        for row in rows {
            let upper = row.name.to_ascii_uppercase().into_bytes();
            let mut tried = vec![Vec::new(), upper[1..].to_vec(), [&*upper, b"x"].concat()];
            for at in 0..upper.len() {
                tried.extend((0..=u8::MAX).map(|byte| {
                    let mut other = upper.clone();
                    other[at] = byte;
                    other
                }));
            }
            for name in tried {
                let spelled = String::from_utf8_lossy(&name).to_ascii_lowercase();
                let wanted = known.get(&*spelled);
                let entry = ordinary(profile).find(&name);
                let spelling = entry.map(|entry| entry.spec.name);
                assert_eq!(spelling, wanted.copied(), "{spelled:?}");
                found += usize::from(entry.is_some());
            }
        }
        assert!(found > 2 * known.len(), "{found}");
    }

    #[test]
    fn numbers_name_rows() {
        for profile in Profile::ALL {
            numbers_name_rows_of(profile);
        }
    }

    fn numbers_name_rows_of(profile: Profile) {
        let table = ordinary(profile);
        for row in rows_of(profile) {
            let entry = table.find(row.name.as_bytes()).expect("in the index");
            let name = table.name(entry.number);
            assert_eq!((entry.spec.name, name), (row.name, row.name));
            for sub in row.subcommands {
                let sub = entry.subcommand(sub.name.as_bytes()).expect("in the row");
                let name = table.name(sub.number);
                assert_eq!(name, format!("{}|{}", row.name, sub.spec.name));
                assert_eq!(table.entry(sub.number).spec.name, sub.spec.name);
            }
        }
    }

    #[test]
    fn missing_commands_are_not_in_the_table() {
        for name in missing::COMMANDS {
            assert!(
                newest()
                    .iter()
                    .all(|table| table.find(name.as_bytes()).is_none()),
                "{name} is implemented"
            );
        }
        for (parent, subcommands) in missing::SUBCOMMANDS {
            let Some(Entry { spec: row, .. }) = find_in_any(parent) else {
                assert!(
                    ["script", "function"].contains(parent) && cfg!(not(feature = "script")),
                    "{parent} is a container of ours"
                );
                continue;
            };
            for name in *subcommands {
                assert!(
                    row.subcommands.iter().all(|sub| sub.name != *name),
                    "{parent} {name} is implemented"
                );
            }
        }
    }
}
