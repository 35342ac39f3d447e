//! Consumer groups: what a group has delivered, and which entries each consumer has not acknowledged.

use super::id::StreamId;
use super::shared_map::SharedMap;
use crate::engine::time::UnixMillis;
use crate::resp::Blob;
use std::sync::Arc;

/// A consumer of a group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConsumerNumber(u32);

/// An entry that was delivered and not acknowledged (`stream.h: streamNACK`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) consumer: ConsumerNumber,
    pub(crate) delivered_at: UnixMillis,
    pub(crate) deliveries: u64,
}

/// A consumer.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    pub(crate) name: Blob,
    /// Time of the last command of the consumer.
    pub(crate) seen_at: UnixMillis,
    /// Time at which entries became pending for it last (Redis 7.2).
    pub(crate) active_at: Option<UnixMillis>,
    pending: SharedMap<StreamId, ()>,
}

impl Consumer {
    /// Entries that were delivered to the consumer and not acknowledged.
    pub(crate) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Their ids, from `start` on.
    pub(crate) fn pending_from(&self, start: StreamId) -> impl Iterator<Item = StreamId> {
        self.pending.iter_from(start).map(|(id, ())| id)
    }
}

/// A consumer group.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConsumerGroup {
    /// The id that was delivered last.
    pub(crate) last_id: StreamId,
    /// How many entries of the stream are at or before `last_id`, counted from the first that was ever added;
    /// `None` if that is not known.
    pub(crate) entries_read: Option<u64>,
    pending: SharedMap<StreamId, Pending>,
    consumers: Vec<Option<Arc<Consumer>>>,
    /// Consumers, sorted by their names.
    by_name: Vec<ConsumerNumber>,
}

impl ConsumerGroup {
    pub(crate) fn new(last_id: StreamId, entries_read: Option<u64>) -> Self {
        Self {
            last_id,
            entries_read,
            ..Self::default()
        }
    }

    /// Pending entries of all consumers.
    pub(crate) fn pending(&self) -> &SharedMap<StreamId, Pending> {
        &self.pending
    }

    pub(crate) fn consumer_count(&self) -> usize {
        self.by_name.len()
    }

    /// The consumers, sorted by their names.
    pub(crate) fn consumers(&self) -> impl Iterator<Item = &Consumer> {
        self.by_name
            .iter()
            .filter_map(|number| self.consumer(*number))
    }

    pub(crate) fn consumer(&self, number: ConsumerNumber) -> Option<&Consumer> {
        self.consumers.get(number.0 as usize)?.as_deref()
    }

    fn consumer_mut(&mut self, number: ConsumerNumber) -> Option<&mut Consumer> {
        let consumer = self.consumers.get_mut(number.0 as usize)?.as_mut()?;
        Some(Arc::make_mut(consumer))
    }

    fn search(&self, name: &[u8]) -> Result<usize, usize> {
        self.by_name.binary_search_by(|number| {
            self.consumer(*number)
                .map_or(&b""[..], |consumer| &consumer.name)
                .cmp(name)
        })
    }

    /// The number of a consumer.
    pub(crate) fn find_consumer(&self, name: &[u8]) -> Option<ConsumerNumber> {
        let at = self.search(name).ok()?;
        Some(self.by_name[at])
    }

    /// Records the time at which a consumer sent a request.
    pub(crate) fn see(&mut self, number: ConsumerNumber, now: UnixMillis) {
        if let Some(consumer) = self.consumer_mut(number) {
            consumer.seen_at = now;
        }
    }

    /// Records the time at which entries became pending for a consumer.
    pub(crate) fn be_active(&mut self, number: ConsumerNumber, at: Option<UnixMillis>) {
        if let Some(consumer) = self.consumer_mut(number) {
            consumer.active_at = at;
        }
    }

