//! The command table: finds the row of a request and numbers all rows.
//!
//! The rows themselves belong to `command/`. An [`Engine`](super::Engine) is given its tables as values, so the engine
//! imports no command. A row's number is its place in the table; statistics, queues and sessions
//! store numbers.

mod keys;
mod spec;
mod syntax;

pub(crate) use keys::{bitfield, describe_flags, migrate, set, sort, sort_ro};
pub use spec::Flags;
pub(crate) use spec::{CommandResult, CommandSpec, Group, Handler};
#[cfg(test)]
pub(crate) use syntax::parse as parse_syntax;

use super::CommandError;
use super::acl::Catalogue;
use crate::resp::Request;

/// Number of places in the index, a power of two well above the number of rows.
const INDEX_SIZE: usize = 1 << (64 - INDEX_SHIFT);
const INDEX_SHIFT: u32 = 54;

/// A row with its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) spec: &'static CommandSpec,
    pub(crate) number: u16,
}

impl Entry {
    /// The subcommand with this name, in any case.
    pub(crate) fn subcommand(self, name: &[u8]) -> Option<Self> {
        let is_it = |(_, row): &(u16, &CommandSpec)| name.eq_ignore_ascii_case(row.name.as_bytes());
        let mut rows = (self.number + 1..).zip(self.spec.subcommands);
        let (number, spec) = rows.find(is_it)?;
        Some(Self { spec, number })
    }
}

/// Makes the error for a request whose name is not in the table.
pub(crate) type UnknownCommandError = fn(Request<'_>) -> CommandError;
/// Makes the error for a subcommand that its container does not have.
pub(crate) type UnknownSubcommandError = fn(&CommandSpec, &[u8]) -> CommandError;

/// A place of the index.
#[derive(Clone, Copy, Debug)]
struct Place {
    length: usize,
    word: u64,
    /// True if length and word decide: no other spelling has this word.
    sure: bool,
    entry: Entry,
}

/// All commands of a node.
#[derive(Debug)]
pub(crate) struct CommandTable {
    /// Rows by number. The subcommands of a container follow it.
    entries: Vec<Entry>,
    /// Full names such as `config|get` and ACL categories, by number.
    catalogue: Catalogue,
    /// Commands by length and word of their name; open addressing.
    index: Box<[Option<Place>]>,
    unknown: UnknownCommandError,
    unknown_subcommand: UnknownSubcommandError,
}

impl CommandTable {
    /// Builds a table of these rows.
    pub(crate) fn new(
        rows: impl Iterator<Item = &'static CommandSpec>,
        unknown: UnknownCommandError,
        unknown_subcommand: UnknownSubcommandError,
    ) -> Self {
        let mut table = Self {
            entries: Vec::new(),
            catalogue: Catalogue::default(),
            index: vec![None; INDEX_SIZE].into(),
            unknown,
            unknown_subcommand,
        };
        for spec in rows {
            let number = table.push(spec, None);
            table.add_to_index(Entry { spec, number });
            for sub in spec.subcommands {
                table.push(sub, Some(spec));
            }
        }
        table
    }

    fn push(&mut self, spec: &'static CommandSpec, parent: Option<&CommandSpec>) -> u16 {
        let number = self.entries.len() as u16;
        self.entries.push(Entry { spec, number });
        let (name, categories) = (spec.full_name(parent), spec.category_set());
        self.catalogue
            .push(name, categories, spec.subcommands.len());
        number
    }

    fn add_to_index(&mut self, entry: Entry) {
        let name = entry.spec.name.as_bytes();
        let (length, word) = (name.len(), word(name));
        let mut at = place(length, word);
        while self.index[at].is_some() {
            at = (at + 1) % INDEX_SIZE;
        }
        // A letter has only its other case as a counterpart in `word`; other bytes have several.
        let letters = name.iter().all(u8::is_ascii_alphabetic);
        self.index[at] = Some(Place {
            length,
            word,
            sure: letters && length <= WORD_BYTES,
            entry,
        });
    }

    /// Number of rows, subcommands included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All commands, without subcommands, in the order of the rows.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &'static CommandSpec> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let spec = self.entries.get(at)?.spec;
            at += 1 + spec.subcommands.len();
            Some(spec)
        })
    }

    /// The row with this number.
    #[inline]
    pub(crate) fn entry(&self, number: u16) -> Entry {
        self.entries[usize::from(number)]
    }

    /// The full name of a row, such as `config|get`.
    pub(crate) fn name(&self, number: u16) -> &str {
        self.catalogue.name(number)
    }

    /// The commands as ACL rules see them.
    pub(in crate::engine) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The command with this name, in any case.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<Entry> {
        let word = word(name);
        let mut at = place(name.len(), word);
        while let Some(known) = &self.index[at] {
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

    /// The command or subcommand that a request names, with the position of its first argument.
    ///
    /// # Errors
    /// The table has no such command, or the container no such subcommand.
    #[inline]
    pub(crate) fn resolve(&self, request: Request<'_>) -> Result<(Entry, usize), CommandError> {
        let Some(entry) = self.find(request.name()) else {
            return Err((self.unknown)(request));
        };
        if !entry.spec.subcommands.is_empty()
            && let Some(name) = request.arg(1)
        {
            return match entry.subcommand(name) {
                Some(sub) => Ok((sub, 2)),
                None => Err((self.unknown_subcommand)(entry.spec, name)),
            };
        }
        Ok((entry, 1))
    }
}

/// The tables that a node is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables {
    /// Commands of an ordinary node.
    pub(crate) ordinary: &'static CommandTable,
    /// Commands of a sentinel.
    pub(crate) sentinel: &'static CommandTable,
}

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

/// The place of the index at which the search for a name begins.
#[inline]
fn place(length: usize, word: u64) -> usize {
    let mixed = (word ^ length as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> INDEX_SHIFT) as usize
}
