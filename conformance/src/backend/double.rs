//! The embedded double: in process, in virtual time, observed after each of its steps.

use super::{Backend, Later, Node, Opened};
use crate::{history::Stored, simulation::Transport};
use redis::RedisConnectionInfo;
use redouble::{Clock, Server};
use std::{io, sync::Arc, time::Duration};

/// A fresh double for every run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Double;

const KEY: &str = "lock";

impl Backend for Double {
    fn name(&self) -> String {
        "double".to_owned()
    }

    fn virtual_time(&self) -> bool {
        true
    }

    fn lease_ms(&self) -> Option<u64> {
        None
    }

    fn open(&self, seed: u64) -> Later<'_, io::Result<Opened>> {
        Box::pin(async move {
            let (server, driver) = Server::builder().clock(Clock::Tokio).seed(seed).build()?;
            let began_ms = server.now().millis().0;
            let login = RedisConnectionInfo::default().set_skip_set_lib_name();
            let node = DoubleNode {
                server,
                began_ms,
                login,
            };
            Ok(Opened {
                node: Arc::new(node),
                driver: Some(Box::pin(driver)),
            })
        })
    }
}

struct DoubleNode {
    server: Server,
    /// The server's wall clock at true time 0.
    began_ms: i64,
    login: RedisConnectionInfo,
}

impl Node for DoubleNode {
    fn key(&self) -> &str {
        KEY
    }

    fn login(&self) -> &RedisConnectionInfo {
        &self.login
    }

    fn dial(&self) -> Later<'_, io::Result<Box<dyn Transport>>> {
        Box::pin(async { Ok(Box::new(self.server.connect()) as Box<dyn Transport>) })
    }

    fn observes(&self) -> bool {
        true
    }

    fn peek(&self) -> Option<Stored> {
        let (token, expires) = self.server.peek(KEY)?;
        let expires = expires.map(|expires| {
            Duration::from_millis(u64::try_from(expires.0 - self.began_ms).unwrap_or(0))
        });
        Some(Stored {
            token: token.to_vec(),
            expires,
        })
    }
}
