//! The digest that DEBUG DIGEST builds (`debug.c`).

use super::Value;
use sha1_smol::Sha1;

/// A digest in the making.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Digest([u8; 20]);

impl Digest {
    /// Adds something whose place does not matter.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let hash = Sha1::from(bytes).digest().bytes();
        self.0
            .iter_mut()
            .zip(hash)
            .for_each(|(own, byte)| *own ^= byte);
    }

    /// Adds something in its place.
    pub(crate) fn mix(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::from(self.0).digest().bytes();
    }

    /// Adds a digest whose place does not matter.
    pub(crate) fn add_digest(&mut self, other: Self) {
        self.add(&other.0);
    }

    /// Adds a value with its type.
    pub(crate) fn mix_value(&mut self, value: &Value) {
        self.mix(&value.kind().row().object_type.to_be_bytes());
        value.as_type().digest(self);
    }

    pub(crate) fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
