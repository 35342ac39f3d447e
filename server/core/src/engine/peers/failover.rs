//! FAILOVER: a master that stops taking writes, waits until a replica has all it has, and follows it.
//!
//! *Policy* (`replication.c: updateFailoverStatus`): the first replica that is as far as its master
//! takes over, or the one that was named. When the time is over it is all called off, or done nonetheless
//! where that was wanted. Other replicas go on following their master, which is a replica then. How
//! nodes change places is the affair of `topology/`; one that cannot be reached lets its master wait.

use crate::engine::peers::replication::Address;
use crate::engine::time::UnixMillis;

/// A failover that was asked for and has not come about.
#[derive(Clone, Debug)]
pub(crate) struct Failover {
    /// The replica that takes over; `None` for the first one that has everything.
    pub(crate) target: Option<Address>,
    /// The timeout, if any.
    pub(crate) until: Option<UnixMillis>,
    /// The replica takes over at the timeout even if it lags.
    pub(crate) is_forced: bool,
    /// The replica takes over; the node waits for its answer.
    pub(in crate::engine) is_handing_over: bool,
}

impl Failover {
    pub(crate) fn new(target: Option<Address>, until: Option<UnixMillis>, is_forced: bool) -> Self {
        Self {
            target,
            until,
            is_forced,
            is_handing_over: false,
        }
    }
}
