//! Faults between the decoder, the engine and the encoder; no command knows of them.
//!
//! A message rule looks at every request before it is executed and at every reply before it is
//! written, and gives a [`Verdict`]. Replies carry no request id, so a rule never lets one slip
//! out of the row: a delayed message holds all later ones of its connection and direction, a
//! dropped one silences that direction until the client connects anew, and a *lost reply* is an
//! executed request whose connection then ends ([`Disconnect::after_execution`]).

mod delay;
mod disconnect;
mod drop_request;
mod matcher;

pub use delay::Delay;
pub use disconnect::Disconnect;
pub use drop_request::DropRequest;
pub use matcher::Rule;

use crate::engine::{ConnId, Rng};
use crate::resp::{Reply, Request};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It goes on after this time of the clock's source; later ones of its direction wait behind it.
    Delay(Duration),
    /// It is lost, and so is everything after it in its direction.
    Drop,
    /// It is lost and the connection ends in order.
    Close,
    /// It is lost and the connection is reset.
    Reset,
}

/// What a rule may know besides the message.
#[derive(Debug)]
pub struct RuleEnv<'a> {
    /// The connection.
    pub conn: ConnId,
    /// The name the client gave itself; empty if none.
    pub client_name: &'a [u8],
    /// Draws for rules with a probability; from the server's seed.
    pub rng: &'a mut Rng,
}

/// A rule for messages. Of several rules, the first verdict that is not [`Verdict::Pass`] wins.
pub trait MessageRule: Send {
    /// Judges a request before it is executed.
    fn on_request(&mut self, _request: Request<'_>, _env: &mut RuleEnv<'_>) -> Verdict {
        Verdict::Pass
    }

    /// Judges the reply to `request` after it was executed.
    fn on_reply(
        &mut self,
        _request: Request<'_>,
        _reply: &Reply,
        _env: &mut RuleEnv<'_>,
    ) -> Verdict {
        Verdict::Pass
    }
}

/// A fault as documentation and tools list it.
#[derive(Clone, Copy, Debug)]
pub struct FaultSpec {
    /// Its name, as the file is called.
    pub name: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
}

/// Every fault there is.
pub const FAULTS: &[FaultSpec] = &[delay::SPEC, disconnect::SPEC, drop_request::SPEC, PAUSE];

/// A node fault: see `Server::pause`.
const PAUSE: FaultSpec = FaultSpec {
    name: "pause",
    summary: "the node serves nobody until it is resumed; input queues",
};

struct Installed {
    id: u64,
    rule: Box<dyn MessageRule>,
    fired: Arc<AtomicU64>,
}

/// The rules of one server, in the order in which they were installed.
pub(crate) struct Plan {
    /// How many rules there are: one look when there are none.
    count: AtomicUsize,
    rules: Mutex<(Vec<Installed>, Rng, u64)>,
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan")
            .field("rules", &self.count)
            .finish_non_exhaustive()
    }
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = Rng::for_component(seed, "faults");
        Self {
            count: AtomicUsize::new(0),
            rules: Mutex::new((Vec::new(), rng, 0)),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Installs a rule; gives its id and its counter.
    pub(crate) fn install(&self, rule: Box<dyn MessageRule>) -> (u64, Arc<AtomicU64>) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.2 += 1;
        let id = rules.2;
        let fired = Arc::new(AtomicU64::new(0));
        rules.0.push(Installed {
            id,
            rule,
            fired: fired.clone(),
        });
        self.count.store(rules.0.len(), Ordering::Release);
        (id, fired)
    }

    pub(crate) fn remove(&self, id: u64) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.0.retain(|installed| installed.id != id);
        self.count.store(rules.0.len(), Ordering::Release);
    }

    pub(crate) fn on_request(
        &self,
        conn: ConnId,
        client_name: &[u8],
        request: Request<'_>,
    ) -> Verdict {
        self.judge(conn, client_name, |rule, env| rule.on_request(request, env))
    }

    pub(crate) fn on_reply(
        &self,
        conn: ConnId,
        client_name: &[u8],
        request: Request<'_>,
        reply: &Reply,
    ) -> Verdict {
        self.judge(conn, client_name, |rule, env| {
            rule.on_reply(request, reply, env)
        })
    }

    fn judge(
        &self,
        conn: ConnId,
        client_name: &[u8],
        ask: impl Fn(&mut dyn MessageRule, &mut RuleEnv<'_>) -> Verdict,
    ) -> Verdict {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let (rules, rng, _) = &mut *rules;
        for installed in rules {
            let verdict = ask(
                &mut *installed.rule,
                &mut RuleEnv {
                    conn,
                    client_name,
                    rng,
                },
            );
            if verdict != Verdict::Pass {
                installed.fired.fetch_add(1, Ordering::Relaxed);
                return verdict;
            }
        }
        Verdict::Pass
    }
}
