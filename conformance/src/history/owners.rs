//! The client process to which a token belongs. That need not be the process whose request stored it: a release may store the
//! token of the waiter to which it gives the lock.

use super::{Cause, History, What};
use std::collections::BTreeMap;

/// The client processes of the tokens that a subject named for grants, or that were seen in a queue.
#[derive(Clone, Debug, Default)]
pub struct Owners<'a> {
    /// The process that named each token; `None` if several did.
    named: BTreeMap<&'a [u8], Option<u8>>,
    /// The process whose request put each token into a queue for the first time.
    queued: BTreeMap<&'a [u8], u8>,
}

impl History {
    /// Returns the owners of the tokens.
    #[must_use]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "most of what happens is no matter here"
    )]
    pub fn owners(&self) -> Owners<'_> {
        let mut owners = Owners::default();
        let mut hosts = BTreeMap::new();
        for entry in &self.entries {
            match &entry.what {
                What::Invoke { op, actor, .. } => {
                    hosts.insert(*op, actor.host);
                }
                What::Ok {
                    op,
                    token: Some(token),
                    ..
                } => {
                    let host = hosts.get(op).copied();
                    let of = owners.named.entry(&token.bytes).or_insert(host);
                    *of = of.filter(|_| *of == host);
                }
                What::Queue {
                    cause: Cause::Client(host),
                    waiting: waiters,
                    ..
                } => {
                    for waiter in waiters {
                        owners.queued.entry(waiter).or_insert(*host);
                    }
                }
                _ => {}
            }
        }
        owners
    }
}

impl Owners<'_> {
    /// Returns the client process to which a token belongs that was stored for this cause; `None` if a fault or a master stored
    /// it, and no process is known to own it.
    #[must_use]
    pub fn of(&self, token: &[u8], cause: Cause) -> Option<u8> {
        let stored = match cause {
            Cause::Client(host) => Some(host),
            Cause::Server | Cause::Fault => None,
        };
        match self.named.get(token) {
            Some(&Some(host)) => Some(host),
            Some(None) => stored,
            None => self.queued.get(token).copied().or(stored),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checker::hand_made::*,
        history::{Scope, Token},
    };

    fn named(op: u32, token: &str) -> What {
        What::Ok {
            op,
            deadline: None,
            fence: None,
            number: None,
            token: Some(Token {
                bytes: token.into(),
                scope: Scope::Grant,
            }),
        }
    }

    fn queue(host: u8, waiters: &[&str]) -> What {
        What::Queue {
            node: 0,
            cause: Cause::Client(host),
            waiting: waiters.iter().map(|&it| it.into()).collect(),
        }
    }

    #[test]
    fn a_token_belongs_to_the_process_that_named_it_or_queued_with_it() {
        let history = history(vec![
            (0, tries(1, 0)),
            (1, named(1, "a")),
            (2, queue(1, &["b"])),
            (3, queue(2, &["b", "c"])),
            (4, tries(2, 3)),
            (5, named(2, "twice")),
            (6, tries(3, 4)),
            (7, named(3, "twice")),
        ]);
        let owner = |token: &str| history.owners().of(token.as_bytes(), Cause::Client(9));
        assert_eq!(owner("a"), Some(0));
        assert_eq!(owner("b"), Some(1));
        assert_eq!(owner("c"), Some(2));
        assert_eq!(owner("other"), Some(9));
        assert_eq!(owner("twice"), Some(9), "two processes have this token");
        assert_eq!(history.owners().of(b"other", Cause::Server), None);
    }
}
