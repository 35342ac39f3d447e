//! A sequence of items that shares its chunks with its clones: a B+ tree that counts its items.
//!
//! A clone copies one pointer. A change copies the nodes from the root to the item if a clone still needs
//! them, at most [`LEAF_MAX`] items and a few branches, and changes them in place otherwise. Access by
//! position, search, insertion and removal take O(log n) steps.
//!
//! The order of the items is the owner's: by position (lists), by hash (`table.rs`), by score or by id.
//! An owner that searches gives each item a [`hint`](Item::hint), and branches compare hints without
//! looking at items.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// Items of a leaf, and children of a branch.
const LEAF_MAX: usize = 64;
const BRANCH_MAX: usize = 32;
/// A node with fewer is joined to a neighbour that has room for them.
const LEAF_MIN: usize = LEAF_MAX / 4;
const BRANCH_MIN: usize = BRANCH_MAX / 4;

const FOUND: &str = "a position below the length leads to an item";

/// Element of a sequence.
pub(crate) trait Item: Clone {
    /// A small part of what items are ordered by; `()` if they are not.
    type Hint: Copy + Debug;
    fn hint(&self) -> Self::Hint;
}

#[derive(Clone, Debug)]
pub(crate) struct Sequence<T: Item> {
    root: Option<Arc<Node<T>>>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Node<T: Item> {
    Leaf(Vec<T>),
    Branch(Vec<Child<T>>),
}

#[derive(Debug)]
struct Child<T: Item> {
    node: Arc<Node<T>>,
    /// Items below it; never 0.
    count: usize,
    /// The hint of the first of them.
    first: T::Hint,
}

impl<T: Item> Clone for Child<T> {
    fn clone(&self) -> Self {
        Self {
            node: Arc::clone(&self.node),
            ..*self
        }
    }
}

/// A node lies at the beginning or at the end of the whole sequence. There it is not halved when it is
/// full: what is pushed at an end leaves full nodes behind.
#[derive(Clone, Copy)]
struct Edges {
    is_first: bool,
    is_last: bool,
}

impl<T: Item> Default for Sequence<T> {
    fn default() -> Self {
        Self { root: None, len: 0 }
    }
}

impl<T: Item> Sequence<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, position: usize) -> Option<&T> {
        let (leaf, offset) = self.leaf_at(position)?;
        leaf.get(offset)
    }

    /// Returns the item at a position, to be changed; its hint must not change.
    pub(crate) fn get_mut(&mut self, mut position: usize) -> Option<&mut T> {
        if position >= self.len {
            return None;
        }
        let mut node = Arc::make_mut(self.root.as_mut()?);
        loop {
            match node {
                Node::Leaf(items) => return items.get_mut(position),
                Node::Branch(children) => {
                    let (at, offset) = child_at(children, position);
                    position = offset;
                    node = Arc::make_mut(&mut children[at].node);
                }
            }
        }
    }

    /// Inserts an item before the one at `position`, or at the end.
    ///
    /// # Panics
    /// If `position` is past the end.
    pub(crate) fn insert(&mut self, position: usize, item: T) {
        assert!(position <= self.len, "an item goes into the sequence");
        self.len += 1;
        let Some(root) = &mut self.root else {
            self.root = Some(Arc::new(Node::Leaf(vec![item])));
            return;
        };
        let edges = Edges {
            is_first: true,
            is_last: true,
        };
        if let Some(right) = insert(Arc::make_mut(root), position, item, edges) {
            let count = self.len - right.count;
            let left = Child::new(Arc::clone(root), count);
            *root = Arc::new(Node::Branch(vec![left, right]));
        }
    }

    /// Removes the item at a position.
    pub(crate) fn remove(&mut self, position: usize) -> Option<T> {
        if position >= self.len {
            return None;
        }
        self.len -= 1;
        let item = remove(Arc::make_mut(self.root.as_mut()?), position);
        self.settle();
        Some(item)
    }

    pub(crate) fn push_back(&mut self, item: T) {
        self.insert(self.len, item);
    }

    /// Keeps the items of a range.
    pub(crate) fn keep(&mut self, range: Range<usize>) {
        let end = range.end.min(self.len);
        let start = range.start.min(end);
        if let Some(root) = &mut self.root
            && end - start < self.len
        {
            self.len = end - start;
            if self.len > 0 {
                keep(Arc::make_mut(root), start, end);
            }
            self.settle();
        }
    }

    /// Removes branches that have become needless at the top.
    fn settle(&mut self) {
        if self.len == 0 {
            self.root = None;
        }
        while let Some(Node::Branch(children)) = self.root.as_deref()
            && let [only] = &children[..]
        {
            self.root = Some(Arc::clone(&only.node));
        }
    }

    pub(crate) fn iter(&self) -> Iter<'_, T> {
        self.range(0..self.len)
    }

    /// The items of a range of positions.
    pub(crate) fn range(&self, range: Range<usize>) -> Iter<'_, T> {
        let end = range.end.min(self.len);
        Iter {
            sequence: self,
            front: range.start.min(end),
            back: end,
            front_leaf: &[],
            back_leaf: &[],
        }
    }

    /// Returns the items from the first one on that is not before the searched one. `compare_hint` compares
    /// the hint of an item with that of the searched one; `is_before` decides between equal hints.
    pub(crate) fn seek(
        &self,
        compare_hint: impl Fn(T::Hint) -> Ordering,
        is_before: impl Fn(&T) -> bool,
    ) -> Iter<'_, T> {
        let mut front = 0;
        let mut front_leaf: &[T] = &[];
        let mut next = self.root.as_deref();
        while let Some(node) = next {
            next = match node {
                Node::Leaf(items) => {
                    let offset = items.partition_point(|item| match compare_hint(item.hint()) {
                        Ordering::Less => true,
                        Ordering::Equal => is_before(item),
                        Ordering::Greater => false,
                    });
                    front += offset;
                    front_leaf = &items[offset..];
                    None
                }
                Node::Branch(children) => {
                    let after = children.partition_point(|child| match compare_hint(child.first) {
                        Ordering::Less => true,
                        Ordering::Equal => child.node.first().is_some_and(&is_before),
                        Ordering::Greater => false,
                    });
                    let at = after.saturating_sub(1);
                    front += children[..at]
                        .iter()
                        .map(|child| child.count)
                        .sum::<usize>();
                    Some(&*children[at].node)
                }
            };
        }
        Iter {
            sequence: self,
            front,
            back: self.len,
            front_leaf,
            back_leaf: &[],
        }
    }

    /// The leaf that holds the item at a position, and the item's place there.
    fn leaf_at(&self, mut position: usize) -> Option<(&[T], usize)> {
        if position >= self.len {
            return None;
        }
        let mut node = self.root.as_deref()?;
        loop {
            match node {
                Node::Leaf(items) => return Some((items, position)),
                Node::Branch(children) => {
                    let (at, offset) = child_at(children, position);
                    position = offset;
                    node = &children[at].node;
                }
            }
        }
    }
}

