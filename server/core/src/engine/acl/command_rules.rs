//! Which commands a selector allows, and the shortest rules that say so.
//!
//! *Policy* (`acl.c: ACLDescribeSelectorCommandRules`): the description starts from `+@all` or `-@all`, applies
//! the categories that fit best, one after the other, and then the single commands that are still missing.

use super::catalogue::Catalogue;
use super::category::Categories;
use std::collections::BTreeMap;

const WORDS: usize = 16;
/// Limit of rows in a table (`USER_COMMAND_BITS_COUNT`).
const COMMANDS_MAX: usize = WORDS * 64;

/// A set of commands, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CommandSet([u64; WORDS]);

impl CommandSet {
    const NONE: Self = Self([0; WORDS]);
    const ALL: Self = Self([u64::MAX; WORDS]);

    fn has(&self, number: u16) -> bool {
        let at = usize::from(number);
        at < COMMANDS_MAX && self.0[at / 64] & 1 << (at % 64) != 0
    }

    fn put(&mut self, number: u16, is_in: bool) {
        let at = usize::from(number);
        if at < COMMANDS_MAX {
            let bit = 1 << (at % 64);
            let word = &mut self.0[at / 64];
            *word = if is_in { *word | bit } else { *word & !bit };
        }
    }
}

/// The commands that a selector allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandRules {
    allowed: CommandSet,
    /// `+@all` was given after the last `-@all`, so the description starts from it.
    starts_from_all: bool,
    /// True if no command was denied since `+@all`.
    allows_all: bool,
    /// First arguments that are allowed of commands that are not.
    first_args: BTreeMap<u16, Vec<Vec<u8>>>,
}

impl CommandRules {
    /// No command.
    pub(super) fn none() -> Self {
        Self {
            allowed: CommandSet::NONE,
            starts_from_all: false,
            allows_all: false,
            first_args: BTreeMap::new(),
        }
    }

    /// All commands.
    pub(super) fn all() -> Self {
        Self {
            allowed: CommandSet::ALL,
            starts_from_all: true,
            allows_all: true,
            first_args: BTreeMap::new(),
        }
    }

    /// True if no command was denied since `+@all`.
    pub(super) fn allow_all(&self) -> bool {
        self.allows_all
    }

    /// True if the command may run with this first argument.
    pub(super) fn allow(&self, number: u16, first_arg: Option<&[u8]>) -> bool {
        if self.allows_all || self.allowed.has(number) {
            return true;
        }
        let (Some(arg), Some(allowed)) = (first_arg, self.first_args.get(&number)) else {
            return false;
        };
        allowed.iter().any(|other| other.eq_ignore_ascii_case(arg))
    }

    /// Allows or denies a command with all its subcommands, or one subcommand.
    pub(super) fn change(&mut self, catalogue: &Catalogue, number: u16, allow: bool) {
        self.put(number, allow);
        self.first_args.remove(&number);
        for subcommand in catalogue.subcommands(number) {
            self.put(subcommand, allow);
        }
    }

    fn put(&mut self, number: u16, allow: bool) {
        self.allowed.put(number, allow);
        self.allows_all &= allow;
    }

    /// Allows or denies all commands of a category.
    pub(super) fn change_category(
        &mut self,
        catalogue: &Catalogue,
        category: Categories,
        allow: bool,
    ) {
        for number in catalogue.members(category) {
            self.change(catalogue, number, allow);
        }
    }

    /// Allows a command with this first argument.
    pub(super) fn allow_first_arg(&mut self, number: u16, arg: &[u8]) {
        let args = self.first_args.entry(number).or_default();
        if !args.iter().any(|other| other.eq_ignore_ascii_case(arg)) {
            args.push(arg.to_vec());
        }
    }

    /// The rules that lead to this state, such as `-@all +@read -get`.
    pub(super) fn describe(&self, catalogue: &Catalogue) -> Vec<u8> {
        let adds = !self.starts_from_all;
        let (mut described, mut rules) = if adds {
            (Self::none(), b"-@all".to_vec())
        } else {
            (Self::all(), b"+@all".to_vec())
        };
        let mut rule = |allow: bool, parts: &[&[u8]]| {
            rules.extend_from_slice(if allow { b" +" } else { b" -" });
            parts.iter().for_each(|part| rules.extend_from_slice(part));
        };
        let mut rest = self.clone();
        let mut left: Vec<_> = Categories::all().collect();
        while let Some(at) = rest.best_category(catalogue, &left, adds) {
            let (category, name) = left.remove(at);
            described.change_category(catalogue, category, adds);
            rest.change_category(catalogue, category, !adds);
            rule(adds, &[b"@", name.as_bytes()]);
        }
        for number in catalogue.numbers() {
            let allow = self.allowed.has(number);
            let name = catalogue.name(number).as_bytes();
            if described.allowed.has(number) != allow {
                rule(allow, &[name]);
                described.change(catalogue, number, allow);
            }
            let args = self.first_args.get(&number).filter(|_| !allow);
            for arg in args.into_iter().flatten() {
                rule(true, &[name, b"|", arg]);
            }
        }
        rules
    }

    /// The place of the category that describes the most of the remaining commands with the fewest mistakes, if one helps.
    fn best_category(
        &self,
        catalogue: &Catalogue,
        left: &[(Categories, &str)],
        adds: bool,
    ) -> Option<usize> {
        let mut best: Option<(usize, usize, usize)> = None;
        for (at, (category, _)) in left.iter().enumerate() {
            let members = || catalogue.members(*category);
            let right = members()
                .filter(|number| self.allowed.has(*number) == adds)
                .count();
            let wrong = members().count() - right;
            let is_better = best.is_none_or(|(_, fewest_wrong, most_right)| {
                wrong < fewest_wrong || wrong == fewest_wrong && right > most_right
            });
            if right > wrong && is_better {
                best = Some((at, wrong, right));
            }
        }
        best.map(|(at, ..)| at)
    }
}
