//! True time, and the nodes that share it. When time passes, every deadline of all of them is
//! handled in order, each at its own instant.
//!
//! *Policy.* While time passes, the caller holds the locks of all nodes. Replies to clients are
//! therefore written once everything is done. At each instant the messages between nodes are
//! delivered first, until there are none left; then the node with the earliest deadline is called.
//! Of several nodes with the same deadline, the one that was created first is called first.
//!
//! A panic takes down the node that was handled, and spares the other nodes. A panic in the traffic between
//! nodes takes all of them down.

use super::time_source::Source;
use crate::client_connection::ClientConnection;
use crate::engine::UnixMicros;
use crate::node::{NodeGuard, SharedNode, TrueClock};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Traffic between nodes that takes time: replication links, the cluster bus, sentinels.
pub(crate) trait InterNode: Debug + Send {
    /// The time (true time) at which the next message arrives. A time in the past means the next
    /// instant that is handled.
    fn poll_timeout(&self, nodes: &[LockedNode<'_>]) -> Option<UnixMicros>;

    /// Delivers the messages that are due at `now`.
    fn handle_timeout(&mut self, nodes: &mut [LockedNode<'_>], now: UnixMicros);
}

/// A server that shares true time with others.
pub(crate) trait TimeMember: Debug + Send + Sync {
    /// The node whose deadlines are handled.
    fn shared(&self) -> &SharedNode;

    /// Makes sure that the server's timer fires no later than `due`.
    fn arm(&self, due: UnixMicros);

    /// Called when the locks of the nodes are free again: carries out pending control requests.
    fn after_turn(&self);
}

/// A node whose lock is held while time passes.
#[derive(Debug)]
pub(crate) struct LockedNode<'a> {
    pub(crate) shared: &'a SharedNode,
    pub(crate) node: NodeGuard<'a>,
}

impl<'a> LockedNode<'a> {
    fn new(shared: &'a SharedNode, node: NodeGuard<'a>) -> Self {
        let mut locked = Self { shared, node };
        locked.node.set_handled(false);
        locked
    }
}

/// True time, and the servers that share it.
#[derive(Debug)]
pub(crate) struct TrueTime {
    pub(crate) source: Source,
    shares: Mutex<Shares>,
}

impl TrueClock for TrueTime {
    fn now(&self) -> UnixMicros {
        self.source.now()
    }
}

#[derive(Debug, Default)]
struct Shares {
    /// In the order in which the servers were created.
    members: Vec<Weak<dyn TimeMember>>,
    between: Vec<Box<dyn InterNode>>,
}

impl TrueTime {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            shares: Mutex::default(),
        }
    }

    /// Adds a server: from now on its deadlines are handled with those of the others.
    pub(crate) fn join(&self, member: Weak<dyn TimeMember>) {
        let mut shares = self.lock();
        shares.members.retain(|member| member.strong_count() > 0);
        shares.members.push(member);
    }

    /// Adds traffic between the nodes, to be delivered while time passes.
    pub(crate) fn connect(&self, between: Box<dyn InterNode>) {
        self.lock().between.push(between);
    }

    /// The servers that share this time and still run, in the order in which they were created.
    pub(crate) fn members(&self) -> Vec<Arc<dyn TimeMember>> {
        running(&self.lock().members)
    }

    /// Locks all nodes, lets `pass` move time, and arms every server's timer for the next deadline.
    /// Waits for scripts that run.
    pub(crate) fn pass<T>(&self, pass: impl FnOnce(&mut Turn<'_>) -> T) -> T {
        let shares = self.lock();
        let members = running(&shares.members);
        let nodes = members.iter().map(|member| {
            let shared = member.shared();
            LockedNode::new(shared, shared.node_among_several())
        });
        let nodes = nodes.collect();
        let (passed, due) = match self.take_turn(shares, &members, nodes, pass) {
            Ok(taken) => taken,
            Err(panic) => resume_unwind(panic),
        };
        if let Some(due) = due {
            members.iter().for_each(|member| member.arm(due));
        }
        members.iter().for_each(|member| member.after_turn());
        passed
    }

    /// Handles everything that is due and returns the next deadline, without waiting; `None` if the
    /// lock of a node is taken. A panic takes its node down and does not reach the caller, because the other
    /// nodes go on.
    pub(crate) fn try_fire(&self) -> Option<Option<UnixMicros>> {
        let shares = self.shares.try_lock().ok()?;
        let members = running(&shares.members);
        let locked = |member| -> Option<LockedNode<'_>> {
            let member: &Arc<dyn TimeMember> = member;
            let shared = member.shared();
            Some(LockedNode::new(shared, shared.try_node_among_several()?))
        };
        let nodes: Option<Vec<_>> = members.iter().map(locked).collect();
        let taken = self.take_turn(shares, &members, nodes?, |turn| turn.fire());
        members.iter().for_each(|member| member.after_turn());
        // After a panic the nodes that are left have not been asked for their deadlines: now is one.
        Some(taken.map_or_else(|_| Some(self.source.now()), |((), due)| due))
    }

    /// Runs `turn` with the locked nodes, and wakes the transports when no lock is held. Returns its result and
    /// the next deadline, or its panic.
    fn take_turn<T>(
        &self,
        mut shares: MutexGuard<'_, Shares>,
        members: &[Arc<dyn TimeMember>],
        nodes: Vec<LockedNode<'_>>,
        turn: impl FnOnce(&mut Turn<'_>) -> T,
    ) -> std::thread::Result<(T, Option<UnixMicros>)> {
        let mut news = Vec::new();
        let taken = catch_unwind(AssertUnwindSafe(|| {
            let mut locked = Turn {
                source: &self.source,
                nodes,
                news: &mut news,
                between: &mut shares.between,
            };
            let passed = turn(&mut locked);
            let due = locked.next().map(|(due, _)| due);
            locked.gather_news();
            (passed, due)
        }));
        drop(shares);
        tell(members, news);
        if taken.is_err() {
            for member in members {
                member.shared().wake_transports();
            }
        }
        taken
    }

    fn lock(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells transports of what has come, in the order in which it came.
fn tell(members: &[Arc<dyn TimeMember>], news: Vec<(usize, Arc<ClientConnection>)>) {
    for (at, link) in news {
        let shared = members[at].shared();
        if shared.wake(vec![link]) {
            shared.wake_sockets();
        }
    }
}

fn running(members: &[Weak<dyn TimeMember>]) -> Vec<Arc<dyn TimeMember>> {
    let members = members.iter().filter_map(Weak::upgrade);
    // The others have to hear what a node said before it went down.
    members
        .filter(|member| !member.shared().is_down() || member.shared().has_outgoing())
        .collect()
}

/// The locks of all nodes that share a time, held while it passes.
pub(crate) struct Turn<'a> {
    pub(crate) source: &'a Source,
    nodes: Vec<LockedNode<'a>>,
    /// Connections with something new to read, in the order in which it came, with the place of their node.
    news: &'a mut Vec<(usize, Arc<ClientConnection>)>,
    between: &'a mut [Box<dyn InterNode>],
}

/// The owner of a deadline. Of two with the same time, the lesser one is handled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DeadlineOf {
    InterNode(usize),
    Node(usize),
}

impl<'a> Turn<'a> {
    /// All nodes, in the order in which they were created. If the caller panics before the turn ends, all of
    /// them go down.
    pub(crate) fn nodes(&mut self) -> &mut [LockedNode<'a>] {
        self.set_handled(true);
        &mut self.nodes
    }

    fn set_handled(&mut self, is_handled: bool) {
        for locked in &mut self.nodes {
            locked.node.set_handled(is_handled);
        }
    }
}

impl Turn<'_> {
    /// The earliest deadline and its owner. Traffic between nodes comes before a node's own deadline.
    fn next(&self) -> Option<(UnixMicros, DeadlineOf)> {
        let between = self.between.iter().enumerate();
        let between = between.filter_map(|(index, between)| {
            let due = between.poll_timeout(&self.nodes)?;
            Some((due, DeadlineOf::InterNode(index)))
        });
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.filter_map(|(index, locked)| {
            let due = locked.node.poll_timeout(locked.shared)?;
            Some((due, DeadlineOf::Node(index)))
        });
        between.chain(nodes).min()
    }

    fn gather_news(&mut self) {
        for (at, locked) in self.nodes.iter().enumerate() {
            let news = locked.shared.take_notified();
            self.news.extend(news.into_iter().map(|link| (at, link)));
        }
    }

    fn handle(&mut self, owner: DeadlineOf, now: UnixMicros) {
        self.handle_one(owner, now);
        self.gather_news();
    }

    fn handle_one(&mut self, owner: DeadlineOf, now: UnixMicros) {
        match owner {
            DeadlineOf::InterNode(index) => {
                self.set_handled(true);
                self.between[index].handle_timeout(&mut self.nodes, now);
                self.set_handled(false);
            }
            DeadlineOf::Node(index) => {
                let locked = &mut self.nodes[index];
                locked.node.set_handled(true);
                locked.node.handle_timeout(locked.shared, now);
                locked.node.set_handled(false);
            }
        }
    }

    /// Moves a manual clock on to `end`, through every deadline on the way. Returns false, and
    /// changes nothing, for every other clock.
    pub(crate) fn advance(&mut self, end: UnixMicros) -> bool {
        let begun = self.source.now();
        if !self.source.set(begun) {
            return false;
        }
        while let Some((due, owner)) = self.next().filter(|(due, _)| *due <= end) {
            let now = due.max(self.source.now());
            self.source.set(now);
            self.handle(owner, now);
        }
        self.source.set(end)
    }

    /// Handles everything that is due by now, at this instant.
    pub(crate) fn fire(&mut self) {
        let now = self.source.now();
        while let Some((_, owner)) = self.next().filter(|(due, _)| *due <= now) {
            self.handle(owner, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::NodeHandle;
    use super::*;
    use crate::engine::{Config, NodeApi, Outcome};
    use crate::resp::{OwnedRequest, Reply};
    use std::time::Duration;

    /// Times in milliseconds, each with the number of keys of every node.
    type Log = Arc<Mutex<Vec<(i64, Vec<usize>)>>>;

    /// Logs the number of keys of every node whenever one changes.
    #[derive(Debug, Default)]
    struct Witness {
        seen: Vec<usize>,
        log: Log,
    }

    fn key_counts(nodes: &[LockedNode<'_>]) -> Vec<usize> {
        let counts = nodes.iter().map(|locked| locked.node.engine.database(0));
        counts.map(|db| db.map_or(0, |db| db.len())).collect()
    }

    impl InterNode for Witness {
        fn poll_timeout(&self, nodes: &[LockedNode<'_>]) -> Option<UnixMicros> {
            (key_counts(nodes) != self.seen).then_some(UnixMicros(i64::MIN))
        }

        fn handle_timeout(&mut self, nodes: &mut [LockedNode<'_>], now: UnixMicros) {
            self.seen = key_counts(nodes);
            let mut log = self.log.lock().expect("no panic");
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
    fn traffic_between_nodes_is_delivered_before_the_next_deadline() {
        let time = Arc::new(TrueTime::new(Source::manual(UnixMicros(0))));
        let handle = || {
            NodeHandle::new(
                SharedNode::new(Config::default(), 0, UnixMicros(0)),
                time.clone(),
            )
        };
        let (first, second) = (handle(), handle());
        // Two deadlines at one instant, and a later one.
        set(&first, "k", "10");
        set(&second, "k", "10");
        set(&second, "l", "20");
        let witness = Witness::default();
        let log = witness.log.clone();
        time.connect(Box::new(witness));
        let until = |end: i64| time.pass(|turn| turn.advance(UnixMicros(end * 1_000)));
        assert!(until(10));
        assert_eq!(*log.lock().expect("no panic"), [(0, vec![1, 2])]);
        assert!(until(30));
        let seen = [
            (0, vec![1, 2]),
            (11, vec![0, 2]),
            (11, vec![0, 1]),
            (21, vec![0, 0]),
        ];
        assert_eq!(*log.lock().expect("no panic"), seen);
        assert_eq!(time.source.now().plus(Duration::ZERO), UnixMicros(30_000));
        drop(second);
        assert_eq!(time.members().len(), 1);
        assert!(until(40));
    }
}
