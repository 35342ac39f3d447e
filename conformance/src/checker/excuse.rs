//! What may explain that a lock did not do in time what it promised. Each excuse has a near miss: something that differs in one
//! thing, and convicts. Tests hold a history for both: with the excuse off the first one convicts, and with it on the second
//! one does. The book's table of excuses is generated from here.

use super::Property;
use crate::history::Excuse;

impl Excuse {
    /// All excuses, in the order of the properties.
    pub const ALL: [Self; 75] = [
        Self::ConcurrentGrants,
        Self::ClearedAway,
        Self::OwnTokenFound,
        Self::LastMillisecond,
        Self::ClockSetBack,
        Self::SharedExpiry,
        Self::OwnersToken,
        Self::RestGivenUp,
        Self::MajorityStays,
        Self::GivesUpEarly,
        Self::BrokenConnection,
        Self::WaitsInProcess,
        Self::ConnectionOfOneCall,
        Self::SeveralConnections,
        Self::LostScript,
        Self::SplitVotes,
        Self::OutOfTime,
        Self::WakeUpLost,
        Self::TaskInFront,
        Self::PauseAfterFault,
        Self::PauseBeforePlace,
        Self::SlowClock,
        Self::HeadStopped,
        Self::RenewalsFailed,
        Self::GrantedAtTheEnd,
        Self::ScriptLostAtTheEnd,
        Self::OtherRequest,
        Self::AcquiredAgain,
        Self::LevelTaken,
        Self::ExtensionInFlight,
        Self::EndMovedByClock,
        Self::RequestsInARow,
        Self::EndsWithLease,
        Self::ClosedConnection,
        Self::PlaceInQueue,
        Self::LateLevel,
        Self::RequestOutstanding,
        Self::StoppedBetweenRequests,
        Self::OwnRequestHarmed,
        Self::FirstConnection,
        Self::SecondCut,
        Self::PauseBeforeRetry,
        Self::LatchNotSetUp,
        Self::KeyOfAnother,
        Self::GrantOfProcess,
        Self::KeptForHold,
        Self::LateRequest,
        Self::LeaseWithoutServer,
        Self::Search,
        Self::Sweep,
        Self::CleanUpFailed,
        Self::PlaceOfPermit,
        Self::SubscriptionStruck,
        Self::InnerRelease,
        Self::ForgottenLevel,
        Self::Reserved,
        Self::HeldInProcess,
        Self::ReaderOfProcess,
        Self::RivalWaits,
        Self::NodeUnheard,
        Self::RefusedOutOfTime,
        Self::EarlierRequest,
        Self::UndoneMeanwhile,
        Self::GrantedTooLate,
        Self::PartExpired,
        Self::DeadlinePassed,
        Self::LengthenedLater,
        Self::WrongServerClock,
        Self::LossReported,
        Self::GivenBackByAnother,
        Self::FaultBefore,
        Self::EndIsNear,
        Self::CalledBack,
        Self::FewForgot,
        Self::AsksAgain,
    ];

