//! Connections that one call has to itself for a while. WAIT holds up the connection that it is sent over, and counts the writes of
//! that one alone: so a lock that waits for replicas is asked for, and waits, on a connection that nothing else uses meanwhile.

use super::Node;
use crate::{
    connection::Connection,
    environment::within,
    error::{NodeError, NodeErrorKind},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How many connections are kept for later calls.
const KEPT_MAX: usize = 8;

/// Connections that no call has at the moment.
#[derive(Default)]
pub(super) struct Spare(Mutex<Vec<Arc<Connection>>>);

impl Spare {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection for one acquisition. Dropping it gives the connection back.
pub(crate) struct OwnConnection {
    node: Arc<Node>,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl OwnConnection {
    pub(crate) fn new(node: &Arc<Node>) -> Self {
        Self {
            node: Arc::clone(node),
            connection: Mutex::default(),
        }
    }

    /// The connection; a new one if a reply stayed out on the last one. The user's own connection is the only one that there is.
    pub(crate) async fn connection(&self, until: Duration) -> Result<Arc<Connection>, NodeError> {
        if !self.node.endpoint.redials() {
            return self.node.connection(until).await;
        }
        let mut kept = self.lock().take();
        loop {
            match kept {
                Some(connection) if connection.is_sound() => {
                    *self.lock() = Some(Arc::clone(&connection));
                    return Ok(connection);
                }
                Some(_) | None => {}
            }
            kept = self.node.spare.lock().pop();
            if kept.is_none() {
                break;
            }
        }
        let dialled = within(&**self.node.env(), until, self.node.endpoint.dial()).await;
        let dialled = dialled.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::Unreachable)))?;
        let connection = Connection::new(dialled, &**self.node.env(), &self.node.waiters)?;
        *self.lock() = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Gives the connection back for other calls.
    pub(crate) fn give_back(&self) {
        let Some(connection) = self
            .lock()
            .take()
            .filter(|connection| connection.is_sound())
        else {
            return;
        };
        let mut spare = self.node.spare.lock();
        if spare.len() < KEPT_MAX {
            spare.push(connection);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OwnConnection {
    fn drop(&mut self) {
        self.give_back();
    }
}
