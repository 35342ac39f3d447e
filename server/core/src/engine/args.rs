//! The argument cursor that handlers read from.

use super::error::CommandError;
use crate::resp::{Request, parse_integer};

/// The arguments of one request; begins after the command name (or the subcommand).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Args<'a> {
    request: Request<'a>,
    at: usize,
}

/// A text as an integer.
#[inline]
pub(crate) fn integer_of(text: &[u8]) -> Result<i64, CommandError> {
    let Some(number) = parse_integer(text) else {
        return Err(CommandError::NotInteger);
    };
    Ok(number)
}

impl<'a> Args<'a> {
    #[inline]
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
    #[inline]
    pub(crate) fn required(&mut self) -> Result<&'a [u8], CommandError> {
        let Some(arg) = self.next() else {
            return Err(CommandError::Syntax);
        };
        Ok(arg)
    }

    /// The next argument as an integer.
    pub(crate) fn integer(&mut self) -> Result<i64, CommandError> {
        integer_of(self.required()?)
    }

    /// The next argument as an integer within bounds (`object.c: getRangeLongFromObjectOrReply`).
    pub(crate) fn integer_within(&mut self, low: i64, high: i64) -> Result<i64, CommandError> {
        let value = self.integer()?;
        if (low..=high).contains(&value) {
            return Ok(value);
        }
        Err(if (low, high) == (i32::MIN.into(), i32::MAX.into()) {
            CommandError::NotInt
        } else {
            let text = format!("ERR value is out of range, value must between {low} and {high}");
            CommandError::Text(text.into())
        })
    }

    /// Reads the next argument as an integer of at least `low`; any other text gives `error`.
    pub(crate) fn integer_from(
        &mut self,
        low: i64,
        error: &'static str,
    ) -> Result<i64, CommandError> {
        match parse_integer(self.required()?) {
            Some(value) if value >= low => Ok(value),
            Some(_) | None => Err(CommandError::Text(error.into())),
        }
    }

    /// The argument at the cursor, without reading it.
    pub(crate) fn peek(&self) -> Option<&'a [u8]> {
        self.request.arg(self.at)
    }

    /// The error of a subcommand that its arguments do not fit
    /// (`networking.c: addReplySubcommandSyntaxError`).
    pub(crate) fn subcommand_syntax(&self) -> CommandError {
        let command = self.request.name().to_ascii_uppercase();
        let after = format!("'. Try {} HELP.", String::from_utf8_lossy(&command));
        let before = "ERR unknown subcommand or wrong number of arguments for '";
        CommandError::echoing(before, self.request.arg(1).unwrap_or_default(), &after)
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
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let (request, from) = (self.request, self.at);
        self.at = request.len();
        request.iter().skip(from)
    }
}