    /// The property whose judge accepts it.
    #[must_use]
    pub const fn property(self) -> Property {
        match self {
            Self::ConcurrentGrants => Property::Fencing,
            Self::ClearedAway | Self::OwnTokenFound => Property::Linearizable,
            Self::LastMillisecond
            | Self::ClockSetBack
            | Self::SharedExpiry
            | Self::OwnersToken
            | Self::RestGivenUp
            | Self::MajorityStays => Property::Ownership,
            Self::GivesUpEarly => Property::Progress,
            Self::AsksAgain => Property::Continuity,
            Self::BrokenConnection
            | Self::WaitsInProcess
            | Self::ConnectionOfOneCall
            | Self::SeveralConnections
            | Self::LostScript
            | Self::SplitVotes
            | Self::OutOfTime => Property::Liveness,
            Self::WakeUpLost | Self::TaskInFront | Self::PauseAfterFault | Self::HeadStopped => {
                Property::WakeUp
            }
            Self::PauseBeforePlace | Self::SlowClock => Property::Fairness,
            Self::RenewalsFailed
            | Self::GrantedAtTheEnd
            | Self::OtherRequest
            | Self::ScriptLostAtTheEnd
            | Self::AcquiredAgain
            | Self::LevelTaken
            | Self::ExtensionInFlight
            | Self::EndMovedByClock => Property::Renewal,
            Self::RequestsInARow
            | Self::EndsWithLease
            | Self::ClosedConnection
            | Self::PlaceInQueue
            | Self::LateLevel => Property::Cancellation,
            Self::RequestOutstanding
            | Self::StoppedBetweenRequests
            | Self::OwnRequestHarmed
            | Self::FirstConnection => Property::Timeouts,
            Self::SecondCut
            | Self::PauseBeforeRetry
            | Self::LatchNotSetUp
            | Self::KeyOfAnother
            | Self::GrantOfProcess
            | Self::KeptForHold => Property::LostReply,
            Self::LateRequest
            | Self::LeaseWithoutServer
            | Self::Search
            | Self::Sweep
            | Self::CleanUpFailed
            | Self::PlaceOfPermit
            | Self::SubscriptionStruck => Property::CleanUp,
            Self::InnerRelease
            | Self::ForgottenLevel
            | Self::Reserved
            | Self::HeldInProcess
            | Self::ReaderOfProcess
            | Self::RivalWaits
            | Self::NodeUnheard
            | Self::RefusedOutOfTime
            | Self::EarlierRequest
            | Self::UndoneMeanwhile
            | Self::GrantedTooLate
            | Self::PartExpired
            | Self::DeadlinePassed
            | Self::LengthenedLater
            | Self::WrongServerClock
            | Self::LossReported
            | Self::GivenBackByAnother
            | Self::FaultBefore
            | Self::EndIsNear
            | Self::CalledBack => Property::Truth,
            Self::FewForgot => Property::GroundedBelief,
        }
    }

