//! How requests reach a node: its current connection, a time limit on every request, and scripts.
//!
//! A connection is opened by one attempt at a time, in a task of its own. So neither the limit of the call that needs the
//! connection nor its end cuts the attempt off, and all calls that need it wait for the same one.

use super::{
    dial::{Dialling, Outcome},
    dial_task::{Dialler, dial},
};
use crate::{
    connection::{Connection, Receivers},
    environment::{Environment, within},
    error::{NodeError, NodeErrorKind},
    retry,
    script::Script,
    wire::{Command, Dialled, Endpoint, Reply},
};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Digits of a number of keys.
const DIGITS_MAX: usize = 20;

/// The longest pause before a command that was redirected is sent again. The connection looks up the new place meanwhile.
const REDIRECT_PAUSE_MAX: Duration = Duration::from_millis(50);

/// The way to one Redis node.
///
/// A connection on which an answer stayed out is *suspect*: RESP has no request numbers, so a later
/// answer would wait behind the missing one. New requests go to a fresh connection (if the endpoint
/// can make one), while a call with something unsettled on the old one keeps its [`Connection`].
pub(crate) struct Link {
    pub(super) endpoint: Box<dyn Endpoint>,
    env: Arc<dyn Environment>,
    receivers: Receivers,
    current: Mutex<Option<Arc<Connection>>>,
    dialling: Dialling,
    pub(super) connect_timeout: Duration,
    /// For how long a connection may be silent before it is replaced, in microseconds. If it is 0, a reply that stays out is enough.
    silence_us: AtomicU64,
}

impl Link {
    pub(super) fn new(
        endpoint: Box<dyn Endpoint>,
        env: Arc<dyn Environment>,
        receivers: Receivers,
        connect_timeout: Duration,
    ) -> Self {
        Self {
            endpoint,
            env,
            receivers,
            current: Mutex::new(None),
            dialling: Dialling::default(),
            connect_timeout,
            silence_us: AtomicU64::default(),
        }
    }

    pub(crate) fn env(&self) -> &Arc<dyn Environment> {
        &self.env
    }

