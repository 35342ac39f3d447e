//! How a node is listened to: over which connection, and for how long.
//!
//! Each channel that somebody waits for has a *keeper*, a task that subscribes, again after every
//! interruption, and unsubscribes when the last waiter has left; then it ends. Waiters only take a seat in the
//! [`Hub`] and leave it, so cancelling one leaves nothing behind, and requests of one channel stay in order.

use crate::{
    environment::within,
    error::{NodeError, NodeErrorKind},
    hub::{Hub, Waiter},
    line::Line,
    node::Node,
    retry,
    wire::{Command, Dialled},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

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
    /// Takes a seat among those who wait on `channels`, after the question with the number `asked` was refused; nothing
    /// where no message can arrive.
    pub(crate) fn wait_for(
        self: &Arc<Self>,
        channels: impl Iterator<Item = Vec<u8>>,
        token: &[u8],
        asked: u64,
        reply_timeout: Duration,
    ) -> Option<Waiter> {
        if self.ear.is_deaf() && !self.current().is_some_and(|line| line.hears()) {
            return None;
        }
        let mut runs = true;
        let waiter = Waiter::new(&self.hub, channels, token, asked, |channel| {
            let keeper = Keeper {
                node: Arc::clone(self),
                channel: channel.to_vec(),
                reply_timeout,
            };
            if self.env().spawn(Box::pin(keeper.run())).is_err() {
                self.hub.abandon(channel);
                runs = false;
            }
        });
        runs.then_some(waiter)
    }

    /// The connection that messages come on; nothing if there is no way to have one.
    async fn listening_line(&self, until: Duration) -> Result<Option<Arc<Line>>, NodeError> {
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

/// Who subscribes to a channel on behalf of its waiters.
struct Keeper {
    node: Arc<Node>,
    channel: Vec<u8>,
    reply_timeout: Duration,
}

impl Keeper {
    async fn run(self) {
        let mut failures = 0;
        while !self.hub().close_if_deserted(&self.channel) {
            match self.listen().await {
                Ok(true) => failures = 0,
                Ok(false) => return self.hub().abandon(&self.channel),
                Err(error) if !error.is_transient() => {
                    tracing::debug!(%error, "cannot subscribe: waiters ask from time to time");
                    return self.hub().abandon(&self.channel);
                }
                Err(_) => {
                    let env = self.node.env();
                    let random = retry::draw(env.random());
                    let pause = retry::back_off(failures, Duration::MAX, random);
                    failures = failures.saturating_add(1);
                    env.sleep_until(env.now().saturating_add(pause)).await;
                }
            }
        }
    }

    /// Listens until nobody waits or nothing can arrive any more; false if nothing ever can.
    async fn listen(&self) -> Result<bool, NodeError> {
        let Some(line) = self.node.listening_line(self.limit()).await? else {
            return Ok(false);
        };
        let interruptions = line.interruptions();
        let before = interruptions.count();
        self.send(&line, "SUBSCRIBE").await?;
        self.hub().confirm(&self.channel);
        let deserted = self.hub().desertion(&self.channel);
        loop {
            tokio::select! {
                biased;
                () = interruptions.after(before) => {
                    self.hub().interrupt(&self.channel);
                    return Ok(true);
                }
                () = deserted.notified() => {}
            }
            if self.hub().interrupt_if_deserted(&self.channel) {
                return self.unsubscribe(&line).await.map(|()| true);
            }
        }
    }

    /// A server that refuses, because it is busy or loading, goes on sending messages: it is asked again.
    async fn unsubscribe(&self, line: &Arc<Line>) -> Result<(), NodeError> {
        let mut refused = 0;
        loop {
            match self.send(line, "UNSUBSCRIBE").await {
                Err(error) if is_refusal(&error) && refused < REFUSALS_MAX => {
                    let env = self.node.env();
                    let random = retry::draw(env.random());
                    let pause = retry::back_off(refused, Duration::MAX, random);
                    refused += 1;
                    env.sleep_until(env.now().saturating_add(pause)).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn send(&self, line: &Arc<Line>, name: &str) -> Result<(), NodeError> {
        let command = Command::new(name).arg(&self.channel);
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
