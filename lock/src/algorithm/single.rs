//! The mutex on one Redis node: a key that holds the token of its owner and expires.
//!
//! The first request is a plain `SET key token NX PX lease`. Every later one of the same acquisition
//! is the script `acquire.lua`, which takes a key that already holds the token for a grant: the
//! request before may have been executed although its answer was lost. It also renews that key, so
//! the deadline counts from this request and the holder has the whole lease; and it tells a waiter
//! how long the holder may stay.

use super::{Attempt, Claim};
use crate::{
    environment::BoxFuture,
    error::{NodeError, NodeErrorKind},
    lease::Lease,
    node::{Line, Node},
    retry,
    script::{ACQUIRE, EXTEND, RELEASE},
    token::Token,
    wire::{Command, Reply},
};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// One acquisition of a mutex on one node.
pub(crate) struct Single {
    node: Arc<Node>,
    key: Arc<[u8]>,
    token: Token,
    reply_timeout: Duration,
    traces: Mutex<Traces>,
}

/// What this acquisition may have left behind.
#[derive(Default)]
struct Traces {
    /// It was asked for at least once.
    asked: bool,
    /// It was granted, and is not known to be gone.
    stands: bool,
    /// Connections on which an acquire was sent that is not known to be over: it may have been
    /// executed, and may yet be. Any later answer on the same line proves that it is over.
    unsettled: Vec<Arc<Line>>,
    longest_lease: Duration,
}

impl Single {
    pub(crate) fn new(
        node: Arc<Node>,
        key: Arc<[u8]>,
        token: Token,
        reply_timeout: Duration,
    ) -> Self {
        Self {
            node,
            key,
            token,
            reply_timeout,
            traces: Mutex::default(),
        }
    }

    fn traces(&self) -> MutexGuard<'_, Traces> {
        self.traces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn release_over(&self, line: &Arc<Line>, until: Duration) -> Result<bool, NodeError> {
        let token = self.token.as_bytes();
        let reply = self
            .node
            .run(line, &RELEASE, &self.key, &[token], until)
            .await;
        let removed = flag(reply?)?;
        let mut traces = self.traces();
        traces.stands = false;
        traces.is_over(line);
        Ok(removed)
    }

    /// The limit for one request among several.
    fn limit(&self, until: Duration) -> Duration {
        let now = self.node.env().now();
        now.saturating_add(self.reply_timeout).min(until)
    }
}

impl Traces {
    fn is_over(&mut self, line: &Arc<Line>) {
        self.unsettled.retain(|other| !Arc::ptr_eq(other, line));
    }
}

impl Claim for Single {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn acquire(&self, lease: Lease, until: Duration) -> BoxFuture<'_, Attempt> {
        Box::pin(async move {
            let line = match self.node.line(until).await {
                Ok(line) => line,
                Err(error) => return Attempt::Failed(error),
            };
            let repeated = {
                let mut traces = self.traces();
                traces.longest_lease = traces.longest_lease.max(lease.ttl());
                traces.is_over(&line);
                traces.unsettled.push(Arc::clone(&line));
                std::mem::replace(&mut traces.asked, true)
            };
            let (key, token, ttl) = (
                &*self.key,
                self.token.as_bytes(),
                lease.ttl_ms().to_string(),
            );
            let sent = self.node.env().now();
            let reply = if repeated {
                let args = [token, ttl.as_bytes()];
                self.node.run(&line, &ACQUIRE, key, &args, until).await
            } else {
                let command = Command::new("SET").arg(key).arg(token).arg("NX").arg("PX");
                self.node.call(&line, command.arg(ttl), until).await
            };
            let attempt = match reply {
                Ok(Reply::Okay) => Attempt::Granted { sent },
                Ok(Reply::Nil) => Attempt::Refused { holder_ttl: None },
                Ok(Reply::Integer(ttl_ms)) => Attempt::Refused {
                    holder_ttl: u64::try_from(ttl_ms).ok().map(Duration::from_millis),
                },
                Ok(Reply::Bytes(_) | Reply::Array(_)) => {
                    Attempt::Failed(NodeError::new(NodeErrorKind::Protocol))
                }
                Err(error) => Attempt::Failed(error),
            };
            if !matches!(&attempt, Attempt::Failed(error) if error.is_unknown()) {
                let mut traces = self.traces();
                traces.is_over(&line);
                traces.stands |= matches!(attempt, Attempt::Granted { .. });
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
            let line = self.node.line(until).await?;
            {
                let mut traces = self.traces();
                traces.longest_lease = traces.longest_lease.max(lease.ttl());
            }
            let ttl = lease.ttl_ms().to_string();
            let args = [self.token.as_bytes(), ttl.as_bytes()];
            let sent = self.node.env().now();
            let reply = self.node.run(&line, &EXTEND, &self.key, &args, until).await;
            let extended = flag(reply?)?;
            let mut traces = self.traces();
            traces.is_over(&line);
            traces.stands &= extended;
            Ok(extended.then_some(sent))
        })
    }

    fn release(&self, until: Duration) -> BoxFuture<'_, Result<bool, NodeError>> {
        Box::pin(async move {
            let line = self.node.line(until).await?;
            self.release_over(&line, until).await
        })
    }

    fn settle(&self, until: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            // First over the connections that an acquire was sent on: it is executed before the
            // release or not at all, as long as they live.
            let mut silent = false;
            let lines = self.traces().unsettled.clone();
            for line in &lines {
                silent |= self.release_over(line, self.limit(until)).await.is_err();
            }
            // Where they do not answer, the acquire may have been executed: once more over a
            // connection that does. What is still on its way over a dead one is out of reach.
            let mut failure = 0;
            while silent || self.may_stand() {
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

    fn is_settled(&self) -> bool {
        let traces = self.traces();
        !traces.stands && traces.unsettled.is_empty()
    }

    fn may_stand(&self) -> bool {
        self.traces().stands
    }

    fn longest_lease(&self) -> Duration {
        self.traces().longest_lease
    }
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
