//! The names of the explanations that judges accept. What each one says is the judges' business: see `checker/excuse.rs`.

/// An explanation that a judge accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// A call found a connection broken.
    BrokenConnection,
    /// A server had lost a script.
    LostScript,
    /// The waiter's own message was lost.
    WakeUpLost,
    /// A process that is in front in the queue does not run.
    HeadStopped,
    /// Requests to extend a grant failed until there was no time for another one.
    RenewalsFailed,
    /// A script was lost when there was no time for another request.
    ScriptLostAtTheEnd,
    /// Undoing a call takes several requests.
    RequestsInARow,
    /// A request was outstanding when the wait was over.
    RequestOutstanding,
    /// A second cut hit the retry.
    SecondCut,
    /// A request landed when its connection had ended.
    LateRequest,
    /// A task looks for a request that had no answer.
    Search,
    /// Few enough nodes forgot a grant.
    FewForgot,
}
