//! DEBUG DIGEST: a hash of all that is stored, which does not depend on the order of keys; equal on
//! Redis and here for equal data.
//!
//! Source: `debug.c: computeDatasetDigest`.

use super::State;
use super::keyspace::Db;
use super::value::Value;
use sha1_smol::Sha1;

/// A digest in the making.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Digest([u8; 20]);

impl Digest {
    /// Adds something whose place does not matter.
    fn add(&mut self, bytes: &[u8]) {
        let hash = Sha1::from(bytes).digest().bytes();
        self.0
            .iter_mut()
            .zip(hash)
            .for_each(|(own, byte)| *own ^= byte);
    }

    /// Adds something in its place.
    fn mix(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::from(self.0).digest().bytes();
    }

    fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Adds the value at a slot (`debug.c: xorObjectDigest`).
    fn mix_value(&mut self, db: &Db, slot: u32) {
        let value = db.value(slot);
        let kind: u32 = match value {
            Value::String(_) => 0,
            Value::List(_) => 1,
            Value::Hash(_) => 4,
        };
        self.mix(&kind.to_be_bytes());
        match value {
            Value::String(text) => self.mix(text),
            Value::List(list) => list.iter().for_each(|element| self.mix(element)),
            Value::Hash(hash) => {
                for (field, value) in hash.iter() {
                    let mut pair = Self::default();
                    pair.mix(field);
                    pair.mix(value);
                    self.add(&pair.0);
                }
            }
        }
        if db.deadline(slot).is_some() {
            self.add(b"!!expire!!");
        }
    }
}

impl State {
    /// The digest of everything, in hexadecimal digits.
    pub(crate) fn digest(&self) -> String {
        let mut digest = Digest::default();
        for (index, db) in (0_u32..).zip(&self.dbs).filter(|(_, db)| db.len() > 0) {
            digest.mix(&index.to_be_bytes());
            let mut at = 0;
            while let Some(slot) = db.next_used(at) {
                at = slot + 1;
                let mut key = Digest::default();
                key.mix(db.key(slot));
                key.mix_value(db, slot);
                digest.add(&key.0);
            }
        }
        digest.hex()
    }

    /// The digest of one value; of nothing, if there is no such key.
    pub(crate) fn value_digest(&self, db: usize, key: &[u8]) -> String {
        let mut digest = Digest::default();
        let db = &self.dbs[db];
        if let Some(slot) = db.find(key) {
            digest.mix_value(db, slot);
        }
        digest.hex()
    }
}
