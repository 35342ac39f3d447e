//! The fault `answer_error`: the server answers an error of a state that it is not in.

use super::rule::{MessageFault, Rule};
use super::{Direction, FaultSpec, Placement, Verdict};
use crate::engine::Flags;
use crate::resp::{ErrorReply, Request};
use redouble_core::command::{flags_of, keys_of};
use std::borrow::Cow;

pub(super) const SPEC: FaultSpec = FaultSpec {
    name: AnswerError::NAME,
    summary: "the server answers an error instead of executing a request, or in place of its reply",
    placement: Placement::Either,
    arguments: "LOADING|BUSY|OOM|READONLY|CLUSTERDOWN|TRYAGAIN|NOSCRIPT|MASTERDOWN|text",
    parse: Some(|mut words| {
        let error = words.take("an error", |word| {
            let is_it = |text: &&str| ErrorReply::new(text.to_string()).code().as_bytes() == word;
            let known = State::ALL.iter().find(|state| is_it(&state.text()));
            let text = known.map_or(word, |state| state.text().as_bytes());
            let state = known.copied();
            (!text.is_empty()).then(|| AnswerError {
                error: ErrorReply::from_bytes(text.to_vec()),
                state,
            })
        })?;
        words.rule(error)
    }),
};

/// A state in which a server answers an error to some commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Loading,
    Busy,
    Oom,
    ReadOnly,
    ClusterDown,
    TryAgain,
    NoScript,
    MasterDown,
}

impl State {
    /// The states; their errors can be given by their code alone.
    const ALL: [Self; 8] = [
        Self::Loading,
        Self::Busy,
        Self::Oom,
        Self::ReadOnly,
        Self::ClusterDown,
        Self::TryAgain,
        Self::NoScript,
        Self::MasterDown,
    ];

    /// The error that Redis answers in this state.
    const fn text(self) -> &'static str {
        match self {
            Self::Loading => "LOADING Redis is loading the dataset in memory",
            Self::Busy => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            }
            Self::Oom => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::ReadOnly => "READONLY You can't write against a read only replica.",
            Self::ClusterDown => "CLUSTERDOWN The cluster is down",
            Self::TryAgain => "TRYAGAIN Multiple keys request during rehashing of slot",
            Self::NoScript => "NOSCRIPT No matching script. Please use EVAL.",
            Self::MasterDown => {
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
            }
        }
    }

    /// Returns true if a server in this state refuses a request. A script counts as one that writes, unless its command is for
    /// scripts that only read.
    fn refuses(self, request: Request<'_>) -> bool {
        let name = request.name();
        let is = |names: &[&str]| {
            names
                .iter()
                .any(|it| name.eq_ignore_ascii_case(it.as_bytes()))
        };
        let writes_in_script = || is(&["eval", "evalsha", "fcall"]);
        let reads_in_script = || is(&["eval_ro", "evalsha_ro", "fcall_ro"]);
        let Some(flags) = flags_of(request) else {
            return false;
        };
        match self {
            Self::Loading => !flags.has(Flags::LOADING),
            Self::Busy => !flags.has(Flags::ALLOW_BUSY),
            Self::Oom => flags.has(Flags::DENYOOM) || writes_in_script(),
            Self::ReadOnly => flags.has(Flags::WRITE) || writes_in_script(),
            Self::ClusterDown | Self::TryAgain => !keys_of(request).is_empty(),
            Self::NoScript => is(&["evalsha", "evalsha_ro"]),
            Self::MasterDown => !flags.has(Flags::STALE) || writes_in_script() || reads_in_script(),
        }
    }
}

/// Answers an error instead of executing a request, or after executing it
/// ([`after_execution`](Rule::after_execution)). If the client turned replies off, it gets no error
/// either.
///
/// The error of a state, such as [`loading`](Self::loading), answers the commands that Redis refuses in this state: while it
/// loads its data it still answers MULTI, and a replica still answers GET. A rule that selects
/// [commands](Rule::command) answers it to these commands, whichever they are.
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
    /// The state of a server that answers this error; `None` for any other error.
    state: Option<State>,
}

impl AnswerError {
    /// Any error: its code, a space, its text.
    pub fn new(text: impl Into<Cow<'static, str>>) -> Rule<Self> {
        Self::rule(ErrorReply::new(text), None)
    }

    fn rule(error: ErrorReply, state: Option<State>) -> Rule<Self> {
        Rule::new(Self { error, state }, Some(Direction::Request))
    }

    fn of(state: State) -> Rule<Self> {
        Self::rule(ErrorReply::new(state.text()), Some(state))
    }

    /// The server is loading its data after a start.
    pub fn loading() -> Rule<Self> {
        Self::of(State::Loading)
    }

    /// A script has been running for too long.
    pub fn busy() -> Rule<Self> {
        Self::of(State::Busy)
    }

    /// Memory is full, and the policy forbids eviction.
    pub fn oom() -> Rule<Self> {
        Self::of(State::Oom)
    }

    /// The server has become a replica.
    pub fn readonly() -> Rule<Self> {
        Self::of(State::ReadOnly)
    }

    /// The cluster has lost slots or its majority.
    pub fn clusterdown() -> Rule<Self> {
        Self::of(State::ClusterDown)
    }

    /// The keys of the request are on both sides of a slot migration.
    pub fn tryagain() -> Rule<Self> {
        Self::of(State::TryAgain)
    }

    /// The script is not in the server's cache.
    pub fn noscript() -> Rule<Self> {
        Self::of(State::NoScript)
    }

    /// The replica has lost its master and does not serve stale data.
    pub fn masterdown() -> Rule<Self> {
        Self::of(State::MasterDown)
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

    fn concerns(&self, request: Request<'_>) -> bool {
        self.state.is_none_or(|state| state.refuses(request))
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
