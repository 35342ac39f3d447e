//! Operations of `topology/` on a sentinel.

use super::Engine;
use crate::engine::channel::Space;
use crate::engine::conn_id::ConnId;
use crate::engine::effect::Effect;
use crate::engine::peers::replication::Address;
use crate::engine::peers::sentinel::{Sentinel, Watched};
use crate::engine::state::State;
use crate::engine::time::UnixMicros;
use std::time::Duration;

impl Engine {
    /// Makes the node a sentinel, which holds no data.
    pub fn become_sentinel(&mut self) {
        let state = self.state_mut();
        let id = state.introspection.run_id().to_owned();
        self.set_sentinel(Some(Box::new(Sentinel::new(id))));
    }

    /// Makes the node a sentinel or an ordinary node, with the commands of its role.
    pub(in crate::engine) fn set_sentinel(&mut self, sentinel: Option<Box<Sentinel>>) {
        let table = match sentinel {
            Some(_) => self.tables.sentinel,
            None => self.tables.ordinary,
        };
        let is_other = !std::ptr::eq(table, self.table);
        self.table = table;
        let commands = self.table.len();
        let state = self.state_mut();
        if is_other {
            state.use_catalogue(table.catalogue(), sentinel.is_some());
        }
        state.peers.sentinel = sentinel;
        state.introspection.stats.count_for(commands);
        state.guards_writes();
    }

    /// The id under which other nodes know this one.
    pub fn run_id(&self) -> &str {
        self.state().introspection.run_id()
    }

    /// Replication offset, bytes.
    pub fn replication_offset(&self) -> u64 {
        self.state().peers.replication.offset
    }

    /// Ends the sessions of all clients but monitors and replicas, as CLIENT KILL with the types `normal` and `pubsub` does.
    pub fn end_sessions(&mut self, now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        let sessions = state.clients.sessions.iter();
        let clients = sessions.filter(|session| !session.is_monitor && !session.reads_stream());
        let clients: Vec<ConnId> = clients.map(|session| session.conn).collect();
        for conn in clients {
            state.kick(conn);
        }
        self.follow_up(now);
    }

    /// Number of sentinels that have to see the master as down, and the time for which this one has to; `None` if it
    /// watches no master.
    pub fn sentinel_vote(&self) -> Option<(usize, Duration)> {
        let sentinel = self.state().peers.sentinel.as_ref()?;
        let watched = sentinel.watched.as_ref()?;
        Some((watched.quorum, watched.down_after))
    }

    /// Priority of the node as a successor of its master: the lowest goes first, and 0 is never promoted.
    pub fn replica_priority(&self) -> i64 {
        self.config().number_of("replica-priority")
    }

    /// Publishes events of a failover that this sentinel runs.
    pub fn tell_events(&mut self, events: &[(&str, String)], now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        for (channel, message) in events {
            state.tell_listeners(channel, message);
        }
        self.follow_up(now);
    }

    /// Ends the sentinel if it is to fail at this moment of a failover. True if it does.
    pub fn simulates_failure(&mut self, is_promotion: bool) -> bool {
        let state = self.state_mut();
        let ends = state.peers.sentinel.as_ref().map(|sentinel| sentinel.ends);
        let ends = ends.is_some_and(|ends| {
            if is_promotion {
                ends.after_promotion
            } else {
                ends.after_election
            }
        });
        if ends {
            state.unit.outbox.push(Effect::Shutdown);
        }
        ends
    }

    /// Updates the sentinel's view, and publishes what has changed.
    pub fn watch(&mut self, now_is: Watched, now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        let Some(sentinel) = &mut state.peers.sentinel else {
            return;
        };
        sentinel.told = Some(now_is.clone());
        if sentinel.is_removed {
            return;
        }
        let now_is = sentinel.adjusted(now_is);
        let before = sentinel.watched.replace(now_is.clone());
        let Some(before) = before.filter(|before| *before != now_is) else {
            return;
        };
        let (name, old, new) = (&now_is.name, &before.master, &now_is.master);
        let at = |address: &Address| format!("{} {}", address.host, address.port);
        let master = format!("master {name} {}", at(&new.address));
        if old.address != new.address {
            let switch = format!("{name} {} {}", at(&old.address), at(&new.address));
            state.tell_listeners(
                "+failover-end",
                &format!("master {name} {}", at(&old.address)),
            );
            state.tell_listeners("+switch-master", &switch);
        } else if old.is_down != new.is_down {
            let sign = if new.is_down { '+' } else { '-' };
            state.tell_listeners(&format!("{sign}sdown"), &master);
            state.tell_listeners(&format!("{sign}odown"), &master);
        }
        for replica in &now_is.replicas {
            let known = before
                .replicas
                .iter()
                .find(|known| known.address == replica.address);
            let text = format!(
                "slave {} {} @ {name} {}",
                replica.address,
                at(&replica.address),
                at(&new.address)
            );
            match known {
                None => state.tell_listeners("+slave", &text),
                Some(known) if known.is_down != replica.is_down => {
                    let sign = if replica.is_down { '+' } else { '-' };
                    state.tell_listeners(&format!("{sign}sdown"), &text);
                }
                Some(_) => {}
            }
        }
        self.follow_up(now);
    }
}

impl State {
    fn tell_listeners(&mut self, channel: &str, message: &str) {
        self.publish(Space::Channel, channel.as_bytes(), message.as_bytes());
    }
}
