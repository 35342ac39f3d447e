//! One Redis node: its current connection, a time limit on every request, and scripts.

use crate::{
    environment::{Environment, within},
    error::{NodeError, NodeErrorKind},
    hub::Hub,
    line::Line,
    listen::Ear,
    script::Script,
    wire::{Command, Dialled, Endpoint, Reply},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// One Redis node, as the locks see it.
///
/// A connection on which an answer stayed out is *suspect*: RESP has no request numbers, so a later
/// answer would wait behind the missing one. New requests go to a fresh connection (if the endpoint
/// can make one), while whoever has something unsettled on the old one keeps its [`Line`].
pub(crate) struct Node {
    pub(crate) endpoint: Box<dyn Endpoint>,
    env: Arc<dyn Environment>,
    current: Mutex<Option<Arc<Line>>>,
    /// Held while dialling, so that one caller dials and the others wait for its connection.
    dialling: tokio::sync::Mutex<()>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) ear: Ear,
}

impl Node {
    pub(crate) fn new(endpoint: Box<dyn Endpoint>, env: Arc<dyn Environment>) -> Self {
        Self {
            endpoint,
            env,
            current: Mutex::new(None),
            dialling: tokio::sync::Mutex::new(()),
            hub: Arc::default(),
            ear: Ear::default(),
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
        let line = Line::new(dialled, &*self.env, &self.hub)?;
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
        let answer = within(&*self.env, until, line.call(command)).await;
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

    pub(crate) fn suspect(&self, line: &Arc<Line>) {
        line.interrupted();
        self.ear.suspect(line);
        let mut current = self.lock();
        if self.endpoint.redials() && current.as_ref().is_some_and(|now| Arc::ptr_eq(now, line)) {
            *current = None;
        }
    }

    pub(crate) fn current(&self) -> Option<Arc<Line>> {
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
