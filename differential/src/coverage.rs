//! Coverage of the command table: every row, every option, over both protocols, and every kind of mistake. It
//! does not say whether replies were right.

use super::{
    generate::Drawn,
    mistake::Mistake,
    sequence::{Played, Request},
    table::Table,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An item that has to be accepted at least once: a row, an argument that is optional or one of several, or a
/// repeated argument. Rows and arguments are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Feature {
    Row(usize),
    Given(usize, usize),
    Repeated(usize, usize),
}

/// Number of requests over RESP2 and RESP3, and number of those whose reply was no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of requests over RESP2 and over RESP3.
    pub sent: [u64; 2],
    /// Number of those whose reply was no error.
    pub accepted: [u64; 2],
}

impl Tally {
    fn add(&mut self, is_resp3: bool, is_accepted: bool) {
        let at = usize::from(is_resp3);
        self.sent[at] += 1;
        self.accepted[at] += u64::from(is_accepted);
    }

    /// Describes the missing coverage; `None` if it is complete.
    pub(super) fn lack(&self) -> Option<&'static str> {
        match (self.sent, self.accepted) {
            ([0, 0], _) => Some("never sent"),
            ([0, _], _) => Some("never sent over RESP2"),
            ([_, 0], _) => Some("never sent over RESP3"),
            (_, [0, 0]) => Some("never accepted"),
            (_, [0, _]) => Some("never accepted over RESP2"),
            (_, [_, 0]) => Some("never accepted over RESP3"),
            _ => None,
        }
    }
}

/// Replies to one command, with and without errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Number of replies, without those that only queue a request.
    pub all: u64,
    /// Number of replies that are not errors.
    pub good: u64,
}

impl Answers {
    /// Returns the percentage of replies that are not errors.
    pub fn percent(self) -> u64 {
        (self.good * 100).checked_div(self.all).unwrap_or(0)
    }
}

/// Coverage of the sequences that were played.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    tallies: BTreeMap<Feature, Tally>,
    /// Counts of replies by the name of the command.
    answers: BTreeMap<String, Answers>,
    mistakes: BTreeMap<Mistake, u64>,
}

impl Coverage {
    /// Adds a sequence and its replies.
    pub fn add(&mut self, table: &Table, drawn: &Drawn, played: &Played) {
        for (mistake, count) in &drawn.mistakes {
            *self.mistakes.entry(*mistake).or_default() += count;
        }
        let mut resp3: BTreeSet<u32> = BTreeSet::new();
        let mut open: BTreeMap<u32, VecDeque<(&Request, &[Feature])>> = BTreeMap::new();
        for ((step, outputs), features) in played.steps.iter().zip(&drawn.features) {
            let connection = step.connection;
            let open = open.entry(connection).or_default();
            open.push_back((&step.request, features));
            for output in outputs.iter().filter(|it| it.connection == connection) {
                let Some((request, features)) = open.pop_front() else {
                    break; // a message, or one confirmation of several
                };
                let is_accepted = is_accepted(&output.reply);
                self.tally(features, resp3.contains(&connection), is_accepted);
                let name = table.name_of(request);
                if output.reply != QUEUED {
                    let answers = self.answers.entry(name.clone()).or_default();
                    answers.all += 1;
                    answers.good += u64::from(is_accepted);
                }
                let version = request.get(1).map(Vec::as_slice);
                match (&*name, version) {
                    ("hello", Some(b"3")) if is_accepted => drop(resp3.insert(connection)),
                    ("hello", Some(b"2")) | ("reset", _) if is_accepted => {
                        resp3.remove(&connection);
                    }
                    _ => {}
                }
            }
        }
        for (connection, left) in open {
            for (_, features) in left {
                self.tally(features, resp3.contains(&connection), false);
            }
        }
    }

    fn tally(&mut self, features: &[Feature], is_resp3: bool, is_accepted: bool) {
        for feature in features {
            let tally = self.tallies.entry(*feature).or_default();
            tally.add(is_resp3, is_accepted);
        }
    }

