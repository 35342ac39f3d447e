//! The order of a big sorted set: a B+ tree of scores and places that counts the elements below each node, so that
//! ranks are found in O(log n). Nodes are shared with clones and copied when they change.
//!
//! The tree compares nothing: its caller says by a predicate what stands before a position.

use std::ops::Range;
use std::sync::Arc;

/// Elements of a leaf, and children of a node, at most.
const MOST: usize = 64;
/// With fewer it is joined with its neighbour.
const FEWEST: usize = 16;

/// An element: its score, and its place among the members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) score: f64,
    pub(super) place: u32,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Vec<Item>),
    Inner(Vec<Child>),
}

#[derive(Clone, Debug)]
struct Child {
    node: Arc<Node>,
    /// Elements below.
    count: usize,
    /// The first element below.
    first: Item,
}

impl Child {
    fn new(node: Node) -> Option<Self> {
        Some(Self {
            count: node.count(),
            first: node.first()?,
            node: Arc::new(node),
        })
    }

    /// Tells what is below again, after a change.
    fn refresh(&mut self) {
        self.count = self.node.count();
        if let Some(first) = self.node.first() {
            self.first = first;
        }
    }
}

impl Node {
    fn count(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Inner(children) => children.iter().map(|child| child.count).sum(),
        }
    }

    fn first(&self) -> Option<Item> {
        match self {
            Self::Leaf(items) => items.first().copied(),
            Self::Inner(children) => children.first().map(|child| child.first),
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Inner(children) => children.len(),
        }
    }

    /// Inserts an element; returns the right half if the node had to be split.
    fn insert(&mut self, rank: usize, item: Item) -> Option<Self> {
        let at = match self {
            Self::Leaf(items) => {
                items.insert(rank, item);
                rank
            }
            Self::Inner(children) => {
                let (at, rank) = child_at(children, rank, true);
                let child = &mut children[at];
                let right = Arc::make_mut(&mut child.node).insert(rank, item);
                match right {
                    None => {
                        child.count += 1;
                        if rank == 0 {
                            child.first = item;
                        }
                    }
                    Some(right) => {
                        child.refresh();
                        if let Some(right) = Child::new(right) {
                            children.insert(at + 1, right);
                        }
                    }
                }
                at
            }
        };
        self.split(at)
    }

    /// A node that grows at its end stays full; one that grows elsewhere is halved.
    fn split(&mut self, grown_at: usize) -> Option<Self> {
        let width = self.width();
        if width <= MOST {
            return None;
        }
        let at = if grown_at + 2 >= width {
            width - 1
        } else {
            width / 2
        };
        Some(match self {
            Self::Leaf(items) => Self::Leaf(items.split_off(at)),
            Self::Inner(children) => Self::Inner(children.split_off(at)),
        })
    }

    fn remove(&mut self, rank: usize) -> Item {
        match self {
            Self::Leaf(items) => items.remove(rank),
            Self::Inner(children) => {
                let (at, rank) = child_at(children, rank, false);
                let child = &mut children[at];
                let node = Arc::make_mut(&mut child.node);
                let item = node.remove(rank);
                let is_narrow = node.width() < FEWEST;
                child.count -= 1;
                if rank == 0 {
                    child.refresh();
                }
                if is_narrow {
                    join(children, at);
                }
                item
            }
        }
    }

    fn append(&mut self, other: &Self) {
        match (self, other) {
            (Self::Leaf(items), Self::Leaf(others)) => items.extend_from_slice(others),
            (Self::Inner(children), Self::Inner(others)) => children.extend_from_slice(others),
            (Self::Leaf(_) | Self::Inner(_), _) => {}
        }
    }
}

/// The child that holds a rank, and the rank within it. Where an element is inserted between two children, the
/// left one takes it.
fn child_at(children: &[Child], rank: usize, inserts: bool) -> (usize, usize) {
    let mut left = rank;
    for (at, child) in children.iter().enumerate() {
        if left < child.count || inserts && left == child.count {
            return (at, left);
        }
        left -= child.count;
    }
    panic!("bug: the tree has no rank {rank}");
}

/// Joins a narrow child with its neighbour, or shares evenly with it.
fn join(children: &mut Vec<Child>, at: usize) {
    if children.len() < 2 {
        return;
    }
    let left = at.min(children.len() - 2);
    let right = children.remove(left + 1);
    let child = &mut children[left];
    let node = Arc::make_mut(&mut child.node);
    node.append(&right.node);
    let width = node.width();
    let half = (width > MOST).then(|| match node {
        Node::Leaf(items) => Node::Leaf(items.split_off(width / 2)),
        Node::Inner(children) => Node::Inner(children.split_off(width / 2)),
    });
    child.refresh();
    if let Some(half) = half.and_then(Child::new) {
        children.insert(left + 1, half);
    }
}

/// Elements in order.
#[derive(Clone, Debug)]
pub(super) struct Order {
    root: Arc<Node>,
    len: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            root: Arc::new(Node::Leaf(Vec::new())),
            len: 0,
        }
    }
}

impl Order {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Number of elements at the beginning that stand before a position: `is_before` holds for them and for
    /// none behind them.
    pub(super) fn rank_where(&self, is_before: impl Fn(Item) -> bool) -> usize {
        let (mut node, mut rank) = (&*self.root, 0);
        loop {
            match node {
                Node::Leaf(items) => return rank + items.partition_point(|item| is_before(*item)),
                Node::Inner(children) => {
                    let before = children.partition_point(|child| is_before(child.first));
                    let Some(at) = before.checked_sub(1) else {
                        return rank;
                    };
                    rank += children[..at]
                        .iter()
                        .map(|child| child.count)
                        .sum::<usize>();
                    node = &children[at].node;
                }
            }
        }
    }

