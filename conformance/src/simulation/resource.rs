//! The resource that the lock protects: a counter on a host of its own, behind links as slow as those to the
//! lock's servers.
//!
//! Its rule for fencing tokens: every access raises its mark. It refuses a lower token, and an equal token of
//! another grant. It accepts an access without a token, because a lock without fencing tokens has none to
//! send.

use super::{
    held,
    network::Network,
    recorder::Recorder,
    scheduler::{Spawner, TaskOwner},
};
use crate::{
    history::{Access, What},
    scenario::Direction,
    vocabulary::OpId,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::oneshot;

/// A message to the resource.
#[derive(Clone, Copy)]
pub(super) struct Message {
    pub(super) grant: OpId,
    pub(super) fence: Option<u64>,
    pub(super) access: Access,
    /// Value to write.
    pub(super) value: u64,
}

#[derive(Default)]
struct State {
    value: u64,
    /// Highest token so far, and the grant that carried it.
    mark: Option<(u64, OpId)>,
    /// Arrival of the latest message of a client, per direction: messages keep their order.
    due: BTreeMap<(u8, bool), Duration>,
    /// Number of replies that have reached each client process.
    replies: BTreeMap<u8, u64>,
}

impl State {
    /// Returns the value that was read or written; `None` if the access is refused.
    fn serve(&mut self, message: Message) -> Option<u64> {
        if let Some(fence) = message.fence {
            let refused = self
                .mark
                .is_some_and(|(mark, of)| fence < mark || (fence == mark && of != message.grant));
            if refused {
                return None;
            }
            self.mark = Some((fence, message.grant));
        }
        if message.access == Access::Write {
            self.value = message.value;
        }
        Some(self.value)
    }
}

pub(super) struct Resource {
    state: Mutex<State>,
    network: Arc<Network>,
    recorder: Recorder,
    spawner: Spawner,
}

impl Resource {
    pub(super) fn new(network: Arc<Network>, recorder: Recorder, spawner: Spawner) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            network,
            recorder,
            spawner,
        })
    }

    /// Sends a message for a client process. It arrives even if the sender crashes. Returns `None` if it was
    /// refused.
    pub(super) fn send(
        self: &Arc<Self>,
        host: u8,
        message: Message,
    ) -> oneshot::Receiver<Option<u64>> {
        let (answer, answered) = oneshot::channel();
        let resource = Arc::clone(self);
        let travel = async move {
            resource.travel(host, Direction::Requests).await;
            let served = resource.serve(message);
            resource.travel(host, Direction::Replies).await;
            *held(&resource.state).replies.entry(host).or_default() += 1;
            let _ = answer.send(served);
        };
        self.spawner.spawn(TaskOwner::Link(host), Box::pin(travel));
        answered
    }

    /// Returns the number of replies that have reached a client process.
    pub(super) fn replies(&self, host: u8) -> u64 {
        let state = held(&self.state);
        state.replies.get(&host).copied().unwrap_or(0)
    }

    async fn travel(&self, host: u8, direction: Direction) {
        let plan = self.network.plan(host);
        if let Some(plan) = plan {
            plan.pass(direction, &self.recorder).await;
        }
        let now = self.recorder.now();
        let takes = plan.map(|plan| plan.delay(direction, now));
        let due = {
            let mut state = held(&self.state);
            let way = (host, direction == Direction::Requests);
            let last = state.due.entry(way).or_default();
            *last = (now + takes.unwrap_or_default()).max(*last);
            *last
        };
        if due > now {
            self.recorder.sleep_until(due).await;
        }
    }

    fn serve(&self, message: Message) -> Option<u64> {
        let served = held(&self.state).serve(message);
        let Message {
            grant,
            fence,
            access,
            value,
        } = message;
        self.recorder.record(What::Resource {
            grant,
            fence,
            access,
            value: served.unwrap_or(value),
            refused: served.is_none(),
        });
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_rises_with_any_access_and_lower_or_foreign_tokens_are_refused() {
        let mut state = State::default();
        let mut access = |grant, fence, access, value| {
            state.serve(Message {
                grant,
                fence,
                access,
                value,
            })
        };
        assert_eq!(access(1, Some(5), Access::Read, 0), Some(0));
        assert_eq!(access(1, Some(5), Access::Write, 7), Some(7));
        assert_eq!(
            access(2, Some(5), Access::Read, 0),
            None,
            "equal, of another grant"
        );
        assert_eq!(
            access(2, Some(6), Access::Read, 0),
            Some(7),
            "a read raises the mark"
        );
        assert_eq!(access(1, Some(5), Access::Write, 8), None);
        assert_eq!(
            access(3, None, Access::Write, 9),
            Some(9),
            "without a token"
        );
        assert_eq!(access(2, Some(6), Access::Read, 0), Some(9));
    }
}
