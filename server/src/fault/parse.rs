//! Makes rules from words, for wire control and tools.

use super::condition::{CONDITIONS, Conditions};
use super::rule::{MessageFault, Rule};
use super::spec::{FaultSpec, Placement, find};
use super::{Direction, MessageRule};
use std::fmt;
use std::time::Duration;

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

/// Makes a rule from the name of a fault and the words behind it, as [`FaultSpec::help`] describes
/// them. Names and keywords are accepted in any case. The gate of such a rule opens when the rule
/// is removed.
///
/// ```
/// use redouble::fault;
///
/// let rule = fault::parse("drop_reply", ["COMMAND", "SET", "KEY", "coupon:*", "NTH", "1"])?;
/// assert_eq!(format!("{rule:?}"), "drop reply to SET key coupon:* nth 1");
/// let error = fault::parse("delay", ["soon"]).unwrap_err();
/// assert_eq!(error.to_string(), "expected milliseconds, found 'soon'");
/// # Ok::<(), fault::ParseFaultError>(())
/// ```
///
/// # Errors
/// If the words make no rule.
pub fn parse<W: AsRef<[u8]>>(
    name: &str,
    words: impl IntoIterator<Item = W>,
) -> Result<Box<dyn MessageRule>, ParseFaultError> {
    let spec = find(name).ok_or_else(|| ParseFaultError::UnknownFault(name.to_owned()))?;
    let make = spec.parse.ok_or(ParseFaultError::NodeFault(spec.name))?;
    let words: Vec<W> = words.into_iter().collect();
    let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    make(FaultArgs {
        spec,
        words: &words,
    })
}

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

fn invalid(found: &[u8], expected: &'static str) -> ParseFaultError {
    let found = String::from_utf8_lossy(found).into_owned();
    ParseFaultError::Invalid { found, expected }
}

/// The words behind a fault's name.
pub(super) struct FaultArgs<'a> {
    spec: &'static FaultSpec,
    words: &'a [&'a [u8]],
}

