//! Scripts as far as a node remembers them: the cache, and the script that runs or keeps the node busy.
//!
//! *Invariants.* `busy` is set exactly while a script has run past `busy-reply-threshold`, or was abandoned and not yet
//! killed; then only a few commands pass the gates. The flags of a script are set when it starts and hold until
//! the next one starts.
//!
//! Lua is unknown here; `script/` runs it.

use super::clients::transaction::Queue;
use super::conn_id::ConnId;
#[cfg(feature = "script")]
use super::script::Scripts;
use crate::resp::{ErrorReply, Protocol, Reply};

/// A script that was abandoned, or that runs while other clients are answered.
#[derive(Clone, Debug)]
pub(super) struct Busy {
    pub(super) caller: ConnId,
    pub(super) killed: bool,
    /// The caller's answer when the script is killed, if its VM is gone and only the caller still waits.
    pub(super) abandoned: Option<ErrorReply>,
    /// The transaction that the script is part of.
    pub(super) transaction: Option<Transaction>,
}

/// A transaction in whose middle a script was given up; it goes on when the script is killed.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(super) conn: ConnId,
    pub(super) queue: Box<Queue>,
    /// Of those that were carried out.
    pub(super) replies: Vec<Reply>,
    /// How many were carried out.
    pub(super) done: usize,
}

impl Transaction {
    /// What was answered so far stays in this protocol.
    #[cold]
    pub(super) fn keep_in(&mut self, protocol: Protocol) {
        for reply in &mut self.replies {
            let earlier = Box::new(std::mem::replace(reply, Reply::Nil));
            *reply = Reply::Earlier {
                protocol,
                reply: earlier,
            };
        }
    }
}

/// Scripts of a node.
#[derive(Debug, Default)]
pub(super) struct Scripting {
    #[cfg(feature = "script")]
    pub(super) scripts: Scripts,
    pub(super) busy: Option<Busy>,
    /// The script that runs, or was abandoned, has executed a write command.
    pub(super) wrote: bool,
    /// The script that runs has promised not to write.
    pub(super) reads_only: bool,
    /// The script that runs may use more memory than `maxmemory` allows.
    pub(super) allows_oom: bool,
    /// The script that runs has promised to keep to the slot of its first key.
    pub(super) keeps_to_slot: bool,
    /// The latest error that a script was given.
    pub(super) error: Option<ErrorReply>,
}
