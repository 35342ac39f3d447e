//! One open connection: where commands go, and what arrives on it unasked.

use crate::{
    environment::{BoxFuture, Environment},
    error::{NodeError, NodeErrorKind},
    signal::Signal,
    tracking::Tracking,
    waiters::Waiters,
    wire::{Command, Dialled, Push, Pushes, Reply, Wire},
};
use std::{
    future::{pending, poll_fn},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::oneshot;

/// Where the messages go that arrive on the connections of a node.
#[derive(Clone)]
pub(crate) struct Receivers {
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) tracking: Arc<Tracking>,
}

/// A connection. Requests that are sent over the same connection are executed in that order. It closes
/// with its last owner, also when its driver still waits for an answer that never comes.
pub(crate) struct Connection {
    wire: Arc<dyn Wire>,
    receivers: Receivers,
    incoming: Arc<Incoming>,
    has_pushes: bool,
    /// A reply stayed out, or the connection ended.
    is_spoilt: AtomicBool,
    /// When the first request was sent that timed out, if none was answered since.
    silent_since: Mutex<Option<Duration>>,
    _open: oneshot::Sender<()>,
}

/// Whether a connection brings messages.
struct Incoming {
    brings_messages: AtomicBool,
    /// True if the node pushes changes of the keys that this connection reads.
    tracks: AtomicBool,
    /// Raised when the node may have forgotten the subscriptions of this connection.
    interruptions: Signal,
}

impl Connection {
    pub(crate) fn new(
        dialled: Dialled,
        env: &dyn Environment,
        receivers: &Receivers,
    ) -> Result<Arc<Self>, NodeError> {
        let Dialled {
            wire,
            driver,
            pushes,
        } = dialled;
        let has_pushes = pushes.is_some();
        let incoming = Arc::new(Incoming {
            brings_messages: AtomicBool::new(has_pushes),
            tracks: AtomicBool::new(false),
            interruptions: Signal::default(),
        });
        let (open, closed) = oneshot::channel();
        if driver.is_some() || has_pushes {
            let (incoming, receivers) = (Arc::clone(&incoming), receivers.clone());
            let task = async move {
                tokio::select! {
                    biased;
                    () = drive(driver) => {}
                    () = receive(pushes, &receivers, &incoming) => {}
                    _ = closed => {}
                }
                incoming.ends(&receivers);
            };
            env.spawn(Box::pin(task))
                .map_err(|error| NodeError::new(NodeErrorKind::Unreachable).with_source(error))?;
        }
        Ok(Arc::new(Self {
            wire,
            receivers: receivers.clone(),
            incoming,
            has_pushes,
            is_spoilt: AtomicBool::new(false),
            silent_since: Mutex::default(),
            _open: open,
        }))
    }

    pub(crate) fn call(&self, command: Command) -> BoxFuture<'static, Result<Reply, NodeError>> {
        self.wire.call(command)
    }

    /// Notes that a reply stayed out or that the connection ended: another connection may do better, and messages may be
    /// missed.
    pub(crate) fn spoil(&self) {
        self.is_spoilt.store(true, Ordering::Relaxed);
        self.incoming.interrupt(&self.receivers);
    }

    pub(crate) fn is_spoilt(&self) -> bool {
        self.is_spoilt.load(Ordering::Relaxed)
    }

    /// Returns true if a request over it can be expected to be answered.
    pub(crate) fn is_sound(&self) -> bool {
        !self.is_spoilt() && !self.is_over()
    }

    /// Takes in that a request timed out that was sent at `sent`. Returns since when the connection is silent.
    pub(crate) fn silent_since(&self, sent: Duration) -> Duration {
        *self.silence().get_or_insert(sent)
    }

    /// Takes in that a request was answered.
    pub(crate) fn answered(&self) {
        *self.silence() = None;
    }

    fn silence(&self) -> MutexGuard<'_, Option<Duration>> {
        self.silent_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if messages can arrive on this connection.
    pub(crate) fn brings_messages(&self) -> bool {
        self.incoming.brings_messages.load(Ordering::Acquire)
    }

    /// Returns true if messages arrived on this connection and do not any more: it has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.has_pushes && !self.brings_messages()
    }

    pub(crate) fn tracks(&self) -> bool {
        self.incoming.tracks.load(Ordering::Acquire)
    }

    pub(crate) fn set_tracks(&self) {
        self.incoming.tracks.store(true, Ordering::Release);
    }

    /// Raised with each interruption.
    pub(crate) fn interruptions(&self) -> &Signal {
        &self.incoming.interruptions
    }
}

impl Incoming {
    /// What is missed from here on is not known.
    fn interrupt(&self, receivers: &Receivers) {
        self.tracks.store(false, Ordering::Release);
        self.interruptions.raise();
        receivers.tracking.changed(None);
    }

    fn ends(&self, receivers: &Receivers) {
        self.brings_messages.store(false, Ordering::Release);
        self.interrupt(receivers);
    }
}

async fn drive(driver: Option<BoxFuture<'static, ()>>) {
    match driver {
        Some(driver) => driver.await,
        None => pending().await,
    }
}

/// Hands on what arrives. After the last of it the driver still has to move the replies.
async fn receive(pushes: Option<Box<dyn Pushes>>, receivers: &Receivers, incoming: &Incoming) {
    if let Some(mut pushes) = pushes {
        while let Some(push) = poll_fn(|cx| pushes.poll_next(cx)).await {
            match push {
                Push::Message { channel, payload } => {
                    receivers.waiters.message(&channel, &payload);
                }
                Push::Changed { keys } => receivers.tracking.changed(keys.as_deref()),
                Push::Disconnected => incoming.interrupt(receivers),
            }
        }
        incoming.ends(receivers);
    }
    pending().await
}
