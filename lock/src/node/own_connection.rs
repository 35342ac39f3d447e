//! Connections that one call at a time uses alone. WAIT blocks the connection that it is sent over, and counts only the writes of
//! that connection. So a call that waits for replicas acquires the lock and sends WAIT over a connection that no other call uses.

use super::link::Link;
use crate::{
    connection::Connection,
    environment::within,
    error::{NodeError, NodeErrorKind},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Number of connections that are kept for later calls.
const KEPT_MAX: usize = 8;

/// Connections that no call uses at the moment.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Vec<Arc<Connection>>>);

impl Spare {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection for one acquisition. Dropping it gives the connection back.
pub(crate) struct OwnConnection {
    link: Arc<Link>,
    spare: Arc<Spare>,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl OwnConnection {
    pub(super) fn new(link: &Arc<Link>, spare: &Arc<Spare>) -> Self {
        Self {
            link: Arc::clone(link),
            spare: Arc::clone(spare),
            connection: Mutex::default(),
        }
    }

    /// The connection; a new one if a reply stayed out on the last one. The user's own connection is the only one that there is.
    pub(crate) async fn connection(&self, until: Duration) -> Result<Arc<Connection>, NodeError> {
        if !self.link.endpoint.redials() {
            return self.link.connection(until).await;
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
            kept = self.spare.lock().pop();
            if kept.is_none() {
                break;
            }
        }
        let dialled = within(&**self.link.env(), until, self.link.endpoint.dial()).await;
        let dialled = dialled.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::Unreachable)))?;
        let connection = self.link.opened(dialled)?;
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
        let mut spare = self.spare.lock();
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
