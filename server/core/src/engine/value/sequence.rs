//! A sequence of items that shares its chunks with its clones: a vector while the items are few, then a B+
//! tree that counts its items.
//!
//! A clone copies one pointer. A change copies the nodes from the root to the item if a clone still needs
//! them, at most [`LEAF_MAX`] items and a few branches, and changes them in place otherwise. Access by
//! position, search, insertion and removal take O(log n) steps.
//!
//! The order of the items is the owner's: by position (lists), by hash (`table.rs`), by score or by id.
//! An owner that searches gives each item a [`hint`](Item::hint), and branches compare hints without
//! looking at items.

use arrayvec::ArrayVec;
use std::cmp::Ordering;
use std::fmt::Debug;
use std::ops::Range;
use triomphe::Arc;

/// Items of a leaf, and children of a branch.
const LEAF_MAX: usize = 64;
const BRANCH_MAX: usize = 32;
/// A node with fewer is joined to a neighbour that has room for them.
const LEAF_MIN: usize = LEAF_MAX / 4;
const BRANCH_MIN: usize = BRANCH_MAX / 4;
/// Items of a vector, at most. Two leaves would hold so many, and have room for a third more.
const FEW_MAX: usize = LEAF_MAX * 3 / 2;

const FOUND: &str = "a position below the length leads to an item";

/// Element of a sequence.
pub(crate) trait Item: Clone {
    /// A small part of what items are ordered by; `()` if they are not.
    type Hint: Copy + Debug;
    fn hint(&self) -> Self::Hint;
}

#[derive(Clone, Debug)]
pub(crate) struct Sequence<T: Item> {
    root: Option<Root<T>>,
}

#[derive(Clone, Debug)]
enum Root<T: Item> {
    /// At most [`FEW_MAX`] items, in the memory that they need.
    Few(Arc<Vec<T>>),
    /// A branch: a tree of one leaf becomes a vector again.
    Tree(Arc<Tree<T>>),
}

#[derive(Clone, Debug)]
struct Tree<T: Item> {
    len: usize,
    node: Node<T>,
}

#[derive(Clone, Debug)]
enum Node<T: Item> {
    Leaf(Items<T>),
    Branch(Children<T>),
}

/// Items of a leaf, inside of the node: a search then waits for memory once at each height.
type Items<T> = ArrayVec<T, LEAF_MAX>;
/// Children of a branch, and one more before it is cut.
type Children<T> = ArrayVec<Child<T>, { BRANCH_MAX + 1 }>;

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

/// The edges of a root.
const WHOLE: Edges = Edges {
    is_first: true,
    is_last: true,
};

impl<T: Item> Default for Sequence<T> {
    fn default() -> Self {
        Self { root: None }
    }
}

impl<T: Item> Sequence<T> {
    pub(crate) fn len(&self) -> usize {
        match &self.root {
            None => 0,
            Some(Root::Few(items)) => items.len(),
            Some(Root::Tree(tree)) => tree.len,
        }
    }

    pub(crate) fn get(&self, position: usize) -> Option<&T> {
        let (leaf, offset) = self.leaf_at(position)?;
        leaf.get(offset)
    }

    /// Returns the item at a position, to be changed; its hint must not change.
    pub(crate) fn get_mut(&mut self, mut position: usize) -> Option<&mut T> {
        if position >= self.len() {
            return None;
        }
        let mut node = match self.root.as_mut()? {
            Root::Few(items) => return Arc::make_mut(items).get_mut(position),
            Root::Tree(tree) => &mut Arc::make_mut(tree).node,
        };
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
        assert!(position <= self.len(), "an item goes into the sequence");
        match &mut self.root {
            None => self.root = Some(Root::Few(Arc::new(vec![item]))),
            Some(root) => root.insert(position, item),
        }
    }

    /// Removes the item at a position.
    pub(crate) fn remove(&mut self, position: usize) -> Option<T> {
        if position >= self.len() {
            return None;
        }
        let item = match self.root.as_mut()? {
            Root::Few(items) => remove_few(Arc::make_mut(items), position),
            Root::Tree(tree) => {
                let tree = Arc::make_mut(tree);
                tree.len -= 1;
                remove(&mut tree.node, position)
            }
        };
        self.settle();
        Some(item)
    }

    pub(crate) fn push_back(&mut self, item: T) {
        self.insert(self.len(), item);
    }

