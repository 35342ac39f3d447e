//! The scripts of one kind of lock, with their keys and arguments.

use crate::{node::Call, script::Script, token::Token};

/// What an algorithm asks of a node.
///
/// All scripts get the same keys and `ARGV[1]` = the token. `ARGV[2]` is the lease in ms, or for a
/// release the time in ms for which the lock shall stay taken. `ARGV[3]` is the name under which the caller waits or waited, empty if it
/// never did; `ARGV[4]` for how many ms the waiter counts as alive, 0 if it does not wait for a message. Then follow `args`.
pub(crate) struct ScriptSet {
    /// The first one is the name of the lock. In a cluster all of them are in one slot.
    pub(crate) keys: Vec<Vec<u8>>,
    /// How many of the first keys name the holders of the lock.
    pub(crate) holders: usize,
    /// What the kind adds to the name of a waiter.
    pub(crate) adds: Vec<u8>,
    /// Whether `acquire` and `extend` end with a read of the `holders`, so that the node tells of changes by other clients.
    pub(crate) tracked: bool,
    /// What all three scripts get besides the token and the lease.
    pub(crate) args: Vec<Vec<u8>>,
    /// Whether the first request is a plain `SET NX PX`; it says what `acquire` says.
    pub(crate) begins_with_set: bool,
    /// Whether each refusal leaves something behind, such as a place in a queue; `release` removes that too.
    pub(crate) queues: bool,
    /// Replies `OK`, or `[OK, fencing token]`; or for how many ms the holder may stay, -1 if that is not
    /// known.
    pub(crate) acquire: &'static Script,
    /// Replies 1, or 0 if this acquisition does not hold the lock any more.
    pub(crate) extend: &'static Script,
    /// Replies 1, or 0 if this acquisition did not hold the lock any more. Ends the wait too, and wakes the waiters that can be served now.
    pub(crate) release: &'static Script,
}

impl ScriptSet {
    pub(super) fn call<'a>(
        &'a self,
        token: &'a Token,
        number: &'a str,
        name: &'a [u8],
        patience_ms: &'a [u8],
    ) -> Call<'a, impl Iterator<Item = &'a [u8]> + Clone> {
        let args = [token.as_bytes(), number.as_bytes(), name, patience_ms].into_iter();
        Call {
            keys: &self.keys,
            args: args.chain(self.args.iter().map(Vec::as_slice)),
        }
    }
}
