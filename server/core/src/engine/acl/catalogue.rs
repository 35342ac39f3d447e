//! The commands of a node as access rules see them: names, categories and subcommands, by the number of the row.
//! Knows no handler.

use super::category::Categories;

/// One command or subcommand.
#[derive(Debug)]
struct Listed {
    /// Full name, such as `config|get`.
    name: String,
    categories: Categories,
    is_subcommand: bool,
    /// Number of subcommands, whose rows follow this one.
    subcommands: u16,
}

/// All commands of a node, by number.
#[derive(Debug, Default)]
pub(in crate::engine) struct Catalogue(Vec<Listed>);

impl Catalogue {
    /// Adds the row of a command. The rows of its subcommands follow.
    pub(in crate::engine) fn push(
        &mut self,
        name: String,
        categories: Categories,
        subcommands: usize,
    ) {
        self.0.push(Listed {
            is_subcommand: name.contains('|'),
            name,
            categories,
            subcommands: subcommands as u16,
        });
    }

    /// Number of rows, subcommands included.
    pub(in crate::engine) fn len(&self) -> usize {
        self.0.len()
    }

    /// Numbers of all rows.
    pub(super) fn numbers(&self) -> std::ops::Range<u16> {
        0..self.0.len() as u16
    }

    fn row(&self, number: u16) -> &Listed {
        &self.0[usize::from(number)]
    }

    /// The full name of a row.
    pub(in crate::engine) fn name(&self, number: u16) -> &str {
        &self.row(number).name
    }

    pub(super) fn is_subcommand(&self, number: u16) -> bool {
        self.row(number).is_subcommand
    }

    /// Numbers of the subcommands of a command.
    pub(super) fn subcommands(&self, number: u16) -> std::ops::Range<u16> {
        number + 1..number + 1 + self.row(number).subcommands
    }

    /// The row with this full name, in any case (`server.c: lookupCommandBySds`).
    pub(super) fn find(&self, name: &[u8]) -> Option<u16> {
        let is_it = |row: &Listed| row.name.as_bytes().eq_ignore_ascii_case(name);
        let at = self.0.iter().position(is_it)?;
        Some(at as u16)
    }

    /// Numbers of the rows in a category.
    pub(in crate::engine) fn members(&self, category: Categories) -> impl Iterator<Item = u16> {
        self.numbers()
            .filter(move |number| self.row(*number).categories.meets(category))
    }
}
