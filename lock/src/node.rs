//! One Redis node: its current connection, a time limit on every request, and scripts.

use crate::{
    environment::{BoxFuture, Environment, within},
    error::{NodeError, NodeErrorKind},
    script::Script,
    wire::{Command, Dialled, Endpoint, Reply, Wire},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::oneshot;

/// One Redis node, as the locks see it.
///
/// A connection on which an answer stayed out is *suspect*: RESP has no request numbers, so a later
/// answer would wait behind the missing one. New requests go to a fresh connection (if the endpoint
/// can make one), while whoever has something unsettled on the old one keeps its [`Line`].
pub(crate) struct Node {
    endpoint: Box<dyn Endpoint>,
    env: Arc<dyn Environment>,
    current: Mutex<Option<Arc<Line>>>,
    /// Held while dialling, so that one caller dials and the others wait for its connection.
    dialling: tokio::sync::Mutex<()>,
}

impl Node {
    pub(crate) fn new(endpoint: Box<dyn Endpoint>, env: Arc<dyn Environment>) -> Self {
        Self {
            endpoint,
            env,
            current: Mutex::new(None),
            dialling: tokio::sync::Mutex::new(()),
        }
    }

    pub(crate) fn env(&self) -> &Arc<dyn Environment> {
        &self.env
    }

    /// The connection for new requests; opens one if there is none.
    pub(crate) async fn line(&self, until: Duration) -> Result<Arc<Line>, NodeError> {
        if let Some(line) = self.current() {
            return Ok(line);
        }
        let dialled = within(&*self.env, until, async {
            let _turn = self.dialling.lock().await;
            if let Some(line) = self.current() {
                return Ok(line);
            }
            self.adopt(self.endpoint.dial().await?)
        });
        let dialled = dialled.await;
        dialled.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::Unreachable)))
    }

    /// Makes a fresh connection the one for new requests.
    pub(crate) fn adopt(&self, dialled: Dialled) -> Result<Arc<Line>, NodeError> {
        let line = Line::new(dialled, &*self.env)?;
        *self.lock() = Some(Arc::clone(&line));
        Ok(line)
    }

    /// Sends a command over `line` and waits for the answer, at most until `until`.
    pub(crate) async fn call(
        &self,
        line: &Arc<Line>,
        command: Command,
        until: Duration,
    ) -> Result<Reply, NodeError> {
        let answer = within(&*self.env, until, line.wire.call(command)).await;
        let answer = answer.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::TimedOut)));
        if let Err(error) = &answer {
            tracing::debug!(%error, "a request failed");
            if error.spoils_the_connection() {
                self.suspect(line);
            }
        }
        answer
    }

    /// Runs a script over `line`, by its digest, and by its text where the node does not know it.
    pub(crate) async fn run(
        &self,
        line: &Arc<Line>,
        script: &Script,
        call: Call,
        until: Duration,
    ) -> Result<Reply, NodeError> {
        let command = |command: Command| {
            let command = command.arg(call.keys.len().to_string());
            call.keys
                .iter()
                .chain(&call.args)
                .fold(command, Command::arg)
        };
        let by_digest = command(Command::new("EVALSHA").arg(&script.sha));
        match self.call(line, by_digest, until).await {
            Err(error) if is_noscript(&error) => {
                let by_text = command(Command::new("EVAL").arg(script.text));
                self.call(line, by_text, until).await
            }
            answer => answer,
        }
    }

    fn suspect(&self, line: &Arc<Line>) {
        let mut current = self.lock();
        if self.endpoint.redials() && current.as_ref().is_some_and(|now| Arc::ptr_eq(now, line)) {
            *current = None;
        }
    }

    fn current(&self) -> Option<Arc<Line>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Line>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a script is called with.
pub(crate) struct Call {
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) args: Vec<Vec<u8>>,
}

fn is_noscript(error: &NodeError) -> bool {
    matches!(error.kind(), NodeErrorKind::Refused { code } if code == "NOSCRIPT")
}

/// A connection. Requests that are sent over the same line are executed in that order. It closes
/// with its last owner, also when its driver still waits for an answer that never comes.
pub(crate) struct Line {
    wire: Arc<dyn Wire>,
    _open: oneshot::Sender<()>,
}

impl Line {
    fn new(
        Dialled { wire, driver }: Dialled,
        env: &dyn Environment,
    ) -> Result<Arc<Self>, NodeError> {
        let (open, closed) = oneshot::channel();
        if let Some(driver) = driver {
            env.spawn(until_closed(driver, closed))
                .map_err(|error| NodeError::new(NodeErrorKind::Unreachable).with_source(error))?;
        }
        Ok(Arc::new(Self { wire, _open: open }))
    }
}

fn until_closed(
    mut driver: BoxFuture<'static, ()>,
    mut closed: oneshot::Receiver<()>,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        tokio::select! {
            biased;
            () = &mut driver => {}
            _ = &mut closed => {}
        }
    })
}
