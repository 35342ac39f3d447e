//! A fault with the conditions that select its messages.

use super::condition::{Conditions, Message};
use super::{Direction, MessageRule, RuleEnv, Verdict};
use crate::resp::{Reply, Request};
use std::fmt;
use std::sync::Arc;

/// Which messages besides requests and replies a fault applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// None: the fault concerns the execution of requests.
    Requests,
    /// Also pushes.
    Pushes,
    /// Also pushes and disconnects: nothing passes at all.
    Ends,
}

/// Effect of a fault on the messages of its rule.
pub(super) trait MessageFault: Send {
    /// The name in [`super::FAULTS`].
    const NAME: &'static str;
    const REACH: Reach = Reach::Requests;

    fn verdict(&self) -> Verdict;

    /// Returns true if the fault concerns a request of a rule that selects no commands.
    fn concerns(&self, request: Request<'_>) -> bool {
        let _ = request;
        true
    }

    /// The fault's own arguments, as words.
    fn arguments(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// The beginning of a description, which continues with "of the command ...".
    fn phrase(&self, direction: Option<Direction>) -> String;
}

/// The description of the messages of a direction.
pub(super) fn subject(direction: Option<Direction>) -> &'static str {
    match direction {
        Some(Direction::Request) => "request",
        Some(Direction::Reply) => "reply",
        None => "message",
    }
}

/// A fault with conditions that select its messages; without conditions, it selects all. All kinds
/// of conditions must match. A condition that is given several times matches if one of its values
/// does.
///
/// ```
/// use redouble::fault::{Disconnect, DropReply};
///
/// let _third_claim_of_a_coupon = Disconnect::after_execution().command("SET").key("coupon:*").nth(3);
/// let rule = DropReply::new().command("SET").key("coupon:*").client_name("worker-*").nth(1);
/// assert_eq!(format!("{rule:?}"), "drop reply to SET key coupon:* name worker-* nth 1");
/// ```
#[derive(Clone)]
pub struct Rule<F> {
    pub(super) fault: F,
    /// `None` for both.
    pub(super) direction: Option<Direction>,
    pub(super) conditions: Conditions,
}

impl<F> Rule<F> {
    pub(super) fn new(fault: F, direction: Option<Direction>) -> Self {
        Self {
            fault,
            direction,
            conditions: Conditions::default(),
        }
    }

    /// Selects the connection with this CLIENT ID.
    #[must_use]
    pub fn connection(mut self, client_id: u64) -> Self {
        self.conditions.connections.push(client_id);
        self
    }

    /// Selects clients whose address, as CLIENT LIST shows it, matches this glob pattern.
    #[must_use]
    pub fn addr(mut self, pattern: impl AsRef<[u8]>) -> Self {
        self.conditions.addrs.push(pattern.as_ref().to_vec());
        self
    }

    /// Selects clients whose name, set by CLIENT SETNAME or HELLO, matches this glob pattern.
    #[must_use]
    pub fn client_name(mut self, pattern: impl AsRef<[u8]>) -> Self {
        self.conditions.names.push(pattern.as_ref().to_vec());
        self
    }

    /// Selects requests of this command, in any case. A subcommand is written `config|get`.
    #[must_use]
    pub fn command(mut self, name: &str) -> Self {
        self.conditions.commands.push(name.as_bytes().to_vec());
        self
    }

    /// Selects requests with a key that matches this glob pattern. The command's key specification
    /// finds the keys, so this works for EVAL and EVALSHA too.
    #[must_use]
    pub fn key(mut self, pattern: impl AsRef<[u8]>) -> Self {
        self.conditions.keys.push(pattern.as_ref().to_vec());
        self
    }

    /// Selects messages for which the predicate returns true. The predicate must not call the
    /// server.
    #[must_use]
    pub fn matching(
        mut self,
        predicate: impl Fn(&Message<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.conditions.predicate = Some(match self.conditions.predicate.take() {
            None => Arc::new(predicate),
            Some(other) => Arc::new(move |message| other(message) && predicate(message)),
        });
        self
    }

    /// Selects the n-th message that matches the other conditions, counted from 1.
    ///
    /// # Panics
    /// If `n` is 0: there is no such message.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.conditions.count.nth = Some(counted(n));
        self
    }