/// Hints that are spread evenly, as hashes are: a search begins where the sought one is expected.
impl<T: Item<Hint = u32>> Sequence<T> {
    /// The item of this hint for which `is_it` holds. The items are ordered by their hints.
    pub(crate) fn find(&self, hint: u32, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        let (mut node, mut hints) = (self.root.as_deref()?, HINTS);
        loop {
            match node {
                Node::Leaf(items) => {
                    let hint_at = |at: usize| items[at].hint();
                    let from = first_not_before(hint, items.len(), hints, hint_at);
                    let found = items[from..]
                        .iter()
                        .take_while(|item| item.hint() == hint)
                        .find(|item| is_it(item));
                    return found;
                }
                Node::Branch(children) => {
                    let Some(at) = child_of(children, hint, &mut hints) else {
                        // Items of this hint stand in several nodes.
                        return self
                            .seek(|other| other.cmp(&hint), |_| false)
                            .take_while(|item| item.hint() == hint)
                            .find(|item| is_it(item));
                    };
                    node = &children[at].node;
                }
            }
        }
    }

    /// Puts an item at the position of its hint: changes the existing one, or inserts one after all others of
    /// this hint. The items are ordered by their hints.
    pub(crate) fn put<P: Placing<T>>(&mut self, hint: u32, placing: P) -> Option<P::Former> {
        let Some(root) = &mut self.root else {
            self.insert(0, placing.make());
            return None;
        };
        let edges = Edges {
            is_first: true,
            is_last: true,
        };
        match put(Arc::make_mut(root), hint, placing, edges, HINTS) {
            Put::Changed(former) => Some(former),
            Put::Inserted(right) => {
                self.len += 1;
                if let Some(right) = right {
                    let count = self.len - right.count;
                    let left = Child::new(Arc::clone(root), count);
                    *root = Arc::new(Node::Branch(vec![left, right]));
                }
                None
            }
            Put::Unclear(placing) => {
                let mut others = self.seek(|other| other.cmp(&hint), |_| false);
                let mut position = others.position();
                while let Some(other) = others.next().filter(|other| other.hint() == hint) {
                    if placing.is_it(other) {
                        return self.get_mut(position).map(|item| placing.change(item));
                    }
                    position += 1;
                }
                self.insert(position, placing.make());
                None
            }
        }
    }
}

