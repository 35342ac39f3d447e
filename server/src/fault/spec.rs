//! A fault as documentation, tools and the wire control list it.

use super::condition::CONDITIONS;
use super::words::FaultArgs;
use super::{MessageRule, ParseFaultError};
use std::fmt::{self, Write as _};

/// Where a fault is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// At a request, before it is executed.
    Request,
    /// At a reply, after the request was executed.
    Reply,
    /// At a request or at a reply; the rule says which.
    Either,
    /// In both directions, unless the rule names one.
    Both,
    /// At the node itself.
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

/// Makes a rule of the words behind the fault's name.
pub(super) type Parse = fn(FaultArgs<'_>) -> Result<Box<dyn MessageRule>, ParseFaultError>;

/// A fault as documentation and tools list it.
#[derive(Clone, Copy, Debug)]
pub struct FaultSpec {
    /// Its name, as the file is called.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// Where it is placed.
    pub placement: Placement,
    /// The words that it takes before its conditions.
    pub arguments: &'static str,
    /// None for faults of a node.
    pub(super) parse: Option<Parse>,
}

impl FaultSpec {
    /// Its words with all conditions, a line for each thing.
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

    /// Whether its rules say in which direction they work.
    pub(super) fn has_direction(&self) -> bool {
        matches!(self.placement, Placement::Either | Placement::Both)
    }
}

/// The fault of this name, in any case.
pub(super) fn find(name: &str) -> Option<&'static FaultSpec> {
    let mut all = super::FAULTS.iter();
    all.find(|fault| fault.name.eq_ignore_ascii_case(name))
}

/// Whether the words of a fault's rules may have a direction.
pub(super) fn has_direction(name: &str) -> bool {
    find(name).is_some_and(FaultSpec::has_direction)
}