    /// The connection for new requests; opens one if there is none.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        until: Duration,
    ) -> Result<Arc<Connection>, NodeError> {
        match self.live() {
            Some(connection) => Ok(connection),
            None => self.connected(until).await,
        }
    }

    /// Keeps a connection that is silent for less than this: requests are given up sooner than a server may need to reply. Of
    /// several calls the longest time counts.
    pub(crate) fn bears_silence(&self, silence: Duration) {
        let micros = u64::try_from(silence.as_micros()).unwrap_or(u64::MAX);
        self.silence_us.fetch_max(micros, Ordering::Relaxed);
    }

    /// Makes a fresh connection the one for new requests.
    pub(crate) fn adopt(&self, dialled: Dialled) -> Result<Arc<Connection>, NodeError> {
        let connection = self.opened(dialled)?;
        *self.lock() = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Starts the tasks of a fresh connection.
    pub(super) fn opened(&self, dialled: Dialled) -> Result<Arc<Connection>, NodeError> {
        Connection::new(dialled, &*self.env, &self.receivers)
    }

    pub(super) fn receivers(&self) -> &Receivers {
        &self.receivers
    }

    /// Returns true if a request may be executed twice without a sign of it.
    pub(crate) fn resends(&self) -> bool {
        self.endpoint.resends()
    }

    /// Sends a command over `connection` and waits for the answer, at most until `until`.
    ///
    /// A connection that resends follows redirects by the same means. Where its user has turned that off, a
    /// redirect arrives here. It means that nothing was executed, so the command is sent again.
    pub(crate) async fn call(
        &self,
        connection: &Arc<Connection>,
        command: Command,
        until: Duration,
    ) -> Result<Reply, NodeError> {
        if !self.resends() {
            return self.send(connection, command, until).await;
        }
        for redirect in 0.. {
            let answer = self.send(connection, command.clone(), until).await;
            if !answer.as_ref().is_err_and(NodeError::is_redirect) {
                return answer;
            }
            let random = retry::draw(self.env.random());
            let pause = retry::back_off(redirect, REDIRECT_PAUSE_MAX, random);
            let next = self.env.now().saturating_add(pause);
            if next >= until {
                return answer;
            }
            self.env.sleep_until(next).await;
        }
        Err(NodeError::new(NodeErrorKind::TimedOut))
    }

    async fn send(
        &self,
        connection: &Arc<Connection>,
        command: Command,
        until: Duration,
    ) -> Result<Reply, NodeError> {
        let sent = self.env.now();
        let answer = within(&*self.env, until, connection.call(command)).await;
        let Some(answer) = answer else {
            let error = NodeError::new(NodeErrorKind::TimedOut);
            request_failed(&error);
            let silence = self.env.now().saturating_sub(connection.silent_since(sent));
            let kept_us = self.silence_us.load(Ordering::Relaxed);
            if silence >= Duration::from_micros(kept_us) {
                self.suspect(connection);
            }
            return Err(error);
        };
        connection.answered();
        if let Err(error) = &answer {
            request_failed(error);
            if error.spoils_the_connection() {
                self.suspect(connection);
            }
        }
        answer
    }

    /// Runs a script over `connection`, by its digest, and by its text where the node does not know it.
    pub(crate) async fn run<'a>(
        &self,
        connection: &Arc<Connection>,
        script: &Script,
        call: Call<'a, impl Iterator<Item = &'a [u8]> + Clone>,
        until: Duration,
    ) -> Result<Reply, NodeError> {
        let command = |name: &str, script: &str| {
            let args = || call.keys.iter().map(Vec::as_slice).chain(call.args.clone());
            let bytes = args().map(<[u8]>::len).sum::<usize>() + name.len() + script.len();
            let command = Command::with_capacity(3 + args().count(), bytes + DIGITS_MAX)
                .arg(name)
                .arg(script)
                .arg(call.keys.len().to_string());
            args().fold(command, Command::arg)
        };
        let by_digest = command("EVALSHA", &script.sha);
        match self.call(connection, by_digest, until).await {
            Err(error) if is_noscript(&error) => {
                let by_text = command("EVAL", script.text);
                self.call(connection, by_text, until).await
            }
            answer => answer,
        }
        .map_err(NodeError::of_script)
    }

    /// Sees to it that changes of what is read over `connection` are pushed. Once per connection; sent twice it does
    /// no harm.
    pub(crate) async fn track(
        &self,
        connection: &Arc<Connection>,
        until: Duration,
    ) -> Result<(), NodeError> {
        if connection.tracks() {
            return Ok(());
        }
        if !connection.brings_messages() {
            let cannot = NodeError::new(NodeErrorKind::Client);
            return Err(cannot.with_source(NoPushes));
        }
        let command = Command::new("CLIENT").arg("TRACKING").arg("ON");
        self.call(connection, command.arg("NOLOOP"), until).await?;
        connection.set_tracks();
        Ok(())
    }

    fn suspect(&self, connection: &Arc<Connection>) {
        connection.spoil();
        let mut current = self.lock();
        if self.endpoint.redials()
            && current
                .as_ref()
                .is_some_and(|now| Arc::ptr_eq(now, connection))
        {
            *current = None;
        }
    }

    /// The current connection, unless it is known to be over and there can be another one.
    fn live(&self) -> Option<Arc<Connection>> {
        let current = self.current();
        current.filter(|connection| !(self.endpoint.redials() && connection.is_over()))
    }

    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Connection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a new connection, at most until `until`.
    async fn connected(self: &Arc<Self>, until: Duration) -> Outcome {
        if self.endpoint.redials() {
            return dial(self, until).await;
        }
        // It is there already.
        let given = within(&*self.env, until, self.given()).await;
        given.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::Unreachable)))
    }

    /// The user's own connection.
    async fn given(&self) -> Outcome {
        let _turn = self.dialling.turn.lock().await;
        match self.live() {
            Some(connection) => Ok(connection),
            None => self.adopt(self.endpoint.dial().await?),
        }
    }
}

impl Dialler for Link {
    fn endpoint(&self) -> &dyn Endpoint {
        &*self.endpoint
    }

    fn env(&self) -> &Arc<dyn Environment> {
        &self.env
    }

    fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    fn dialling(&self) -> &Dialling {
        &self.dialling
    }

    fn take(&self, dialled: Dialled) -> Outcome {
        self.adopt(dialled)
    }
}

fn request_failed(error: &NodeError) {
    tracing::debug!(name: "lock.request_failed", target: "redouble_lock", %error, "a request failed");
}

/// Keys can only be tracked over a connection that receives pushes.
#[derive(Debug, thiserror::Error)]
#[error("keys can only be tracked over a connection with RESP3 pushes")]
struct NoPushes;

/// What a script is called with.
pub(crate) struct Call<'a, A> {
    pub(crate) keys: &'a [Vec<u8>],
    pub(crate) args: A,
}

fn is_noscript(error: &NodeError) -> bool {
    matches!(error.kind(), NodeErrorKind::Refused { code } if code == "NOSCRIPT")
}