impl<T: Item> FromIterator<T> for Sequence<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut sequence = Self::default();
        items.into_iter().for_each(|item| sequence.push_back(item));
        sequence
    }
}

impl<T: Item> Node<T> {
    fn first(&self) -> Option<&T> {
        match self {
            Self::Leaf(items) => items.first(),
            Self::Branch(children) => children.first()?.node.first(),
        }
    }

    /// Items or children.
    fn size(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Branch(children) => children.len(),
        }
    }

    fn is_small(&self) -> bool {
        match self {
            Self::Leaf(items) => items.len() < LEAF_MIN,
            Self::Branch(children) => children.len() < BRANCH_MIN,
        }
    }

    fn has_room_for(&self, more: &Self) -> bool {
        let most = match self {
            Self::Leaf(_) => LEAF_MAX,
            Self::Branch(_) => BRANCH_MAX,
        };
        self.size() + more.size() <= most
    }

    /// Takes over what a neighbour of the same height holds.
    fn append(&mut self, right: Self) {
        match (self, right) {
            (Self::Leaf(items), Self::Leaf(more)) => {
                items.reserve_exact(more.len());
                items.extend(more);
            }
            (Self::Branch(children), Self::Branch(more)) => children.extend(more),
            (Self::Leaf(_), Self::Branch(_)) | (Self::Branch(_), Self::Leaf(_)) => {
                unreachable!("neighbours have the same height")
            }
        }
    }
}

impl<T: Item> Child<T> {
    fn new(node: Arc<Node<T>>, count: usize) -> Self {
        let first = node.first().expect("a child holds items").hint();
        Self { node, count, first }
    }

    fn of_leaf(items: Vec<T>) -> Self {
        let count = items.len();
        Self::new(Arc::new(Node::Leaf(items)), count)
    }

    fn of_branch(children: Vec<Self>) -> Self {
        let count = children.iter().map(|child| child.count).sum();
        Self::new(Arc::new(Node::Branch(children)), count)
    }

    fn refresh(&mut self) {
        self.first = self.node.first().expect("a child holds items").hint();
    }
}

/// The child that holds the item at a position, and the item's position there. The position after the
/// last item belongs to the last child.
fn child_at<T: Item>(children: &[Child<T>], mut position: usize) -> (usize, usize) {
    for (at, child) in children.iter().enumerate() {
        if position < child.count || at + 1 == children.len() {
            return (at, position);
        }
        position -= child.count;
    }
    unreachable!("a branch has children")
}

