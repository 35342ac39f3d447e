//! The arguments of a control request.

use super::error;
use crate::resp::ErrorReply;
use std::time::Duration;

/// Longest accepted time: a hundred years, in milliseconds. A longer one is taken for a mistake.
const MILLIS_MAX: i64 = 100 * 366 * 24 * 3_600 * 1_000;

pub(super) struct ControlArgs<'a> {
    /// Name of the command, for error messages.
    command: &'static str,
    rest: &'a [&'a [u8]],
}

impl<'a> ControlArgs<'a> {
    pub(super) fn new(command: &'static str, rest: &'a [&'a [u8]]) -> Self {
        Self { command, rest }
    }

    /// Takes the next argument if it is this keyword, in any case.
    pub(super) fn has(&mut self, word: &str) -> bool {
        let found = self.rest.first();
        let is_it = found.is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()));
        if is_it {
            self.rest = &self.rest[1..];
        }
        is_it
    }

    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    pub(super) fn take(&mut self, expected: &str) -> Result<&'a [u8], ErrorReply> {
        self.next()
            .ok_or_else(|| self.error(&format!("expected {expected}, found the end")))
    }

    pub(super) fn text(&mut self, expected: &str) -> Result<&'a str, ErrorReply> {
        let word = self.take(expected)?;
        std::str::from_utf8(word).map_err(|_| self.unexpected(expected, word))
    }

    /// Takes all remaining arguments.
    pub(super) fn all(&mut self) -> &'a [&'a [u8]] {
        std::mem::take(&mut self.rest)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn number<T: std::str::FromStr>(&mut self, expected: &str) -> Result<T, ErrorReply> {
        let word = self.take(expected)?;
        let number = std::str::from_utf8(word).ok().and_then(|w| w.parse().ok());
        number.ok_or_else(|| self.unexpected(expected, word))
    }

    /// Takes milliseconds, which may be negative.
    pub(super) fn signed_millis(&mut self) -> Result<i64, ErrorReply> {
        let millis: i64 = self.number("milliseconds")?;
        if (-MILLIS_MAX..=MILLIS_MAX).contains(&millis) {
            Ok(millis)
        } else {
            Err(self.error(&format!("{millis} milliseconds are more than a century")))
        }
    }

    pub(super) fn millis(&mut self) -> Result<Duration, ErrorReply> {
        let millis = self.signed_millis()?;
        u64::try_from(millis)
            .map(Duration::from_millis)
            .map_err(|_| self.error(&format!("expected milliseconds, found '{millis}'")))
    }

    /// Fails if there are more arguments.
    pub(super) fn end(&self) -> Result<(), ErrorReply> {
        match self.rest.first() {
            None => Ok(()),
            Some(word) => Err(self.unexpected("the end", word)),
        }
    }

    pub(super) fn unexpected(&self, expected: &str, found: &[u8]) -> ErrorReply {
        let found = String::from_utf8_lossy(found);
        self.error(&format!("expected {expected}, found '{found}'"))
    }

    /// The error for an argument that is no subcommand.
    pub(super) fn unknown(&self) -> ErrorReply {
        match self.rest.first() {
            Some(word) => self.unexpected("a subcommand", word),
            None => self.error("expected a subcommand, found the end"),
        }
    }

    fn error(&self, text: &str) -> ErrorReply {
        error(format!("{text}; see REDOUBLE.{} HELP", self.command))
    }
}
