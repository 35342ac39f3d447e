//! The lock of a node: how a thread gets the node, and what happens when the thread releases it.
//!
//! *Policy.* A thread that releases the node wakes the transports of all connections with new output,
//! after the lock is free: no waker runs under it. A connection in process whose thread would wait for a
//! long script is left in the inbox instead, and the script's hook serves it. A panic of the thread that has
//! the node takes the node down: what the panic left half done is served to no client.

use super::{Node, SharedNode, lock};
use crate::client_connection::ClientConnection;
use crate::connection::Ending;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;

/// Exclusive use of a node, until dropped.
#[derive(Debug)]
pub(crate) struct NodeGuard<'a> {
    shared: &'a SharedNode,
    /// Absent only while it is dropped.
    node: Option<MutexGuard<'a, Node>>,
    was_panicking: bool,
    /// Whether dropping the guard wakes the transports that wait for the node.
    wakes: bool,
    /// False while the thread that has the node handles another node: a panic then spares this one.
    is_handled: bool,
}

impl NodeGuard<'_> {
    /// States whether the thread handles this node, so that its panic takes the node down.
    #[inline]
    pub(crate) fn set_handled(&mut self, is_handled: bool) {
        self.is_handled = is_handled;
    }
}

const HAS_NODE: &str = "a guard has its node until it is dropped";

impl Deref for NodeGuard<'_> {
    type Target = Node;

    #[inline]
    fn deref(&self) -> &Node {
        self.node.as_ref().expect(HAS_NODE)
    }
}

impl DerefMut for NodeGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Node {
        self.node.as_mut().expect(HAS_NODE)
    }
}

impl Drop for NodeGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_handled && !self.was_panicking && std::thread::panicking() {
            self.shared.fail();
        }
        drop(self.node.take());
        self.shared.access.release();
        if self.wakes {
            self.shared.wake_transports();
        }
    }
}

/// Threads that wait for the node, and connections that were left to a long script.
#[derive(Debug, Default)]
pub(super) struct NodeAccess {
    waiting: AtomicUsize,
    gate: Mutex<()>,
    /// Signalled when the node was released, or a script has become long.
    changed: Condvar,
    /// Mirrors `Inbox::is_open`.
    is_busy: AtomicBool,
    inbox: Mutex<Inbox>,
    /// True if the inbox holds connections that the script did not serve before it ended.
    has_left_over: AtomicBool,
}

/// Connections in process with something to serve beside a long script.
#[derive(Debug, Default)]
struct Inbox {
    /// A long script has the node and reads the inbox.
    is_open: bool,
    waiting: Vec<Arc<ClientConnection>>,
}

impl NodeAccess {
    #[inline]
    fn release(&self) {
        // Either this thread sees the waiting thread, or the waiting thread sees a free node.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        drop(lock(&self.gate));
        self.changed.notify_all();
    }

    fn queue_if_busy(&self, connection: &Arc<ClientConnection>) -> bool {
        if !self.is_busy.load(Ordering::Acquire) {
            return false;
        }
        let mut inbox = lock(&self.inbox);
        if inbox.is_open {
            inbox.waiting.push(connection.clone());
        }
        inbox.is_open
    }

    pub(super) fn is_busy(&self) -> bool {
        self.is_busy.load(Ordering::Acquire)
    }

    /// Opens the inbox for connections in process: a script has become long.
    #[cfg(feature = "script")]
    pub(super) fn begin_busy(&self) {
        let was_open = std::mem::replace(&mut lock(&self.inbox).is_open, true);
        if !was_open {
            self.is_busy.store(true, Ordering::Release);
            self.wake_all();
        }
    }

    /// Closes the inbox: the long script has ended.
    pub(super) fn end_busy(&self) {
        let mut inbox = lock(&self.inbox);
        inbox.is_open = false;
        self.is_busy.store(false, Ordering::Release);
        let has_left_over = !inbox.waiting.is_empty();
        self.has_left_over.store(has_left_over, Ordering::Release);
    }

    /// Takes the connections in the inbox.
    pub(super) fn take_inbox(&self) -> Vec<Arc<ClientConnection>> {
        std::mem::take(&mut lock(&self.inbox).waiting)
    }

    /// Takes the connections that a script has left in the inbox when it ended.
    #[inline]
    pub(super) fn take_left_over(&self) -> Vec<Arc<ClientConnection>> {
        if !self.has_left_over.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        self.take_inbox()
    }
}

/// Connections whose transport has something to do: output, an end, or room for more input.
#[derive(Debug, Default)]
pub(super) struct Notified {
    has_any: AtomicBool,
    connections: Mutex<Vec<Arc<ClientConnection>>>,
    /// Connections over sockets among them, for the thread that serves the sockets.
    for_sockets: Mutex<Vec<Arc<ClientConnection>>>,
    /// Wakes that thread.
    sockets: std::sync::OnceLock<Waker>,
}

impl SharedNode {
    fn guard<'a>(&'a self, node: MutexGuard<'a, Node>, wakes: bool) -> NodeGuard<'a> {
        NodeGuard {
            shared: self,
            node: Some(node),
            was_panicking: std::thread::panicking(),
            wakes,
            is_handled: true,
        }
    }

