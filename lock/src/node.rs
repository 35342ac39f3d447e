//! One Redis node: its current connection, a time limit on every request, and scripts.

mod dial;
mod spare;

pub(crate) use dial::CONNECT_TIMEOUT;
pub(crate) use spare::OwnConnection;

use crate::{
    connection::Connection,
    environment::{Environment, within},
    error::{NodeError, NodeErrorKind},
    retry,
    script::Script,
    subscription::ReleaseSubscription,
    waiters::Waiters,
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

/// One Redis node, as the locks see it.
///
/// A connection on which an answer stayed out is *suspect*: RESP has no request numbers, so a later
/// answer would wait behind the missing one. New requests go to a fresh connection (if the endpoint
/// can make one), while whoever has something unsettled on the old one keeps its [`Connection`].
pub(crate) struct Node {
    pub(crate) endpoint: Box<dyn Endpoint>,
    env: Arc<dyn Environment>,
    current: Mutex<Option<Arc<Connection>>>,
    dialling: dial::Dialling,
    spare: spare::Spare,
    connect_timeout: Duration,
    /// For how long a connection may be silent before it is replaced, in microseconds. If it is 0, a reply that stays out is enough.
    silence_us: AtomicU64,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) subscription: ReleaseSubscription,
}

impl Node {
    pub(crate) fn new(
        endpoint: Box<dyn Endpoint>,
        env: Arc<dyn Environment>,
        connect_timeout: Duration,
    ) -> Self {
        Self {
            endpoint,
            waiters: Arc::new(Waiters::new(env.random())),
            env,
            current: Mutex::new(None),
            dialling: dial::Dialling::default(),
            spare: spare::Spare::default(),
            connect_timeout,
            silence_us: AtomicU64::default(),
            subscription: ReleaseSubscription::default(),
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
        let connection = Connection::new(dialled, &*self.env, &self.waiters)?;
        *self.lock() = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Whether a request may be executed twice without anybody being told.
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
            tracing::debug!(%error, "a request failed");
            let silence = self.env.now().saturating_sub(connection.silent_since(sent));
            let kept_us = self.silence_us.load(Ordering::Relaxed);
            if silence >= Duration::from_micros(kept_us) {
                self.suspect(connection);
            }
            return Err(error);
        };
        connection.answered();
        if let Err(error) = &answer {
            tracing::debug!(%error, "a request failed");
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
        if !connection.hears() {
            let cannot = NodeError::new(NodeErrorKind::Client);
            return Err(cannot.with_source(NoPushes));
        }
        let command = Command::new("CLIENT").arg("TRACKING").arg("ON");
        self.call(connection, command.arg("NOLOOP"), until).await?;
        connection.set_tracks();
        Ok(())
    }

    pub(crate) fn suspect(&self, connection: &Arc<Connection>) {
        connection.spoil();
        connection.interrupted(&self.waiters);
        self.subscription.suspect(connection);
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
}

/// Keys can only be watched over a connection that receives pushes.
#[derive(Debug, thiserror::Error)]
#[error("keys can only be watched over a connection with RESP3 pushes")]
struct NoPushes;

/// What a script is called with.
pub(crate) struct Call<'a, A> {
    pub(crate) keys: &'a [Vec<u8>],
    pub(crate) args: A,
}

fn is_noscript(error: &NodeError) -> bool {
    matches!(error.kind(), NodeErrorKind::Refused { code } if code == "NOSCRIPT")
}
