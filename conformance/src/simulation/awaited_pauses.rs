//! Pauses of client processes that begin when replies have reached them.

use super::held;
use std::sync::Mutex;

/// The pauses of a run that wait for replies, and those that have begun after them.
#[derive(Default)]
pub(super) struct AwaitedPauses(Mutex<Vec<Pause>>);

struct Pause {
    host: u8,
    /// End of the fault, in milliseconds.
    until_ms: u64,
    /// Number of all replies that have reached the process when the pause begins.
    replies: u64,
    has_begun: bool,
}

impl AwaitedPauses {
    /// Adds a pause that begins when so many replies in all have reached a client process.
    pub(super) fn add(&self, host: u8, replies: u64, until_ms: u64) {
        held(&self.0).push(Pause {
            host,
            until_ms,
            replies,
            has_begun: false,
        });
    }

    /// Returns the number of pauses that begin now that `replies()` replies have reached the process.
    pub(super) fn begin(&self, host: u8, replies: impl FnOnce() -> u64) -> usize {
        let mut pauses = held(&self.0);
        if pauses.is_empty() {
            return 0;
        }
        let replies = replies();
        let due = |it: &&mut Pause| it.host == host && !it.has_begun && it.replies <= replies;
        let due = pauses.iter_mut().filter(due);
        due.map(|pause| pause.has_begun = true).count()
    }

    /// Ends the pauses of a client process that end at this time. Returns the number of those that had begun.
    pub(super) fn end(&self, host: u8, at_ms: u64) -> usize {
        let mut pauses = held(&self.0);
        let ended = pauses.extract_if(.., |it| it.host == host && it.until_ms == at_ms);
        ended.filter(|it| it.has_begun).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_begins_once_and_only_after_its_replies() {
        let pauses = AwaitedPauses::default();
        assert_eq!(pauses.begin(0, || 9), 0, "there is none");
        pauses.add(0, 5, 100);
        pauses.add(0, 7, 200);
        assert_eq!(pauses.begin(0, || 4), 0);
        assert_eq!(pauses.begin(1, || 9), 0, "another process");
        assert_eq!(pauses.begin(0, || 6), 1);
        assert_eq!(pauses.begin(0, || 6), 0, "it has begun");
        assert_eq!(pauses.end(0, 100), 1);
        assert_eq!(pauses.end(0, 100), 0, "it has ended");
        assert_eq!(pauses.end(0, 200), 0, "its replies did not come");
        assert_eq!(pauses.begin(0, || 9), 0);
    }
}
