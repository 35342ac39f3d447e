//! The argument cursor that handlers read from.

use super::error::CommandError;
use crate::resp::{Request, parse_integer};

/// The arguments of one request; begins after the command name (or the subcommand).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a> {
    request: Request<'a>,
    at: usize,
}

impl<'a> Args<'a> {
    pub(crate) fn new(request: Request<'a>, at: usize) -> Self {
        Self { request, at }
    }

    /// The whole request.
    pub(crate) fn request(&self) -> Request<'a> {
        self.request
    }

    /// Arguments still to be read.
    pub(crate) fn remaining(&self) -> usize {
        self.request.len().saturating_sub(self.at)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The next argument, if any.
    pub(crate) fn next(&mut self) -> Option<&'a [u8]> {
        let arg = self.request.arg(self.at)?;
        self.at += 1;
        Some(arg)
    }

    /// The next argument.
    ///
    /// # Errors
    /// A syntax error at the end; where the arity rules that out, it is never seen.
    pub(crate) fn required(&mut self) -> Result<&'a [u8], CommandError> {
        self.next().ok_or(CommandError::Syntax)
    }

    /// The next argument as an integer.
    pub(crate) fn integer(&mut self) -> Result<i64, CommandError> {
        parse_integer(self.required()?).ok_or(CommandError::NotInteger)
    }

    /// The argument at the cursor, without reading it.
    pub(crate) fn peek(&self) -> Option<&'a [u8]> {
        self.request.arg(self.at)
    }

    /// Reads the next argument if it is this keyword, in any case.
    pub(crate) fn keyword(&mut self, word: &str) -> bool {
        let found = self
            .peek()
            .is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        self.at += usize::from(found);
        found
    }

    /// The rest, one by one.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (request, from) = (self.request, self.at);
        self.at = request.len();
        request.iter().skip(from)
    }
}
