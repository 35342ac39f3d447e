//! `maxmemory` as it concerns several parts: eviction of keys, and the estimate of all memory.

use super::State;
use super::clients_limit::LARGE_REQUEST_BYTES;
use crate::engine::data::Excess;
use crate::engine::data::memory::STARTUP_BYTES;

impl State {
    /// Evicts keys after a change of `maxmemory` or of the policy. The eviction waits for the end of the unit, because
    /// Redis evicts no key within a transaction (`evict.c: startEvictionTimeProc`).
    pub(in crate::engine) fn bound_memory(&mut self) {
        self.data.bound(&self.config);
        self.unit.evicts_behind = true;
        self.unit.has_sequel = true;
    }

    /// Evicts keys after a unit that changed `maxmemory`; returns false if the unit did not.
    pub(in crate::engine) fn evict_behind(&mut self) -> bool {
        let evicts = std::mem::take(&mut self.unit.evicts_behind);
        if evicts {
            // No request waits for the answer.
            let _fits = self.make_room();
        }
        evicts
    }

    /// Evicts keys until the rest fits; false if it does not (`evict.c: performEvictions`).
    pub(in crate::engine) fn make_room(&mut self) -> bool {
        if self.clients.pause.is_on()
            || self.peers.replication.is_replica() && self.config.replica_ignore_maxmemory
        {
            return true;
        }
        let cycle = self.start_watch();
        let buffered = self.buffered_bytes();
        let now = self.unit.now().millis();
        let fits = loop {
            match self.data.excess(buffered, &self.config, now) {
                Excess::None => break true,
                Excess::Stays => break false,
                Excess::Evict { db, slot } => {
                    let key = self.data.db(db).key(slot).clone();
                    let watch = self.start_watch();
                    self.evict(db, &key);
                    if let Some(watch) = watch {
                        self.stop_watch(&watch, "eviction-del");
                    }
                }
            }
        };
        if let Some(cycle) = cycle {
            self.stop_watch(&cycle, "eviction-cycle");
        }
        self.end_plain_stream_unit();
        fits
    }

    /// Bytes of large requests and replies that clients have waiting (`evict.c: getMaxmemoryState`).
    fn buffered_bytes(&self) -> usize {
        if self.config.maxmemory == 0 {
            return 0;
        }
        let sessions = self.clients.sessions.iter_unordered();
        let sessions = sessions.filter(|session| !session.reads_stream());
        sessions
            .map(|session| {
                let input = session.unread_input + session.parsed_input;
                let is_large = input > LARGE_REQUEST_BYTES;
                session.output.get() + if is_large { input } else { 0 }
            })
            .sum()
    }

    /// Estimated memory of an empty server and all data, bytes.
    pub(in crate::engine) fn memory_bytes(&mut self) -> usize {
        let bytes = STARTUP_BYTES + self.data.size_bytes(&self.config);
        self.introspection.note_memory(bytes);
        bytes
    }
}
