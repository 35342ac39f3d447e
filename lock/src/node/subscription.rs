//! The subscription to the wake-up channel of a node: its connection and its lifetime.
//!
//! The channel of [`Waiters`] has at most one task. The task starts with the first waiter that wants messages. It subscribes, and
//! subscribes again after every interruption. Some time after the last such waiter has left, it unsubscribes and ends. Waiters
//! only register in [`Waiters`] and leave, so a cancelled waiter leaves nothing behind, and requests for the channel stay in order.
//!
//! A connection for messages alone may die without a sign: it sends no requests whose replies could stay out. So the task subscribes
//! again from time to time. The reply shows that the connection is alive. If it stays out, the task replaces the connection.

use super::link::Link;
use crate::{
    connection::Connection,
    environment::within,
    error::{NodeError, NodeErrorKind},
    retry,
    waiters::Waiters,
    wire::{Command, Dialled},
};
use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// For how long the subscription outlives the last waiter that wants messages.
const LINGER: Duration = Duration::from_millis(200);

/// How often the task subscribes again while waiters want messages.
const CHECK: Duration = Duration::from_secs(5);

fn is_refusal(error: &NodeError) -> bool {
    matches!(error.kind(), NodeErrorKind::Refused { .. })
}

/// The connection that messages come on, where it is not the one for requests.
pub(crate) struct Subscription {
    link: Arc<Link>,
    state: Mutex<State>,
    dialling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    open: Option<Arc<Connection>>,
    /// The user's own, not used yet.
    given: Option<Dialled>,
    /// There is no way to open one.
    unavailable: bool,
}

impl Subscription {
    pub(super) fn new(link: &Arc<Link>) -> Self {
        Self {
            link: Arc::clone(link),
            state: Mutex::default(),
            dialling: tokio::sync::Mutex::default(),
        }
    }

    /// Uses this connection from now on, and no other.
    #[cfg(feature = "redis")]
    pub(crate) fn give(&self, dialled: Dialled) {
        *self.lock() = State {
            open: None,
            given: Some(dialled),
            unavailable: true,
        };
    }

    /// Closes a connection on which an answer stayed out, if there can be another one.
    fn close_if_spoilt(&self) {
        let mut state = self.lock();
        if !state.unavailable && state.open.as_ref().is_some_and(|open| open.is_spoilt()) {
            state.open = None;
        }
    }

    fn open(&self) -> Option<Arc<Connection>> {
        let open = self.lock().open.clone();
        open.filter(|connection| connection.brings_messages())
    }

    fn is_for_messages_alone(&self, connection: &Arc<Connection>) -> bool {
        let state = self.lock();
        let open = state.open.as_ref();
        open.is_some_and(|open| Arc::ptr_eq(open, connection))
    }

    fn is_unavailable(&self) -> bool {
        let state = self.lock();
        state.unavailable
            && state.given.is_none()
            && !state
                .open
                .as_ref()
                .is_some_and(|connection| connection.brings_messages())
    }

    /// Starts the task that subscribes, where messages can arrive. There is none yet.
    pub(crate) fn subscribe(self: &Arc<Self>, reply_timeout: Duration) {
        let task = SubscriptionTask {
            subscription: Arc::clone(self),
            reply_timeout,
            is_closed: false,
        };
        let is_unavailable = self.is_unavailable()
            && !self
                .link
                .current()
                .is_some_and(|connection| connection.brings_messages());
        // Dropped, it leaves the waiters to their timers.
        if !is_unavailable {
            let _ = self.link.env().spawn(Box::pin(task.run()));
        }
    }

    /// The connection that messages come on; nothing if there is no way to have one.
    async fn connection_for_messages(
        &self,
        until: Duration,
    ) -> Result<Option<Arc<Connection>>, NodeError> {
        let connection = self.link.connection(until).await?;
        if connection.brings_messages() {
            return Ok(Some(connection));
        }
        // A slow server is reached all the same: the task, and no call, waits for the connection.
        let now = self.link.env().now();
        let limit = now.saturating_add(self.link.connect_timeout);
        let dialled = within(&**self.link.env(), limit, async {
            let _turn = self.dialling.lock().await;
            if let Some(open) = self.open() {
                return Ok(Some(open));
            }
            let given = self.lock().given.take();
            let dialled = match given {
                Some(given) => Some(given),
                None if self.is_unavailable() => None,
                None => self.link.endpoint.dial_subscriber().await?,
            };
            let Some(dialled) = dialled else {
                self.lock().unavailable = true;
                return Ok(None);
            };
            let connection = self.link.opened(dialled)?;
            self.lock().open = Some(Arc::clone(&connection));
            Ok(Some(connection))
        });
        let dialled = dialled.await;
        dialled.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::Unreachable)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that keeps the subscription to the channel of [`Waiters`].
struct SubscriptionTask {
    subscription: Arc<Subscription>,
    reply_timeout: Duration,
    /// [`Waiters`] knows that this has ended: there may be another task.
    is_closed: bool,
}

impl Drop for SubscriptionTask {
    /// Also if the runtime that it runs on ends.
    fn drop(&mut self) {
        if !self.is_closed {
            self.waiters().close();
        }
    }
}

impl SubscriptionTask {
    async fn run(mut self) {
        let mut failures = 0;
        while !self.close_if_deserted() {
            match self.serve().await {
                Ok(true) => failures = 0,
                Ok(false) => return,
                Err(error) if !error.is_transient() => {
                    tracing::debug!(name: "lock.not_subscribed", target: "redouble_lock", %error, "cannot subscribe: waiters ask from time to time");
                    return;
                }
                Err(_) => {
                    self.pause(failures).await;
                    failures = failures.saturating_add(1);
                }
            }
        }
    }