/// Returns the position at which a full list of nodes or items is split after an insertion at `at`.
fn cut(len: usize, at: usize, edges: Edges) -> usize {
    if edges.is_last && at + 1 == len {
        len - 1
    } else if edges.is_first && at == 0 {
        1
    } else {
        len / 2
    }
}

/// Inserts below a node; the part that no longer fits becomes its right neighbour.
fn insert<T: Item>(node: &mut Node<T>, position: usize, item: T, edges: Edges) -> Option<Child<T>> {
    match node {
        Node::Leaf(items) => insert_into_leaf(items, position, item, edges),
        Node::Branch(children) => {
            let (at, offset) = child_at(children, position);
            let below = Edges {
                is_first: edges.is_first && at == 0,
                is_last: edges.is_last && at + 1 == children.len(),
            };
            let node = Arc::make_mut(&mut children[at].node);
            let right = insert(node, offset, item, below);
            count_in(children, at, offset == 0, right, (edges, below))
        }
    }
}

/// Inserts an item into a leaf; the part that no longer fits becomes its right neighbour.
fn insert_into_leaf<T: Item>(
    items: &mut Vec<T>,
    position: usize,
    item: T,
    edges: Edges,
) -> Option<Child<T>> {
    if items.len() == items.capacity() {
        items.reserve_exact(items.len() / 4 + 1);
    }
    if items.len() < LEAF_MAX {
        items.insert(position, item);
        return None;
    }
    let at = cut(items.len() + 1, position, edges);
    // The new item goes into one of the halves once they are apart.
    let mut right;
    if position < at {
        right = items.split_off(at - 1);
        items.insert(position, item);
    } else {
        right = items.split_off(at);
        right.insert(position - at, item);
    }
    right.shrink_to_fit();
    items.shrink_to_fit();
    Some(Child::of_leaf(right))
}

/// Counts an item that was inserted below a child, and takes in the child's new right neighbour. The part of the
/// branch that no longer fits comes back.
fn count_in<T: Item>(
    children: &mut Vec<Child<T>>,
    at: usize,
    is_first_new: bool,
    right: Option<Child<T>>,
    (edges, below): (Edges, Edges),
) -> Option<Child<T>> {
    let child = &mut children[at];
    child.count += 1;
    if is_first_new {
        child.refresh();
    }
    let right = right?;
    child.count -= right.count;
    children.insert(at + 1, right);
    if children.len() <= BRANCH_MAX {
        return None;
    }
    let cut = cut(children.len(), at + usize::from(!below.is_first), edges);
    let right = children.split_off(cut);
    Some(Child::of_branch(right))
}

/// All hints, from the least to the greatest.
const HINTS: (u32, u32) = (0, u32::MAX);

/// Returns the number of hints before the searched one, out of `len` hints between `low` and `high`.
#[inline]
fn first_not_before(
    sought: u32,
    len: usize,
    (low, high): (u32, u32),
    hint_at: impl Fn(usize) -> u32,
) -> usize {
    let offset = u64::from(sought.saturating_sub(low)) * len as u64;
    let expected = offset / u64::from(high.saturating_sub(low)).max(1);
    let mut at = (expected as usize).min(len);
    while at > 0 && hint_at(at - 1) >= sought {
        at -= 1;
    }
    while at < len && hint_at(at) < sought {
        at += 1;
    }
    at
}

/// The child that alone may hold items of a hint, and the bounds of its hints; `None` if several may.
#[inline]
fn child_of<T: Item<Hint = u32>>(
    children: &[Child<T>],
    hint: u32,
    hints: &mut (u32, u32),
) -> Option<usize> {
    let after = first_not_before(hint, children.len(), *hints, |at| children[at].first);
    let at = after.saturating_sub(1);
    hints.0 = children[at].first;
    if let Some(next) = children.get(at + 1) {
        hints.1 = next.first;
        if next.first == hint {
            return None;
        }
    }
    Some(at)
}

