//! State that all locks of a manager share. It depends on no kind of lock.

use crate::{node::Node, observe::Observer, renewal::Renewals};
use std::sync::Arc;

/// The node of a manager, its observer, and the watchdogs of its guards.
pub(crate) struct Core {
    pub(crate) node: Node,
    pub(crate) observer: Observer,
    pub(crate) renewals: Arc<Renewals>,
}
