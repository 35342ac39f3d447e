//! Deadlines of the fields of a hash.

use super::Hash;
use crate::engine::time::UnixMillis;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A hash with the deadlines of its fields. A clone shares the deadlines.
#[derive(Clone, Debug)]
pub(crate) struct Timed {
    /// The hash has no deadlines.
    pub(super) hash: Hash,
    deadlines: Arc<BTreeMap<Vec<u8>, UnixMillis>>,
}

impl Timed {
    pub(super) fn new(hash: Hash) -> Self {
        Self {
            hash,
            deadlines: Arc::default(),
        }
    }

    pub(super) fn deadline(&self, field: &[u8]) -> Option<UnixMillis> {
        self.deadlines.get(field).copied()
    }

    pub(super) fn set_deadline(&mut self, field: &[u8], deadline: Option<UnixMillis>) {
        match deadline {
            Some(deadline) => {
                Arc::make_mut(&mut self.deadlines).insert(field.to_vec(), deadline);
            }
            None if self.deadlines.contains_key(field) => {
                Arc::make_mut(&mut self.deadlines).remove(field);
            }
            None => {}
        }
    }

    pub(super) fn first_deadline(&self) -> Option<UnixMillis> {
        self.deadlines.values().min().copied()
    }

    pub(super) fn remove_expired(&mut self, now: UnixMillis) -> Vec<Vec<u8>> {
        let expired = self
            .deadlines
            .iter()
            .filter(|(_, deadline)| now > **deadline);
        let mut expired: Vec<(UnixMillis, Vec<u8>)> = expired
            .map(|(field, deadline)| (*deadline, field.clone()))
            .collect();
        expired.sort();
        let names: Vec<Vec<u8>> = expired.into_iter().map(|(_, field)| field).collect();
        for field in &names {
            self.set_deadline(field, None);
            self.hash.remove(field);
        }
        names
    }
}
