//! Connections that one call has to itself for a while. WAIT holds up the connection that it is sent over, and counts the writes of
//! that one alone: so a lock that waits for replicas is asked for, and waits, on a connection that nothing else uses meanwhile.

use super::Node;
use crate::{
    environment::within,
    error::{NodeError, NodeErrorKind},
    line::Line,
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How many connections are kept for later calls.
const KEPT_MAX: usize = 8;

/// Connections that no call has at the moment.
#[derive(Default)]
pub(super) struct Spare(Mutex<Vec<Arc<Line>>>);

impl Spare {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Line>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection for one acquisition. Dropping it gives the connection back.
pub(crate) struct OwnLine {
    node: Arc<Node>,
    line: Mutex<Option<Arc<Line>>>,
}

impl OwnLine {
    pub(crate) fn new(node: &Arc<Node>) -> Self {
        Self {
            node: Arc::clone(node),
            line: Mutex::default(),
        }
    }

    /// The connection; a new one if a reply stayed out on the last one. The user's own connection is the only one that there is.
    pub(crate) async fn line(&self, until: Duration) -> Result<Arc<Line>, NodeError> {
        if !self.node.endpoint.redials() {
            return self.node.line(until).await;
        }
        let mut kept = self.lock().take();
        loop {
            match kept {
                Some(line) if line.is_sound() => {
                    *self.lock() = Some(Arc::clone(&line));
                    return Ok(line);
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
        let line = Line::new(dialled, &**self.node.env(), &self.node.hub)?;
        *self.lock() = Some(Arc::clone(&line));
        Ok(line)
    }

    /// Gives the connection back for other calls.
    pub(crate) fn give_back(&self) {
        let Some(line) = self.lock().take().filter(|line| line.is_sound()) else {
            return;
        };
        let mut spare = self.node.spare.lock();
        if spare.len() < KEPT_MAX {
            spare.push(line);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Line>>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OwnLine {
    fn drop(&mut self) {
        self.give_back();
    }
}
