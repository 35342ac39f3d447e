//! The description of a fault, for documentation, tools and wire control.

use super::MessageRule;
use super::args::{FaultArgs, ParseFaultError, Placement};
use super::condition::CONDITIONS;
use std::fmt::Write as _;

/// Makes a rule from the words behind the fault's name.
pub(super) type Parse = fn(FaultArgs<'_>) -> Result<Box<dyn MessageRule>, ParseFaultError>;

/// The description of a fault.
#[derive(Clone, Copy, Debug)]
pub struct FaultSpec {
    /// Its name, which is also the name of its file.
    pub name: &'static str,
    /// Effect of the fault, in one line.
    pub summary: &'static str,
    /// Which messages it applies to.
    pub placement: Placement,
    /// The words that come before the conditions.
    pub arguments: &'static str,
    /// `None` for faults of a node.
    pub(super) parse: Option<Parse>,
}

impl FaultSpec {
    /// Help for this fault: its words and every condition, one per line.
    pub fn help(&self) -> Vec<String> {
        let mut first = self.name.to_owned();
        if !self.arguments.is_empty() {
            let _infallible = write!(first, " {}", self.arguments);
        }
        if self.placement == Placement::Either {
            first += " DIRECTION request|reply";
        } else if self.placement == Placement::Both {
            first += " [DIRECTION request|reply]";
        }
        if self.parse.is_none() {
            return vec![first, format!("    {}", self.summary)];
        }
        first += " [condition ...]";
        let mut lines = vec![
            first,
            format!("    {}; at {}", self.summary, self.placement),
        ];
        lines.extend(CONDITIONS.iter().map(|condition| {
            let (word, argument) = (condition.word, condition.argument);
            format!("    {word} {argument}: {}", condition.summary)
        }));
        lines
    }

    /// True if a rule of this fault can name a direction.
    pub(super) fn has_direction(&self) -> bool {
        self.placement.is_chosen()
    }
}

/// The fault of this name, in any case.
pub(super) fn find(name: &str) -> Option<&'static FaultSpec> {
    let mut all = super::FAULTS.iter();
    all.find(|fault| fault.name.eq_ignore_ascii_case(name))
}

/// True if the words of this fault's rules can contain a direction.
pub(super) fn has_direction(name: &str) -> bool {
    find(name).is_some_and(FaultSpec::has_direction)
}
