//! The command table. COMMAND, arity errors, ACL categories and the README list are read from it.

mod args;
mod client;
mod cluster;
mod config;
mod connection;
mod debug;
mod dump;
mod error;
mod expire;
mod failover;
mod generic;
mod hash;
mod hash_walk;
mod info;
mod introspection;
mod keys;
mod list;
mod list_pop;
mod memory;
mod migrate;
mod missing;
mod pubsub;
mod replication;
mod scan;
#[cfg(feature = "script")]
mod scripting;
pub(crate) mod sentinel;
mod server;
mod slowlog;
mod sort;
mod spec;
mod string;
mod substring;
mod syntax;
mod tracking;
mod transaction;

pub(crate) use args::{Args, integer_of};
pub(crate) use error::CommandError;
use error::{UnknownCommand, UnknownSubcommand};
pub(crate) use spec::{CommandSpec, Flags, Group};

use crate::resp::Request;
use std::sync::LazyLock;

/// All commands, group by group, in the order of the files.
pub(crate) const TABLE: &[&[CommandSpec]] = &[
    string::COMMANDS,
    substring::COMMANDS,
    generic::COMMANDS,
    expire::COMMANDS,
    scan::COMMANDS,
    sort::COMMANDS,
    dump::COMMANDS,
    migrate::COMMANDS,
    hash::COMMANDS,
    hash_walk::COMMANDS,
    list::COMMANDS,
    list_pop::COMMANDS,
    pubsub::COMMANDS,
    transaction::COMMANDS,
    connection::COMMANDS,
    server::COMMANDS,
    replication::COMMANDS,
    failover::COMMANDS,
    cluster::COMMANDS,
    introspection::COMMANDS,
    #[cfg(feature = "script")]
    scripting::COMMANDS,
];

/// Places in the index, a power of two well above the number of rows.
const INDEX_SIZE: usize = 1 << (64 - INDEX_SHIFT);
const INDEX_SHIFT: u32 = 54;

/// A row with its number: commands and subcommands are counted through, in the order of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) spec: &'static CommandSpec,
    pub(crate) number: u16,
}

impl Entry {
    /// The subcommand of this name, in any case.
    pub(crate) fn subcommand(self, name: &[u8]) -> Option<Self> {
        let is_it = |(_, row): &(u16, &CommandSpec)| name.eq_ignore_ascii_case(row.name.as_bytes());
        let mut rows = (self.number + 1..).zip(self.spec.subcommands);
        let (number, spec) = rows.find(is_it)?;
        Some(Self { spec, number })
    }

    /// As in `config|get`.
    pub(crate) fn full_name(self) -> &'static str {
        &FULL_NAMES[usize::from(self.number)].0
    }
}

/// All names as in `config|get`, with their rows, by number.
static FULL_NAMES: LazyLock<Vec<(String, &'static CommandSpec)>> = LazyLock::new(|| {
    let all = rows().flat_map(|row| {
        let own = (row.full_name(None), row);
        let subs = row.subcommands.iter();
        std::iter::once(own).chain(subs.map(move |sub| (sub.full_name(Some(row)), sub)))
    });
    all.collect()
});

/// The entry with this number.
pub(crate) fn numbered(number: u16) -> Entry {
    let spec = FULL_NAMES[usize::from(number)].1;
    Entry { spec, number }
}

/// The name of the command with this number, as in `config|get`.
pub(crate) fn name_of(number: u16) -> &'static str {
    numbered(number).full_name()
}

/// How many commands and subcommands there are.
pub(crate) fn count() -> usize {
    FULL_NAMES.len()
}

/// A row as the index has it.
#[derive(Clone, Copy)]
struct Place {
    length: usize,
    word: u64,
    /// Nothing else of this length has this word.
    sure: bool,
    entry: Entry,
}

/// Rows by their lengths and words; open addressing.
static INDEX: LazyLock<Box<[Option<Place>; INDEX_SIZE]>> = LazyLock::new(|| {
    let mut index = Box::new([None; INDEX_SIZE]);
    let mut number = 0;
    for spec in rows() {
        let (length, word) = (spec.name.len(), word(spec.name.as_bytes()));
        let mut at = place(length, word);
        while index[at].is_some() {
            at = (at + 1) % INDEX_SIZE;
        }
        // Only a letter has no other counterpart than its other case.
        let letters = spec.name.bytes().all(|byte| byte.is_ascii_alphabetic());
        index[at] = Some(Place {
            length,
            word,
            sure: letters && length <= WORD_BYTES,
            entry: Entry { spec, number },
        });
        number += 1 + spec.subcommands.len() as u16;
    }
    index
});

const WORD_BYTES: usize = 8;

