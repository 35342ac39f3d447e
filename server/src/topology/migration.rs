//! MIGRATE between the nodes of a deployment, executed at one instant. The engine defines the
//! requests and the replies.

use super::network::{NetworkState, is_running};
use crate::engine::{Migration, UnixMicros};
use crate::node_handle::LockedNode;

impl NetworkState {
    /// Moves keys from one node to another.
    pub(super) fn migrate(
        &self,
        from: usize,
        migration: &Migration,
        locked: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(here) = self.index_of(from, locked) else {
            return;
        };
        let to = self.nodes.iter().position(|(_, at)| *at == migration.to);
        let to = to.filter(|to| self.connectivity.is_reachable(from, *to));
        let there = to.and_then(|to| self.index_of(to, locked));
        let Some(there) = there.filter(|there| !locked[*there].node.is_crashed()) else {
            let target = &mut locked[here];
            target.node.change(target.shared, now, |engine, now| {
                engine.migration_is_refused(migration, now);
            });
            return;
        };
        if !is_running(&locked[there]) {
            let target = &mut locked[here];
            target.node.change(target.shared, now, |engine, now| {
                engine.migration_hangs(migration, now);
            });
            return;
        }
        let source = &locked[here];
        let sent = source
            .node
            .engine
            .consign(migration, source.shared.node_time(now));
        let address = self.nodes[from].1.to_string();
        let mut answers = Vec::new();
        let target = &mut locked[there];
        target.node.change(target.shared, now, |engine, now| {
            answers = engine.receive(&address, &sent, now);
        });
        let source = &mut locked[here];
        source.node.change(source.shared, now, |engine, now| {
            engine.migrated(migration, &sent, &answers, now);
        });
    }
}
