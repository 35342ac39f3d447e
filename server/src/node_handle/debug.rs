//! A node as `{:?}` prints it, in a few words: servers, connections and guards hold one.

use super::NodeHandle;
use std::fmt;

/// Clock, keys and connections; `busy` if another thread has the node. It never waits.
impl fmt::Debug for NodeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Node");
        self.describe(&mut text);
        text.finish()
    }
}

impl NodeHandle {
    /// Adds clock, keys, state and connections. Takes no lock that another thread holds.
    pub(crate) fn describe(&self, text: &mut fmt::DebugStruct<'_, '_>) {
        let shared = &self.shared;
        let now = shared.node_time(self.now()).millis();
        let clock = format!("{} {} ms", self.time.source.kind(), now.0);
        text.field("clock", &format_args!("{clock}"));
        match shared.try_node() {
            Some(node) => {
                let keys: usize = node.engine.databases().iter().map(|db| db.len()).sum();
                text.field("keys", &keys);
                let state = [
                    (node.is_crashed(), "crashed"),
                    (node.is_paused(), "paused"),
                    (shared.is_down(), "ended"),
                ];
                for (_, name) in state.iter().filter(|(is_so, _)| *is_so) {
                    text.field("state", &format_args!("{name}"));
                }
            }
            None => drop(text.field("state", &format_args!("busy"))),
        }
        text.field("connections", &shared.connection_count());
    }
}