    /// The node, for a look or a change from outside. Waits for a script that runs.
    pub(crate) fn node(&self) -> NodeGuard<'_> {
        self.guard(lock(&self.node), true)
    }

    /// The node, for one of several that are held together: the caller wakes the transports
    /// ([`SharedNode::wake_transports`]) when it has given back all of them.
    pub(crate) fn node_among_several(&self) -> NodeGuard<'_> {
        self.guard(lock(&self.node), false)
    }

    /// The same, or `None` if another thread has the node.
    pub(crate) fn try_node_among_several(&self) -> Option<NodeGuard<'_>> {
        let mut node = self.try_node()?;
        node.wakes = false;
        Some(node)
    }

    /// The node, or `None` if another thread has it.
    pub(crate) fn try_node(&self) -> Option<NodeGuard<'_>> {
        let node = match self.node.try_lock() {
            Ok(node) => node,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(self.guard(node, true))
    }

    /// The node, to serve a connection in process. `None` if a long script has the node: the connection
    /// is then in the inbox, and the script's hook serves it.
    #[inline]
    pub(super) fn node_for(&self, connection: &Arc<ClientConnection>) -> Option<NodeGuard<'_>> {
        self.try_node().or_else(|| self.wait_for_node(connection))
    }

    #[cold]
    fn wait_for_node(&self, connection: &Arc<ClientConnection>) -> Option<NodeGuard<'_>> {
        let access = &self.access;
        access.waiting.fetch_add(1, Ordering::SeqCst);
        let mut gate = lock(&access.gate);
        let node = loop {
            if let Some(node) = self.try_node() {
                break Some(node);
            }
            if access.queue_if_busy(connection) {
                break None;
            }
            gate = access
                .changed
                .wait(gate)
                .unwrap_or_else(PoisonError::into_inner);
        };
        drop(gate);
        access.waiting.fetch_sub(1, Ordering::SeqCst);
        node
    }

    /// Notes that the transport of a connection has something to do.
    pub(crate) fn note(&self, connection: &Arc<ClientConnection>) {
        if connection.note() {
            lock(&self.notified.connections).push(connection.clone());
            self.notified.has_any.store(true, Ordering::Release);
        }
    }

    /// From now on this wakes the thread that serves the sockets.
    pub(crate) fn wake_sockets_by(&self, waker: Waker) {
        self.notified.sockets.get_or_init(|| waker);
    }

    /// Wakes readers and writers in process, and the thread of the sockets, if there is anything for them.
    /// The caller holds no lock, unless it is the hook of a long script.
    #[inline]
    pub(crate) fn wake_transports(&self) {
        if self.notified.has_any.load(Ordering::Acquire) && self.wake(self.take_notified()) {
            self.wake_sockets();
        }
    }

    /// Takes the connections whose transport has something to do, for [`SharedNode::wake`].
    #[inline]
    pub(crate) fn take_notified(&self) -> Vec<Arc<ClientConnection>> {
        if !self.notified.has_any.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.notified.has_any.store(false, Ordering::Release);
        std::mem::take(&mut *lock(&self.notified.connections))
    }

    /// Wakes the thread that serves the sockets.
    pub(crate) fn wake_sockets(&self) {
        if let Some(waker) = self.notified.sockets.get() {
            waker.wake_by_ref();
        }
    }

    /// The same for the thread of the sockets itself: it takes its share by
    /// [`SharedNode::take_notified_sockets`].
    #[inline]
    pub(crate) fn wake_in_process(&self) {
        if self.notified.has_any.load(Ordering::Acquire) {
            self.wake(self.take_notified());
        }
    }

    /// Wakes the readers and writers of these connections; true if there is something for the thread of the
    /// sockets, which the caller wakes.
    #[cold]
    pub(crate) fn wake(&self, connections: Vec<Arc<ClientConnection>>) -> bool {
        let mut is_for_sockets = false;
        for connection in connections {
            if connection.token().is_some() {
                is_for_sockets = true;
                lock(&self.notified.for_sockets).push(connection);
            } else {
                connection.forget_note();
                connection.wake();
            }
        }
        is_for_sockets
    }

    /// Takes the connections over sockets that have something to do.
    pub(crate) fn take_notified_sockets(&self) -> Vec<Arc<ClientConnection>> {
        std::mem::take(&mut *lock(&self.notified.for_sockets))
    }

    /// The node goes down after a panic: every connection is reset, and later ones are refused.
    #[cold]
    pub(crate) fn fail(&self) {
        tracing::error!(
            "a request made the node panic, which is a bug of redouble or of a rule: the node is down"
        );
        self.failed.store(true, Ordering::Release);
        self.down.store(true, Ordering::Release);
        self.access.end_busy();
        let connections: Vec<_> = lock(&self.connections).values().cloned().collect();
        for connection in connections {
            connection.output().end(Ending::Reset);
            self.note(&connection);
        }
        self.wake_sockets();
    }

    /// True if the node went down by a panic.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}
