//! Makes rules from words, for wire control and tools.

use super::args::{FaultArgs, ParseFaultError, Placement, invalid};
use super::condition::{CONDITIONS, Conditions};
use super::rule::{MessageFault, Rule};
use super::spec::find;
use super::{Direction, MessageRule};

/// Makes a rule from the name of a fault and the words behind it, as [`FaultSpec::help`](super::FaultSpec::help) describes
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
        placement: spec.placement,
        words: &words,
    })
}

impl FaultArgs<'_> {
    /// The direction and the conditions, which end every rule.
    pub(super) fn rule<F: MessageFault + 'static>(
        mut self,
        fault: F,
    ) -> Result<Box<dyn MessageRule>, ParseFaultError> {
        let mut direction = match self.placement {
            Placement::Request => Some(Direction::Request),
            Placement::Reply => Some(Direction::Reply),
            Placement::Either | Placement::Both | Placement::Node => None,
        };
        let is_free = self.placement.is_chosen();
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
        if self.placement == Placement::Either && direction.is_none() {
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
    fn an_invalid_fault_rule_is_explained() {
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
