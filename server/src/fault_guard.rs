//! The guard of a message fault.

use crate::fault::{MessageRule, Ruled};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A fault that is installed. Dropping the guard removes the fault and lets the messages go on that
/// it still holds.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redis::AsyncTypedCommands;
/// use redouble::{Server, fault::AnswerError};
///
/// let server = Server::start().await?;
/// let mut redis = server.connection().await?;
/// let readonly = server.inject(AnswerError::readonly().command("SET")).expect(1); // checked on drop
/// assert!(redis.set("k", "v").await.is_err());
/// assert_eq!(readonly.fired(), 1);
/// # Ok(()) }
/// ```
///
/// A fault that the test does not meet as often as expected fails the test:
/// ```should_panic
/// # let server = redouble::Server::start_blocking().expect("a port");
/// use redouble::fault::Disconnect;
///
/// let lost = server.inject(Disconnect::after_execution().command("SET")).expect(1);
/// drop(lost); // the fault "..." was expected to hit 1 message and has hit 0: tests/jobs.rs:12:72
/// ```
#[must_use = "the fault is removed when this is dropped"]
pub struct FaultGuard {
    owner: Arc<dyn Ruled>,
    id: u64,
    fired: Arc<AtomicU64>,
    /// The rule as it prints itself.
    name: String,
    expected: Option<ExpectedHits>,
}

/// The number of messages that a fault is expected to hit, and the line of the test that says so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedHits {
    count: u64,
    caller: &'static Location<'static>,
}

impl ExpectedHits {
    /// Expects `count` messages, for the caller of the method that calls this.
    #[track_caller]
    pub(crate) fn by_caller(count: u64) -> Self {
        Self {
            count,
            caller: Location::caller(),
        }
    }

    /// The message about a fault that has hit another number of messages.
    pub(crate) fn unlike(self, fired: u64, name: &str) -> Option<String> {
        let count = self.count;
        let messages = if count == 1 { "message" } else { "messages" };
        (fired != count).then(|| {
            format!(
                "the fault \"{name}\" was expected to hit {count} {messages} and has hit {fired}"
            )
        })
    }

    /// The same with the line of the test.
    pub(crate) fn unmet(self, fired: u64, name: &str) -> Option<String> {
        let wrong = self.unlike(fired, name)?;
        Some(format!("{wrong}: {}", self.caller))
    }
}

impl FaultGuard {
    pub(crate) fn install(owner: Arc<dyn Ruled>, rule: Box<dyn MessageRule>) -> Self {
        let name = format!("{rule:?}");
        let (id, fired) = owner.plan().install(rule);
        Self {
            owner,
            id,
            fired,
            name,
            expected: None,
        }
    }

    /// Number of messages that the fault has hit.
    pub fn fired(&self) -> u64 {
        self.fired.load(Ordering::Acquire)
    }

    /// Expects the fault to hit exactly `n` messages by the time the guard is dropped. The drop panics
    /// if they were more or fewer, unless the thread panics already; the message names the line that
    /// called this method.
    #[track_caller]
    pub fn expect(mut self, n: u64) -> Self {
        self.expected = Some(ExpectedHits::by_caller(n));
        self
    }

    /// Asserts the number of messages that the fault has hit so far.
    ///
    /// # Panics
    /// If they were more or fewer, in the line of the test that called it.
    #[track_caller]
    pub fn assert_fired(&self, n: u64) {
        let wrong = ExpectedHits::by_caller(n).unlike(self.fired(), &self.name);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }

    /// The rule as it prints itself.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Removes the fault. Messages that it holds go on, except those that wait for a
    /// [`Gate`](crate::fault::Gate) of the test.
    ///
    /// # Panics
    /// If the fault has not hit as many messages as [`expect`](Self::expect) said.
    pub fn remove(self) {}

    /// Removes the fault: the word for a partition.
    ///
    /// # Panics
    /// As [`remove`](Self::remove).
    pub fn heal(self) {}
}

impl fmt::Debug for FaultGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (fired {} times)", self.name, self.fired())
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        let _removed_otherwise = self.owner.plan().remove(self.id);
        let expected = self.expected.take();
        let wrong = expected.and_then(|expected| expected.unmet(self.fired(), &self.name));
        if let Some(wrong) = wrong
            && !std::thread::panicking()
        {
            panic!("{wrong}");
        }
    }
}