impl<'a> FaultArgs<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
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

    /// The direction and the conditions, which end every rule.
    pub(super) fn rule<F: MessageFault + 'static>(
        mut self,
        fault: F,
    ) -> Result<Box<dyn MessageRule>, ParseFaultError> {
        let mut direction = match self.spec.placement {
            Placement::Request => Some(Direction::Request),
            Placement::Reply => Some(Direction::Reply),
            Placement::Either | Placement::Both | Placement::Node => None,
        };
        let is_free = self.spec.has_direction();
        let mut conditions = Conditions::default();
        while let Some(word) = self.next() {
            let is_it = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
            if is_free && is_it("DIRECTION") {
                direction = Some(self.take("request or reply", |word| {
                    let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
                    let reply = is("reply").then_some(Direction::Reply);
                    is("request").then_some(Direction::Request).or(reply)
                })?);
                continue;
            }
            let mut known = CONDITIONS.iter();
            let Some(condition) = known.find(|condition| is_it(condition.word)) else {
                let word = String::from_utf8_lossy(word).into_owned();
                return Err(ParseFaultError::UnknownWord(word));
            };
            let argument = condition.argument;
            let word = self.next().ok_or(ParseFaultError::Missing(argument))?;
            (condition.read)(&mut conditions, word).map_err(|expected| invalid(word, expected))?;
        }
        if self.spec.placement == Placement::Either && direction.is_none() {
            return Err(ParseFaultError::Missing(
                "DIRECTION request or DIRECTION reply",
            ));
        }
        Ok(Box::new(Rule {
            fault,
            direction,
            conditions,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FAULTS, Placement};
    use super::*;

    /// Arguments of each fault, in several variants.
    fn arguments(name: &str) -> Vec<Vec<&'static str>> {
        match name {
            "delay" => vec![vec!["100"], vec!["0.25"]],
            "cut" => vec![vec!["0"], vec!["17"]],
            "disconnect" => vec![vec![], vec!["RESET"]],
            "answer_error" => vec![vec!["ERR of any kind"], vec!["READONLY"]],
            _ => vec![vec![]],
        }
    }

    fn value(argument: &str) -> &'static str {
        match argument {
            "id" => "7",
            "n" => "3",
            "share" => "0.5",
            "name" => "config|get",
            _ => "lock:[a-z]*",
        }
    }

    /// A rule prints the words that it was made from, and those make the same rule.
    fn round_trip(name: &str, words: &[&str]) {
        let rule = parse(name, words).unwrap_or_else(|error| panic!("{name} {words:?}: {error}"));
        let again = rule.words().expect("it came from words");
        let again: Vec<String> = again
            .into_iter()
            .map(|word| String::from_utf8(word).expect("text"))
            .collect();
        assert_eq!(again[0], name);
        if !words.contains(&"READONLY") {
            assert_eq!(again[1..], *words, "{rule:?}");
        }
        let second = parse(name, &again[1..]).expect("its own words");
        assert_eq!(format!("{second:?}"), format!("{rule:?}"));
        assert_eq!(second.words(), rule.words());
    }

    #[test]
    fn every_fault_with_every_condition_comes_back_from_its_words() {
        let mut made = 0;
        for fault in FAULTS.iter().filter(|fault| fault.parse.is_some()) {
            let directions: &[&[&str]] = match fault.placement {
                Placement::Either => &[&["DIRECTION", "request"], &["DIRECTION", "reply"]],
                Placement::Both => &[&[], &["DIRECTION", "request"], &["DIRECTION", "reply"]],
                Placement::Request | Placement::Reply | Placement::Node => &[&[]],
            };
            for arguments in arguments(fault.name) {
                for direction in directions {
                    let begin = [&arguments[..], direction].concat();
                    round_trip(fault.name, &begin);
                    let mut all = begin.clone();
                    for condition in CONDITIONS {
                        let pair = [condition.word, value(condition.argument)];
                        round_trip(fault.name, &[&begin[..], &pair].concat());
                        all.extend(pair);
                        made += 1;
                    }
                    round_trip(fault.name, &all);
                }
            }
        }
        assert!(made > 100, "{made}");
    }

    #[test]
    fn what_makes_no_rule_is_explained() {
        for (name, words, expected) in [
            ("flood", &[][..], "there is no fault 'flood'"),
            (
                "pause",
                &[],
                "'pause' is a fault of the node, not of its messages",
            ),
            ("delay", &[], "expected milliseconds, found the end"),
            ("delay", &["-1"], "expected milliseconds, found '-1'"),
            ("delay", &["NaN"], "expected milliseconds, found 'NaN'"),
            (
                "cut",
                &["3"],
                "expected DIRECTION request or DIRECTION reply, found the end",
            ),
            (
                "cut",
                &["3", "DIRECTION", "up"],
                "expected request or reply, found 'up'",
            ),
            (
                "drop_reply",
                &["DIRECTION", "request"],
                "expected a condition, found 'DIRECTION'",
            ),
            ("drop_reply", &["COMMAND"], "expected name, found the end"),
            (
                "drop_reply",
                &["NTH", "0"],
                "expected a number, 1 or more, found '0'",
            ),
            (
                "drop_reply",
                &["CONNECTION", "x"],
                "expected a number, 1 or more, found 'x'",
            ),
            (
                "drop_reply",
                &["PROBABILITY", "2"],
                "expected a number from 0 to 1, found '2'",
            ),
            (
                "drop_reply",
                &["SOMETIMES"],
                "expected a condition, found 'SOMETIMES'",
            ),
            ("answer_error", &[], "expected an error, found the end"),
        ] {
            let error = parse(name, words).expect_err(name);
            assert_eq!(error.to_string(), expected, "{name} {words:?}");
        }
        assert!(parse("DROP_REPLY", ["command", "SET", "nth", "1"]).is_ok());
    }

    #[test]
    fn help_names_every_word_that_is_read() {
        for fault in FAULTS {
            let help = fault.help().join("\n");
            assert!(help.starts_with(fault.name) && help.contains(fault.summary));
            for condition in CONDITIONS {
                let is_named = help.contains(&format!("    {} ", condition.word));
                assert_eq!(is_named, fault.parse.is_some(), "{help}");
            }
            assert_eq!(help.contains("DIRECTION"), fault.has_direction());
        }
    }
}
