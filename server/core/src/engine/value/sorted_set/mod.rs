//! Sorted sets. Small ones are packed in one run of bytes, as a listpack is; big ones are a hash table of their members
//! and a tree of their scores that counts.
//!
//! Elements are in the order of their scores, and those of equal scores in the order of their members' bytes. Scores
//! are never NaN. A rank counts from the element with the lowest score.

mod chunked;
mod members;
mod order;
mod packed;
mod row;

pub(super) use row::ROW;

use crate::engine::config::Config;
use crate::engine::profile::{Profile, feature};
use crate::resp::{Blob, format_double, format_shortest};
use members::Members;
use order::{Item, ScoreOrder};
use packed::Packed;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Up to which size a sorted set is packed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SortedSetLimits {
    /// `zset-max-listpack-entries`.
    pub(crate) entries: usize,
    /// `zset-max-listpack-value`, bytes of a member.
    pub(crate) bytes: usize,
    /// For the hasher of a big one.
    pub(crate) seed: u64,
}

impl SortedSetLimits {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            entries: config.zset_max_listpack_entries,
            bytes: config.zset_max_listpack_value,
            seed: config.seed,
        }
    }
}

/// Members with their scores. A small one becomes big when an element is added beyond the limits, and stays so.
#[derive(Clone, Debug)]
pub(crate) struct SortedSet(Repr);

#[derive(Clone, Debug)]
enum Repr {
    Small(Packed),
    Big(Arc<Big>),
}

#[derive(Clone, Debug)]
struct Big {
    members: Members,
    order: ScoreOrder,
}

/// Compares elements as a sorted set orders them.
pub(crate) fn compare(a: (f64, &[u8]), b: (f64, &[u8])) -> Ordering {
    let by_score = a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal);
    by_score.then_with(|| a.1.cmp(b.1))
}

impl Big {
    fn new(seed: u64) -> Self {
        Self {
            members: Members::new(seed),
            order: ScoreOrder::default(),
        }
    }

    fn rank_of(&self, score: f64, member: &[u8]) -> usize {
        self.order.rank_where(|item| {
            item.score < score || item.score == score && **self.members.member(item.place) < *member
        })
    }

    fn insert(&mut self, member: &[u8], score: f64) {
        let rank = self.rank_of(score, member);
        let place = self.members.add(Blob::new(member), score);
        self.order.insert(rank, Item { score, place });
    }

    fn element(&self, item: Item) -> (Blob, f64) {
        (self.members.member(item.place).clone(), item.score)
    }
}

impl SortedSet {
    /// An empty one; a big one if its first member is to be `first_bytes` long and does not fit (`t_zset.c: zaddGenericCommand`).
    pub(crate) fn for_first(first_bytes: usize, limits: SortedSetLimits) -> Self {
        if limits.entries == 0 || first_bytes > limits.bytes {
            Self::big(limits.seed)
        } else {
            Self(Repr::Small(Packed::default()))
        }
    }

    fn big(seed: u64) -> Self {
        Self(Repr::Big(Arc::new(Big::new(seed))))
    }

    /// A sorted set of elements in any order, as small as the limits let it be (`t_zset.c: zsetConvertToListpackIfNeeded`).
    /// No member may come twice.
    pub(crate) fn from_elements(elements: Vec<(Blob, f64)>, limits: SortedSetLimits) -> Self {
        let is_small = elements.len() <= limits.entries
            && elements
                .iter()
                .all(|(member, _)| member.len() <= limits.bytes);
        Self::sorted(elements, is_small, limits.seed)
    }