/// Change that [`Sequence::put`] makes.
pub(crate) trait Placing<T> {
    /// The previous element.
    type Former;
    /// True for the item that is to be changed.
    fn is_it(&self, item: &T) -> bool;
    fn change(self, item: &mut T) -> Self::Former;
    /// The item if there is none to be changed.
    fn make(self) -> T;
}

/// Result of [`Sequence::put`].
enum Put<T: Item, P: Placing<T>> {
    Changed(P::Former),
    /// An item was inserted; the part that no longer fits becomes a right neighbour.
    Inserted(Option<Child<T>>),
    /// Items of this hint stand in several nodes.
    Unclear(P),
}

/// See [`Sequence::put`].
fn put<T: Item<Hint = u32>, P: Placing<T>>(
    node: &mut Node<T>,
    hint: u32,
    placing: P,
    edges: Edges,
    mut hints: (u32, u32),
) -> Put<T, P> {
    match node {
        Node::Leaf(items) => {
            let hint_at = |at: usize| items[at].hint();
            let mut position = first_not_before(hint, items.len(), hints, hint_at);
            while let Some(other) = items.get_mut(position)
                && other.hint() == hint
            {
                if placing.is_it(other) {
                    return Put::Changed(placing.change(other));
                }
                position += 1;
            }
            Put::Inserted(insert_into_leaf(items, position, placing.make(), edges))
        }
        Node::Branch(children) => {
            let Some(at) = child_of(children, hint, &mut hints) else {
                return Put::Unclear(placing);
            };
            let below = Edges {
                is_first: edges.is_first && at == 0,
                is_last: edges.is_last && at + 1 == children.len(),
            };
            let is_first_new = hint < children[at].first;
            let node = Arc::make_mut(&mut children[at].node);
            match put(node, hint, placing, below, hints) {
                Put::Inserted(right) => {
                    let is_first_new = is_first_new || right.is_some();
                    Put::Inserted(count_in(children, at, is_first_new, right, (edges, below)))
                }
                other @ (Put::Changed(_) | Put::Unclear(_)) => other,
            }
        }
    }
}

fn remove<T: Item>(node: &mut Node<T>, position: usize) -> T {
    match node {
        Node::Leaf(items) => {
            let item = items.remove(position);
            if items.len() < items.capacity() / 2 {
                items.shrink_to_fit();
            }
            item
        }
        Node::Branch(children) => {
            let (at, offset) = child_at(children, position);
            let child = &mut children[at];
            let item = remove(Arc::make_mut(&mut child.node), offset);
            child.count -= 1;
            if child.count == 0 {
                children.remove(at);
                return item;
            }
            if offset == 0 {
                child.refresh();
            }
            if child.node.is_small() {
                join(children, at);
            }
            item
        }
    }
}

/// Joins a small child to a neighbour that has room for it.
fn join<T: Item>(children: &mut Vec<Child<T>>, at: usize) {
    let pairs = [at.checked_sub(1).map(|left| (left, at)), Some((at, at + 1))];
    for (left, right) in pairs.into_iter().flatten() {
        let fits = children
            .get(right)
            .is_some_and(|child| children[left].node.has_room_for(&child.node));
        if fits {
            let right = children.remove(right);
            let left = &mut children[left];
            left.count += right.count;
            Arc::make_mut(&mut left.node).append(Arc::unwrap_or_clone(right.node));
            return;
        }
    }
}

/// Keeps the items from `start` to `end`, of which there is one at least.
fn keep<T: Item>(node: &mut Node<T>, start: usize, end: usize) {
    match node {
        Node::Leaf(items) => {
            items.truncate(end);
            items.drain(..start);
            items.shrink_to_fit();
        }
        Node::Branch(children) => {
            let mut begin = 0;
            children.retain_mut(|child| {
                let range = begin..begin + child.count;
                begin = range.end;
                let (from, to) = (start.max(range.start), end.min(range.end));
                if from >= to {
                    return false;
                }
                if to - from < child.count {
                    let node = Arc::make_mut(&mut child.node);
                    keep(node, from - range.start, to - range.start);
                    child.count = to - from;
                    child.refresh();
                }
                true
            });
        }
    }
}

