//! What the core asks of a Redis client library: one command, one answer. Not part of the stable API until there is a second
//! adapter. An adapter implements
//! [`Endpoint`] and [`Wire`]; the one for the `redis` crate is behind
//! the feature `redis`, which is on by default.

use crate::{environment::BoxFuture, error::NodeError};
use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

/// A way to reach one Redis node.
pub trait Endpoint: Send + Sync + 'static {
    /// Opens a connection. Its driver, if it has one, is run in the background by the caller.
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, NodeError>>;

    /// Returns true if [`dial`](Self::dial) gives a new connection each time. If it gives the same one over and over,
    /// that one is kept even when an answer stays out.
    fn redials(&self) -> bool {
        true
    }

    /// Returns true if its connections send a request again by themselves, without telling, when a connection ends: as
    /// those to a cluster do. Requests are then such that executing them twice does no harm.
    fn resends(&self) -> bool {
        false
    }

    /// Opens a connection for nothing but `SUBSCRIBE`, `UNSUBSCRIBE` and the messages, if there is a way to.
    /// Asked for only if connections of [`dial`](Self::dial) come without [`pushes`](Dialled::pushes).
    /// Where there is neither, waiters poll.
    fn dial_subscriber(&self) -> BoxFuture<'_, Result<Option<Dialled>, NodeError>> {
        Box::pin(async { Ok(None) })
    }
}

/// A fresh connection.
pub struct Dialled {
    /// Where to send commands.
    pub wire: Arc<dyn Wire>,
    /// The task that moves the bytes, to be run until it ends or until the connection is dropped.
    pub driver: Option<BoxFuture<'static, ()>>,
    /// What arrives on it unasked. If there is something, `SUBSCRIBE` is sent over it too, a channel at a
    /// time.
    pub pushes: Option<Box<dyn Pushes>>,
}

/// What a node sends without being asked, in the order in which it comes.
pub trait Pushes: Send + 'static {
    /// Waits for the next one; as `Stream::poll_next`.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Push>>;
}

/// Something that a node sent without being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Push {
    /// A message on a channel that was subscribed to.
    Message {
        /// The name of the channel.
        channel: Vec<u8>,
        /// What was published.
        payload: Vec<u8>,
    },
    /// Keys that were read with `CLIENT TRACKING` were changed.
    Changed {
        /// Which; nothing if it may be any.
        keys: Option<Vec<Vec<u8>>>,
    },
    /// The connection ended; if it goes on, the node knows nothing of what was subscribed to and tracked.
    Disconnected,
}

impl fmt::Debug for Dialled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialled")
            .field("driver", &self.driver.is_some())
            .field("pushes", &self.pushes.is_some())
            .finish_non_exhaustive()
    }
}

/// One connection.
pub trait Wire: Send + Sync + 'static {
    /// Sends a command and waits for its answer.
    ///
    /// Commands are executed in the order in which their futures were first polled. A future that
    /// is dropped after that has been sent or will never be; which of both is not known.
    fn call(&self, command: Command) -> BoxFuture<'static, Result<Reply, NodeError>>;
}

/// A Redis command with its arguments.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Command {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Command {
    /// Starts a command with its name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self::default().arg(name)
    }

    /// Appends an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Self {
        self.bytes.extend_from_slice(arg.as_ref());
        self.ends.push(self.bytes.len());
        self
    }

    /// One with room for so many arguments and bytes.
    pub(crate) fn with_capacity(args: usize, bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(args),
        }
    }

    /// How many arguments there are, its name among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there is not even a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How long its arguments are together.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Iterates over the name and the arguments.
    pub fn args(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins
            .zip(&self.ends)
            .map(|(begin, &end)| &self.bytes[begin..end])
    }
}

/// From its name and its arguments.
impl<const N: usize> From<[&[u8]; N]> for Command {
    fn from(args: [&[u8]; N]) -> Self {
        let command = Self::with_capacity(N, args.iter().map(|arg| arg.len()).sum());
        args.into_iter().fold(command, Self::arg)
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.args().map(String::from_utf8_lossy))
            .finish()
    }
}

/// The answer to a command, as far as the locks need to tell answers apart. An error answer is not
/// one of them but a [`NodeError`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// The simple string `OK`.
    Okay,
    /// Nil of any kind.
    Nil,
    /// An integer.
    Integer(i64),
    /// A bulk string, or a simple string other than `OK`.
    Bytes(Vec<u8>),
    /// An array.
    Array(Vec<Self>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_its_arguments_apart() {
        let command = Command::new("SET").arg("k").arg("").arg(b"v\0");
        let args: Vec<_> = command.args().collect();
        assert_eq!((command.len(), command.size_bytes()), (4, 6));
        assert_eq!(args, [&b"SET"[..], b"k", b"", b"v\0"]);
    }
}