    /// Adds another coverage.
    pub fn merge(&mut self, other: &Self) {
        for (feature, tally) in &other.tallies {
            let sum = self.tallies.entry(*feature).or_default();
            for at in 0..2 {
                sum.sent[at] += tally.sent[at];
                sum.accepted[at] += tally.accepted[at];
            }
        }
        for (name, answers) in &other.answers {
            let sum = self.answers.entry(name.clone()).or_default();
            sum.all += answers.all;
            sum.good += answers.good;
        }
        for (mistake, count) in &other.mistakes {
            *self.mistakes.entry(*mistake).or_default() += count;
        }
    }

    /// Returns the counts of replies by the name of the command.
    pub fn answers(&self) -> &BTreeMap<String, Answers> {
        &self.answers
    }

    pub(super) fn of(&self, feature: Feature) -> Tally {
        self.tallies.get(&feature).copied().unwrap_or_default()
    }

    /// Returns the mistakes that were never made.
    pub(super) fn unmade(&self) -> impl Iterator<Item = Mistake> {
        let all = Mistake::ALL.into_iter();
        all.filter(|it| !self.mistakes.contains_key(it))
    }
}

/// The reply to a request that waits for EXEC.
const QUEUED: &[u8] = b"+QUEUED\r\n";

/// Returns true if a request was executed: it may also be refused, or wait for EXEC.
fn is_accepted(reply: &[u8]) -> bool {
    !reply.starts_with(b"-") && reply != QUEUED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Output, Peer, Sequence, Step};

    #[test]
    fn accepted_requests_are_counted_by_protocol() {
        let peer = Peer::double().expect("a double");
        let script: [(&str, &[&str]); 8] = [
            ("PING", &["+PONG\r\n"]),
            ("HELLO 3", &["%0\r\n"]),
            ("PING", &["+PONG\r\n"]),
            ("PING a b", &["-ERR wrong\r\n"]),
            ("PING", &["+QUEUED\r\n"]),
            ("BLPOP l 0", &[]),
            ("PING", &["*0\r\n", "+PONG\r\n"]),
            ("RESET", &["+RESET\r\n"]),
        ];
        let output = |reply: &&str| Output {
            connection: 1,
            reply: reply.as_bytes().to_vec(),
        };
        let steps = script.map(|(line, replies)| {
            let words = line.split(' ').map(|word| word.as_bytes().to_vec());
            let step = Step {
                connection: 1,
                request: words.collect(),
                is_held: false,
            };
            (step, replies.iter().map(output).collect::<Vec<_>>())
        });
        let played = Played {
            seed: 0,
            at_ms: 0,
            took_ms: 0,
            steps: steps.to_vec(),
        };
        let features = script.map(|(line, _)| Vec::from([Feature::Row(line.split(' ').count())]));
        let drawn = Drawn {
            sequence: Sequence {
                seed: 0,
                steps: Vec::new(),
            },
            features: features.to_vec(),
            mistakes: BTreeMap::from([(Mistake::Odd, 2)]),
        };
        let mut coverage = Coverage::default();
        coverage.add(peer.table(), &drawn, &played);
        // Here the number of words tells rows apart: one word is PING or RESET.
        let one = coverage.of(Feature::Row(1));
        assert_eq!((one.sent, one.accepted), ([1, 4], [1, 3]));
        let three = coverage.of(Feature::Row(3));
        assert_eq!((three.sent, three.accepted), ([0, 2], [0, 1]));
        assert_eq!(three.lack(), Some("never sent over RESP2"));
        assert_eq!(one.lack(), None);
        assert!(coverage.unmade().all(|it| it != Mistake::Odd));
        assert_eq!(coverage.unmade().count(), Mistake::ALL.len() - 1);
        let mut sum = coverage.clone();
        sum.merge(&coverage);
        assert_eq!(sum.of(Feature::Row(1)).accepted, [2, 6]);
    }
}
