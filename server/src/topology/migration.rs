//! MIGRATE between the nodes of a deployment, done at one instant. What is said and answered is the
//! engine's.

use super::replica::{NetworkState, listens, seat};
use crate::engine::{Migration, UnixMicros};
use crate::node_handle::LockedNode;

impl NetworkState {
    /// Keys go from a node to another.
    pub(super) fn migrate(
        &self,
        from: usize,
        migration: &Migration,
        seats: &mut [LockedNode<'_>],
        now: UnixMicros,
    ) {
        let Some(here) = seat(self, from, seats) else {
            return;
        };
        let to = self.nodes.iter().position(|(_, at)| *at == migration.to);
        let to = to.filter(|to| self.breaks.is_open(from, *to));
        let there = to.and_then(|to| seat(self, to, seats));
        let Some(there) = there.filter(|there| !seats[*there].node.is_crashed()) else {
            let seat = &mut seats[here];
            seat.node.change(seat.shared, now, |engine, now| {
                engine.end_migration(migration, migration.to.unreachable().into(), now);
            });
            return;
        };
        if !listens(&seats[there]) {
            let seat = &mut seats[here];
            seat.node.change(seat.shared, now, |engine, now| {
                engine.migration_hangs(migration, now);
            });
            return;
        }
        let source = &seats[here];
        let sent = source
            .node
            .engine
            .consign(migration, source.shared.node_time(now));
        let address = self.nodes[from].1.to_string();
        let mut answers = Vec::new();
        let target = &mut seats[there];
        target.node.change(target.shared, now, |engine, now| {
            answers = engine.receive(&address, &sent, now);
        });
        let source = &mut seats[here];
        source.node.change(source.shared, now, |engine, now| {
            engine.migrated(migration, &sent, &answers, now);
        });
    }
}
