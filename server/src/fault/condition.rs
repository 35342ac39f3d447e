//! Conditions that select the messages of a rule, and how they are written as words.

use super::RuleEnv;
use super::args::number;
use crate::engine::glob_match;
use crate::resp::{Reply, Request};
use std::fmt;
use std::sync::Arc;

/// A message, as passed to a predicate of [`Rule::matching`](super::Rule::matching).
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The request, or the request that is answered. `None` for a push, which answers no request.
    pub request: Option<Request<'a>>,
    /// The reply or push. `None` while a request is judged.
    pub reply: Option<&'a Reply>,
    /// The connection's id, as CLIENT ID returns it.
    pub client_id: u64,
    /// The client's address, as CLIENT LIST shows it.
    pub addr: &'a str,
    /// The name of the connection (CLIENT SETNAME); empty if it has none.
    pub client_name: &'a [u8],
}

type Predicate = dyn Fn(&Message<'_>) -> bool + Send + Sync;

/// A message matches if every kind of condition matches. A kind with several values matches if one
/// of the values does.
#[derive(Clone, Default)]
pub(super) struct Conditions {
    pub(super) connections: Vec<u64>,
    pub(super) addrs: Vec<Vec<u8>>,
    pub(super) names: Vec<Vec<u8>>,
    pub(super) commands: Vec<Vec<u8>>,
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) predicate: Option<Arc<Predicate>>,
    pub(super) count: Count,
    pub(super) probability: Option<f64>,
    seen: u64,
}

/// Selects messages by their number among those that match the other conditions, from 1 on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) nth: Option<u64>,
    pub(super) first: Option<u64>,
    pub(super) every: Option<u64>,
    pub(super) after: Option<u64>,
}

impl Count {
    fn has(self, number: u64) -> bool {
        self.nth.is_none_or(|nth| number == nth)
            && self.first.is_none_or(|first| number <= first)
            && self.every.is_none_or(|every| number.is_multiple_of(every))
            && self.after.is_none_or(|after| number > after)
    }

    fn is_any(self) -> bool {
        self.nth.is_none() && self.first.is_none() && self.every.is_none() && self.after.is_none()
    }
}

fn any<T>(all: &[T], is_it: impl FnMut(&T) -> bool) -> bool {
    all.is_empty() || all.iter().any(is_it)
}

/// True if the request is this command. A subcommand is written `config|get`.
fn is_command(name: &[u8], request: Request<'_>) -> bool {
    let mut words = name.splitn(2, |byte| *byte == b'|');
    let is = |word: Option<&[u8]>, arg: Option<&[u8]>| match (word, arg) {
        (Some(word), Some(arg)) => word.eq_ignore_ascii_case(arg),
        (None, _) => true,
        (Some(_), None) => false,
    };
    is(words.next(), request.arg(0)) && is(words.next(), request.arg(1))
}

impl Conditions {
    /// True if the message matches. Counts the message, and draws a random number if there is a
    /// probability.
    pub(super) fn meet(
        &mut self,
        request: Option<Request<'_>>,
        reply: Option<&Reply>,
        env: &mut RuleEnv<'_>,
    ) -> bool {
        let message = Message {
            request,
            reply,
            client_id: env.client_id,
            addr: env.addr,
            client_name: env.client_name,
        };
        let is_meant = self.is_among(env)
            && self.is_about(request)
            && self.predicate.as_ref().is_none_or(|holds| holds(&message));
        if !is_meant {
            return false;
        }
        self.seen += 1;
        self.count.has(self.seen) && self.probability.is_none_or(|share| env.rng.unit() < share)
    }

    /// True if the conditions match every message of this connection, and therefore also its end.
    pub(super) fn meet_all(&self, env: &RuleEnv<'_>) -> bool {
        self.is_among(env)
            && self.commands.is_empty()
            && self.keys.is_empty()
            && self.predicate.is_none()
            && self.count.is_any()
            && self.probability.is_none()
    }

    fn is_among(&self, env: &RuleEnv<'_>) -> bool {
        any(&self.connections, |id| *id == env.client_id)
            && any(&self.addrs, |glob| glob_match(glob, env.addr.as_bytes()))
            && any(&self.names, |glob| glob_match(glob, env.client_name))
    }

    fn is_about(&self, request: Option<Request<'_>>) -> bool {
        let is_command = |request| any(&self.commands, |name| is_command(name, request));
        let has_key = |request| {
            let keys = || redouble_core::command::keys_of(request);
            self.keys.is_empty()
                || keys()
                    .iter()
                    .any(|key| any(&self.keys, |glob| glob_match(glob, key)))
        };
        match request {
            Some(request) => is_command(request) && has_key(request),
            None => self.commands.is_empty() && self.keys.is_empty(),
        }
    }

    /// The conditions as words; `None` if one of them is a predicate.
    pub(super) fn words(&self) -> Option<Vec<Vec<u8>>> {
        self.predicate.is_none().then(|| self.all_words())
    }

    fn all_words(&self) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        for condition in CONDITIONS {
            for value in (condition.show)(self) {
                words.extend([condition.word.as_bytes().to_vec(), value]);
            }
        }
        words
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for pair in self.all_words().chunks_exact(2) {
            let word = String::from_utf8_lossy(&pair[0]).to_ascii_lowercase();
            // `command` is omitted: the sentence already ends with "of the command".
            let word = if word == "command" {
                String::new()
            } else {
                format!(" {word}")
            };
            write!(f, "{word} {}", pair[1].escape_ascii())?;
        }
        match self.predicate {
            Some(_) => f.write_str(" that match a closure"),
            None => Ok(()),
        }
    }
}