    /// Keeps the items of a range.
    pub(crate) fn keep(&mut self, range: Range<usize>) {
        let len = self.len();
        let end = range.end.min(len);
        let start = range.start.min(end);
        if let Some(root) = &mut self.root
            && end - start < len
        {
            match root {
                Root::Few(items) => {
                    let items = Arc::make_mut(items);
                    items.truncate(end);
                    items.drain(..start);
                    items.shrink_to_fit();
                }
                Root::Tree(tree) => {
                    let tree = Arc::make_mut(tree);
                    tree.len = end - start;
                    if tree.len > 0 {
                        keep(&mut tree.node, start, end);
                    }
                }
            }
            self.settle();
        }
    }

    /// Removes branches that have become needless at the top, and a tree of few items.
    fn settle(&mut self) {
        if self.len() == 0 {
            self.root = None;
        }
        while let Some(Root::Tree(tree)) = &mut self.root {
            match &tree.node {
                Node::Branch(children) if children.len() == 1 => {
                    let only = Arc::clone(&children[0].node);
                    let tree = Arc::make_mut(tree);
                    tree.node = Node::Branch(Children::new());
                    tree.node = Arc::unwrap_or_clone(only);
                }
                Node::Leaf(items) => self.root = Some(Root::Few(Arc::new(items.to_vec()))),
                Node::Branch(_) => return,
            }
        }
    }

