//! A node as freshly started, with the connections that it has.

use crate::engine::Engine;
use crate::engine::state::State;
use crate::engine::time::UnixMicros;

impl Engine {
    /// Forgets everything but who is connected: data, scripts, parameters that were changed,
    /// statistics, its past as a replica. What clients watch has changed, if it was there; who waits
    /// for a key goes on waiting; a pause of clients has ended. It draws from its seed anew.
    pub(crate) fn reset(&mut self, now: UnixMicros) {
        let empty = State::new(self.start.clone(), self.tables.ordinary.len(), now);
        self.replace_databases(empty.data.databases(), now);
        let state = self.state_mut();
        state.end_failover();
        state.end_pause();
        self.follow_up(now);
        let state = self.state_mut();
        let old = std::mem::replace(state, empty);
        state.introspection.stats.connections = old.introspection.stats.connections;
        let seed = state.config.seed;
        state.peers.replication.adopt(old.peers.replication);
        state.clients.adopt(old.clients, seed);
        state.unit.outbox = old.unit.outbox;
        if old.peers.journal.is_some() {
            state.keep_journal();
        }
        self.set_sentinel(None);
    }
}