    fn close_if_deserted(&mut self) -> bool {
        self.is_closed = self.waiters().close_if_deserted();
        self.is_closed
    }

    /// Subscribes, and waits until no waiter wants messages or nothing can arrive any more; false if nothing ever can.
    async fn serve(&self) -> Result<bool, NodeError> {
        let Some(connection) = self
            .subscription
            .connection_for_messages(self.limit())
            .await?
        else {
            return Ok(false);
        };
        let interruptions = connection.interruptions();
        let before = interruptions.count();
        self.send(&connection, "SUBSCRIBE").await?;
        self.waiters().confirm();
        tokio::select! {
            biased;
            () = interruptions.after(before) => {
                self.waiters().interrupt();
                return Ok(true);
            }
            () = self.lingered() => {}
            error = self.dies(&connection) => {
                self.waiters().interrupt();
                connection.spoil();
                self.subscription.close_if_spoilt();
                return Err(error);
            }
        }
        self.unsubscribe(&connection).await.map(|()| true)
    }

    /// Waits until a connection for messages alone does not reply. On the connection for requests, those of waiters show that.
    async fn dies(&self, connection: &Arc<Connection>) -> NodeError {
        let env = self.link().env();
        if !self.subscription.is_for_messages_alone(connection) {
            return pending().await;
        }
        loop {
            env.sleep_until(env.now().saturating_add(CHECK)).await;
            if self.waiters().is_deserted() {
                continue;
            }
            match self.send(connection, "SUBSCRIBE").await {
                Err(error) if !is_refusal(&error) => return error,
                Ok(()) | Err(_) => {}
            }
        }
    }

    /// Waits until no waiter has wanted messages for some time. From then on they count as missed.
    async fn lingered(&self) {
        let env = self.link().env();
        loop {
            self.waiters().deserted().await;
            let arrivals = self.waiters().arrivals();
            let end = env.now().saturating_add(LINGER);
            // A waiter that registers and leaves meanwhile restarts this time.
            if within(&**env, end, self.waiters().deserted_again())
                .await
                .is_some()
            {
                continue;
            }
            if self.waiters().interrupt_if_deserted(arrivals) {
                return;
            }
        }
    }

    /// Sends UNSUBSCRIBE. A server that refuses it, because it is busy or loading, still sends messages. So the task repeats the
    /// request until the server accepts it, or until a waiter wants the messages.
    async fn unsubscribe(&self, connection: &Arc<Connection>) -> Result<(), NodeError> {
        let mut refused: u32 = 0;
        loop {
            match self.send(connection, "UNSUBSCRIBE").await {
                Err(error) if is_refusal(&error) && error.is_transient() => {
                    self.pause(refused).await;
                    if !self.waiters().is_deserted() {
                        return Ok(());
                    }
                    refused = refused.saturating_add(1);
                }
                outcome => return outcome,
            }
        }
    }

    async fn pause(&self, failures: u32) {
        let env = self.link().env();
        let random = retry::draw(env.random());
        let pause = retry::back_off(failures, Duration::MAX, random);
        env.sleep_until(env.now().saturating_add(pause)).await;
    }

    async fn send(&self, connection: &Arc<Connection>, name: &str) -> Result<(), NodeError> {
        let command = Command::new(name).arg(self.waiters().channel());
        let answer = self.link().call(connection, command, self.limit()).await;
        self.subscription.close_if_spoilt();
        answer.map(drop)
    }

    fn limit(&self) -> Duration {
        let now = self.link().env().now();
        now.saturating_add(self.reply_timeout)
    }

    fn waiters(&self) -> &Waiters {
        &self.link().receivers().waiters
    }

    fn link(&self) -> &Arc<Link> {
        &self.subscription.link
    }
}