/// The first and the last four bytes of a name, which may overlap, or up to three; as if in lower case.
#[inline]
fn word(name: &[u8]) -> u64 {
    let (first, last) = match (name.first_chunk(), name.last_chunk()) {
        (Some(first), Some(last)) => (u32::from_le_bytes(*first), u32::from_le_bytes(*last)),
        _ => {
            let byte = |at: usize| name.get(at).copied().map_or(0, u32::from);
            let last = byte(name.len().wrapping_sub(1));
            (byte(0) | byte(name.len() / 2) << 8, last)
        }
    };
    u64::from_le_bytes([b' '; WORD_BYTES]) | u64::from(first) | u64::from(last) << 32
}

/// Where the search for a name begins.
#[inline]
fn place(length: usize, word: u64) -> usize {
    let mixed = (word ^ length as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> INDEX_SHIFT) as usize
}

/// Every row of the table.
pub(crate) fn rows() -> impl Iterator<Item = &'static CommandSpec> {
    TABLE.iter().flat_map(|group| group.iter())
}

/// The command of this name, in any case.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    find_entry(name).map(|entry| entry.spec)
}

/// The same with its number.
#[inline]
pub(crate) fn find_entry(name: &[u8]) -> Option<Entry> {
    let word = word(name);
    let mut at = place(name.len(), word);
    while let Some(known) = &INDEX[at] {
        if known.length == name.len() && known.word == word {
            let spelled = known.entry.spec.name.as_bytes();
            if known.sure || name.eq_ignore_ascii_case(spelled) {
                return Some(known.entry);
            }
        }
        at = (at + 1) % INDEX_SIZE;
    }
    None
}

/// The keys of a request, by the key specification of its command; none for a malformed one.
pub(crate) fn keys_of(request: Request<'_>) -> Vec<&[u8]> {
    match find(request.name()) {
        Some(row) if row.accepts(request.len()) => row.keys_of(request),
        Some(_) | None => Vec::new(),
    }
}

/// Names of the commands that are implemented, sorted; subcommands as `config get`.
///
/// ```
/// assert!(redouble::command_names().iter().any(|name| name == "client setname"));
/// ```
pub fn command_names() -> Vec<String> {
    let mut names: Vec<String> = rows()
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

/// The error for a name that is not in the table: what Redis says of a name it does not know
/// either, and the truth of one it does.
pub(crate) fn unknown(request: Request<'_>) -> CommandError {
    let name = request.name();
    if missing::COMMANDS
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    {
        let what = String::from_utf8_lossy(name).to_ascii_uppercase();
        return CommandError::NotImplemented { what };
    }
    #[cfg(not(feature = "script"))]
    if ["eval", "evalsha", "script"]
        .iter()
        .any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
    {
        return CommandError::NotImplemented {
            what: "scripts without its feature `script`".to_owned(),
        };
    }
    if crate::control_queue::is_order(name) {
        return CommandError::Text(
            "ERR the wire control is off here: start the server with --control, or ask its --control-port".into(),
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

/// The same for a subcommand.
pub(crate) fn unknown_subcommand(command: &CommandSpec, name: &[u8]) -> CommandError {
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
    use std::collections::HashSet;

    #[test]
    fn rows_are_complete_and_single() {
        let mut names: Vec<_> = rows().map(|row| row.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "two rows of one name");
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
        let known: HashSet<&str> = rows().map(|row| row.name).collect();
        let mut found = 0;
        for row in rows() {
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
                let spec = find(&name);
                assert_eq!(spec.map(|it| it.name), wanted.copied(), "{spelled:?}");
                found += usize::from(spec.is_some());
            }
        }
        assert!(found > 2 * known.len(), "{found}");
    }

    #[test]
    fn numbers_name_rows() {
        for row in rows() {
            let entry = find_entry(row.name.as_bytes()).expect("in the index");
            assert_eq!((entry.spec.name, entry.full_name()), (row.name, row.name));
            for sub in row.subcommands {
                let sub = entry.subcommand(sub.name.as_bytes()).expect("in the row");
                assert_eq!(sub.full_name(), format!("{}|{}", row.name, sub.spec.name));
                assert_eq!(numbered(sub.number).spec.name, sub.spec.name);
            }
        }
    }

    #[test]
    fn what_is_missing_is_not_in_the_table() {
        for name in missing::COMMANDS {
            assert!(find(name.as_bytes()).is_none(), "{name} is implemented");
        }
        for (parent, subcommands) in missing::SUBCOMMANDS {
            let Some(row) = find(parent.as_bytes()) else {
                assert!(
                    *parent == "script" && cfg!(not(feature = "script")),
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
