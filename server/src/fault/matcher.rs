//! Which messages a fault concerns.

use super::{MessageRule, RuleEnv, Verdict};
use crate::engine::glob_match;
use crate::resp::{Reply, Request};

/// A fault of one message: what it does to a request, and to a reply.
pub(super) trait MessageFault: Send {
    fn on_request(&self) -> Verdict {
        Verdict::Pass
    }

    fn on_reply(&self) -> Verdict {
        Verdict::Pass
    }
}

/// A fault with the messages it concerns: all, unless narrowed down. All conditions must hold.
///
/// ```
/// use redouble::fault::Disconnect;
///
/// let _third_claim_of_a_coupon = Disconnect::after_execution().command("SET").key("coupon:*").nth(3);
/// ```
#[derive(Clone, Debug)]
pub struct Rule<F> {
    fault: F,
    command: Option<String>,
    key: Option<Vec<u8>>,
    client_name: Option<Vec<u8>>,
    nth: Option<u64>,
    probability: Option<f64>,
    seen: u64,
}

impl<F> Rule<F> {
    pub(super) fn new(fault: F) -> Self {
        Self {
            fault,
            command: None,
            key: None,
            client_name: None,
            nth: None,
            probability: None,
            seen: 0,
        }
    }

    /// Only requests of this command, in any case.
    #[must_use]
    pub fn command(mut self, name: &str) -> Self {
        self.command = Some(name.to_owned());
        self
    }

    /// Only requests with a key that matches this glob pattern. Keys are found by the command's key
    /// specification, so this matches EVAL and EVALSHA too.
    #[must_use]
    pub fn key(mut self, pattern: impl AsRef<[u8]>) -> Self {
        self.key = Some(pattern.as_ref().to_vec());
        self
    }

    /// Only clients that have given themselves this name by CLIENT SETNAME or HELLO.
    #[must_use]
    pub fn client_name(mut self, name: impl AsRef<[u8]>) -> Self {
        self.client_name = Some(name.as_ref().to_vec());
        self
    }

    /// Only the n-th message that meets the other conditions, counted from 1.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.nth = Some(n);
        self
    }

    /// Only this share of the messages that meet the other conditions, drawn from the server's seed.
    #[must_use]
    pub fn probability(mut self, share: f64) -> Self {
        self.probability = Some(share);
        self
    }

    fn matches(&mut self, request: Request<'_>, env: &mut RuleEnv<'_>) -> bool {
        let command = |name: &String| request.name().eq_ignore_ascii_case(name.as_bytes());
        let key = |pattern: &Vec<u8>| {
            crate::command::keys_of(request)
                .iter()
                .any(|key| glob_match(pattern, key))
        };
        let client_name = |name: &Vec<u8>| name == env.client_name;
        let is_meant = self.command.as_ref().is_none_or(command)
            && self.key.as_ref().is_none_or(key)
            && self.client_name.as_ref().is_none_or(client_name);
        if !is_meant {
            return false;
        }
        self.seen += 1;
        self.nth.is_none_or(|n| n == self.seen)
            && self.probability.is_none_or(|share| env.rng.unit() < share)
    }
}

impl<F: MessageFault> MessageRule for Rule<F> {
    fn on_request(&mut self, request: Request<'_>, env: &mut RuleEnv<'_>) -> Verdict {
        let verdict = self.fault.on_request();
        if verdict != Verdict::Pass && self.matches(request, env) {
            verdict
        } else {
            Verdict::Pass
        }
    }

    fn on_reply(&mut self, request: Request<'_>, _reply: &Reply, env: &mut RuleEnv<'_>) -> Verdict {
        let verdict = self.fault.on_reply();
        if verdict != Verdict::Pass && self.matches(request, env) {
            verdict
        } else {
            Verdict::Pass
        }
    }
}