/// A condition as a row of [`CONDITIONS`], which [`super::parse`] reads.
pub(super) struct ConditionSpec {
    pub(super) word: &'static str,
    pub(super) argument: &'static str,
    pub(super) summary: &'static str,
    /// Reads the argument. The error is what was expected instead.
    pub(super) read: fn(&mut Conditions, &[u8]) -> Result<(), &'static str>,
    /// The arguments that were given, to print them.
    show: fn(&Conditions) -> Vec<Vec<u8>>,
}

fn count(value: Option<u64>) -> Vec<Vec<u8>> {
    let words = value.map(|value| value.to_string().into_bytes());
    words.into_iter().collect()
}

fn positive(word: &[u8]) -> Result<u64, &'static str> {
    let value = number(word).filter(|value| *value > 0);
    value.ok_or("a number, 1 or more")
}

/// Every condition.
pub(super) const CONDITIONS: &[ConditionSpec] = &[
    ConditionSpec {
        word: "COMMAND",
        argument: "name",
        summary: "this command, or a subcommand as config|get; may be repeated",
        read: |all, word| {
            all.commands.push(word.to_vec());
            Ok(())
        },
        show: |all| all.commands.clone(),
    },
    ConditionSpec {
        word: "KEY",
        argument: "glob",
        summary: "requests with a key that matches this pattern, scripts included; may be repeated",
        read: |all, word| {
            all.keys.push(word.to_vec());
            Ok(())
        },
        show: |all| all.keys.clone(),
    },
    ConditionSpec {
        word: "NAME",
        argument: "glob",
        summary: "clients whose name (CLIENT SETNAME) matches this pattern; may be repeated",
        read: |all, word| {
            all.names.push(word.to_vec());
            Ok(())
        },
        show: |all| all.names.clone(),
    },
    ConditionSpec {
        word: "ADDR",
        argument: "glob",
        summary: "clients whose address in CLIENT LIST matches this pattern; may be repeated",
        read: |all, word| {
            all.addrs.push(word.to_vec());
            Ok(())
        },
        show: |all| all.addrs.clone(),
    },
    ConditionSpec {
        word: "CONNECTION",
        argument: "id",
        summary: "the connection with this CLIENT ID; may be repeated",
        read: |all, word| {
            all.connections.push(positive(word)?);
            Ok(())
        },
        show: |all| {
            let ids = all.connections.iter();
            ids.map(|id| id.to_string().into_bytes()).collect()
        },
    },
    ConditionSpec {
        word: "NTH",
        argument: "n",
        summary: "only the n-th message that matches the conditions above",
        read: |all, word| {
            all.count.nth = Some(positive(word)?);
            Ok(())
        },
        show: |all| count(all.count.nth),
    },
    ConditionSpec {
        word: "FIRST",
        argument: "n",
        summary: "only the first n of them",
        read: |all, word| {
            all.count.first = Some(positive(word)?);
            Ok(())
        },
        show: |all| count(all.count.first),
    },
    ConditionSpec {
        word: "EVERY",
        argument: "n",
        summary: "only every n-th of them",
        read: |all, word| {
            all.count.every = Some(positive(word)?);
            Ok(())
        },
        show: |all| count(all.count.every),
    },
    ConditionSpec {
        word: "AFTER",
        argument: "n",
        summary: "all of them except the first n",
        read: |all, word| {
            all.count.after = Some(positive(word)?);
            Ok(())
        },
        show: |all| count(all.count.after),
    },
    ConditionSpec {
        word: "PROBABILITY",
        argument: "share",
        summary: "a random share of the rest, from 0 to 1; drawn from the server's seed",
        read: |all, word| {
            let share = std::str::from_utf8(word).ok().and_then(|w| w.parse().ok());
            let share = share.filter(|share| (0.0..=1.0).contains(share));
            all.probability = Some(share.ok_or("a number from 0 to 1")?);
            Ok(())
        },
        show: |all| {
            let share = all.probability.map(|share| share.to_string().into_bytes());
            share.into_iter().collect()
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::OwnedRequest;

    fn request(text: &str) -> OwnedRequest {
        OwnedRequest::new(text.split(' ').map(str::as_bytes))
    }

    #[test]
    fn commands_and_subcommands_are_told_apart() {
        for (name, text, expected) in [
            ("SET", "set k v", true),
            ("set", "SETEX k 1 v", false),
            ("config", "CONFIG GET maxmemory", true),
            ("config|get", "CONFIG GET maxmemory", true),
            ("CONFIG|SET", "CONFIG GET maxmemory", false),
            ("config|get", "CONFIG", false),
            ("config|get", "SET get k", false),
        ] {
            let owned = request(text);
            let request = owned.as_request().expect("a name");
            assert_eq!(
                is_command(name.as_bytes(), request),
                expected,
                "{name} {text}"
            );
        }
    }

    #[test]
    fn counts_are_from_one() {
        let chosen = |count: Count| {
            (1..=6)
                .filter(|number| count.has(*number))
                .collect::<Vec<_>>()
        };
        let all = Count::default();
        for (count, expected) in [
            (
                Count {
                    nth: Some(3),
                    ..all
                },
                &[3][..],
            ),
            (
                Count {
                    first: Some(2),
                    ..all
                },
                &[1, 2],
            ),
            (
                Count {
                    every: Some(3),
                    ..all
                },
                &[3, 6],
            ),
            (
                Count {
                    after: Some(4),
                    ..all
                },
                &[5, 6],
            ),
            (
                Count {
                    after: Some(2),
                    every: Some(2),
                    ..all
                },
                &[4, 6],
            ),
            (all, &[1, 2, 3, 4, 5, 6]),
        ] {
            assert_eq!(chosen(count), expected, "{count:?}");
        }
    }
}
