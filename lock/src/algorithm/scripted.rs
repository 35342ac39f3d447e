//! One acquisition on one Redis node, for every algorithm that consists of three scripts.
//!
//! What differs from kind to kind is a [`ScriptSet`]: keys, scripts, arguments. What is the same is
//! here: which connections an acquire was sent over without an answer, and how it is undone.
//!
//! The first request may be a plain `SET key token NX PX lease`, unless the connection may send it twice or it registers a waiter. Every later one of the same
//! acquisition is the script, which takes what already holds the token for a grant: the
//! request before may have been executed although its answer was lost. It also renews that grant, so
//! the deadline counts from this request and the holder has the whole lease; and it tells a waiter
//! how long the holder may stay.

use super::{Acquisition, Attempt, millis, number, once::run_once, script_set::ScriptSet};
use crate::{
    connection::Connection,
    environment::BoxFuture,
    error::{NodeError, NodeErrorKind},
    lease::Lease,
    node::{Call, Link, Node, OwnConnection},
    retry,
    script::Script,
    token::{FencingToken, Token},
    tracking::TrackedKeys,
    waiters::Waiter,
    wire::{Command, Reply},
};
use std::{
    future::{pending, poll_fn},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};

/// One acquisition on one node.
pub(crate) struct Scripted {
    node: Node,
    scripts: Arc<ScriptSet>,
    token: Token,
    reply_timeout: Duration,
    /// For how long a waiter counts as alive after it has asked, in ms.
    patience_ms: Vec<u8>,
    /// The connection to acquire and to wait for replicas on, if that is asked for.
    own: Option<OwnConnection>,
    /// Made before the first request, so that no change is missed.
    tracked_keys: Option<TrackedKeys>,
    traces: Mutex<Traces>,
}

/// What a request does with the name of this acquisition among the waiters of the lock.
#[derive(Clone, Copy)]
enum Registration {
    /// The name is not there, and the request leaves none.
    None,
    /// If the request is refused, the name is there afterwards.
    Begins,
    /// The name may be there. It is not afterwards: no message would reach this acquisition.
    Ends,
}

/// What this acquisition may have left behind.
#[derive(Default)]
struct Traces {
    /// It was given back or handed over: it is not asked for any more, also by a task that is on its way to.
    closed: bool,
    /// It was asked for at least once.
    asked: bool,
    /// It was granted, and is not known to be gone.
    stands: bool,
    /// It may have left its name among the waiters, at some time.
    named: bool,
    /// It was refused, and left its name.
    waits: bool,
    /// Connections on which an acquire was sent that is not known to be over: it may have been
    /// executed, and may yet be. The answer to a later acquire, or to a release, on the same connection proves that it is over.
    unsettled: Vec<Arc<Connection>>,
    longest_lease: Duration,
    fence: Option<FencingToken>,
    /// The connection that the grant came over.
    grant: Option<Arc<Connection>>,
    /// A release leaves the lock taken until then. It is zero until a caller has the grant.
    held_until: Duration,
}

impl Scripted {
    pub(crate) fn new(
        node: Node,
        scripts: Arc<ScriptSet>,
        token: Token,
        reply_timeout: Duration,
    ) -> Self {
        let tracked_keys = scripts
            .tracked
            .then(|| TrackedKeys::new(&node.tracking, &scripts.keys));
        Self {
            node,
            scripts,
            token,
            reply_timeout,
            tracked_keys,
            own: None,
            patience_ms: number(0),
            traces: Mutex::default(),
        }
    }

    /// Acquires the lock, and waits for replicas, on a connection that nothing else uses meanwhile.
    pub(crate) fn on_its_own_connection(self) -> Self {
        Self {
            own: Some(self.node.own_connection()),
            ..self
        }
    }

    /// Sets for how long a waiter counts as alive after it has asked.
    pub(crate) fn waiting_for(self, patience: Duration) -> Self {
        Self {
            patience_ms: millis(patience),
            ..self
        }
    }

    pub(super) fn link(&self) -> &Arc<Link> {
        &self.node.link
    }

