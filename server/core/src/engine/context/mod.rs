//! [`Ctx`] is everything that a handler may use: the caller's session, the instant, and methods for the rest
//! of the node.
//!
//! `keys.rs` has keys and values, `object.rs` what belongs to a key beside its value, `clients.rs` connections,
//! `node.rs` the node itself, `persistence.rs` files of data, `propagation.rs`
//! how a command enters the stream that replicas read. The node's state is invisible outside of the engine.

mod acl;
mod clients;
mod keys;
mod node;
mod object;
mod persistence;
mod propagation;

pub(crate) use propagation::Arg;

use super::CommandError;
use super::effect::Effect;
use super::time::{UnixMicros, UnixMillis};
use super::value::{Kind, StreamId};
use crate::engine::clients::blocking::{BlockingWait, Retry};
use crate::engine::clients::session::Session;
use crate::engine::clients::transaction::Queue;
use crate::engine::origin::Origin;
use crate::engine::state::State;
use crate::resp::{Blob, Reply};
pub(crate) use object::TouchOrder;
use std::time::Duration;

/// Policy of FUNCTION RESTORE for existing libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestorePolicy {
    /// They go.
    Flush,
    /// They stay; a library of the same name is an error.
    Append,
    /// They stay, but for those of the same names.
    Replace,
}

/// Request to the engine about a script, carried out after the handler has returned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScriptCall {
    /// Run it. `first_key` is the index of the first key argument in the request.
    Run {
        script: usize,
        first_key: usize,
        keys: usize,
        /// True if the caller forbids writes (EVAL_RO), even if the script allows them.
        reads_only: bool,
    },
    /// Compile it and answer its digest.
    Load { script: usize },
    /// Call the function that the first argument of the request names.
    Function {
        first_key: usize,
        keys: usize,
        /// True if the caller forbids writes (FCALL_RO).
        reads_only: bool,
    },
    /// Load the library in the last argument of the request.
    LoadLibrary {
        /// True if it may stand in the place of one of the same name.
        replaces: bool,
    },
    /// Read the libraries that an RDB file had, and answer OK.
    ReadLibraries,
    /// Load the libraries in the third argument of the request.
    RestoreLibraries { policy: RestorePolicy },
}

/// Work of the engine after a handler has returned.
#[derive(Debug)]
pub(crate) enum Continuation {
    /// A script runs, and its reply is the reply.
    Script(ScriptCall),
    /// EXEC took this from the queue.
    Exec(Box<Queue>),
    /// The request waits.
    Wait(Box<BlockingWait>),
}

/// Fate of a key's deadline when its value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ttl {
    Keep,
    Clear,
    At(UnixMillis),
}

/// The context of one command.
pub(crate) struct Ctx<'a> {
    pub(super) state: &'a mut State,
    pub(crate) session: &'a mut Session,
    pub(crate) now: UnixMicros,
    /// The same, as deadlines count.
    pub(crate) now_millis: UnixMillis,
    pub(crate) origin: Origin,
    /// Duration of the command, in microseconds.
    pub(crate) took: u64,
    /// Work of the engine after the handler.
    pub(crate) then: Option<Continuation>,
    /// Number of the caller's own frames that come before the reply.
    pub(crate) reply_at: Option<usize>,
}

impl Ctx<'_> {
    #[inline(always)]
    pub(crate) fn now_millis(&self) -> UnixMillis {
        self.now_millis
    }

    /// Parks the request until one of `keys` holds a value of this kind, or for `timeout` (`None`:
    /// for ever), after which the answer is `on_timeout`. Where nothing may wait (EXEC), that is the
    /// answer at once. The request is then run again through the same handler, for one key that
    /// became ready: [`Ctx::may_serve`]. Handlers return what this returns.
    pub(crate) fn block_on(
        &mut self,
        keys: &[&[u8]],
        kind: Kind,
        timeout: Option<Duration>,
        on_timeout: Reply,
    ) -> Result<Reply, CommandError> {
        match self.origin {
            Origin::Exec | Origin::Script => return Ok(on_timeout),
            Origin::Retry => {}
            Origin::Client => {
                let wait = BlockingWait {
                    db: self.session.db,
                    keys: keys.iter().map(|key| Blob::new(key)).collect(),
                    kind,
                    until: timeout.map(|timeout| self.now.plus(timeout).millis()),
                    on_timeout,
                    after: Vec::new(),
                    hears_of_loss: false,
                };
                self.then = Some(Continuation::Wait(Box::new(wait)));
            }
        }
        Err(CommandError::Parked)
    }

    /// Parks the request until a stream has entries after an id (XREAD), or until the group of the caller can
    /// be served (XREADGROUP, which has no ids of its own). A reader of a group also gets a reply when the
    /// stream or the group is deleted.
    pub(crate) fn block_on_streams(
        &mut self,
        keys: &[&[u8]],
        after: Option<Vec<StreamId>>,
        timeout: Option<Duration>,
    ) -> Result<Reply, CommandError> {
        let answer = self.block_on(keys, Kind::Stream, timeout, Reply::NilArray);
        if let Some(Continuation::Wait(wait)) = &mut self.then {
            wait.hears_of_loss = after.is_none();
            wait.after = after.unwrap_or_default();
        }
        answer
    }

    /// Reason for which the request runs again, if it was blocked.
    pub(crate) fn retry(&self) -> Option<&Retry> {
        self.state.unit.retry.as_ref()
    }

    /// Parks the request for a time (`None`: forever) and then replies; at once where requests may not wait.
    pub(crate) fn block_for(
        &mut self,
        timeout: Option<Duration>,
        answer: Reply,
    ) -> Result<Reply, CommandError> {
        // No key will ever end this.
        self.block_on(&[], Kind::String, timeout, answer)
    }

    /// Returns true if a blocking command may look at this key now: at its first run at all of them, when it is run
    /// again only at the one that became ready.
    pub(crate) fn may_serve(&self, key: &[u8]) -> bool {
        self.state
            .unit
            .retry
            .as_ref()
            .is_none_or(|retry| *retry.key == *key)
    }

    /// The node serves no client for so long.
    pub(crate) fn stall(&mut self, duration: Duration) {
        // Of two sleeps in a transaction the longer one counts.
        let begun = match self.origin {
            Origin::Exec => self.state.unit.awake_at.max(self.now),
            Origin::Client | Origin::Script | Origin::Retry => self.now,
        };
        let until = begun.plus(duration);
        self.state.unit.awake_at = until;
        self.took = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.state.unit.outbox.push(Effect::Stall { until });
    }

    /// Ends the caller's connection after its reply.
    pub(crate) fn close(&mut self) {
        let conn = self.session.conn;
        self.state.unit.outbox.push(Effect::Close { conn });
    }
}