    /// Inserts an element in front of the one at `rank`.
    pub(super) fn insert(&mut self, rank: usize, item: Item) {
        self.len += 1;
        let Some(right) = Arc::make_mut(&mut self.root).insert(rank, item) else {
            return;
        };
        let left = std::mem::replace(&mut self.root, Arc::new(Node::Leaf(Vec::new())));
        let left = Child {
            count: left.count(),
            first: left.first().unwrap_or(item),
            node: left,
        };
        let children = std::iter::once(left).chain(Child::new(right)).collect();
        self.root = Arc::new(Node::Inner(children));
    }

    /// Removes the element at a rank.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn remove(&mut self, rank: usize) -> Item {
        let item = Arc::make_mut(&mut self.root).remove(rank);
        self.len -= 1;
        while let Node::Inner(children) = &*self.root
            && let [only] = &children[..]
        {
            self.root = only.node.clone();
        }
        item
    }

    /// The element at a rank, and those behind it in the same leaf; those before it there.
    fn leaf(&self, rank: usize) -> (&[Item], &[Item]) {
        let (mut node, mut rank) = (&*self.root, rank);
        loop {
            match node {
                Node::Leaf(items) => {
                    let (before, rest) = items.split_at(rank.min(items.len()));
                    return (rest, before);
                }
                Node::Inner(children) => {
                    let (at, left) = child_at(children, rank, false);
                    (node, rank) = (&children[at].node, left);
                }
            }
        }
    }

    /// The elements of a range of ranks.
    pub(super) fn range(&self, ranks: Range<usize>) -> Items<'_> {
        let end = ranks.end.min(self.len);
        Items {
            order: self,
            ranks: ranks.start.min(end)..end,
            front: &[],
            back: &[],
        }
    }
}

/// Elements of a range of ranks, from both ends.
#[derive(Debug)]
pub(super) struct Items<'a> {
    order: &'a Order,
    ranks: Range<usize>,
    /// The elements at the beginning, at least as many as are used; the same at the end.
    front: &'a [Item],
    back: &'a [Item],
}

impl Iterator for Items<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        let rank = self.ranks.next()?;
        if self.front.is_empty() {
            self.front = self.order.leaf(rank).0;
        }
        let (item, rest) = self.front.split_first()?;
        self.front = rest;
        Some(*item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranks.size_hint()
    }
}

impl DoubleEndedIterator for Items<'_> {
    fn next_back(&mut self) -> Option<Item> {
        let rank = self.ranks.next_back()?;
        if self.back.is_empty() {
            let (rest, before) = self.order.leaf(rank);
            self.back = before;
            return rest.first().copied();
        }
        let (item, rest) = self.back.split_last()?;
        self.back = rest;
        Some(*item)
    }
}

impl ExactSizeIterator for Items<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(number: u32) -> Item {
        Item {
            score: f64::from(number),
            place: number,
        }
    }

    /// What the counters and first elements of the nodes say is true, and no node is too wide.
    fn check(node: &Node) {
        assert!(node.width() <= MOST);
        if let Node::Inner(children) = node {
            for child in children {
                assert!(child.count > 0 && child.count == child.node.count());
                assert_eq!(Some(child.first), child.node.first());
                check(&child.node);
            }
        }
    }

    #[test]
    fn ranks_are_those_of_a_vector() {
        let (mut order, mut model) = (Order::default(), Vec::new());
        let mut state = 7_u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(99);
            (state >> 33) as usize % below
        };
        let mut snapshots = Vec::new();
        for step in 0..40_000_u32 {
            let grows = step % 20_000 < 10_000;
            if model.is_empty() || draw(10) < if grows { 7 } else { 3 } {
                let rank = match draw(4) {
                    0 => model.len(),
                    1 => 0,
                    _ => draw(model.len() + 1),
                };
                order.insert(rank, item(step));
                model.insert(rank, item(step));
            } else {
                let rank = draw(model.len());
                assert_eq!(order.remove(rank), model.remove(rank));
            }
            assert_eq!(order.len(), model.len());
            if step % 997 == 0 {
                check(&order.root);
                let (from, to) = (draw(model.len() + 1), draw(model.len() + 1));
                let ranks = from.min(to)..from.max(to);
                let expected = &model[ranks.clone()];
                assert!(order.range(ranks.clone()).eq(expected.iter().copied()));
                assert!(order.range(ranks).rev().eq(expected.iter().rev().copied()));
                snapshots.push((order.clone(), model.clone()));
            }
        }
        for (order, model) in snapshots {
            assert!(order.range(0..model.len()).eq(model));
        }
    }

    #[test]
    fn positions_are_found_by_what_stands_before_them() {
        let mut order = Order::default();
        for number in 0..5000 {
            order.insert(order.len(), item(number * 2));
        }
        check(&order.root);
        for bound in 0..10_001_u32 {
            let rank = order.rank_where(|item| item.score < f64::from(bound));
            assert_eq!(rank, (bound as usize).div_ceil(2).min(5000));
        }
    }

    #[test]
    fn both_ends_meet() {
        let mut order = Order::default();
        for number in 0..300 {
            order.insert(order.len(), item(number));
        }
        let mut items = order.range(10..290);
        let mut seen = Vec::new();
        while let Some(first) = items.next() {
            seen.push(first.place);
            seen.extend(items.next_back().map(|last| last.place));
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(10..290));
    }
}
