//! The kinds of locks that [`Lock`] can be: what each one asks of Redis, and what its guard offers.

mod fair;
mod fenced;
mod multi;
mod mutex;
mod read_write;
mod redlock;
mod semaphore;

pub use fair::{Fair, FairMutex, FencedFair, FencedFairMutex};
pub use fenced::{Fenced, FencedGuard, FencedMutex};
pub use multi::{FencedMultiKey, FencedMultiKeyMutex, MultiKey, MultiKeyMutex};
pub use mutex::{Exclusive, Mutex};
pub use read_write::{FencedWrite, Read, ReadWrite, RwLock, Write};
pub use redlock::{FencedQuorum, FencedRedlockMutex, Quorum, Redlock, RedlockMutex};
pub use semaphore::{Capacity, Permits, Semaphore};

use crate::{
    algorithm::{Acquisition, around, script_set::ScriptSet, scripted::Scripted},
    core::Core,
    guard::Guard,
    options::Options,
    token::Token,
};
use std::{fmt, sync::Arc};

/// One acquisition on the manager's node.
fn scripted(
    core: &Core,
    scripts: ScriptSet,
    options: &Options,
    token: Token,
) -> Arc<dyn Acquisition> {
    let node = core.node.clone();
    let scripts = around::with_options(scripts, options, &token);
    let acquisition = Scripted::new(node, Arc::new(scripts), token, options.reply_timeout);
    let acquisition = acquisition.waiting_for(options.patience());
    let acquisition = match options.replicas {
        0 => acquisition,
        _ => acquisition.on_its_own_connection(),
    };
    Arc::new(acquisition.holding_at_least(options.hold_at_least))
}

/// A kind of lock.
///
/// Sealed: what a kind needs to say is not public.
pub trait Kind: sealed::Sealed + fmt::Debug + Clone + Send + Sync + 'static {
    /// What its holder gets: a [`Guard`], or one with more to it.
    type Guard: From<Guard> + Into<Guard> + AsRef<Guard> + fmt::Debug + Send + Sync + 'static;
}

pub(crate) mod sealed {
    use super::*;

    /// What the crate asks of a kind.
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Sealed {
        /// One acquisition of the lock `key`, known by `token`.
        #[expect(private_interfaces, reason = "sealed")]
        fn acquisition(
            &self,
            core: &Arc<Core>,
            key: &[u8],
            options: &Options,
            token: Token,
        ) -> Arc<dyn Acquisition>;
    }
}
