//! What latches and admission counters ask of Redis: single requests, of which some may be repeated.

use crate::{
    algorithm::once::run_once,
    error::{LockError, NodeError, NodeErrorKind},
    node::{Call, Link, Node},
    script::Script,
    wire::{Command, Reply},
};
use std::{sync::Arc, time::Duration};

/// A key on a node, and how long one call may take.
#[derive(Clone)]
pub(crate) struct Counter {
    pub(crate) node: Node,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) reply_timeout: Duration,
}

impl Counter {
    pub(crate) fn new(node: &Node, keys: Vec<Vec<u8>>) -> Self {
        Self {
            node: node.clone(),
            keys,
            reply_timeout: Duration::from_millis(500),
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.keys[0]
    }

    fn link(&self) -> &Arc<Link> {
        &self.node.link
    }

    fn until(&self) -> Duration {
        self.node.env().now().saturating_add(self.reply_timeout)
    }

    /// Sends a command that only reads.
    pub(crate) async fn look(&self, command: Command) -> Result<Reply, NodeError> {
        let until = self.until();
        let connection = self.link().connection(until).await?;
        self.link().call(&connection, command, until).await
    }

    /// Has `script` executed at most once. Where no request is sent twice anyway, and the script without arguments
    /// does nothing but one command, that command is sent.
    pub(crate) async fn once(
        &self,
        script: &'static Script,
        args: &[Vec<u8>],
        plain: Option<&str>,
    ) -> Result<Reply, NodeError> {
        let until = self.until();
        let connection = self.link().connection(until).await?;
        match plain {
            Some(name) if !self.link().resends() => {
                let command = Command::new(name).arg(self.key());
                self.link().call(&connection, command, until).await
            }
            Some(_) | None => {
                let call = Call {
                    keys: &self.keys,
                    args: args.iter().map(Vec::as_slice),
                };
                run_once(self.link(), &connection, script, call, until).await
            }
        }
    }

    /// Runs a script that may be executed twice without harm, once.
    pub(crate) async fn ask(&self, script: &Script, args: &[Vec<u8>]) -> Result<Reply, NodeError> {
        self.run_until(script, args, self.until()).await
    }

    async fn run_until(
        &self,
        script: &Script,
        args: &[Vec<u8>],
        until: Duration,
    ) -> Result<Reply, NodeError> {
        let connection = self.link().connection(until).await?;
        let call = Call {
            keys: &self.keys,
            args: args.iter().map(Vec::as_slice),
        };
        self.link().run(&connection, script, call, until).await
    }

    /// Runs a script that may be executed twice without harm, and repeats it once if its outcome is not known. If it was
    /// repeated, the error of the first request comes with the answer: that one may still be under way.
    pub(crate) async fn run_safely(
        &self,
        script: &Script,
        args: &[Vec<u8>],
    ) -> Result<(Reply, Option<LockError>), LockError> {
        let until = self.until();
        let first = match self.run_until(script, args, until).await {
            Err(error) if error.is_unknown() => error,
            outcome => return outcome.map(|reply| (reply, None)).map_err(failed),
        };
        if self.node.env().now() >= until {
            return Err(failed(first));
        }
        match self.run_until(script, args, until).await {
            Ok(reply) => Ok((reply, Some(failed(first)))),
            Err(_) => Err(failed(first)),
        }
    }
}

/// The error of a call whose request failed like this.
pub(crate) fn failed(error: NodeError) -> LockError {
    let known = !error.is_unknown();
    LockError::of_node(error, known)
}

/// Reads a number, whether Redis has it as one or as text.
pub(crate) fn integer(reply: &Reply) -> Result<i64, LockError> {
    let number = match reply {
        Reply::Integer(number) => Some(*number),
        Reply::Bytes(text) => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.parse().ok()),
        Reply::Okay | Reply::Nil | Reply::Array(_) => None,
    };
    number.ok_or_else(|| failed(NodeError::new(NodeErrorKind::Protocol)))
}