    /// Selects the first `n` messages that match the other conditions.
    ///
    /// # Panics
    /// If `n` is 0: the rule would never fire.
    #[must_use]
    pub fn first(mut self, n: u64) -> Self {
        self.conditions.count.first = Some(counted(n));
        self
    }

    /// Selects every n-th message that matches the other conditions.
    ///
    /// # Panics
    /// If `n` is 0.
    #[must_use]
    pub fn every(mut self, n: u64) -> Self {
        self.conditions.count.every = Some(counted(n));
        self
    }

    /// Skips the first `n` messages that match the other conditions.
    ///
    /// # Panics
    /// If `n` is 0: the condition would have no effect.
    #[must_use]
    pub fn after(mut self, n: u64) -> Self {
        self.conditions.count.after = Some(counted(n));
        self
    }

    /// Selects a random share of the messages that match the other conditions, drawn from the
    /// server's seed.
    ///
    /// # Panics
    /// If `share` is not between 0 and 1.
    #[must_use]
    pub fn probability(mut self, share: f64) -> Self {
        assert!(
            (0.0..=1.0).contains(&share),
            "a probability must be between 0 and 1, not {share}"
        );
        self.conditions.probability = Some(share);
        self
    }

    fn works(&self, direction: Direction) -> bool {
        self.direction.is_none_or(|own| own == direction)
    }
}

#[track_caller]
fn counted(n: u64) -> u64 {
    assert!(n > 0, "messages are counted from 1");
    n
}

fn judge<F: MessageFault>(
    rule: &mut Rule<F>,
    direction: Direction,
    request: Option<Request<'_>>,
    reply: Option<&Reply>,
    env: &mut RuleEnv<'_>,
) -> Verdict {
    let is_concerned = || {
        let any = rule.conditions.commands.is_empty();
        request.is_none_or(|request| !any || rule.fault.concerns(request))
    };
    if rule.works(direction) && is_concerned() && rule.conditions.meet(request, reply, env) {
        rule.fault.verdict()
    } else {
        Verdict::Pass
    }
}

impl<F: MessageFault> MessageRule for Rule<F> {
    fn on_request(&mut self, request: Request<'_>, env: &mut RuleEnv<'_>) -> Verdict {
        judge(self, Direction::Request, Some(request), None, env)
    }

    fn on_reply(&mut self, request: Request<'_>, reply: &Reply, env: &mut RuleEnv<'_>) -> Verdict {
        judge(self, Direction::Reply, Some(request), Some(reply), env)
    }

    fn on_push(&mut self, frame: &Reply, env: &mut RuleEnv<'_>) -> Verdict {
        if F::REACH < Reach::Pushes {
            return Verdict::Pass;
        }
        judge(self, Direction::Reply, None, Some(frame), env)
    }

    fn on_end(&mut self, of: Direction, env: &mut RuleEnv<'_>) -> Verdict {
        if F::REACH == Reach::Ends && self.works(of) && self.conditions.meet_all(env) {
            self.fault.verdict()
        } else {
            Verdict::Pass
        }
    }

    fn words(&self) -> Option<Vec<Vec<u8>>> {
        let mut words = vec![F::NAME.as_bytes().to_vec()];
        words.append(&mut self.fault.arguments());
        if super::spec::has_direction(F::NAME)
            && let Some(direction) = self.direction
        {
            words.extend([b"DIRECTION".to_vec(), subject(Some(direction)).into()]);
        }
        words.append(&mut self.conditions.words()?);
        Some(words)
    }
}

impl<F: MessageFault> fmt::Debug for Rule<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phrase = self.fault.phrase(self.direction);
        f.write_str(&phrase)?;
        if !self.conditions.commands.is_empty() {
            let is_reply = phrase.ends_with("reply");
            f.write_str(if is_reply { " to" } else { " of" })?;
        }
        write!(f, "{}", self.conditions)
    }
}