    fn sorted(mut elements: Vec<(Blob, f64)>, is_small: bool, seed: u64) -> Self {
        elements.sort_by(|a, b| compare((a.1, &a.0), (b.1, &b.0)));
        if is_small {
            let mut packed = Packed::default();
            for (rank, (member, score)) in elements.into_iter().enumerate() {
                packed.insert(rank, &member, score);
            }
            return Self(Repr::Small(packed));
        }
        let mut big = Big::new(seed);
        for (member, score) in elements {
            let place = big.members.add(member, score);
            big.order.insert(big.order.len(), Item { score, place });
        }
        Self(Repr::Big(Arc::new(big)))
    }

    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Repr::Small(packed) => packed.len(),
            Repr::Big(big) => big.order.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True for one in a single run of bytes.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.0, Repr::Small(_))
    }

    /// Makes a packed one big.
    pub(crate) fn unpack(&mut self, seed: u64) {
        if let Repr::Small(packed) = &self.0 {
            let elements = packed::owned(packed.iter().collect()).collect();
            *self = Self::sorted(elements, false, seed);
        }
    }

    /// The score of a member.
    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Repr::Small(packed) => packed.find(member).map(|(_, score)| score),
            Repr::Big(big) => big
                .members
                .find(member)
                .map(|place| big.members.score(place)),
        }
    }

    /// The rank of a member, and its score.
    pub(crate) fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        match &self.0 {
            Repr::Small(packed) => packed.find(member),
            Repr::Big(big) => {
                let score = big.members.score(big.members.find(member)?);
                Some((big.rank_of(score, member), score))
            }
        }
    }

    /// Adds a missing member.
    pub(crate) fn insert(&mut self, member: &[u8], score: f64, limits: SortedSetLimits) {
        if let Repr::Small(packed) = &mut self.0 {
            if packed.len() < limits.entries && member.len() <= limits.bytes {
                insert_packed(packed, member, score);
                return;
            }
            self.unpack(limits.seed);
        }
        if let Repr::Big(big) = &mut self.0 {
            Arc::make_mut(big).insert(member, score);
        }
    }

    /// Changes the score of an existing member.
    pub(crate) fn set_score(&mut self, member: &[u8], score: f64) {
        match &mut self.0 {
            Repr::Small(packed) => {
                if let Some((rank, _)) = packed.find(member) {
                    packed.remove(rank..rank + 1);
                    insert_packed(packed, member, score);
                }
            }
            Repr::Big(big) => {
                let Some(place) = big.members.find(member) else {
                    return;
                };
                let big = Arc::make_mut(big);
                let rank = big.rank_of(big.members.score(place), member);
                big.order.remove(rank);
                let rank = big.rank_of(score, member);
                big.order.insert(rank, Item { score, place });
                big.members.set_score(place, score);
            }
        }
    }

    /// Removes a member; true if it existed.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        match self.rank(member) {
            Some((rank, _)) => {
                self.remove_range(rank..rank + 1);
                true
            }
            None => false,
        }
    }

    /// Removes the elements of a range of ranks.
    pub(crate) fn remove_range(&mut self, ranks: Range<usize>) {
        match &mut self.0 {
            Repr::Small(packed) => packed.remove(ranks),
            Repr::Big(big) => {
                let big = Arc::make_mut(big);
                for _ in ranks.start..ranks.end.min(big.order.len()) {
                    if let Some(item) = big.order.remove(ranks.start) {
                        big.members.remove(item.place);
                    }
                }
            }
        }
    }

    /// Number of elements at the beginning for which `is_before` holds; it holds for none behind them.
    pub(crate) fn rank_where(&self, is_before: impl Fn(f64, &[u8]) -> bool) -> usize {
        match &self.0 {
            Repr::Small(packed) => {
                let mut elements = packed.iter();
                elements
                    .position(|element| !is_before(element.score, element.member))
                    .unwrap_or_else(|| packed.len())
            }
            Repr::Big(big) => big
                .order
                .rank_where(|item| is_before(item.score, big.members.member(item.place))),
        }
    }

    /// Searches by a predicate of the score alone.
    pub(crate) fn rank_where_score(&self, is_before: impl Fn(f64) -> bool) -> usize {
        match &self.0 {
            Repr::Small(_) => self.rank_where(|score, _| is_before(score)),
            Repr::Big(big) => big.order.rank_where(|item| is_before(item.score)),
        }
    }

    /// Calls `each` with the elements of a range of ranks, in order or the other way round.
    pub(crate) fn for_each(
        &self,
        ranks: Range<usize>,
        is_reversed: bool,
        mut each: impl FnMut(Blob, f64),
    ) {
        let mut give = |(member, score)| each(member, score);
        match (&self.0, is_reversed) {
            (Repr::Small(packed), false) => {
                for element in packed.iter().skip(ranks.start).take(ranks.len()) {
                    give((Blob::new(element.member), element.score));
                }
            }
            (Repr::Small(packed), true) => {
                let elements = packed.iter().skip(ranks.start).take(ranks.len());
                packed::owned(elements.collect()).rev().for_each(give);
            }
            (Repr::Big(big), false) => {
                big.order
                    .range(ranks)
                    .for_each(|item| give(big.element(item)));
            }
            (Repr::Big(big), true) => {
                big.order
                    .range(ranks)
                    .rev()
                    .for_each(|item| give(big.element(item)));
            }
        }
    }

    /// The elements of a range of ranks, in order.
    pub(crate) fn elements(&self, ranks: Range<usize>) -> Vec<(Blob, f64)> {
        let mut elements = Vec::with_capacity(ranks.len().min(self.len()));
        self.for_each(ranks, false, |member, score| elements.push((member, score)));
        elements
    }

    /// The element at a rank.
    pub(crate) fn at(&self, rank: usize) -> Option<(Blob, f64)> {
        self.elements(rank..rank.saturating_add(1)).pop()
    }

    /// A score of an element as ZSCAN shows it: a packed one writes integers as integers, however great
    /// (`util.c: d2string`).
    pub(crate) fn score_text(&self, score: f64, profile: Profile) -> String {
        const INTEGER_MAX: f64 = (i64::MAX / 2) as f64;
        if self.is_packed() && score.fract() == 0.0 && score.abs() <= INTEGER_MAX {
            (score as i64).to_string()
        } else if profile.has(feature::SHORTEST_DOUBLES) {
            format_shortest(score)
        } else {
            format_double(score)
        }
    }

    /// Some elements by a cursor of ZSCAN, and the cursor behind them, 0 at the end. A packed one is given whole.
    pub(crate) fn scan(&self, cursor: u64, count: usize) -> (u64, Vec<(Blob, f64)>) {
        let Repr::Big(big) = &self.0 else {
            return (0, self.elements(0..self.len()));
        };
        let mut found = Vec::new();
        let from = usize::try_from(cursor).unwrap_or(usize::MAX);
        let mut next = big.members.next_used(from);
        while let Some(place) = next
            && found.len() < count
        {
            let (item, score) = (place as u32, big.members.score(place as u32));
            found.push((big.members.member(item).clone(), score));
            next = big.members.next_used(place + 1);
        }
        (next.map_or(0, |place| place as u64), found)
    }
}

fn insert_packed(packed: &mut Packed, member: &[u8], score: f64) {
    let new = (score, member);
    let rank = packed
        .iter()
        .position(|element| compare((element.score, element.member), new) == Ordering::Greater)
        .unwrap_or_else(|| packed.len());
    packed.insert(rank, member, score);
}

#[cfg(test)]
mod tests;
