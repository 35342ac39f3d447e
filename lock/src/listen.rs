//! How a node is listened to: over which connection, and for how long.
//!
//! The channel of a [`Hub`] has at most one task. It starts with the first waiter that wants messages, subscribes, again after
//! every interruption, and unsubscribes some time after the last such waiter has left; then it ends. Waiters only take a seat in
//! the hub and leave it, so cancelling one leaves nothing behind, and requests for the channel stay in order.

use crate::{
    environment::within,
    error::{NodeError, NodeErrorKind},
    hub::Hub,
    line::Line,
    node::Node,
    retry,
    wire::{Command, Dialled},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// For how long the subscription outlives the last waiter that wants messages.
const LINGER: Duration = Duration::from_millis(200);

/// How often a server may refuse to end a subscription: for about a minute.
const REFUSALS_MAX: u32 = 60;

fn is_refusal(error: &NodeError) -> bool {
    matches!(error.kind(), NodeErrorKind::Refused { .. })
}

/// The connection that messages come on, where it is not the one for requests.
#[derive(Default)]
pub(crate) struct Ear {
    state: Mutex<State>,
    dialling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    open: Option<Arc<Line>>,
    /// The user's own, not used yet.
    given: Option<Dialled>,
    /// There is no way to open one.
    deaf: bool,
}

impl Ear {
    /// Uses this connection from now on, and no other.
    #[cfg(feature = "redis")]
    pub(crate) fn give(&self, dialled: Dialled) {
        *self.lock() = State {
            open: None,
            given: Some(dialled),
            deaf: true,
        };
    }

    /// Leaves a connection on which an answer stayed out, if there can be another one.
    pub(crate) fn suspect(&self, line: &Arc<Line>) {
        let mut state = self.lock();
        if !state.deaf
            && state
                .open
                .as_ref()
                .is_some_and(|open| Arc::ptr_eq(open, line))
        {
            state.open = None;
        }
    }

    fn open(&self) -> Option<Arc<Line>> {
        let open = self.lock().open.clone();
        open.filter(|line| line.hears())
    }

    fn is_deaf(&self) -> bool {
        let state = self.lock();
        state.deaf && state.given.is_none() && !state.open.as_ref().is_some_and(|line| line.hears())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Starts the task that subscribes, where messages can arrive. The hub has none yet.
    pub(crate) fn subscribe(self: &Arc<Self>, reply_timeout: Duration) {
        let subscription = Subscription {
            node: Arc::clone(self),
            reply_timeout,
            is_closed: false,
        };
        let is_deaf = self.ear.is_deaf() && !self.current().is_some_and(|line| line.hears());
        // Dropped, it leaves the waiters to their timers.
        if !is_deaf {
            let _ = self.env().spawn(Box::pin(subscription.run()));
        }
    }

    /// The connection that messages come on; nothing if there is no way to have one.
    async fn listening_line(
        self: &Arc<Self>,
        until: Duration,
    ) -> Result<Option<Arc<Line>>, NodeError> {
        let line = self.line(until).await?;
        if line.hears() {
            return Ok(Some(line));
        }
        let dialled = within(&**self.env(), until, async {
            let _turn = self.ear.dialling.lock().await;
            if let Some(open) = self.ear.open() {
                return Ok(Some(open));
            }
            let given = self.ear.lock().given.take();
            let dialled = match given {
                Some(given) => Some(given),
                None if self.ear.is_deaf() => None,
                None => self.endpoint.dial_subscriber().await?,
            };
            let Some(dialled) = dialled else {
                self.ear.lock().deaf = true;
                return Ok(None);
            };
            let line = Line::new(dialled, &**self.env(), &self.hub)?;
            self.ear.lock().open = Some(Arc::clone(&line));
            Ok(Some(line))
        });
        let dialled = dialled.await;
        dialled.unwrap_or_else(|| Err(NodeError::new(NodeErrorKind::Unreachable)))
    }
}

/// The subscription to the channel of a hub, on behalf of its waiters.
struct Subscription {
    node: Arc<Node>,
    reply_timeout: Duration,
    /// The hub knows that this has ended: it may have another one.
    is_closed: bool,
}

impl Drop for Subscription {
    /// Also if the runtime that it runs on ends.
    fn drop(&mut self) {
        if !self.is_closed {
            self.hub().close();
        }
    }
}

impl Subscription {
    async fn run(mut self) {
        let mut failures = 0;
        while !self.close_if_deserted() {
            match self.listen().await {
                Ok(true) => failures = 0,
                Ok(false) => return,
                Err(error) if !error.is_transient() => {
                    tracing::debug!(%error, "cannot subscribe: waiters ask from time to time");
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
        self.is_closed = self.hub().close_if_deserted();
        self.is_closed
    }

    /// Listens until no waiter wants messages or nothing can arrive any more; false if nothing ever can.
    async fn listen(&self) -> Result<bool, NodeError> {
        let Some(line) = self.node.listening_line(self.limit()).await? else {
            return Ok(false);
        };
        let interruptions = line.interruptions();
        let before = interruptions.count();
        self.send(&line, "SUBSCRIBE").await?;
        self.hub().confirm();
        tokio::select! {
            biased;
            () = interruptions.after(before) => {
                self.hub().interrupt();
                return Ok(true);
            }
            () = self.lingered() => {}
        }
        self.unsubscribe(&line).await.map(|()| true)
    }

    /// Waits until no waiter has wanted messages for some time. From then on they count as missed.
    async fn lingered(&self) {
        let env = self.node.env();
        loop {
            self.hub().deserted().await;
            let arrivals = self.hub().arrivals();
            let end = env.now().saturating_add(LINGER);
            // Another waiter that comes and leaves begins that time anew.
            if within(&**env, end, self.hub().deserted_again())
                .await
                .is_some()
            {
                continue;
            }
            if self.hub().interrupt_if_deserted(arrivals) {
                return;
            }
        }
    }

    /// A server that refuses, because it is busy or loading, goes on sending messages: it is asked again.
    async fn unsubscribe(&self, line: &Arc<Line>) -> Result<(), NodeError> {
        let mut refused = 0;
        loop {
            match self.send(line, "UNSUBSCRIBE").await {
                Err(error) if is_refusal(&error) && refused < REFUSALS_MAX => {
                    self.pause(refused).await;
                    refused += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn pause(&self, failures: u32) {
        let env = self.node.env();
        let random = retry::draw(env.random());
        let pause = retry::back_off(failures, Duration::MAX, random);
        env.sleep_until(env.now().saturating_add(pause)).await;
    }

    async fn send(&self, line: &Arc<Line>, name: &str) -> Result<(), NodeError> {
        let command = Command::new(name).arg(self.hub().channel());
        self.node.call(line, command, self.limit()).await.map(drop)
    }

    fn limit(&self) -> Duration {
        let now = self.node.env().now();
        now.saturating_add(self.reply_timeout)
    }

    fn hub(&self) -> &Hub {
        &self.node.hub
    }
}