    pub(crate) fn iter(&self) -> Iter<'_, T> {
        self.range(0..self.len())
    }

    /// The items of a range of positions.
    pub(crate) fn range(&self, range: Range<usize>) -> Iter<'_, T> {
        let end = range.end.min(self.len());
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
        let leaf_offset = |items: &[T]| {
            items.partition_point(|item| match compare_hint(item.hint()) {
                Ordering::Less => true,
                Ordering::Equal => is_before(item),
                Ordering::Greater => false,
            })
        };
        let mut next = match &self.root {
            None => None,
            Some(Root::Tree(tree)) => Some(&tree.node),
            Some(Root::Few(items)) => {
                front = leaf_offset(items);
                front_leaf = &items[front..];
                None
            }
        };
        while let Some(node) = next {
            next = match node {
                Node::Leaf(items) => {
                    let offset = leaf_offset(items);
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
            back: self.len(),
            front_leaf,
            back_leaf: &[],
        }
    }

    /// The leaf that holds the item at a position, and the item's place there.
    fn leaf_at(&self, mut position: usize) -> Option<(&[T], usize)> {
        if position >= self.len() {
            return None;
        }
        let mut node = match self.root.as_ref()? {
            Root::Few(items) => return Some((items, position)),
            Root::Tree(tree) => &tree.node,
        };
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
        let (mut node, mut part) = match self.root.as_ref()? {
            Root::Few(items) => return find_in_leaf(items, hint, Part::whole(items.len()), is_it),
            Root::Tree(tree) => (&tree.node, Part::whole(tree.len)),
        };
        loop {
            match node {
                Node::Leaf(items) => return find_in_leaf(items, hint, part, is_it),
                Node::Branch(children) => {
                    let Some(at) = child_of(children, hint, &mut part) else {
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
        let tree = match root {
            Root::Few(items) => {
                let part = Part::whole(items.len());
                return match put_in_leaf(&mut Arc::make_mut(items)[..], hint, placing, part) {
                    Ok(former) => Some(former),
                    Err((position, placing)) => {
                        root.insert(position, placing.make());
                        None
                    }
                };
            }
            Root::Tree(tree) => Arc::make_mut(tree),
        };
        let part = Part::whole(tree.len);
        match put(&mut tree.node, hint, placing, WHOLE, part) {
            Put::Changed(former) => Some(former),
            Put::Inserted(right) => {
                tree.take_in(right);
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

impl<T: Item> Root<T> {
    fn insert(&mut self, position: usize, item: T) {
        if let Self::Few(items) = self {
            if items.len() < FEW_MAX {
                let items = Arc::make_mut(items);
                if items.len() == items.capacity() {
                    items.reserve_exact(items.len() / 4 + 1);
                }
                items.insert(position, item);
                return;
            }
            let items = Arc::unwrap_or_clone(std::mem::take(items));
            *self = Self::Tree(Arc::new(Tree::from_few(items, position)));
        }
        if let Self::Tree(tree) = self {
            let tree = Arc::make_mut(tree);
            let right = insert(&mut tree.node, position, item, WHOLE);
            tree.take_in(right);
        }
    }
}

impl<T: Item> Tree<T> {
    /// A tree of two leaves; the next item is inserted at `position`.
    fn from_few(mut items: Vec<T>, position: usize) -> Self {
        let len = items.len();
        // As in [`cut`]: what is pushed at an end leaves a full node behind.
        let at = match position {
            0 => len.saturating_sub(LEAF_MAX),
            position if position == len => LEAF_MAX,
            _ => len / 2,
        };
        let right = Child::of_leaf(items.drain(at..).collect());
        let left = Child::of_leaf(items.into_iter().collect());
        let node = Node::Branch(Children::from_iter([left, right]));
        Self { len, node }
    }

    /// Counts an item that was inserted, and takes in the part that no longer fits into the node.
    fn take_in(&mut self, right: Option<Child<T>>) {
        self.len += 1;
        if let Some(right) = right {
            let node = std::mem::replace(&mut self.node, Node::Branch(Children::new()));
            let left = Child::new(Arc::new(node), self.len - right.count);
            self.node = Node::Branch(Children::from_iter([left, right]));
        }
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

    fn of_leaf(items: Items<T>) -> Self {
        let count = items.len();
        Self::new(Arc::new(Node::Leaf(items)), count)
    }

    fn of_branch(children: Children<T>) -> Self {
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
    items: &mut Items<T>,
    position: usize,
    item: T,
    edges: Edges,
) -> Option<Child<T>> {
    if items.len() < LEAF_MAX {
        items.insert(position, item);
        return None;
    }
    let at = cut(items.len() + 1, position, edges);
    // The new item goes into one of the halves once they are apart.
    let mut right: Items<T>;
    if position < at {
        right = items.drain(at - 1..).collect();
        items.insert(position, item);
    } else {
        right = items.drain(at..).collect();
        right.insert(position - at, item);
    }
    Some(Child::of_leaf(right))
}

/// Counts an item that was inserted below a child, and takes in the child's new right neighbour. The part of the
/// branch that no longer fits comes back.
fn count_in<T: Item>(
    children: &mut Children<T>,
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
    let right = children.drain(cut..).collect();
    Some(Child::of_branch(right))
}

/// Part of a sequence whose items are ordered by evenly spread hints.
#[derive(Clone, Copy)]
struct Part {
    /// Bounds of the hints.
    low: u32,
    high: u32,
    /// The number of items. A branch knows those of its children: where an item of a leaf is expected is clear
    /// before the leaf is looked at, and the processor fetches both at the same time.
    count: usize,
}

impl Part {
    fn whole(count: usize) -> Self {
        let (low, high) = (0, u32::MAX);
        Self { low, high, count }
    }

    /// Returns the number of hints before the searched one, out of `len`.
    #[inline]
    fn first_not_before(&self, sought: u32, len: usize, hint_at: impl Fn(usize) -> u32) -> usize {
        let offset = u64::from(sought.saturating_sub(self.low)) * len as u64;
        let expected = offset / u64::from(self.high.saturating_sub(self.low)).max(1);
        let mut at = (expected as usize).min(len);
        while at > 0 && hint_at(at - 1) >= sought {
            at -= 1;
        }
        while at < len && hint_at(at) < sought {
            at += 1;
        }
        at
    }
}

/// The child that alone may hold items of a hint, and its part; `None` if several may.
#[inline]
fn child_of<T: Item<Hint = u32>>(
    children: &[Child<T>],
    hint: u32,
    part: &mut Part,
) -> Option<usize> {
    let after = part.first_not_before(hint, children.len(), |at| children[at].first);
    let at = after.saturating_sub(1);
    let child = &children[at];
    (part.low, part.count) = (child.first, child.count);
    if let Some(next) = children.get(at + 1) {
        part.high = next.first;
        if next.first == hint {
            return None;
        }
    }
    Some(at)
}

/// The item of a hint for which `is_it` holds, in the leaf that is a part.
fn find_in_leaf<T: Item<Hint = u32>>(
    items: &[T],
    hint: u32,
    part: Part,
    is_it: impl Fn(&T) -> bool,
) -> Option<&T> {
    let from = part.first_not_before(hint, part.count, |at| items[at].hint());
    items[from..]
        .iter()
        .take_while(|item| item.hint() == hint)
        .find(|item| is_it(item))
}

/// Changes the item of a hint, or returns the position at which one must be inserted.
fn put_in_leaf<T: Item<Hint = u32>, P: Placing<T>>(
    items: &mut [T],
    hint: u32,
    placing: P,
    part: Part,
) -> Result<P::Former, (usize, P)> {
    let mut position = part.first_not_before(hint, part.count, |at| items[at].hint());
    while let Some(other) = items.get_mut(position)
        && other.hint() == hint
    {
        if placing.is_it(other) {
            return Ok(placing.change(other));
        }
        position += 1;
    }
    Err((position, placing))
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
    mut part: Part,
) -> Put<T, P> {
    match node {
        Node::Leaf(items) => match put_in_leaf(items, hint, placing, part) {
            Ok(former) => Put::Changed(former),
            Err((position, placing)) => {
                Put::Inserted(insert_into_leaf(items, position, placing.make(), edges))
            }
        },
        Node::Branch(children) => {
            let Some(at) = child_of(children, hint, &mut part) else {
                return Put::Unclear(placing);
            };
            let below = Edges {
                is_first: edges.is_first && at == 0,
                is_last: edges.is_last && at + 1 == children.len(),
            };
            let is_first_new = hint < children[at].first;
            let node = Arc::make_mut(&mut children[at].node);
            match put(node, hint, placing, below, part) {
                Put::Inserted(right) => {
                    let is_first_new = is_first_new || right.is_some();
                    Put::Inserted(count_in(children, at, is_first_new, right, (edges, below)))
                }
                other @ (Put::Changed(_) | Put::Unclear(_)) => other,
            }
        }
    }
}

fn remove_few<T: Item>(items: &mut Vec<T>, position: usize) -> T {
    let item = items.remove(position);
    if items.len() < items.capacity() / 2 {
        items.shrink_to_fit();
    }
    item
}

fn remove<T: Item>(node: &mut Node<T>, position: usize) -> T {
    match node {
        Node::Leaf(items) => items.remove(position),
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
fn join<T: Item>(children: &mut Children<T>, at: usize) {
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
        }
        Node::Branch(children) => {
            let mut begin = 0;
            children.retain(|child| {
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

    /// The number of items that the parts hold.
    fn counted<T: Item<Hint = u32>>(sequence: &Sequence<T>) -> usize {
        match &sequence.root {
            None => 0,
            Some(Root::Few(items)) => {
                assert!((1..=FEW_MAX).contains(&items.len()));
                assert!(items.capacity() <= items.len() * 5 / 2 + 1);
                items.len()
            }
            Some(Root::Tree(tree)) => {
                assert!(matches!(tree.node, Node::Branch(_)));
                check(&tree.node).0
            }
        }
    }

    fn same(sequence: &Sequence<u32>, model: &[u32]) {
        let count = counted(sequence);
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
    fn few_items_are_a_vector_and_many_a_tree() {
        let mut rng = Rng::new(21);
        let mut draw = |bound: usize| (rng.next_u64() % bound as u64) as usize;
        let (mut sequence, mut model) = (Sequence::default(), Vec::new());
        let (mut trees, mut vectors) = (0, 0);
        let mut bound = 2 * LEAF_MAX;
        for step in 0..20_000_u32 {
            let was_tree = matches!(sequence.root, Some(Root::Tree(_)));
            let clone = (sequence.clone(), model.clone());
            if draw(bound) >= model.len() {
                let at = draw(model.len() + 1);
                sequence.insert(at, step);
                model.insert(at, step);
            } else if draw(50) == 0 {
                let start = draw(model.len());
                sequence.keep(start..model.len());
                model.drain(..start);
            } else {
                let at = draw(model.len());
                assert_eq!(sequence.remove(at), Some(model.remove(at)));
            }
            if let Some(item) = sequence.get_mut(model.len() / 2) {
                assert_eq!(*item, model[model.len() / 2]);
            }
            same(&sequence, &model);
            same(&clone.0, &clone.1);
            match (was_tree, &sequence.root) {
                (false, Some(Root::Tree(_))) => trees += 1,
                (true, Some(Root::Few(_))) => vectors += 1,
                _ => {}
            }
            if step % 500 == 0 {
                bound = LEAF_MAX * draw(5) + 8;
            }
        }
        assert!(
            trees > 10 && vectors > 10,
            "{trees} trees, {vectors} vectors"
        );
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
                    let count = counted(&sequence);
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
            match &sequence.root {
                Some(Root::Tree(tree)) => count(&tree.node),
                Some(Root::Few(_)) | None => 0,
            }
        };
        let back: Sequence<u32> = (0..64_000).collect();
        let mut front = Sequence::default();
        (0..64_000).for_each(|item| front.insert(0, item));
        assert_eq!((leaves(&back), leaves(&front)), (1000, 1000));
    }
}
