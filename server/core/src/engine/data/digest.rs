//! DEBUG DIGEST: a hash of all that is stored, which does not depend on the order of keys; equal on
//! Redis and here for equal data.
//!
//! Source: `debug.c: computeDatasetDigest`.

use super::Data;
use super::keyspace::Db;
use crate::engine::value::Digest;

/// Adds the value at a slot (`debug.c: xorObjectDigest`).
fn mix_slot(digest: &mut Digest, db: &Db, slot: u32) {
    digest.mix_value(db.value(slot));
    if db.deadline(slot).is_some() {
        digest.add(b"!!expire!!");
    }
}

impl Data {
    /// The digest of everything, in hexadecimal digits.
    pub(in crate::engine) fn digest(&self) -> String {
        let mut digest = Digest::default();
        for (index, db) in (0_u32..)
            .zip(self.databases())
            .filter(|(_, db)| !db.is_empty())
        {
            digest.mix(&index.to_be_bytes());
            let mut at = 0;
            while let Some(slot) = db.next_used(at) {
                at = slot + 1;
                let mut key = Digest::default();
                key.mix(db.key(slot));
                mix_slot(&mut key, db, slot);
                digest.add_digest(key);
            }
        }
        digest.hex()
    }

    /// Returns the digest of one value; that of no data if the key does not exist.
    pub(in crate::engine) fn value_digest(&self, db: usize, key: &[u8]) -> String {
        let mut digest = Digest::default();
        let db = self.db(db);
        if let Some(slot) = db.find(key) {
            mix_slot(&mut digest, db, slot);
        }
        digest.hex()
    }
}