    async fn track(&self, connection: &Arc<Connection>, until: Duration) -> Result<(), NodeError> {
        match self.tracked_keys {
            Some(_) => self.link().track(connection, until).await,
            None => Ok(()),
        }
    }

    /// For how long a release that is sent now leaves the lock taken, in ms: one that is sent again as well.
    fn rest_ms(&self) -> u64 {
        let held_until = self.traces().held_until;
        let rest = held_until.saturating_sub(self.node.env().now());
        u64::try_from(rest.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
    }

    fn traces(&self) -> MutexGuard<'_, Traces> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn release_over(
        &self,
        connection: &Arc<Connection>,
        until: Duration,
    ) -> Result<bool, NodeError> {
        let rest_ms = self.rest_ms().to_string();
        let registration = match self.traces().named {
            true => Registration::Ends,
            false => Registration::None,
        };
        let name = self.name(registration);
        let call = self.call(&rest_ms, &name, registration);
        let reply = run_once(self.link(), connection, self.scripts.release, call, until).await?;
        let removed = flag(reply)?;
        let mut traces = self.traces();
        (traces.stands, traces.waits) = (false, false);
        traces.is_over(connection);
        Ok(removed)
    }

    /// Runs another script of the algorithm, which replies as `extend` does.
    pub(crate) async fn tell(
        &self,
        script: &Script,
        number: u64,
        until: Duration,
    ) -> Result<bool, NodeError> {
        let connection = self.link().connection(until).await?;
        let none = Registration::None;
        flag(self.run(&connection, script, number, none, until).await?)
    }

    async fn run(
        &self,
        connection: &Arc<Connection>,
        script: &Script,
        number: u64,
        registration: Registration,
        until: Duration,
    ) -> Result<Reply, NodeError> {
        let number = number.to_string();
        let name = self.name(registration);
        let call = self.call(&number, &name, registration);
        self.link().run(connection, script, call, until).await
    }

    /// The name under which this acquisition waits; empty if it never did.
    fn name(&self, registration: Registration) -> Vec<u8> {
        match registration {
            Registration::None => Vec::new(),
            Registration::Begins | Registration::Ends => self
                .node
                .waiters
                .name(self.token.as_bytes(), &self.scripts.adds),
        }
    }

    fn call<'a>(
        &'a self,
        number: &'a str,
        name: &'a [u8],
        registration: Registration,
    ) -> Call<'a, impl Iterator<Item = &'a [u8]> + Clone> {
        let patience_ms = match registration {
            Registration::Begins => &self.patience_ms,
            Registration::None | Registration::Ends => &b"0"[..],
        };
        self.scripts.call(&self.token, number, name, patience_ms)
    }

    /// The limit for one request among several.
    fn limit(&self, until: Duration) -> Duration {
        let now = self.node.env().now();
        now.saturating_add(self.reply_timeout).min(until)
    }
}

impl Traces {
    /// Returns true if Redis has something of it, as far as is known.
    fn is_there(&self) -> bool {
        self.stands || self.waits
    }

    fn is_over(&mut self, connection: &Arc<Connection>) {
        self.unsettled
            .retain(|other| !Arc::ptr_eq(other, connection));
    }
}

