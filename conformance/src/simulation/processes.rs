//! Starts the client processes of a run, and the probe after them.

use super::{held, player::Player, world::World};
use crate::{
    scenario::Op,
    vocabulary::{Actor, OpId, PROBE_HOST},
};
use std::sync::Arc;
use tokio::sync::OnceCell;

impl World {
    /// Starts a client process with the remaining operations of its actors.
    pub(super) fn start(self: &Arc<Self>, id: u8, from_ms: u64) {
        let host = self.host(id);
        let lock = Arc::new(OnceCell::new());
        let actors = self.scenario.actors();
        for actor in actors.into_iter().filter(|actor| actor.host == id) {
            held(&self.busy).insert(actor);
            let events = self
                .scenario
                .ops()
                .filter(|&(event, who, _)| who == actor && event.at_ms >= from_ms);
            let events: Vec<(OpId, u64, Op)> = events
                .map(|(event, _, op)| (event.id, event.at_ms, op))
                .collect();
            let player = Player {
                world: Arc::clone(self),
                host: host.clone(),
                actor,
                lock: Arc::clone(&lock),
                own: OnceCell::new(),
                grants: Vec::new(),
                name: None,
            };
            host.spawn(player.play(events));
        }
    }

    /// Makes a player on a host without faults, which starts after all others.
    pub(super) fn prober(self: &Arc<Self>) -> Player {
        Player {
            world: Arc::clone(self),
            host: self.host(PROBE_HOST),
            actor: Actor::on(PROBE_HOST),
            lock: Arc::default(),
            own: OnceCell::new(),
            grants: Vec::new(),
            name: None,
        }
    }
}
