//! The kinds of locks that [`Lock`] can be: what each one asks of Redis, and what its guard offers.

mod fair;
mod fenced;
mod multi;
mod mutex;
mod read_write;
mod redlock;
mod semaphore;

pub use fair::{Fair, FairMutex};
pub use fenced::{Fenced, FencedGuard, FencedMutex};
pub use multi::{MultiKey, MultiKeyMutex};
pub use mutex::{Exclusive, Mutex};
pub use read_write::{Read, ReadWrite, RwLock, Write};
pub use redlock::{Quorum, Redlock, RedlockMutex};
pub use semaphore::{Capacity, Permits, Semaphore};

use crate::{
    algorithm::{Acquisition, around, script_set::ScriptSet, scripted::Scripted},
    core::Core,
    guard::Guard,
    options::Options,
    token::Token,
};
use std::{fmt, sync::Arc};

/// A kind of lock.
///
/// Sealed: what a kind needs to say is not public.
pub trait Kind: sealed::Sealed + fmt::Debug + Clone + Send + Sync + 'static {
    /// What its holder gets: a [`Guard`], or one with more to it.
    type Guard: From<Guard> + Into<Guard> + AsRef<Guard> + fmt::Debug + Send + Sync + 'static;
}

/// What [`fenced`](crate::LockBuilder::fenced) can be called for: kinds with one holder at a time, and [`RwLock`], whose writers then
/// get fencing tokens.
///
/// Sealed.
pub trait Fenceable: sealed::Fenceable + fmt::Debug + Clone + Send + Sync + 'static {}

impl<K: sealed::Fenceable + fmt::Debug + Clone + Send + Sync + 'static> Fenceable for K {}

/// What a kind is asked for: one acquisition.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) core: &'a Core,
    pub(crate) key: &'a [u8],
    pub(crate) options: &'a Options,
    /// By which the acquisition is known.
    pub(crate) token: Token,
    /// Whether the grant carries a fencing token. Kinds that are not [`Fenceable`] are never asked for one.
    pub(crate) fenced: bool,
}

impl Asked<'_> {
    /// An acquisition on the manager's node.
    fn scripted(&self, scripts: ScriptSet) -> Arc<dyn Acquisition> {
        let (node, options) = (self.core.node.clone(), self.options);
        let scripts = Arc::new(around::with_options(scripts, options, &self.token));
        let acquisition = Scripted::new(node, scripts, self.token, options.reply_timeout);
        let acquisition = acquisition.waiting_for(options.patience());
        let acquisition = match options.replicas {
            0 => acquisition,
            _ => acquisition.on_its_own_connection(),
        };
        Arc::new(acquisition)
    }
}

pub(crate) mod sealed {
    use super::*;

    /// What the crate asks of a kind.
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Sealed {
        /// One acquisition.
        #[expect(private_interfaces, reason = "sealed")]
        fn acquisition(&self, asked: Asked<'_>) -> Arc<dyn Acquisition>;
    }

    /// Marks what can have fencing tokens.
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Fenceable {}
}
