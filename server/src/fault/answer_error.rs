//! The fault `answer_error`: the server answers an error of a state that it is not in.

use super::rule::{MessageFault, Rule};
use super::{Direction, FaultSpec, Placement, Verdict};
use crate::resp::ErrorReply;
use std::borrow::Cow;

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: AnswerError::NAME,
    summary: "the server answers an error instead of executing a request, or in place of its reply",
    placement: Placement::Either,
    arguments: "LOADING|BUSY|OOM|READONLY|CLUSTERDOWN|TRYAGAIN|NOSCRIPT|MASTERDOWN|text",
    parse: Some(|mut words| {
        let error = words.take("an error", |word| {
            let is_it = |text: &&str| ErrorReply::new(text.to_string()).code().as_bytes() == word;
            let known = USUAL.iter().find(|text| is_it(text));
            let text = known.map_or(word, |known| known.as_bytes());
            (!text.is_empty()).then(|| ErrorReply::from_bytes(text.to_vec()))
        })?;
        words.rule(AnswerError { error })
    }),
};

const LOADING: &str = "LOADING Redis is loading the dataset in memory";
const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const READONLY: &str = "READONLY You can't write against a read only replica.";
const CLUSTERDOWN: &str = "CLUSTERDOWN The cluster is down";
const TRYAGAIN: &str = "TRYAGAIN Multiple keys request during rehashing of slot";
const NOSCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
const MASTERDOWN: &str =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

/// The errors that can be given by their code alone.
const USUAL: [&str; 8] = [
    LOADING,
    BUSY,
    OOM,
    READONLY,
    CLUSTERDOWN,
    TRYAGAIN,
    NOSCRIPT,
    MASTERDOWN,
];

/// Answers an error instead of executing a request, or after executing it
/// ([`after_execution`](Rule::after_execution)). If the client turned replies off, it gets no error
/// either.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Server, fault::AnswerError};
///
/// let server = Server::start().await?;
/// let mut redis = server.connection().await?;
/// let failover = server.inject(AnswerError::readonly().command("SET").first(2));
/// assert_eq!(redis.set("k", "v").await.unwrap_err().code(), Some("READONLY"));
/// server.assert_missing("k");
/// let lie = server.inject(AnswerError::new("ERR it was all in vain").command("DEL").after_execution());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct AnswerError {
    error: ErrorReply,
}

impl AnswerError {
    /// Any error: its code, a space, its text.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Rule<Self> {
        let error = ErrorReply::new(text);
        Rule::new(Self { error }, Some(Direction::Request))
    }

    /// The server is loading its data after a start.
    pub fn loading() -> Rule<Self> {
        Self::new(LOADING)
    }

    /// A script has been running for too long.
    pub fn busy() -> Rule<Self> {
        Self::new(BUSY)
    }

    /// Memory is full, and the policy forbids eviction.
    pub fn oom() -> Rule<Self> {
        Self::new(OOM)
    }

    /// The server has become a replica.
    pub fn readonly() -> Rule<Self> {
        Self::new(READONLY)
    }

    /// The cluster has lost slots or its majority.
    pub fn clusterdown() -> Rule<Self> {
        Self::new(CLUSTERDOWN)
    }

    /// The keys of the request are on both sides of a slot migration.
    pub fn tryagain() -> Rule<Self> {
        Self::new(TRYAGAIN)
    }

    /// The script is not in the server's cache.
    pub fn noscript() -> Rule<Self> {
        Self::new(NOSCRIPT)
    }

    /// The replica has lost its master and does not serve stale data.
    pub fn masterdown() -> Rule<Self> {
        Self::new(MASTERDOWN)
    }
}

impl Rule<AnswerError> {
    /// Executes the request and sends the error in place of its reply.
    #[must_use]
    pub fn after_execution(mut self) -> Self {
        self.direction = Some(Direction::Reply);
        self
    }
}

impl MessageFault for AnswerError {
    const NAME: &'static str = "answer_error";

    fn verdict(&self) -> Verdict {
        Verdict::Answer(self.error.clone())
    }

    fn arguments(&self) -> Vec<Vec<u8>> {
        vec![self.error.as_bytes().to_vec()]
    }

    fn phrase(&self, direction: Option<Direction>) -> String {
        let place = match direction {
            Some(Direction::Reply) => "instead of the reply",
            Some(Direction::Request) | None => "instead of the execution",
        };
        format!("answer \"{}\" {place}", self.error.text())
    }
}
