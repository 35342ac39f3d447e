//! The installed rules of one server or proxy, and their combined decision about a message.

use super::{Direction, Gate, MessageRule, RuleEnv, Verdict};
use crate::engine::Rng;
use crate::resp::{ErrorReply, Reply, Request};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The connection that a message belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) client_id: u64,
    pub(crate) addr: &'a str,
    pub(crate) name: &'a [u8],
}

/// Fate of a message after its delays and gates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    #[default]
    Arrives,
    Drop,
    Silence,
    CutAfter(usize),
    Close,
    Reset,
}

/// The combined decision of all rules about a message.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// Delay before the message goes on.
    pub(crate) delay: Duration,
    pub(crate) gates: Vec<Gate>,
    /// The error that takes the place of the message.
    pub(crate) instead: Option<ErrorReply>,
    pub(crate) fate: Fate,
}

struct Installed {
    id: u64,
    rule: Box<dyn MessageRule>,
    fired: Arc<AtomicU64>,
}

struct Rules {
    installed: Vec<Installed>,
    rng: Rng,
    last_id: u64,
}

/// The rules, in the order of their installation.
pub(crate) struct Plan {
    /// Number of rules. A plan without rules costs one load per message.
    count: AtomicUsize,
    rules: Mutex<Rules>,
}

/// An owner of rules: a server or a proxy.
pub(crate) trait Ruled: Send + Sync {
    fn plan(&self) -> &Plan;
}

impl std::fmt::Debug for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rules = self.rules();
        let rules = rules.installed.iter().map(|installed| &installed.rule);
        f.debug_list().entries(rules).finish()
    }
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            count: AtomicUsize::new(0),
            rules: Mutex::new(Rules {
                installed: Vec::new(),
                rng: Rng::for_component(seed, "faults"),
                last_id: 0,
            }),
        }
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Installs a rule; returns its id and the counter of its hits.
    pub(crate) fn install(&self, rule: Box<dyn MessageRule>) -> (u64, Arc<AtomicU64>) {
        let mut rules = self.rules();
        rules.last_id += 1;
        let (id, fired) = (rules.last_id, Arc::new(AtomicU64::new(0)));
        rules.installed.push(Installed {
            id,
            rule,
            fired: fired.clone(),
        });
        self.count.store(rules.installed.len(), Ordering::Release);
        (id, fired)
    }

    /// Removes a rule. Returns false if no rule has this id.
    pub(crate) fn remove(&self, id: u64) -> bool {
        let mut rules = self.rules();
        let at = rules.installed.iter().position(|rule| rule.id == id);
        let removed = at.map(|at| rules.installed.remove(at));
        self.count.store(rules.installed.len(), Ordering::Release);
        drop(rules);
        // Dropping the rule opens its gates, which may call their wakers now.
        removed.is_some()
    }

    /// Removes all rules; returns their number.
    pub(crate) fn clear(&self) -> usize {
        let mut rules = self.rules();
        let removed = std::mem::take(&mut rules.installed);
        self.count.store(0, Ordering::Release);
        drop(rules);
        removed.len()
    }

    /// The rules: the id of each, its number of hits, and the result of `describe`.
    pub(crate) fn list<T>(
        &self,
        mut describe: impl FnMut(u64, u64, &dyn MessageRule) -> T,
    ) -> Vec<T> {
        let rules = self.rules();
        let rules = rules.installed.iter();
        rules
            .map(|one| describe(one.id, one.fired.load(Ordering::Acquire), &*one.rule))
            .collect()
    }

    pub(crate) fn on_request(&self, sender: Sender<'_>, request: Request<'_>) -> Decision {
        let mut decision = Decision::default();
        self.judge(sender, |rule, env| {
            decision.apply(rule.on_request(request, env), false)
        });
        decision
    }

    pub(crate) fn on_reply(
        &self,
        sender: Sender<'_>,
        request: Request<'_>,
        reply: &Reply,
    ) -> Decision {
        let mut decision = Decision::default();
        let mut replaced = None;
        self.judge(sender, |rule, env| {
            let verdict = rule.on_reply(request, replaced.as_ref().unwrap_or(reply), env);
            if let Verdict::Answer(error) = &verdict {
                replaced = Some(error.clone().into());
            }
            decision.apply(verdict, true)
        });
        decision
    }

    pub(crate) fn on_push(&self, sender: Sender<'_>, frame: &Reply) -> Decision {
        let mut decision = Decision::default();
        self.judge(sender, |rule, env| {
            decision.apply(rule.on_push(frame, env), true)
        });
        decision
    }

    /// Judges a disconnect. It makes no rule fire and is only delayed or held.
    pub(crate) fn on_end(&self, sender: Sender<'_>, of: Direction) -> Decision {
        let mut decision = Decision::default();
        self.judge(sender, |rule, env| {
            decision.apply(rule.on_end(of, env), true);
            RuleEffect::None
        });
        decision
    }

    /// Asks the rules one after the other, until `ask` returns a final verdict.
    fn judge(
        &self,
        sender: Sender<'_>,
        mut ask: impl FnMut(&mut dyn MessageRule, &mut RuleEnv<'_>) -> RuleEffect,
    ) {
        let Rules { installed, rng, .. } = &mut *self.rules();
        for Installed { rule, fired, .. } in installed {
            let mut env = RuleEnv {
                client_id: sender.client_id,
                addr: sender.addr,
                client_name: sender.name,
                rng,
            };
            let effect = ask(&mut **rule, &mut env);
            if effect != RuleEffect::None {
                fired.fetch_add(1, Ordering::AcqRel);
            }
            if effect == RuleEffect::Final {
                return;
            }
        }
    }
}

/// Whether a rule affected the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleEffect {
    None,
    /// The message goes on to the next rule.
    Continue,
    /// The verdict is final: no other rule sees the message.
    Final,
}

impl Decision {
    fn apply(&mut self, verdict: Verdict, is_answer: bool) -> RuleEffect {
        self.fate = match verdict {
            Verdict::Pass => return RuleEffect::None,
            Verdict::Delay(delay) => {
                self.delay = self.delay.saturating_add(delay);
                return RuleEffect::Continue;
            }
            Verdict::Hold(gate) => {
                self.gates.push(gate);
                return RuleEffect::Continue;
            }
            Verdict::Answer(error) => {
                self.instead = Some(error);
                if is_answer {
                    return RuleEffect::Continue;
                }
                Fate::Arrives
            }
            Verdict::Drop => Fate::Drop,
            Verdict::Silence => Fate::Silence,
            Verdict::CutAfter(bytes) => Fate::CutAfter(bytes),
            Verdict::Close => Fate::Close,
            Verdict::Reset => Fate::Reset,
        };
        RuleEffect::Final
    }
}
