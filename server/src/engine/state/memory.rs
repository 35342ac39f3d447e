//! `maxmemory` as it concerns several parts: eviction of keys, and the estimate of all memory.

use super::State;
use crate::engine::data::Excess;
use crate::engine::data::memory::STARTUP_BYTES;

impl State {
    /// `maxmemory` or the policy has changed: evicts what is too much.
    pub(in crate::engine) fn bound_memory(&mut self) {
        self.data.bound(&self.config);
        // No request waits for the answer.
        let _fits = self.make_room();
    }

    /// Evicts keys until the rest fits; false if it does not (`evict.c: performEvictions`).
    pub(in crate::engine) fn make_room(&mut self) -> bool {
        if self.clients.pause.is_on()
            || self.peers.replication.is_replica() && self.config.replica_ignore_maxmemory
        {
            return true;
        }
        let fits = loop {
            match self.data.excess(&self.config, self.unit.now().millis()) {
                Excess::None => break true,
                Excess::Stays => break false,
                Excess::Evict { db, slot } => {
                    let key = self.data.db(db).key(slot).clone();
                    self.evict(db, &key);
                }
            }
        };
        self.end_plain_stream_unit();
        fits
    }

    /// Estimated memory of an empty server and all data, bytes.
    pub(in crate::engine) fn memory_bytes(&mut self) -> usize {
        let bytes = STARTUP_BYTES + self.data.size_bytes(&self.config);
        self.introspection.note_memory(bytes);
        bytes
    }
}
