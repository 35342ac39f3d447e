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
    expected: Option<Expected>,
}

/// The number of messages that the fault is to hit, and the line of the test that says so.
struct Expected {
    count: u64,
    caller: &'static Location<'static>,
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
        self.expected = Some(Expected {
            count: n,
            caller: Location::caller(),
        });
        self
    }

    /// Asserts the number of messages that the fault has hit so far.
    ///
    /// # Panics
    /// If they were more or fewer, in the line of the test that called it.
    #[track_caller]
    pub fn assert_fired(&self, n: u64) {
        let wrong = self.unlike(n);
        assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    }

    /// The message about a fault that has not hit `n` messages.
    fn unlike(&self, n: u64) -> Option<String> {
        let fired = self.fired();
        let messages = if n == 1 { "message" } else { "messages" };
        let name = &self.name;
        (fired != n).then(|| {
            format!("the fault \"{name}\" was expected to hit {n} {messages} and has hit {fired}")
        })
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
        if let Some(Expected { count, caller }) = self.expected.take()
            && let Some(wrong) = self.unlike(count)
            && !std::thread::panicking()
        {
            panic!("{wrong}: {caller}");
        }
    }
}
