//! A node as freshly started, with the connections that it has.

use super::time::UnixMicros;
use super::{Engine, State};

impl Engine {
    /// Forgets everything but who is connected: data, scripts, parameters that were changed,
    /// statistics, its past as a replica. What clients watch has changed, if it was there; who waits
    /// for a key goes on waiting; a pause of clients has ended. It draws from its seed anew.
    pub(crate) fn reset(&mut self, now: UnixMicros) {
        let empty = State::new(self.start.clone(), self.tables.ordinary.len(), now);
        self.replace_databases(&empty.dbs, now);
        let state = self.state_mut();
        state.end_failover();
        state.end_pause();
        self.follow_up(now);
        let state = self.state_mut();
        let mut old = std::mem::replace(state, empty);
        state.stats.connections = old.stats.connections;
        state.replication = std::mem::take(&mut old.replication).anew();
        state.sessions = std::mem::take(&mut old.sessions);
        state.waiters = std::mem::take(&mut old.waiters);
        state.pubsub = std::mem::take(&mut old.pubsub);
        state.tracking = std::mem::take(&mut old.tracking);
        state.pause = std::mem::take(&mut old.pause);
        state.watches = std::mem::take(&mut old.watches);
        state.monitors = std::mem::take(&mut old.monitors);
        state.outbox = std::mem::take(&mut old.outbox);
        if old.journal.is_some() {
            state.keep_journal();
        }
        self.set_sentinel(None);
    }
}
