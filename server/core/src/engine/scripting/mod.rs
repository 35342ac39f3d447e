//! Scripts as far as a node remembers them: the cache, and the script that runs or keeps the node busy.
//!
//! *Invariants.* `busy` is set exactly while a script has run past `busy-reply-threshold`, or was abandoned and not yet
//! killed; then only a few commands pass the gates. The flags of a script are set when it starts and hold until
//! the next one starts.
//!
//! Lua is unknown here; `script/` has the virtual machines, `driver/script/` runs scripts on them.

#[cfg(feature = "script")]
mod cache;
#[cfg(feature = "script")]
mod settings;
#[cfg(feature = "script")]
mod shebang;

#[cfg(feature = "script")]
pub(in crate::engine) use cache::Scripts;
#[cfg(feature = "script")]
pub(in crate::engine) use settings::{InvalidNumbers, RANDOM_START, Settings};
#[cfg(feature = "script")]
pub(in crate::engine) use shebang::Shebang;

use super::CommandError;
use super::clients::transaction::Queue;
use super::conn_id::ConnId;
use super::libraries::Libraries;
#[cfg(feature = "script")]
use super::time::UnixMicros;
#[cfg(feature = "script")]
use crate::resp::Blob;
#[cfg(feature = "script")]
use crate::resp::OwnedRequest;
use crate::resp::{ErrorReply, Protocol, Reply};

/// A script that was abandoned, or that runs while other clients are answered.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Busy {
    pub(in crate::engine) caller: ConnId,
    pub(in crate::engine) killed: bool,
    /// Reply to the caller if its script is killed after its VM was dropped.
    pub(in crate::engine) abandoned: Option<ErrorReply>,
    /// The transaction that the script is part of.
    pub(in crate::engine) transaction: Option<Transaction>,
}

/// A transaction that waits for an abandoned script in its middle. It continues when the script is killed.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(in crate::engine) conn: ConnId,
    pub(in crate::engine) queue: Box<Queue>,
    /// Replies of the requests that were executed.
    pub(in crate::engine) replies: Vec<Reply>,
    /// Number of requests that were executed.
    pub(in crate::engine) done: usize,
    /// False if CLIENT REPLY suppressed the head of the reply, since it precedes the requests.
    pub(in crate::engine) has_head: bool,
    /// CLIENT REPLY suppressed a part of the reply.
    pub(in crate::engine) has_gaps: bool,
}

impl Transaction {
    pub(in crate::engine) fn new(conn: ConnId, queue: Box<Queue>, has_head: bool) -> Self {
        Self {
            conn,
            replies: Vec::with_capacity(queue.len()),
            queue,
            done: 0,
            has_head,
            has_gaps: !has_head,
        }
    }

    /// The reply of EXEC, and the queue for reuse. Its head counts all requests, also those without a reply: Redis writes it before it
    /// executes them, so CLIENT REPLY leaves an array with too few elements.
    pub(in crate::engine) fn into_reply(self) -> (Reply, Box<Queue>) {
        let reply = if self.has_gaps {
            let head = format!("*{}\r\n", self.queue.len()).into_bytes();
            let head = self.has_head.then(|| Reply::Raw(head.into()));
            Reply::Several(head.into_iter().chain(self.replies).collect())
        } else {
            Reply::Array(self.replies)
        };
        (reply, self.queue)
    }

    /// Keeps this protocol for the replies so far, whatever the script changes.
    #[cold]
    pub(in crate::engine) fn keep_in(&mut self, protocol: Protocol) {
        for reply in &mut self.replies {
            let earlier = Box::new(std::mem::replace(reply, Reply::Nil));
            *reply = Reply::Earlier {
                protocol,
                reply: earlier,
            };
        }
    }
}

/// `redis.set_repl`: the bit of the replicas.
const TO_REPLICAS: i64 = 2;
/// All bits of it.
#[cfg(feature = "script")]
pub(in crate::engine) const TO_ALL: i64 = 3;

impl Scripting {
    /// Codes of the libraries of functions.
    pub(in crate::engine) fn library_codes(&self) -> Vec<&[u8]> {
        let codes = self.libraries.iter().map(|library| &*library.code);
        codes.collect()
    }

    /// True if what the script that runs does is propagated to replicas.
    pub(in crate::engine) fn reaches_replicas(&self) -> bool {
        self.propagates_to & TO_REPLICAS != 0
    }
}

/// Scripts of a node.
#[derive(Debug, Default)]
pub(in crate::engine) struct Scripting {
    #[cfg(feature = "script")]
    pub(in crate::engine) scripts: Scripts,
    pub(in crate::engine) busy: Option<Busy>,
    /// The script that runs, or was abandoned, has executed a write command.
    pub(in crate::engine) wrote: bool,
    /// The script that runs has promised not to write.
    pub(in crate::engine) reads_only: bool,
    /// The script that runs may use more memory than `maxmemory` allows.
    pub(in crate::engine) allows_oom: bool,
    /// The script that runs has promised to keep to the slot of its first key.
    pub(in crate::engine) keeps_to_slot: bool,
    /// `redis.set_repl`: bit 0 is the append-only file, bit 1 the replicas. A script starts with both.
    pub(in crate::engine) propagates_to: i64,
    /// Libraries of functions.
    pub(in crate::engine) libraries: Libraries,
    /// Codes of libraries that an RDB file had, and that the VM has to read before the next request.
    #[cfg(feature = "script")]
    pub(in crate::engine) unread: Vec<Blob>,
    /// The settings of `cjson` that functions have changed.
    #[cfg(feature = "script")]
    pub(in crate::engine) function_settings: Settings,
    /// True if the running or abandoned code is a function, not a script.
    pub(in crate::engine) runs_function: bool,
    /// The request that called the function that runs.
    #[cfg(feature = "script")]
    pub(in crate::engine) call: OwnedRequest,
    /// Time at which it began.
    #[cfg(feature = "script")]
    pub(in crate::engine) began: UnixMicros,
    /// Scripts may call commands that are refused in scripts (DEBUG SET-DISABLE-DENY-SCRIPTS).
    pub(in crate::engine) allows_all: bool,
    /// The latest error that a script was given.
    pub(in crate::engine) error: Option<ErrorReply>,
}

impl Scripting {
    /// The error for a request that cannot be served beside what runs.
    pub(in crate::engine) fn busy_error(&self) -> CommandError {
        if self.runs_function {
            CommandError::BusyFunction
        } else {
            CommandError::Busy
        }
    }
}