/// Items of a range, from both ends.
#[derive(Clone)]
pub(crate) struct Iter<'a, T: Item> {
    sequence: &'a Sequence<T>,
    front: usize,
    back: usize,
    /// The rest of the leaf of the next item from the front; empty before the first item.
    front_leaf: &'a [T],
    /// The same from the back.
    back_leaf: &'a [T],
}

impl<T: Item> Iter<'_, T> {
    /// The position of the next item.
    pub(crate) fn position(&self) -> usize {
        self.front
    }
}

impl<'a, T: Item> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if self.front >= self.back {
            return None;
        }
        if self.front_leaf.is_empty() {
            let (leaf, offset) = self.sequence.leaf_at(self.front).expect(FOUND);
            self.front_leaf = &leaf[offset..];
        }
        let (first, rest) = self.front_leaf.split_first()?;
        self.front_leaf = rest;
        self.front += 1;
        Some(first)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.back - self.front;
        (left, Some(left))
    }
}

impl<T: Item> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front >= self.back {
            return None;
        }
        if self.back_leaf.is_empty() {
            let (leaf, offset) = self.sequence.leaf_at(self.back - 1).expect(FOUND);
            self.back_leaf = &leaf[..=offset];
        }
        let (last, rest) = self.back_leaf.split_last()?;
        self.back_leaf = rest;
        self.back -= 1;
        Some(last)
    }
}