impl Acquisition for Scripted {
    fn key(&self) -> &[u8] {
        &self.scripts.keys[0]
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn acquire(&self, lease: Lease, until: Duration) -> BoxFuture<'_, Attempt> {
        Box::pin(async move {
            let connection = match &self.own {
                Some(own) => own.connection(until).await,
                None => self.link().connection(until).await,
            };
            let connection = match connection {
                Ok(connection) => connection,
                Err(error) => return Attempt::Failed(error),
            };
            if let Err(error) = self.track(&connection, until).await {
                return Attempt::Failed(error);
            }
            let scripts = &*self.scripts;
            // Known before it is sent: a failed request may leave keys to remove.
            let named = scripts.queues || self.node.waiters.registers(*self.token.digits());
            let (repeated, registration) = {
                let traces = self.traces();
                let registration = match named {
                    true => Registration::Begins,
                    false if traces.named => Registration::Ends,
                    false => Registration::None,
                };
                (traces.asked, registration)
            };
            let sent = self.node.env().now();
            let request = async {
                let plain =
                    scripts.begins_with_set && !repeated && !named && !self.link().resends();
                if !plain {
                    let ttl_ms = lease.ttl_ms();
                    return self
                        .run(&connection, scripts.acquire, ttl_ms, registration, until)
                        .await;
                }
                let ttl_ms = lease.ttl_ms().to_string();
                let [key, token] = [self.key(), self.token.as_bytes()];
                let args: [&[u8]; 6] = [b"SET", key, token, b"NX", b"PX", ttl_ms.as_bytes()];
                let command = Command::from(args);
                self.link().call(&connection, command, until).await
            };
            let mut request = pin!(request);
            let mut is_sent = false;
            let reply = poll_fn(|cx| {
                if is_sent {
                    return request.as_mut().poll(cx).map(Some);
                }
                // It is sent under this lock: what gives the lock back either prevents it or is sent after it.
                let mut traces = self.traces();
                if traces.closed {
                    return Poll::Ready(None);
                }
                traces.longest_lease = traces.longest_lease.max(lease.ttl());
                traces.is_over(&connection);
                traces.unsettled.push(Arc::clone(&connection));
                traces.named |= named;
                (traces.asked, is_sent) = (true, true);
                request.as_mut().poll(cx).map(Some)
            });
            let Some(reply) = reply.await else {
                return Attempt::Failed(NodeError::new(NodeErrorKind::Client));
            };
            let (attempt, fence) = read(reply, sent);
            if !matches!(&attempt, Attempt::Failed(error) if error.is_unknown()) {
                let mut traces = self.traces();
                traces.is_over(&connection);
                match attempt {
                    Attempt::Granted { .. } => {
                        (traces.stands, traces.waits) = (true, false);
                        traces.grant = Some(Arc::clone(&connection));
                    }
                    Attempt::Refused { .. } => traces.waits |= named,
                    Attempt::Failed(_) => {}
                }
                traces.fence = fence.or(traces.fence);
            }
            attempt
        })
    }

