//! The names of the excuses that checkers accept. `checker/excuse.rs` says what each one explains.

/// An excuse that a checker accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// Two acquisitions were under way at the same time.
    ConcurrentGrants,
    /// A grant was in the last millisecond of its lease.
    LastMillisecond,
    /// A clock that was set back had made a lease longer.
    ClockSetBack,
    /// Owners share the expiry of a key.
    SharedExpiry,
    /// All grants of an owner have the same token.
    OwnersToken,
    /// An extension that finds the grant lost on a majority removes the rest of it.
    RestGivenUp,
    /// A majority of several nodes goes on storing the grant from which a request of its own process takes a part.
    MajorityStays,
    /// The call that looks for a free lock ended before its wait was over.
    GivesUpEarly,
    /// A call found a connection broken.
    BrokenConnection,
    /// A task waits for another one of its process.
    WaitsInProcess,
    /// A connection was dialled for one call alone.
    ConnectionOfOneCall,
    /// A process uses several connections to a node, and has not replaced all of them.
    SeveralConnections,
    /// A server had lost a script.
    LostScript,
    /// A node that failed would have decided the votes.
    SplitVotes,
    /// The wait of a call was over while one of its requests was outstanding.
    OutOfTime,
    /// The same, for a call that says that it was not granted the lock.
    RefusedOutOfTime,
    /// The message that would have woken the waiter was lost.
    WakeUpLost,
    /// The process of a waiter pauses after a fault before it sends its next request.
    PauseAfterFault,
    /// The same, for a waiter that has no place in a queue yet.
    PauseBeforePlace,
    /// Another task of the waiter's process is in front of it.
    TaskInFront,
    /// The clock of a waiter ran slower than the lock tolerates.
    SlowClock,
    /// A process in front of the waiter in the queue does not run.
    HeadStopped,
    /// Requests to extend a grant failed until there was no time for another one.
    RenewalsFailed,
    /// The grant came when there was no time for a request to extend it.
    GrantedAtTheEnd,
    /// A script was lost when there was no time for another request.
    ScriptLostAtTheEnd,
    /// A request that failed was sent for something else than an extension.
    OtherRequest,
    /// The owner acquires the lock again under the same token.
    AcquiredAgain,
    /// A release takes one of several levels away.
    LevelTaken,
    /// A request to extend a grant was sent before its release, and landed after it.
    ExtensionInFlight,
    /// The end of a token that shares a key moved because the clock of the server was set back.
    EndMovedByClock,
    /// Undoing a call takes several requests.
    RequestsInARow,
    /// A token ends with its lease, nearly all of which is over.
    EndsWithLease,
    /// A request of the call lands after its process has closed the connection.
    ClosedConnection,
    /// A place in a queue stays until the next client asks.
    PlaceInQueue,
    /// A request of an earlier call of the owner landed late.
    LateLevel,
    /// A request was outstanding when the wait was over.
    RequestOutstanding,
    /// A process is stopped between two requests of a call.
    StoppedBetweenRequests,
    /// A request of the call failed.
    OwnRequestHarmed,
    /// A process connects for the first time.
    FirstConnection,
    /// A second cut hit the retry.
    SecondCut,
    /// The process pauses before it asks again.
    PauseBeforeRetry,
    /// A wait ends at a latch that is not set up.
    LatchNotSetUp,
    /// Another client has a key of the lock.
    KeyOfAnother,
    /// Another task of the process has the lock on several nodes.
    GrantOfProcess,
    /// A released token stays for a minimum hold.
    KeptForHold,
    /// A request landed when its connection had ended.
    LateRequest,
    /// A client reached no server for a lease after its call.
    LeaseWithoutServer,
    /// A task looks for a request that had no answer.
    Search,
    /// A task cleans up with several requests.
    Sweep,
    /// A request that cleans up failed, and its process pauses before it repeats it.
    CleanUpFailed,
    /// A semaphore has a place for each permit, in which an expired token stays.
    PlaceOfPermit,
    /// A fault struck the end of a lingering subscription.
    SubscriptionStruck,
    /// The owner of a reentrant lock releases one of several grants.
    InnerRelease,
    /// A call of the owner of a reentrant lock had no answer.
    ForgottenLevel,
    /// The lock is reserved for a waiter.
    Reserved,
    /// Another task of the process had the lock, or asked for it.
    HeldInProcess,
    /// A reader of the same process has the lock.
    ReaderOfProcess,
    /// Another client waits for what the call cannot share.
    RivalWaits,
    /// A node did not answer the requests of the call.
    NodeUnheard,
    /// A node executed a request of an earlier call of the process.
    EarlierRequest,
    /// An earlier call of the process that had no answer is still being undone.
    UndoneMeanwhile,
    /// The replies to a call took as long as the lease.
    GrantedTooLate,
    /// The process of a holder removed a grant after the holder's own deadline.
    ClearedAway,
    /// The servers still store the token of the owner of a reentrant lock when it asks again.
    OwnTokenFound,
    /// A grant that the servers store in several places expired in some of them.
    PartExpired,
    /// The client's deadline has passed, and the token ends soon.
    DeadlinePassed,
    /// A request that landed after the client's deadline made the token longer.
    LengthenedLater,
    /// The clock of a server was wrong while the token stood.
    WrongServerClock,
    /// The lock had reported the loss of the grant.
    LossReported,
    /// Another task of the process gave the same token back.
    GivenBackByAnother,
    /// A fault struck before a loss was reported.
    FaultBefore,
    /// The lease was nearly over when a loss was reported.
    EndIsNear,
    /// A shared grant was called back.
    CalledBack,
    /// Few enough nodes forgot a grant.
    FewForgot,
    /// The process asked for the lock again when a token was stored again.
    AsksAgain,
}