impl<T: Item> ExactSizeIterator for Iter<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Rng;

    impl Item for u32 {
        type Hint = Self;
        fn hint(&self) -> Self {
            self / 4
        }
    }

    /// Counts, hints and heights fit together, and no node is empty or too full.
    fn check<T: Item<Hint = u32>>(node: &Node<T>) -> (usize, usize) {
        match node {
            Node::Leaf(items) => {
                assert!((1..=LEAF_MAX).contains(&items.len()));
                (items.len(), 0)
            }
            Node::Branch(children) => {
                assert!((1..=BRANCH_MAX).contains(&children.len()));
                let mut heights = Vec::new();
                for child in children {
                    let (count, height) = check(&*child.node);
                    assert_eq!(count, child.count);
                    assert_eq!(child.node.first().map(Item::hint), Some(child.first));
                    heights.push(height);
                }
                heights.dedup();
                assert_eq!(heights.len(), 1);
                let count = children.iter().map(|child| child.count).sum();
                (count, heights[0] + 1)
            }
        }
    }

    fn same(sequence: &Sequence<u32>, model: &[u32]) {
        let count = sequence.root.as_deref().map_or(0, |root| check(root).0);
        assert_eq!((sequence.len(), count), (model.len(), model.len()));
        assert!(sequence.iter().eq(model));
        assert!(sequence.iter().rev().eq(model.iter().rev()));
    }

    #[test]
    fn it_does_what_a_vector_does_and_clones_stay_as_they_were() {
        let mut rng = Rng::new(7);
        let mut draw = |bound: usize| (rng.next_u64() % bound as u64) as usize;
        let (mut sequence, mut model) = (Sequence::default(), Vec::new());
        let mut clones: Vec<(Sequence<u32>, Vec<u32>)> = Vec::new();
        // Grows, shrinks, grows at the ends.
        for step in 0..30_000_u32 {
            let len = model.len();
            let grows = (step / 7000).is_multiple_of(2);
            match draw(20) {
                0..12 if grows => {
                    let at = match draw(4) {
                        0 => 0,
                        1 => len,
                        _ => draw(len + 1),
                    };
                    sequence.insert(at, step);
                    model.insert(at, step);
                }
                12..18 if len > 0 => {
                    let at = draw(len);
                    assert_eq!(sequence.remove(at), Some(model.remove(at)));
                }
                18 if len > 0 => {
                    let at = draw(len);
                    assert_eq!(sequence.get(at), model.get(at));
                    let start = draw(len);
                    let end = start + draw(len - start + 1);
                    assert!(sequence.range(start..end).eq(&model[start..end]));
                }
                19 if step.is_multiple_of(50) => clones.push((sequence.clone(), model.clone())),
                _ => {}
            }
            if step.is_multiple_of(1000) {
                same(&sequence, &model);
            }
        }
        for (clone, model) in &clones {
            same(clone, model);
        }
        assert!(clones.len() > 10);
        assert_eq!(sequence.remove(model.len()), None);
        assert_eq!(sequence.get(model.len()), None);
    }

    #[test]
    fn a_range_is_kept() {
        let mut rng = Rng::new(9);
        let whole: Sequence<u32> = (0..5000).collect();
        for _ in 0..300 {
            let start = (rng.next_u64() % 5100) as usize;
            let end = (rng.next_u64() % 5100) as usize;
            let mut part = whole.clone();
            part.keep(start..end);
            let model: Vec<u32> = (0..5000).take(end).skip(start).collect();
            same(&part, &model);
        }
        assert_eq!(whole.len(), 5000);
    }

    #[test]
    fn an_item_is_found_by_hints_and_comparisons() {
        let sequence: Sequence<u32> = (0..4000).map(|i| i * 2).collect();
        for sought in 0..8100_u32 {
            let mut found = sequence.seek(|hint| hint.cmp(&(sought / 4)), |item| *item < sought);
            let expected = sought.div_ceil(2);
            assert_eq!(found.position(), expected.min(4000) as usize);
            assert_eq!(
                found.next().copied(),
                (expected < 4000).then_some(expected * 2)
            );
        }
    }

    /// An item whose hint many other items share.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Crowded(u32, u32);

    impl Placing<Self> for Crowded {
        type Former = Self;
        fn is_it(&self, item: &Self) -> bool {
            self == item
        }
        fn change(self, item: &mut Self) -> Self {
            std::mem::replace(item, self)
        }
        fn make(self) -> Self {
            self
        }
    }

    impl Item for Crowded {
        type Hint = u32;
        fn hint(&self) -> u32 {
            self.0
        }
    }

    #[test]
    fn items_are_put_where_their_hints_lead() {
        let mut rng = Rng::new(13);
        for hints in [1, 3, 40, 100_000] {
            let (mut sequence, mut model) = (Sequence::default(), Vec::<Crowded>::new());
            for step in 0..4000 {
                let item = Crowded(
                    (rng.next_u64() % hints) as u32,
                    (rng.next_u64() % 1500) as u32,
                );
                let known = model.iter().position(|other| *other == item);
                let former = sequence.put(item.hint(), item);
                assert_eq!(former, known.map(|at| model[at]), "{step}");
                if known.is_none() {
                    let at = model.partition_point(|other| other.0 <= item.0);
                    model.insert(at, item);
                }
                if step % 400 == 0 {
                    let count = sequence.root.as_deref().map_or(0, |root| check(root).0);
                    assert_eq!((sequence.len(), count), (model.len(), model.len()));
                    assert!(sequence.iter().eq(&model));
                }
            }
        }
    }

    #[test]
    fn pushing_at_an_end_fills_the_leaves() {
        let leaves = |sequence: &Sequence<u32>| {
            fn count(node: &Node<u32>) -> usize {
                match node {
                    Node::Leaf(_) => 1,
                    Node::Branch(children) => children.iter().map(|child| count(&child.node)).sum(),
                }
            }
            sequence.root.as_deref().map_or(0, count)
        };
        let back: Sequence<u32> = (0..64_000).collect();
        let mut front = Sequence::default();
        (0..64_000).for_each(|item| front.insert(0, item));
        assert_eq!((leaves(&back), leaves(&front)), (1000, 1000));
    }
}
