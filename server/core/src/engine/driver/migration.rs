//! MIGRATE between two nodes, as `topology/` carries it out.

use super::{Engine, NodeApi as _, Outcome};
use crate::engine::dump;
use crate::engine::effect::Effect;
use crate::engine::notify::Class;
use crate::engine::peers::migration::{Consignment, Migration};
use crate::engine::time::UnixMicros;
use crate::resp::{Blob, ErrorReply, OwnedRequest, Reply};

impl Engine {
    /// Puts the keys up, as they are now.
    pub fn consign(&self, migration: &Migration, now: UnixMicros) -> Consignment {
        let state = self.state();
        let (db, now) = (state.data.db(migration.db), now.millis());
        let restore = match state.peers.cluster {
            Some(_) => "RESTORE-ASKING",
            None => "RESTORE",
        };
        let request = |key: &Blob, slot: u32| {
            let left = db.deadline(slot).map(|until| (until.0 - now.0).max(1));
            let left = left.unwrap_or(0).to_string();
            let payload = dump(db.value(slot), &state.config);
            let words = [restore.as_bytes(), key, left.as_bytes(), &payload];
            let replace = migration.replaces.then_some(&b"REPLACE"[..]);
            OwnedRequest::new(words.into_iter().chain(replace))
        };
        let live = migration.keys.iter().filter_map(|key| {
            let (slot, is_live) = db.find_live(key, now)?;
            is_live.then(|| (key.clone(), request(key, slot)))
        });
        Consignment {
            greeting: migration.greeting.clone(),
            keys: live.collect(),
        }
    }

    /// Answers another node; as far as it does so now.
    pub fn receive(&mut self, from: &str, what: &Consignment, now: UnixMicros) -> Vec<Reply> {
        let conn = match self.connect(from, now) {
            Ok(conn) => conn,
            Err(refusal) => return vec![refusal.into()],
        };
        let keys = what.keys.iter().map(|(_, request)| request);
        let mut answers = Vec::new();
        for request in what.greeting.iter().chain(keys) {
            let request = request.as_request();
            match request.map(|request| self.handle(conn, request, now)) {
                Some(Outcome::Reply(reply)) => answers.push(reply),
                Some(Outcome::Parked | Outcome::Silent) | None => break,
            }
        }
        self.disconnect(conn);
        answers
    }

    /// Commits the keys that have arrived, and replies to the caller.
    pub fn migrated(
        &mut self,
        migration: &Migration,
        sent: &Consignment,
        answers: &[Reply],
        now: UnixMicros,
    ) {
        let state = self.state_mut();
        state.unit.begin(now);
        let (greeted, restored) = answers.split_at(sent.greeting.len().min(answers.len()));
        let greeting_error = greeted.iter().find_map(error);
        let mut first_error = greeting_error;
        for ((key, _), answer) in sent.keys.iter().zip(restored) {
            if let Some(error) = greeting_error.or_else(|| error(answer)) {
                first_error = first_error.or(Some(error));
            } else if !migration.copies
                && let Some(slot) = state.data.db(migration.db).find(key)
            {
                state.data.db_mut(migration.db).remove(slot);
                state.propagate_command(migration.db, &[b"DEL", key]);
                state.touched(migration.db, key);
                state.notify(migration.db, Class::Generic, "del", key);
            }
        }
        let is_complete = restored.len() == sent.keys.len();
        let reply = match first_error {
            Some(error) => {
                let text = format!("ERR Target instance replied with error: {}", error.text());
                Some(Reply::error(text))
            }
            None => is_complete.then_some(Reply::Ok),
        };
        match reply {
            Some(reply) => self.end_migration(migration, reply, now),
            None => self.migration_hangs(migration, now),
        }
    }

    /// The other node cannot be reached.
    pub fn migration_is_refused(&mut self, migration: &Migration, now: UnixMicros) {
        self.end_migration(migration, migration.to.unreachable().into(), now);
    }

    fn end_migration(&mut self, migration: &Migration, reply: Reply, now: UnixMicros) {
        let state = self.state_mut();
        state.unit.begin(now);
        if state.clients.waiters.remove(migration.conn).is_some() {
            if let Reply::Error(error) = &reply {
                state.introspection.stats.count_error(error);
            }
            state.answer(migration.conn, reply);
        }
        self.follow_up(now);
    }

    /// The other node does not answer: this node serves no client until the caller's timeout.
    pub fn migration_hangs(&mut self, migration: &Migration, now: UnixMicros) {
        let until = now.plus(migration.timeout);
        self.state_mut().unit.outbox.push(Effect::Stall { until });
        self.follow_up(now);
    }
}

fn error(reply: &Reply) -> Option<&ErrorReply> {
    let Reply::Error(error) = reply else {
        return None;
    };
    Some(error)
}
