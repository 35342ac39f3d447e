//! `timeout`: the node disconnects clients that have been idle for too long.
//!
//! *Policy* (`timeout.c: clientsCronHandleTimeout`): whole seconds count. Waiters, subscribers and monitors
//! may be idle for ever.

use super::State;
use crate::engine::clients::session::Session;
use crate::engine::config::Config;
use crate::engine::effect::Effect;
use crate::engine::time::{UnixMicros, UnixMillis};

/// Time at which a client is disconnected that is idle since `since`.
fn welcome_until(since: UnixMicros, config: &Config) -> UnixMillis {
    let seconds = i64::try_from(config.timeout.as_secs()).unwrap_or(i64::MAX);
    let end = since.0.div_euclid(1_000_000).saturating_add(seconds);
    UnixMillis(end.saturating_add(1).saturating_mul(1000).saturating_sub(1))
}

/// The earliest time at which a client can be idle for too long; `None` without a timeout.
pub(in crate::engine) fn first_check(config: &Config, now: UnixMicros) -> Option<UnixMillis> {
    (!config.timeout.is_zero()).then(|| welcome_until(now, config))
}

impl State {
    /// Goes on with another configuration.
    pub(in crate::engine) fn configure(&mut self, config: Config, now: UnixMicros) {
        let before = std::mem::replace(&mut self.config, config);
        let timeout = before.timeout;
        self.acl
            .set_all_channels(self.config.acl_pubsub_default_allchannels);
        if before.requirepass != self.config.requirepass {
            self.acl.set_default_password(&self.config.requirepass);
        }
        if (before.maxmemory, before.maxmemory_policy)
            != (self.config.maxmemory, self.config.maxmemory_policy)
        {
            self.bound_memory();
        }
        self.announce();
        if let Some(stream) = &mut self.peers.stream {
            let size = usize::try_from(self.config.number_of("repl-backlog-size")).unwrap_or(0);
            stream.limit_backlog(size);
        }
        let append_only = self.config.append_only();
        if before.append_only() != append_only {
            let offset = self.peers.replication.offset;
            self.peers.replication.file.set_policy(append_only, offset);
            self.unit.outbox.push(Effect::KeepWrites(append_only));
        }
        if timeout != self.config.timeout {
            self.plan_idle_check(now);
        }
    }

    /// Plans the next check for the time at which the first client may be idle for too long. A client that sends
    /// something meanwhile, or connects, is due later.
    fn plan_idle_check(&mut self, now: UnixMicros) {
        let Some(latest) = first_check(&self.config, now) else {
            self.clients.set_idle_check(None);
            return;
        };
        let sessions = self
            .clients
            .sessions
            .iter()
            .filter(|session| self.may_time_out(session));
        let ends = sessions.map(|session| welcome_until(session.last_used_at, &self.config));
        self.clients
            .set_idle_check(Some(ends.fold(latest, UnixMillis::min)));
    }

    fn may_time_out(&self, session: &Session) -> bool {
        let is_waiting = self.clients.waiters.get(session.conn).is_some()
            || self.clients.pause.request_of(session.conn).is_some();
        !is_waiting && !session.is_subscribed && !session.is_monitor && !session.reads_stream()
    }

    /// Disconnects the clients that have been idle for too long.
    pub(in crate::engine) fn kick_idle(&mut self, now: UnixMicros) {
        let sessions = self
            .clients
            .sessions
            .iter()
            .filter(|session| self.may_time_out(session));
        let silent = sessions
            .filter(|session| now.millis() > welcome_until(session.last_used_at, &self.config));
        let silent: Vec<_> = silent.map(|session| session.conn).collect();
        for conn in silent {
            tracing::debug!(
                client_id = conn.client_id(),
                "an idle client is disconnected"
            );
            self.kick(conn);
        }
        self.plan_idle_check(now);
    }
}
