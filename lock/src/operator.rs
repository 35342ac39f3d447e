//! Operations for operators: the holder of a lock, its waiters, and a release by force.

use crate::{
    algorithm::{around, beside, once::run_once, single, waiters_key},
    error::{LockError, NodeError, NodeErrorKind},
    manager::LockManager,
    node::Call,
    options::Options,
    script::{Script, script},
    wire::Reply,
};
use std::{sync::LazyLock, time::Duration};

static HOLDER: LazyLock<Script> = script!("holder.lua");

static QUEUE: LazyLock<Script> = script!("now.lua", "queue.lua");

/// The holder of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The value of the key: the [`Token`](crate::Token) of the grant, if a lock of this crate wrote it.
    pub token: Vec<u8>,
    /// Time to live of the key; nothing if it has none.
    pub remaining: Option<Duration>,
    /// The [`metadata`](crate::LockBuilder::metadata) of the holder.
    pub metadata: Option<Vec<u8>>,
}

impl LockManager {
    /// Returns the holder of the lock `key` at this moment. For locks whose key holds one token: mutexes, with and
    /// without fencing tokens. One round trip.
    ///
    /// # Errors
    ///
    /// [`LockError::Redis`] or [`LockError::Unknown`] if Redis did not answer, or if that key is something else.
    pub async fn holder(&self, key: impl AsRef<[u8]>) -> Result<Option<Holder>, LockError> {
        let key = self.core().key(key.as_ref());
        let place = around::metadata_place(&key);
        let reply = self.run(&HOLDER, &key, vec![place], false).await?;
        match reply {
            Reply::Nil => Ok(None),
            Reply::Array(items) => match <[Reply; 3]>::try_from(items) {
                Ok([Reply::Bytes(token), Reply::Integer(ttl_ms), metadata]) => Ok(Some(Holder {
                    token,
                    remaining: u64::try_from(ttl_ms).ok().map(Duration::from_millis),
                    metadata: match metadata {
                        Reply::Bytes(metadata) => Some(metadata),
                        Reply::Nil | Reply::Okay | Reply::Integer(_) | Reply::Array(_) => None,
                    },
                })),
                _ => Err(senseless()),
            },
            Reply::Okay | Reply::Integer(_) | Reply::Bytes(_) => Err(senseless()),
        }
    }

    /// Returns true if a client holds the lock `key` at this moment. For locks whose key holds one token: mutexes, with and without
    /// fencing tokens. The answer may be outdated when it arrives. One round trip.
    ///
    /// # Errors
    ///
    /// As [`holder`](Self::holder).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = redouble::Server::builder().clock(redouble::Clock::Tokio).start().await?;
    /// # let locks = redouble_lock::LockManager::new(server.connection().await?);
    /// let guard = locks.mutex("order:17").build()?.try_lock().await?;
    /// assert!(locks.is_locked("order:17").await?);
    /// guard.release().await;
    /// assert!(!locks.is_locked("order:17").await?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn is_locked(&self, key: impl AsRef<[u8]>) -> Result<bool, LockError> {
        Ok(self.holder(key).await?.is_some())
    }

    /// Returns the number of clients that wait for the lock `key`, of any kind but [`RedlockMutex`](crate::RedlockMutex): those that
    /// asked not long ago and are woken by a message. Clients that poll are not counted. One round trip.
    ///
    /// # Errors
    ///
    /// As [`holder`](Self::holder).
    pub async fn queue_length(&self, key: impl AsRef<[u8]>) -> Result<u64, LockError> {
        let key = self.core().key(key.as_ref());
        let keys = [waiters_key(&key), beside(&key, ":alive")];
        match self.run_on(&QUEUE, &keys, Vec::new(), false).await? {
            Reply::Integer(count) => Ok(u64::try_from(count).unwrap_or(0)),
            Reply::Okay | Reply::Nil | Reply::Bytes(_) | Reply::Array(_) => Err(senseless()),
        }
    }

    /// Releases the lock `key` on behalf of the grant with this `token`, and of no other grant; false if that grant does not
    /// hold it. For an operator who knows that the holder is gone or must stop.
    ///
    /// The holder learns of the loss at its next extension, at once with [`track_key`](crate::LockBuilder::track_key). Until
    /// then its guard is valid, so the resource needs fencing tokens.
    ///
    /// # Errors
    ///
    /// [`LockError::Redis`], or [`LockError::Unknown`] if the lock may have been taken away.
    pub async fn force_unlock(
        &self,
        key: impl AsRef<[u8]>,
        token: impl AsRef<[u8]>,
    ) -> Result<bool, LockError> {
        let key = self.core().key(key.as_ref());
        let args = vec![token.as_ref().to_vec(), b"0".to_vec(), Vec::new()];
        let release = single::scripts(&key).release;
        match self.run(release, &key, args, true).await? {
            Reply::Integer(removed) => Ok(removed == 1),
            Reply::Okay | Reply::Nil | Reply::Bytes(_) | Reply::Array(_) => Err(senseless()),
        }
    }

    async fn run(
        &self,
        script: &'static Script,
        key: &[u8],
        args: Vec<Vec<u8>>,
        once: bool,
    ) -> Result<Reply, LockError> {
        let keys = [key.to_vec(), waiters_key(key)];
        self.run_on(script, &keys, args, once).await
    }

    pub(crate) async fn run_on(
        &self,
        script: &'static Script,
        keys: &[Vec<u8>],
        args: Vec<Vec<u8>>,
        once: bool,
    ) -> Result<Reply, LockError> {
        let node = self.node();
        let until = node
            .env()
            .now()
            .saturating_add(Options::default().reply_timeout);
        let call = Call {
            keys,
            args: args.iter().map(Vec::as_slice),
        };
        let reply = match node.link.connection(until).await {
            Ok(connection) if !once => node.link.run(&connection, script, call, until).await,
            Ok(connection) => run_once(&node.link, &connection, script, call, until).await,
            Err(error) => Err(error),
        };
        reply.map_err(|error| {
            // These scripts fail before they write, if at all.
            let raised = matches!(error.kind(), NodeErrorKind::RaisedInScript { .. });
            if error.is_unknown() && !raised {
                LockError::Unknown(error)
            } else {
                LockError::Redis(error)
            }
        })
    }
}

pub(crate) fn senseless() -> LockError {
    LockError::Redis(NodeError::new(NodeErrorKind::Protocol))
}