    fn extend(
        &self,
        lease: Lease,
        until: Duration,
    ) -> BoxFuture<'_, Result<Option<Duration>, NodeError>> {
        Box::pin(async move {
            let connection = self.link().connection(until).await?;
            self.track(&connection, until).await?;
            {
                let mut traces = self.traces();
                traces.longest_lease = traces.longest_lease.max(lease.ttl());
            }
            let (extend, ttl_ms) = (self.scripts.extend, lease.ttl_ms());
            let sent = self.node.env().now();
            let none = Registration::None;
            let extended = flag(self.run(&connection, extend, ttl_ms, none, until).await?)?;
            // It proves no acquire to be over: it may have been sent before that.
            self.traces().stands &= extended;
            Ok(extended.then_some(sent))
        })
    }

    fn release(&self, until: Duration) -> BoxFuture<'_, Result<bool, NodeError>> {
        self.let_go();
        Box::pin(async move {
            let connection = self.link().connection(until).await?;
            self.release_over(&connection, until).await
        })
    }

    fn settle(&self, until: Duration) -> BoxFuture<'_, bool> {
        self.let_go();
        Box::pin(async move {
            // First over the connections that an acquire was sent on: it is executed before the
            // release or not at all, as long as they live.
            let mut silent = false;
            let connections = self.traces().unsettled.clone();
            for connection in &connections {
                silent |= self
                    .release_over(connection, self.limit(until))
                    .await
                    .is_err();
            }
            // Where they do not answer, the acquire may have been executed: once more over a
            // connection that does. What is still on its way over a dead one is out of reach.
            let mut failure = 0;
            while silent || self.traces().is_there() {
                match self.release(self.limit(until)).await {
                    Ok(_) => {
                        self.traces().unsettled.clear();
                        break;
                    }
                    Err(error) if !error.is_transient() => break,
                    Err(_) => {}
                }
                let env = self.node.env();
                let random = retry::draw(env.random());
                let pause = retry::back_off(failure, Duration::MAX, random);
                failure = failure.saturating_add(1);
                let next = env.now().saturating_add(pause);
                if next >= until {
                    break;
                }
                env.sleep_until(next).await;
            }
            self.is_settled()
        })
    }

    fn adopt(&self, fence: Option<FencingToken>) {
        let mut traces = self.traces();
        (traces.asked, traces.stands, traces.fence) = (true, true, fence);
    }

    fn hold_until(&self, until: Duration) {
        self.traces().held_until = until;
    }

    fn let_go(&self) {
        self.traces().closed = true;
    }

    fn replicate(&self, replicas: u32, until: Duration) -> BoxFuture<'_, Result<u64, NodeError>> {
        Box::pin(async move {
            // On the connection of the grant: WAIT is about what that one has written.
            let Some(connection) = self.traces().grant.clone() else {
                return Err(NodeError::new(NodeErrorKind::Client));
            };
            let left = self.limit(until).saturating_sub(self.node.env().now());
            // Some of the time is for the way.
            let patience = (left / 4 * 3).as_millis().max(1);
            let command = Command::new("WAIT").arg(replicas.to_string());
            let command = command.arg(patience.to_string());
            let blocked = self.own.as_ref().and_then(OwnConnection::take);
            let reply = self.link().call(&connection, command, until).await;
            if let (Some(own), Some(free)) = (&self.own, blocked) {
                own.give_back(free);
            }
            match reply? {
                Reply::Integer(count) => Ok(u64::try_from(count).unwrap_or(0)),
                Reply::Okay | Reply::Nil | Reply::Bytes(_) | Reply::Array(_) => {
                    Err(NodeError::new(NodeErrorKind::Protocol))
                }
            }
        })
    }

    fn is_settled(&self) -> bool {
        let traces = self.traces();
        !traces.is_there() && traces.unsettled.is_empty()
    }

    fn may_stand(&self) -> bool {
        self.traces().stands
    }

    fn longest_lease(&self) -> Duration {
        self.traces().longest_lease
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            match &self.tracked_keys {
                Some(keys) => keys.changed().await,
                None => pending().await,
            }
        })
    }

    fn join(&self) -> Option<Waiter> {
        Some(self.node.waiters.join(*self.token.digits()))
    }

    fn subscribe(&self) {
        self.node.subscription.subscribe(self.reply_timeout);
    }

    fn fence(&self) -> Option<FencingToken> {
        self.traces().fence
    }
}

/// Reads the reply to an acquire that was sent at `sent`.
fn read(reply: Result<Reply, NodeError>, sent: Duration) -> (Attempt, Option<FencingToken>) {
    let attempt = match reply {
        Ok(Reply::Okay) => Attempt::Granted { sent },
        Ok(Reply::Array(items)) => match *items {
            [Reply::Okay, Reply::Integer(fence)] => {
                let fence = u64::try_from(fence).ok().map(FencingToken::new);
                return (Attempt::Granted { sent }, fence);
            }
            _ => Attempt::Failed(NodeError::new(NodeErrorKind::Protocol)),
        },
        Ok(Reply::Nil) => Attempt::Refused { holder_ttl: None },
        Ok(Reply::Integer(ttl_ms)) => Attempt::Refused {
            holder_ttl: u64::try_from(ttl_ms).ok().map(Duration::from_millis),
        },
        Ok(Reply::Bytes(_)) => Attempt::Failed(NodeError::new(NodeErrorKind::Protocol)),
        Err(error) => Attempt::Failed(error),
    };
    (attempt, None)
}

