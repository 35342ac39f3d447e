//! Connections that one call at a time uses alone. WAIT blocks the connection that it is sent over, and counts only the writes of
//! that connection. So a call that waits for replicas acquires the lock and sends WAIT over a connection that no other call uses.

use super::{
    dial::{Dialling, Outcome},
    dial_task::{Dialler, dial},
    link::Link,
};
use crate::{
    connection::Connection,
    environment::Environment,
    error::NodeError,
    wire::{Dialled, Endpoint},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Number of connections that are kept for later calls.
const KEPT_MAX: usize = 8;

/// Connections that no call uses at the moment.
pub(crate) struct Spare {
    link: Arc<Link>,
    connections: Mutex<Vec<Arc<Connection>>>,
    dialling: Dialling,
}

impl Spare {
    pub(super) fn new(link: &Arc<Link>) -> Self {
        Self {
            link: Arc::clone(link),
            connections: Mutex::default(),
            dialling: Dialling::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection on which no reply stayed out.
    fn pop(&self) -> Option<Arc<Connection>> {
        let mut connections = self.lock();
        while let Some(connection) = connections.pop() {
            if connection.is_sound() {
                return Some(connection);
            }
        }
        None
    }
}

impl Dialler for Spare {
    fn endpoint(&self) -> &dyn Endpoint {
        &*self.link.endpoint
    }

    fn env(&self) -> &Arc<dyn Environment> {
        self.link.env()
    }

    fn connect_timeout(&self) -> Duration {
        self.link.connect_timeout
    }

    fn dialling(&self) -> &Dialling {
        &self.dialling
    }

    /// Keeps it for the first call that looks for one.
    fn take(&self, dialled: Dialled) -> Outcome {
        let connection = self.link.opened(dialled)?;
        self.lock().push(Arc::clone(&connection));
        Ok(connection)
    }
}

/// A connection for one acquisition. Dropping it gives the connection back.
pub(crate) struct OwnConnection {
    spare: Arc<Spare>,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl OwnConnection {
    pub(super) fn new(spare: &Arc<Spare>) -> Self {
        Self {
            spare: Arc::clone(spare),
            connection: Mutex::default(),
        }
    }

    /// The connection; a new one if a reply stayed out on the last one. The user's own connection is the only one that there is.
    pub(crate) async fn connection(&self, until: Duration) -> Result<Arc<Connection>, NodeError> {
        let link = &self.spare.link;
        if !link.endpoint.redials() {
            return link.connection(until).await;
        }
        let kept = self.lock().take();
        let mut connection = kept.filter(|connection| connection.is_sound());
        loop {
            if let Some(connection) = connection.or_else(|| self.spare.pop()) {
                *self.lock() = Some(Arc::clone(&connection));
                return Ok(connection);
            }
            // Another call may take the new connection first.
            dial(&self.spare, until).await?;
            connection = None;
        }
    }

    /// Takes the connection out for a request that blocks it. Until [`give_back`](Self::give_back) no other call gets it: a call that is
    /// cancelled meanwhile leaves the connection blocked.
    pub(crate) fn take(&self) -> Option<Arc<Connection>> {
        self.lock().take()
    }

    /// Gives the connection back for other calls.
    pub(crate) fn give_back(&self, connection: Arc<Connection>) {
        let mut spare = self.spare.lock();
        if connection.is_sound() && spare.len() < KEPT_MAX {
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
        if let Some(connection) = self.take() {
            self.give_back(connection);
        }
    }
}
