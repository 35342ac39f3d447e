//! The words behind a fault's name, and the errors that they cause. Knows no rule and no condition.

use std::fmt;
use std::time::Duration;

/// Which messages a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// A request, before it is executed.
    Request,
    /// A reply, after the request was executed.
    Reply,
    /// A request or a reply; the rule chooses.
    Either,
    /// Both directions, unless the rule names one.
    Both,
    /// No message: the fault concerns the node.
    Node,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "a request, before it is executed",
            Self::Reply => "a reply, after the request was executed",
            Self::Either => "a request or a reply",
            Self::Both => "both directions, unless the rule names one",
            Self::Node => "the node",
        })
    }
}

impl Placement {
    /// True if a rule can name the direction.
    pub(super) fn is_chosen(self) -> bool {
        matches!(self, Self::Either | Self::Both)
    }
}

/// Why words make no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseFaultError {
    /// No fault has this name.
    UnknownFault(String),
    /// The fault concerns a node and not messages, so it has no rules.
    NodeFault(&'static str),
    /// The word is neither an argument of the fault nor a condition.
    UnknownWord(String),
    /// The words end too early. Contains what was expected.
    Missing(&'static str),
    /// A word is invalid.
    Invalid {
        /// The word.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
}

impl fmt::Display for ParseFaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFault(name) => write!(f, "there is no fault '{name}'"),
            Self::NodeFault(name) => {
                write!(f, "'{name}' is a fault of the node, not of its messages")
            }
            Self::UnknownWord(word) => write!(f, "expected a condition, found '{word}'"),
            Self::Missing(what) => write!(f, "expected {what}, found the end"),
            Self::Invalid { found, expected } => write!(f, "expected {expected}, found '{found}'"),
        }
    }
}

impl std::error::Error for ParseFaultError {}

/// The number that a word is.
pub(super) fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Longest accepted delay, about thirty years. A longer one is taken for a mistake.
const DELAY_MS_MAX: f64 = 1e12;

/// A duration in milliseconds, as [`FaultArgs::millis`] reads it.
pub(super) fn millis(duration: Duration) -> Vec<u8> {
    (duration.as_micros() as f64 / 1e3).to_string().into_bytes()
}

pub(super) fn invalid(found: &[u8], expected: &'static str) -> ParseFaultError {
    let found = String::from_utf8_lossy(found).into_owned();
    ParseFaultError::Invalid { found, expected }
}

/// The words behind a fault's name.
pub(super) struct FaultArgs<'a> {
    pub(super) placement: Placement,
    pub(super) words: &'a [&'a [u8]],
}

impl<'a> FaultArgs<'a> {
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    /// Takes the next word and converts it with `read`.
    pub(super) fn take<T>(
        &mut self,
        expected: &'static str,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, ParseFaultError> {
        let word = self.next().ok_or(ParseFaultError::Missing(expected))?;
        read(word).ok_or_else(|| invalid(word, expected))
    }

    pub(super) fn millis(&mut self) -> Result<Duration, ParseFaultError> {
        self.take("milliseconds", |word| {
            let millis: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
            let is_sane = (0.0..=DELAY_MS_MAX).contains(&millis);
            is_sane.then(|| Duration::from_micros((millis * 1e3).round() as u64))
        })
    }

    /// Takes the next word if it is this keyword.
    pub(super) fn has(&mut self, word: &str) -> bool {
        let is_next = |next: &&&[u8]| next.eq_ignore_ascii_case(word.as_bytes());
        let found = self.words.first().filter(is_next).is_some();
        if found {
            self.next();
        }
        found
    }
}
