//! How time passes for servers that share it: every deadline of all of them in order, each at its own
//! instant.
//!
//! *Policy.* While time passes nobody else has any of the nodes, so a client that is answered on the
//! way is served when all is done. At each instant first what one node sends to another is handed
//! over, again until there is nothing more; then comes the node with the earliest deadline, of
//! several that one which was made first.

use super::{Clock, NodeHandle, Source, TimeSource};
use crate::engine::UnixMicros;
use crate::node::{Node, SharedNode};
use std::fmt::Debug;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What goes from node to node while time passes: the link between a master and its replicas, say.
pub(crate) trait InterNode: Debug + Send {
    /// When (in true time) the next thing arrives; nothing is late, it arrives at the instant that
    /// comes next.
    fn poll_timeout(&self, seats: &[LockedNode<'_>]) -> Option<UnixMicros>;

    /// Hands over what is due at `now`.
    fn handle_timeout(&mut self, seats: &mut [LockedNode<'_>], now: UnixMicros);
}

/// A node that somebody has while time passes.
#[derive(Debug)]
pub(crate) struct LockedNode<'a> {
    pub(crate) shared: &'a SharedNode,
    pub(crate) node: MutexGuard<'a, Node>,
}

/// True time, and the servers that share it.
#[derive(Debug)]
pub(crate) struct TrueTime {
    pub(crate) source: Source,
    members: Mutex<Members>,
}

#[derive(Debug, Default)]
struct Members {
    /// In the order in which they were made.
    handles: Vec<Weak<NodeHandle>>,
    between: Vec<Box<dyn InterNode>>,
}

impl TrueTime {
    /// # Errors
    /// For [`Clock::Tokio`] outside of a runtime, and for [`Clock::External`].
    pub(crate) fn new(clock: Clock, epoch: UnixMicros) -> io::Result<Self> {
        Ok(Self::of(Source::new(clock, epoch)?))
    }

    pub(crate) fn external(source: Arc<dyn TimeSource>, epoch: UnixMicros) -> Self {
        Self::of(Source::external(source, epoch))
    }

    fn of(source: Source) -> Self {
        Self {
            source,
            members: Mutex::default(),
        }
    }

    /// From now on the server moves with the others.
    pub(crate) fn join(&self, handle: &Arc<NodeHandle>) {
        let mut members = self.lock();
        members.handles.retain(|handle| handle.strong_count() > 0);
        members.handles.push(Arc::downgrade(handle));
    }

    /// From now on this is looked after while time passes.
    pub(crate) fn connect(&self, between: Box<dyn InterNode>) {
        self.lock().between.push(between);
    }

    /// The servers that share this time and have not ended, in the order in which they were made.
    pub(crate) fn handles(&self) -> Vec<Arc<NodeHandle>> {
        alive(&self.lock().handles)
    }

    /// Takes all nodes, lets time pass, and tells the timers of all of them what comes next. Waits
    /// for scripts that run.
    pub(crate) fn pass<T>(&self, pass: impl FnOnce(&mut Turn<'_>) -> T) -> T {
        let mut members = self.lock();
        let handles = alive(&members.handles);
        let seats = handles.iter().map(|handle| LockedNode {
            shared: &handle.shared,
            node: handle.shared.node(),
        });
        let mut turn = Turn {
            source: &self.source,
            seats: seats.collect(),
            between: &mut members.between,
        };
        let passed = pass(&mut turn);
        let due = turn.next().map(|(due, _)| due);
        drop(turn);
        drop(members);
        if let Some(due) = due {
            handles.iter().for_each(|handle| handle.arm(due));
        }
        handles.iter().for_each(|handle| handle.attend());
        passed
    }

    /// The same for a timer: `None` when somebody else has a node.
    pub(super) fn try_fire(&self) -> Option<Option<UnixMicros>> {
        let mut members = self.members.try_lock().ok()?;
        let handles = alive(&members.handles);
        let seat = |handle| -> Option<LockedNode<'_>> {
            let handle: &Arc<NodeHandle> = handle;
            let node = handle.shared.try_node()?;
            let shared = &handle.shared;
            Some(LockedNode { shared, node })
        };
        let seats: Option<Vec<_>> = handles.iter().map(seat).collect();
        let mut turn = Turn {
            source: &self.source,
            seats: seats?,
            between: &mut members.between,
        };
        turn.fire();
        let due = turn.next().map(|(due, _)| due);
        drop(turn);
        drop(members);
        handles.iter().for_each(|handle| handle.attend());
        Some(due)
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn alive(handles: &[Weak<NodeHandle>]) -> Vec<Arc<NodeHandle>> {
    let handles = handles.iter().filter_map(Weak::upgrade);
    handles.filter(|handle| !handle.shared.is_down()).collect()
}

/// All nodes that share a time, in one hand while it passes.
pub(crate) struct Turn<'a> {
    pub(crate) source: &'a Source,
    seats: Vec<LockedNode<'a>>,
    between: &'a mut [Box<dyn InterNode>],
}

/// Who has something to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Whose {
    InterNode(usize),
    Node(usize),
}

impl<'a> Turn<'a> {
    /// All nodes, in the order in which they were made.
    pub(crate) fn seats(&mut self) -> &mut [LockedNode<'a>] {
        &mut self.seats
    }
}

impl Turn<'_> {
    /// What comes next, and when; what lies between nodes comes before what is due on one of them.
    fn next(&self) -> Option<(UnixMicros, Whose)> {
        let between = self.between.iter().enumerate();
        let between = between.filter_map(|(index, between)| {
            let due = between.poll_timeout(&self.seats)?;
            Some((due, Whose::InterNode(index)))
        });
        let nodes = self.seats.iter().enumerate();
        let nodes = nodes.filter_map(|(index, seat)| {
            let due = seat.node.poll_timeout(seat.shared)?;
            Some((due, Whose::Node(index)))
        });
        between.chain(nodes).min()
    }

    fn handle(&mut self, whose: Whose, now: UnixMicros) {
        match whose {
            Whose::InterNode(index) => self.between[index].handle_timeout(&mut self.seats, now),
            Whose::Node(index) => {
                let seat = &mut self.seats[index];
                seat.node.handle_timeout(seat.shared, now);
            }
        }
    }

    /// Moves a manual clock on to `end`, through every deadline on the way; false, and nothing has
    /// happened, if the clock is another one.
    pub(crate) fn advance(&mut self, end: UnixMicros) -> bool {
        let begun = self.source.now();
        if !self.source.set(begun) {
            return false;
        }
        while let Some((due, whose)) = self.next().filter(|(due, _)| *due <= end) {
            let now = due.max(self.source.now());
            self.source.set(now);
            self.handle(whose, now);
        }
        self.source.set(end)
    }

    /// Does all that is due by now, at this instant.
    pub(crate) fn fire(&mut self) {
        let now = self.source.now();
        while let Some((_, whose)) = self.next().filter(|(due, _)| *due <= now) {
            self.handle(whose, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Config, NodeApi, Outcome};
    use crate::resp::{OwnedRequest, Reply};
    use std::time::Duration;

    /// Milliseconds, and how many keys each node had then.
    type Log = Arc<Mutex<Vec<(i64, Vec<usize>)>>>;

    /// Sees how many keys each node has, whenever that has changed.
    #[derive(Debug, Default)]
    struct Witness {
        seen: Vec<usize>,
        log: Log,
    }

    fn key_counts(seats: &[LockedNode<'_>]) -> Vec<usize> {
        let counts = seats.iter().map(|seat| seat.node.engine.database(0));
        counts.map(|db| db.map_or(0, |db| db.len())).collect()
    }

    impl InterNode for Witness {
        fn poll_timeout(&self, seats: &[LockedNode<'_>]) -> Option<UnixMicros> {
            (key_counts(seats) != self.seen).then_some(UnixMicros(i64::MIN))
        }

        fn handle_timeout(&mut self, seats: &mut [LockedNode<'_>], now: UnixMicros) {
            self.seen = key_counts(seats);
            let mut log = self.log.lock().expect("nobody panics");
            log.push((now.millis().0, self.seen.clone()));
        }
    }

    fn set(handle: &NodeHandle, key: &str, px: &str) {
        let engine = &mut handle.shared.node().engine;
        let conn = engine.connect("test:0", UnixMicros(0)).expect("room");
        let request = OwnedRequest::new(["SET", key, "v", "PX", px].map(str::as_bytes));
        let request = request.as_request().expect("not empty");
        let outcome = engine.handle(conn, request, UnixMicros(0));
        assert_eq!(outcome, Outcome::Reply(Reply::Ok));
    }

    #[test]
    fn what_is_between_nodes_is_handed_over_before_the_next_deadline() {
        let time = Arc::new(TrueTime::new(Clock::Manual, UnixMicros(0)).expect("no runtime"));
        let handle = || {
            NodeHandle::new(
                SharedNode::new(Config::default(), 0, UnixMicros(0)),
                time.clone(),
            )
        };
        let (first, second) = (handle(), handle());
        // Two at one instant, and one on the way.
        set(&first, "k", "10");
        set(&second, "k", "10");
        set(&second, "l", "20");
        let witness = Witness::default();
        let log = witness.log.clone();
        time.connect(Box::new(witness));
        let until = |end: i64| time.pass(|turn| turn.advance(UnixMicros(end * 1_000)));
        assert!(until(10));
        assert_eq!(*log.lock().expect("nobody panics"), [(0, vec![1, 2])]);
        assert!(until(30));
        let seen = [
            (0, vec![1, 2]),
            (11, vec![0, 2]),
            (11, vec![0, 1]),
            (21, vec![0, 0]),
        ];
        assert_eq!(*log.lock().expect("nobody panics"), seen);
        assert_eq!(time.source.now().plus(Duration::ZERO), UnixMicros(30_000));
        drop(second);
        assert_eq!(time.handles().len(), 1);
        assert!(until(40));
    }
}
