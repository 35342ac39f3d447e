//! REDOUBLE.RESET: a node as freshly started, with the connections that it has.

use crate::engine::Engine;
use crate::engine::state::State;
use crate::engine::time::UnixMicros;

impl Engine {
    /// Forgets data, scripts, changed parameters, statistics and the node's past as a replica, and starts its generators
    /// from the seed again. Connections stay: watched keys that existed count as changed, waiters go on waiting, and a pause
    /// of clients ends. A connection whose user is gone belongs to `default` again.
    pub fn reset(&mut self, now: UnixMicros) {
        let empty = State::new(self.start.clone(), self.tables.ordinary.catalogue(), now);
        self.replace_databases(empty.data.databases(), now);
        self.state_mut()
            .replace_libraries(&empty.scripting.libraries);
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
        state.keep_users_of_sessions(&old.acl);
        state.unit.outbox = old.unit.outbox;
        if old.peers.journal.is_some() {
            state.keep_journal();
        }
        self.set_sentinel(None);
    }
}
