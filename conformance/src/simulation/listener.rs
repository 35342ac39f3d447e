//! A subscription for the code under test.

use super::host::{Host, Running};
use redis::{PushInfo, PushKind, RedisError, RedisResult, aio::MultiplexedConnection};
use std::{future::pending, io};
use tokio::sync::mpsc::UnboundedReceiver;

/// A subscription of a [`Host`] to one channel, over a connection of its own. Dropping it ends the
/// subscription. When its connection ends, no more messages arrive.
pub struct Listener {
    _connection: MultiplexedConnection,
    driver: Option<Running>,
    pushes: UnboundedReceiver<PushInfo>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(driver) = &self.driver {
            driver.abort();
        }
    }
}

impl Listener {
    /// Waits for a message on the channel; for ever, if the connection ends before.
    pub async fn heard(&mut self) {
        if self.heard_or_closed().await.is_err() {
            pending().await
        }
    }

    /// Waits for a message on the channel, or for the end of the connection. Cancel safe: no message is lost.
    ///
    /// # Errors
    /// If the connection has ended. The process then has to subscribe again with [`Host::listen`], and ask the lock once, as it
    /// may have missed a message.
    pub async fn heard_or_closed(&mut self) -> RedisResult<()> {
        while let Some(push) = self.pushes.recv().await {
            if push.kind == PushKind::Message {
                return Ok(());
            }
            if push.kind == PushKind::Disconnection {
                break;
            }
        }
        let closed = io::Error::from(io::ErrorKind::ConnectionReset);
        Err(RedisError::from(closed))
    }
}

impl Host {
    /// Subscribes to a channel of a server.
    ///
    /// # Errors
    /// If the server cannot be reached, or does not answer within the request timeout.
    pub async fn listen(&self, node: u8, channel: &str) -> RedisResult<Listener> {
        let timed_out = || RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        let asked = async {
            let (mut connection, driver, pushes) = self.dial_resp3(node).await?;
            let driver = self.spawn_task(driver);
            let mut listener = Listener {
                _connection: connection.clone(),
                driver,
                pushes,
            };
            connection.subscribe(channel).await?;
            // Discard pushes from before the confirmation.
            while listener.pushes.try_recv().is_ok() {}
            Ok(listener)
        };
        tokio::select! {
            biased;
            listener = asked => listener,
            () = self.sleep(self.request_timeout()) => Err(timed_out()),
        }
    }
}