/// Reads the 0 or 1 of a script.
fn flag(reply: Reply) -> Result<bool, NodeError> {
    match reply {
        Reply::Integer(0) => Ok(false),
        Reply::Integer(1) => Ok(true),
        Reply::Integer(_) | Reply::Okay | Reply::Nil | Reply::Bytes(_) | Reply::Array(_) => {
            Err(NodeError::new(NodeErrorKind::Protocol))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        algorithm::single,
        environment::Tokio,
        node::CONNECT_TIMEOUT,
        wire::{Dialled, Endpoint, Wire},
    };

    /// A node that grants everything, and counts.
    #[derive(Clone, Default)]
    struct Granting(Arc<Mutex<Vec<Command>>>);

    impl Endpoint for Granting {
        fn dial(&self) -> BoxFuture<'_, Result<Dialled, NodeError>> {
            let wire = Arc::new(self.clone());
            Box::pin(async {
                Ok(Dialled {
                    wire,
                    driver: None,
                    pushes: None,
                })
            })
        }
    }

    impl Wire for Granting {
        fn call(&self, command: Command) -> BoxFuture<'static, Result<Reply, NodeError>> {
            self.0.lock().unwrap().push(command);
            Box::pin(async { Ok(Reply::Okay) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_acquisition_that_was_given_up_sends_no_request() {
        let (lease, until) = (
            Lease::new(Duration::from_secs(30), 0, Duration::ZERO).unwrap(),
            Duration::MAX,
        );
        let ends: [fn(&Scripted); 3] = [
            |acquisition| acquisition.let_go(),
            |acquisition| drop(acquisition.settle(Duration::MAX)),
            |acquisition| drop(acquisition.release(Duration::MAX)),
        ];
        for end in ends {
            let asked = Granting::default();
            let endpoint = Box::new(asked.clone());
            let node = Node::new(endpoint, Arc::new(Tokio), CONNECT_TIMEOUT);
            let token = Token::new([7; 16]);
            let scripts = Arc::new(single::scripts(b"k"));
            let acquisition = Scripted::new(node, scripts, token, Duration::from_secs(1));
            // On its way to ask when another thread gives it back.
            let late = acquisition.acquire(lease, until);
            end(&acquisition);
            assert!(matches!(late.await, Attempt::Failed(_)));
            assert!(asked.0.lock().unwrap().is_empty());
        }
    }

    /// An environment that runs something when the clock is read.
    struct Reads(Mutex<Option<Box<dyn FnOnce() + Send>>>);

    impl crate::environment::Environment for Reads {
        fn now(&self) -> Duration {
            if let Some(run) = self.0.lock().unwrap().take() {
                run();
            }
            Tokio.now()
        }

        fn sleep_until(&self, deadline: Duration) -> BoxFuture<'static, ()> {
            Tokio.sleep_until(deadline)
        }

        fn spawn(&self, task: BoxFuture<'static, ()>) -> Result<(), crate::NoRuntime> {
            Tokio.spawn(task)
        }

        fn random(&self) -> [u8; 16] {
            Tokio.random()
        }
    }

    // Another thread gave the lock back between the look whether it may be asked for and the request.
    #[tokio::test(start_paused = true)]
    async fn an_acquisition_that_is_given_up_just_before_its_request_sends_none() {
        let asked = Granting::default();
        let env = Arc::new(Reads(Mutex::default()));
        let node = Node::new(
            Box::new(asked.clone()),
            Arc::clone(&env) as _,
            CONNECT_TIMEOUT,
        );
        let scripts = Arc::new(single::scripts(b"k"));
        // A connection, so that the clock is read next for the request.
        node.link.connection(Duration::MAX).await.unwrap();
        let acquisition = Scripted::new(node, scripts, Token::new([7; 16]), Duration::from_secs(1));
        let acquisition = Arc::new(acquisition);
        let other = Arc::clone(&acquisition);
        *env.0.lock().unwrap() = Some(Box::new(move || other.let_go()));
        let lease = Lease::new(Duration::from_secs(30), 0, Duration::ZERO).unwrap();
        let attempt = acquisition.acquire(lease, Duration::MAX).await;
        assert!(matches!(attempt, Attempt::Failed(_)));
        assert!(asked.0.lock().unwrap().is_empty());
    }
}