    /// What the judge accepts, in a sentence.
    #[must_use]
    pub const fn explains(self) -> &'static str {
        match self {
            Self::ConcurrentGrants => {
                "two acquisitions are under way at the same time: their replies may arrive in any order"
            }
            Self::ClearedAway => {
                "the process of a holder removes what the servers still store of its grant after the holder's own deadline: it needs \
                 no release for this, since the holder no longer relies on the grant"
            }
            Self::LastMillisecond => {
                "a grant is over in the last millisecond of its lease: a lock that compares deadlines itself counts whole milliseconds"
            }
            Self::ClockSetBack => {
                "a server's clock that was set back makes a lease longer than it was given: a request of another client takes that back"
            }
            Self::SharedExpiry => {
                "owners that hold a lock together share the expiry of its key: a request of one of them makes it longer"
            }
            Self::OwnersToken => {
                "all grants of an owner have the same token: giving one of them back frees the others too"
            }
            Self::PlaceOfPermit => {
                "a semaphore has a place for each of its permits: an expired token stays in its place until a client needs it"
            }
            Self::ConnectionOfOneCall => {
                "a connection that a process dials for one call and closes replaces no broken one"
            }
            Self::SeveralConnections => {
                "a process has fewer connections to the node than it had or will have, so one that it dialled need not replace the \
                 broken one"
            }
            Self::AcquiredAgain => {
                "the owner acquires the lock again under the same token, which extends it: \
                 the lock is reentrant, or its token names the owner"
            }
            Self::ExtensionInFlight => {
                "a request to extend a grant was sent before its release began, or goes on with a row of requests that was begun before, and \
                 lands after it"
            }
            Self::OwnRequestHarmed => {
                "a call ends early because one of its requests failed, or its process did not run"
            }
            Self::SplitVotes => {
                "a node failed, and the votes of the others were split: they decided neither a grant nor a refusal"
            }
            Self::NodeUnheard => {
                "a node did not answer a request of the call, so it does not count as free"
            }
            Self::FirstConnection => {
                "the first call of a process takes another request timeout to connect"
            }
            Self::Sweep => {
                "a task cleans up for a lease at most: it sends one request after the other, with pauses of at most an eighth of the lease"
            }
            Self::CleanUpFailed => {
                "a request that removes a key fails, and its process repeats it after a pause of at most an eighth of the lease"
            }
            Self::SubscriptionStruck => {
                "a fault strikes the request that ends a lingering subscription, so the client sends it again"
            }
            Self::InnerRelease => {
                "the owner of a reentrant lock has another grant that it has not given back, and that is not over by its own deadline or \
                 still stands: its release removes nothing"
            }
            Self::ForgottenLevel => {
                "a call of the owner of a reentrant lock, or one of its requests, had no answer, the call was granted the lock too \
                 late, or its guard was dropped: until a lease after the last request of that call landed, the token may have a level \
                 that the owner does not count, so a \
                 release removes nothing"
            }
            Self::Reserved => {
                "a release reserves the lock for the waiter that it wakes: other calls are refused, also of the same process"
            }
            Self::HeldInProcess => {
                "another task of the same process has a grant that it has not released, or its call to acquire the lock \
                 is under way: a lock may exclude the tasks of a process in the process"
            }
            Self::ReaderOfProcess => {
                "another reader of the same process has the lock: a lock may exclude the readers of a process from one \
                 another"
            }
            Self::RivalWaits => {
                "another client waits for what the call cannot share, a writer or more permits, and may go first"
            }
            Self::OutOfTime => {
                "a call ends in an error because its wait is over while one of its requests is outstanding"
            }
            Self::RefusedOutOfTime => {
                "the wait of a call is over while the only server has not answered one of its requests: it may say that it was not \
                 granted the lock"
            }
            Self::EarlierRequest => {
                "a node executes a request of an earlier call of the process meanwhile, so it does not count as free"
            }
            Self::UndoneMeanwhile => {
                "an earlier call of the process without an answer is still being undone, by requests that follow one \
                 another: a token that appears meanwhile may be that call's"
            }
            Self::PartExpired => {
                "the servers store the grant in several places, and it expired in one of them: an extension may say \
                 that the lock was lost, and the release that removes the others may say that it released the lock, or that the lock was lost"
            }
            Self::GrantedTooLate => {
                "the reply to a request of the call takes as long as the lease, less a tenth: a grant would be over, and a lock may \
                 report that as a refusal"
            }
            Self::WaitsInProcess => {
                "another task of the same process has a grant that it has not released: the lock may exclude the tasks of a \
                 process in the process, so the waiter asks the servers only after that"
            }
            Self::BrokenConnection => {
                "a call ends in an error because it finds a connection broken that no request has touched since"
            }
            Self::LostScript => {
                "a call ends in an error because the server tells its process for the first time that a script is lost"
            }
            Self::TaskInFront => {
                "another task of the same process has a grant that it has not released, or asked before: the lock may exclude the \
                 tasks of a process in the process, so the waiter asks the server only after that"
            }
            Self::WakeUpLost => {
                "the waiter's own connection broke, and there was no time to subscribe again before the release, whose message may be lost"
            }
            Self::PauseAfterFault => {
                "a fault ends shortly before the call, or the call finds a connection broken: its process pauses before it sends a \
                 request again"
            }
            Self::PauseBeforePlace => {
                "a fault ends shortly before the call, or the call finds a connection broken: its process pauses before it asks for a \
                 place in the queue"
            }
            Self::SlowClock => {
                "the clock of a waiter runs slower than the lock tolerates: its place becomes stale, and its next place counts"
            }
            Self::HeadStopped => {
                "a process that waits in front of the waiter does not run, or its requests reach the server and it hears no replies"
            }
            Self::RenewalsFailed => {
                "requests to extend the grant failed until there was no time for another one"
            }
            Self::GrantedAtTheEnd => {
                "the client is told of the grant when there is no time for a request to extend it"
            }
            Self::ScriptLostAtTheEnd => {
                "the server lost the script when there was no time for another request"
            }
            Self::EndMovedByClock => {
                "the clock of the server was set back, and the end of a grant that several share a key with moves by no more than that when another \
                 grant sets the expiry of the key"
            }
            Self::RequestsInARow => {
                "undoing a call takes several requests, each sent as soon as the one before has its reply: to dial \
                 anew, to load a script again"
            }
            Self::ClosedConnection => {
                "a request of the call lands after its process has closed the connection and tried to undo it: the process has an eighth of \
                 a lease more"
            }
            Self::DeadlinePassed => {
                "the client's deadline has passed and the token ends within a quarter of a lease: the release says that the lock was lost"
            }
            Self::RestGivenUp => {
                "an extension on several nodes finds that no majority stores the grant, removes what is left of it, and says so"
            }
            Self::MajorityStays => {
                "a late request of the process takes a part of its own grant away, for instance the undoing of an earlier round under the \
                 same token, and a majority of the nodes goes on storing it"
            }
            Self::GivesUpEarly => {
                "the new client's call ends before its wait is over, which P13 judges: it does not show that the lock was taken until then"
            }
            Self::AsksAgain => {
                "the process of the grant asks for the lock again meanwhile, perhaps with the same token"
            }
            Self::EndsWithLease => {
                "nearly all of the token's lease is over: the client's own deadline has passed, and it leaves the rest to the server"
            }
            Self::PlaceInQueue => {
                "after a fault the place of a call in a queue stays until another client asks: this client removes it, \
                 because its waiter no longer counts as alive"
            }
            Self::LateLevel => {
                "a request of an earlier call of the owner of a reentrant lock lands when that call has ended, and the token has its \
                 level for a lease"
            }
            Self::RequestOutstanding => "a request is outstanding when the wait is over",
            Self::StoppedBetweenRequests => {
                "the process is stopped after the end of the wait, between two requests: it sends the next one when it \
                 runs again"
            }
            Self::OtherRequest => {
                "the request that failed was sent for the acquisition, or while the process asks for another grant: it need not be an extension"
            }
            Self::KeyOfAnother => {
                "another client has a key on the same server: a lock with several keys has to wait for it"
            }
            Self::GrantOfProcess => "on several servers, another task of the process has the lock",
            Self::KeptForHold => {
                "the owner has released the token, which the lock keeps for its minimum hold"
            }
            Self::LevelTaken => {
                "the owner of a reentrant lock releases one of several levels, and the release extends the others"
            }
            Self::LengthenedLater => {
                "the client's deadline has passed; only a request that landed later, or another call of the owner, made the token longer: \
                 the release says that the lock was lost"
            }
            Self::WrongServerClock => {
                "the client's deadline has passed, and the clock of the server was wrong while it stored the token: the release says that \
                 the lock was lost"
            }
            Self::LossReported => {
                "the lock has reported the loss of the grant, and an extension or the release says the same"
            }
            Self::FaultBefore => {
                "a fault has struck the client or a server before the lock reports the loss"
            }
            Self::EndIsNear => {
                "a quarter of the lease or less is left when the lock reports the loss: it may be too late to extend the grant"
            }
            Self::CalledBack => "a shared grant is called back for other clients",
            Self::GivenBackByAnother => {
                "another task of the process has a grant with the same token, and its release removes the token meanwhile: this \
                 release says that the lock was lost"
            }
            Self::OwnTokenFound => {
                "the owner of a reentrant lock asks again while the servers store its token, for a guard that was dropped or a call that had \
                 no answer: the new grant may keep the rest of that lease if it names that deadline"
            }
            Self::LatchNotSetUp => {
                "the server answers a wait at a latch that the latch is not set up, and the call ends with that answer"
            }
            Self::SecondCut => "a second cut of the connection to the same node hits the retry",
            Self::PauseBeforeRetry => {
                "the process pauses before it asks again, for as long as the lock says"
            }
            Self::LateRequest => {
                "a request lands when its connection has ended, and its token stays for a lease"
            }
            Self::LeaseWithoutServer => {
                "a client cannot reach the server for a lease after its call, or the server answers it with errors for so \
                 long, so its place in the queue stays until its key expires"
            }
            Self::Search => {
                "a task looks for a request that had no answer, or an error as its answer, for a lease; so it may if a call \
                 found a connection broken, which may have carried a request, and if it was cancelled before its reply arrived"
            }
            Self::FewForgot => {
                "more nodes forgot the grant than the majority bears: the lock cannot know"
            }
        }
    }

    /// What differs in one thing and convicts, in a sentence.
    #[must_use]
    pub const fn near_miss(self) -> &'static str {
        match self {
            Self::ConcurrentGrants => {
                "the server stores the grants in the other order: the tokens were taken before the grants"
            }
            Self::ClearedAway => "another client removes it",
            Self::OwnTokenFound => "the token was removed before, and the call stores it again",
            Self::LatchNotSetUp => "a client has set up the latch",
            Self::LastMillisecond => "a whole millisecond of the lease is left",
            Self::ClockSetBack => "the request leaves less than the lease that was given",
            Self::SharedExpiry => "the request makes it shorter",
            Self::OwnersToken => "the token names the grant",
            Self::PlaceOfPermit => "there are more tokens than permits",
            Self::ConnectionOfOneCall => "the connection stays open, and replaces the broken one",
            Self::SeveralConnections => "the process has all of its connections",
            Self::AcquiredAgain => "the lock is not reentrant, and its token names the grant",
            Self::ExtensionInFlight => "the request was sent after the release",
            Self::EndMovedByClock => "the end moves by more than the clock was set back",
            Self::OwnRequestHarmed => "the request failed before the call",
            Self::NodeUnheard => "the request failed before the call",
            Self::SplitVotes => "the other nodes are free",
            Self::FirstConnection => "the process had called before",
            Self::Sweep => "the task stays when it sends no more requests",
            Self::CleanUpFailed => "the request is answered",
            Self::SubscriptionStruck => "the fault strikes when the subscription had to be gone",
            Self::InnerRelease => "the other grant was released before",
            Self::ForgottenLevel => "the release comes more than a lease after that",
            Self::Reserved => "the server stores nothing but the place of the caller in a queue",
            Self::HeldInProcess => "the other call is one of another process",
            Self::ReaderOfProcess => "the other reader is one of another process",
            Self::RivalWaits => "the other client does not wait",
            Self::OutOfTime | Self::RefusedOutOfTime => {
                "the request is answered before the wait is over"
            }
            Self::EarlierRequest => "the node executed that request before the call",
            Self::UndoneMeanwhile => "no request of that call is under way any more",
            Self::GrantedTooLate => "the reply takes half of the lease",
            Self::PartExpired => "the release removes all of them, and says that the lock was lost",
            Self::WaitsInProcess => "the grant is one of another process",
            Self::BrokenConnection => "the next call of the process ends in an error too",
            Self::LostScript => "the server has told the process before",
            Self::TaskInFront => "the grant is one of another process",
            Self::WakeUpLost => "the connection of another waiter broke",
            Self::PauseAfterFault | Self::PauseBeforePlace => {
                "the fault ends a request timeout and the longest pause before the call, and the process has replaced the connection"
            }
            Self::SlowClock => "the clock is off by no more than the lock tolerates",
            Self::HeadStopped => "the process in front has left the queue, and no waiter was woken",
            Self::RenewalsFailed => "one reply is lost, and the lock makes no other attempt",
            Self::GrantedAtTheEnd => "a third of the lease is left",
            Self::ScriptLostAtTheEnd => {
                "the script is lost early, and the lock reports the loss of the grant at once"
            }
            Self::RequestsInARow => "the lock waits for a second before it cleans up",
            Self::EndsWithLease => "a fifteenth of the lease is left",
            Self::RestGivenUp => "two of three servers still store the grant",
            Self::MajorityStays => "two of three servers have lost it then",
            Self::GivesUpEarly => "the call waits to its end",
            Self::AsksAgain => "another process asks",
            Self::ClosedConnection => "the server had executed the request before",
            Self::DeadlinePassed => "the token stays for half a lease",
            Self::PlaceInQueue => "the place stays when the other client has asked",
            Self::LateLevel => "that request had its reply",
            Self::RequestOutstanding => "the lock sleeps past the end of the wait, and asks then",
            Self::StoppedBetweenRequests => {
                "the process runs again, and sends its next request a second later"
            }
            Self::OtherRequest => "another process asks for a grant",
            Self::KeyOfAnother => "the other client gave its key back before the reply was lost",
            Self::GrantOfProcess => "the call of the other task was refused",
            Self::KeptForHold => "the release leaves the expiry of the token as it was",
            Self::LevelTaken => "the release leaves all of the levels",
            Self::LengthenedLater => "the request landed before the deadline",
            Self::WrongServerClock => "the clock is wrong only after the release",
            Self::LossReported => "the lock has not reported it",
            Self::GivenBackByAnother => "the release of that task says so too",
            Self::FaultBefore => "the fault has struck another client",
            Self::EndIsNear => "a third of the lease is left",
            Self::CalledBack => "the grant is exclusive",
            Self::SecondCut => "the other cut hits the connection to another node",
            Self::PauseBeforeRetry => {
                "the process has asked again, and its own token kept it from the lock"
            }
            Self::LateRequest => "a place in a queue is left as well, and its request was on time",
            Self::LeaseWithoutServer => "the server is back after half a lease",
            Self::Search => "the request had its answer",
            Self::FewForgot => {
                "the lock extends the grant and counts the nodes that had forgotten it"
            }
        }
    }
}

#[cfg(test)]
mod tests;