    /// Adds a consumer; `None` if there is one of this name.
    pub(crate) fn add_consumer(&mut self, name: &[u8], now: UnixMillis) -> Option<ConsumerNumber> {
        let Err(place) = self.search(name) else {
            return None;
        };
        let consumer = Arc::new(Consumer {
            name: Blob::new(name),
            seen_at: now,
            active_at: None,
            pending: SharedMap::default(),
        });
        let free = self.consumers.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.consumers.push(None);
            self.consumers.len() - 1
        });
        self.consumers[at] = Some(consumer);
        let number = ConsumerNumber(u32::try_from(at).ok()?);
        self.by_name.insert(place, number);
        Some(number)
    }

    /// Removes a consumer and its pending entries; returns how many it had. `None` without such a consumer.
    pub(crate) fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let place = self.search(name).ok()?;
        let number = self.by_name.remove(place);
        let consumer = self.consumers.get_mut(number.0 as usize)?.take()?;
        for (id, ()) in consumer.pending.iter() {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// Makes an entry pending for a consumer, whatever it was before.
    pub(crate) fn deliver(
        &mut self,
        id: StreamId,
        consumer: ConsumerNumber,
        delivered_at: UnixMillis,
        deliveries: u64,
    ) {
        let pending = Pending {
            consumer,
            delivered_at,
            deliveries,
        };
        let before = self.pending.insert(id, pending);
        if let Some(before) = before {
            if before.consumer == consumer {
                return;
            }
            if let Some(other) = self.consumer_mut(before.consumer) {
                other.pending.remove(id);
            }
        }
        if let Some(consumer) = self.consumer_mut(consumer) {
            consumer.pending.insert(id, ());
        }
    }

    /// Counts another delivery of a pending entry to its consumer.
    pub(crate) fn deliver_again(&mut self, id: StreamId, now: UnixMillis) {
        if let Some(pending) = self.pending.get_mut(id) {
            pending.delivered_at = now;
            pending.deliveries = pending.deliveries.wrapping_add(1);
        }
    }

    /// Forgets a pending entry; false if it is not pending.
    pub(crate) fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(id) else {
            return false;
        };
        if let Some(consumer) = self.consumer_mut(pending.consumer) {
            consumer.pending.remove(id);
        }
        true
    }
}

/// The groups of a stream, sorted by their names.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups(Vec<(Blob, Arc<ConsumerGroup>)>);

impl Groups {
    fn search(&self, name: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(name))
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&ConsumerGroup> {
        let at = self.search(name).ok()?;
        Some(&self.0[at].1)
    }

    pub(super) fn get_mut(&mut self, name: &[u8]) -> Option<&mut ConsumerGroup> {
        let at = self.search(name).ok()?;
        Some(Arc::make_mut(&mut self.0[at].1))
    }

    /// False if there is a group of this name.
    pub(super) fn add(&mut self, name: &[u8], group: ConsumerGroup) -> bool {
        let Err(at) = self.search(name) else {
            return false;
        };
        self.0.insert(at, (Blob::new(name), Arc::new(group)));
        true
    }

    /// False without such a group.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        self.search(name).map(|at| self.0.remove(at)).is_ok()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Blob, &ConsumerGroup)> {
        self.0.iter().map(|(name, group)| (name, &**group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(7);

    fn pending(group: &ConsumerGroup, name: &[u8]) -> Vec<u64> {
        let consumer = group.find_consumer(name).expect("a consumer");
        let consumer = group.consumer(consumer).expect("a consumer");
        let pending: Vec<_> = consumer.pending_from(StreamId::MIN).collect();
        assert_eq!(pending.len(), consumer.pending_count());
        pending.into_iter().map(|id| id.ms).collect()
    }

    #[test]
    fn a_pending_entry_has_one_consumer() {
        let mut group = ConsumerGroup::default();
        let b = group.add_consumer(b"b", NOW).expect("a new consumer");
        let a = group.add_consumer(b"a", NOW).expect("a new consumer");
        assert!(group.add_consumer(b"a", NOW).is_none());
        let names: Vec<_> = group.consumers().map(|one| one.name.to_vec()).collect();
        assert_eq!(names, [b"a", b"b"]);
        for ms in [1, 2, 3] {
            group.deliver(StreamId::new(ms, 0), a, NOW, 1);
        }
        group.deliver(StreamId::new(2, 0), b, NOW, 5);
        assert_eq!(
            (pending(&group, b"a"), pending(&group, b"b")),
            (vec![1, 3], vec![2])
        );
        assert!(group.acknowledge(StreamId::new(1, 0)) && !group.acknowledge(StreamId::new(1, 0)));
        assert_eq!(group.remove_consumer(b"b"), Some(1));
        assert_eq!((group.pending().len(), pending(&group, b"a")), (1, vec![3]));
        // The place of the consumer that has gone is used again.
        let c = group.add_consumer(b"c", NOW).expect("a new consumer");
        assert_eq!((c, group.remove_consumer(b"b")), (b, None));
        assert_eq!(pending(&group, b"c"), []);
    }
}
