//! Generated sequences: how they are played, how the data is read afterwards, and how a failing sequence is
//! shortened.

use super::{compare::Comparer, frame::Value, peer::Peer, transcript::split};
use std::{io, time::Instant};

/// Number of the connection that reads the data after a sequence.
pub(super) const OBSERVER: u32 = 99;
/// Number of databases. All are read, because a request may select any.
const DATABASES: usize = 16;
/// Commands that show a value of each type, and more about any key.
const DUMPS: &[(&str, &str)] = &[
    ("string", "GET {}"),
    ("hash", "HGETALL {}"),
    ("list", "LRANGE {} 0 -1"),
    ("set", "SMEMBERS {}"),
    ("zset", "ZRANGE {} 0 -1 WITHSCORES"),
    ("stream", "XRANGE {} - +"),
    ("stream", "XINFO STREAM {} FULL"),
    ("", "PEXPIRETIME {}"),
    ("", "OBJECT ENCODING {}"),
];

/// Counts each lookup of a key as one use. With a limit of memory keys share no values, whose uses they would share too.
pub(super) const COUNT_USES: &str = "CONFIG SET maxmemory 1gb maxmemory-policy allkeys-lfu lfu-log-factor 0 \
                                     lfu-decay-time 0";
/// Shows the uses.
const USES: &str = "OBJECT FREQ {}";

/// Arguments of a request, starting with the name.
pub type Request = Vec<Vec<u8>>;

/// One request on one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the connection, from 1.
    pub connection: u32,
    /// The request.
    pub request: Request,
    /// True if it shares a write with the next request of its connection.
    pub is_held: bool,
}

/// Requests to an empty server, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Seed of the sequence.
    pub seed: u64,
    /// The requests.
    pub steps: Vec<Step>,
}

/// One reply or message to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Number of the connection.
    pub connection: u32,
    /// A complete reply or message.
    pub reply: Vec<u8>,
}

/// A sequence with the server's output after each request, and requests that read the data afterwards.
#[derive(Clone, Debug)]
pub struct Played {
    /// Seed of the sequence.
    pub seed: u64,
    /// The server's clock at the start, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Time that the server took for all of it, in milliseconds.
    pub took_ms: i64,
    /// Each request with the output after it, that of its own connection first.
    pub steps: Vec<(Step, Vec<Output>)>,
}

/// The first request with different output.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The real server's part, up to that request.
    pub real: Played,
    /// The double's output after that request.
    pub double: Vec<Output>,
}

impl Sequence {
    /// Plays the sequence on an emptied server, and reads every key that is left.
    ///
    /// # Errors
    /// If the server does not reply.
    pub fn play(&self, peer: &mut Peer) -> io::Result<Played> {
        let start = Instant::now();
        let at_ms = peer.begin(None)?;
        let mut played = Played {
            seed: self.seed,
            at_ms,
            took_ms: 0,
            steps: Vec::new(),
        };
        for step in &self.steps {
            let outputs = peer.play(step)?;
            played.steps.push((step.clone(), outputs));
        }
        let count_uses = split(COUNT_USES).unwrap_or_default();
        let counts_uses = self.steps.iter().any(|step| step.request == count_uses);
        let mut look = |line: String, key: Option<&[u8]>| {
            let mut request = split(&line).unwrap_or_default();
            if let (Some(key), Some(place)) = (key, request.iter_mut().find(|it| *it == b"{}")) {
                *place = key.to_vec();
            }
            // The data of a command that the server lacks cannot be read.
            if peer.table().row(&request).is_none() {
                return Ok(None);
            }
            let reply = peer.ask(&request)?;
            let value = Value::parse(&reply);
            let step = Step {
                connection: OBSERVER,
                request,
                is_held: false,
            };
            let output = Output {
                connection: OBSERVER,
                reply,
            };
            played.steps.push((step, vec![output]));
            io::Result::Ok(value)
        };
        for db in 0..DATABASES {
            look(format!("SELECT {db}"), None)?;
            let Some(keys) = look("KEYS *".to_owned(), None)? else {
                continue;
            };
            for key in keys.members().iter().filter_map(Value::text) {
                if counts_uses {
                    look(USES.to_owned(), Some(key))?;
                }
                let kind = look("TYPE {}".to_owned(), Some(key))?;
                let kind = kind.as_ref().and_then(Value::text).unwrap_or_default();
                for (of, line) in DUMPS {
                    if of.is_empty() || of.as_bytes() == kind {
                        look((*line).to_owned(), Some(key))?;
                    }
                }
            }
        }
        played.took_ms = i64::try_from(start.elapsed().as_millis()).unwrap_or(i64::MAX);
        Ok(played)
    }

    /// Plays the sequence on both servers and compares.
    ///
    /// # Errors
    /// If one of them does not reply.
    pub fn compare(&self, real: &mut Peer, double: &mut Peer) -> io::Result<Option<Difference>> {
        self.play(real)?.compare(double)
    }

    /// Returns the shortest sequence for which `fails` holds: it leaves out requests, then separates writes
    /// and leaves out arguments.
    pub fn shrunk(&self, mut fails: impl FnMut(&Self) -> bool) -> Self {
        let mut best = self.with_fewer_requests(&mut fails);
        for at in 0..best.steps.len() {
            let mut apart = best.clone();
            apart.steps[at].is_held = false;
            if best.steps[at].is_held && fails(&apart) {
                best = apart;
            }
            let mut arg = best.steps[at].request.len();
            while arg > 1 {
                arg -= 1;
                let mut shorter = best.clone();
                shorter.steps[at].request.remove(arg);
                if fails(&shorter) {
                    best = shorter;
                }
            }
        }
        // A shorter request may make another one needless.
        best.with_fewer_requests(&mut fails)
    }

    /// Leaves out requests while `fails` holds.
    fn with_fewer_requests(&self, fails: &mut impl FnMut(&Self) -> bool) -> Self {
        let mut best = self.clone();
        let mut piece = best.steps.len() / 2;
        while piece > 0 {
            let before = best.steps.len();
            let mut at = 0;
            while at < best.steps.len() {
                let mut shorter = best.clone();
                let end = (at + piece).min(best.steps.len());
                shorter.steps.drain(at..end);
                if fails(&shorter) {
                    best = shorter;
                } else {
                    at += piece;
                }
            }
            // A request may be needless after a later one was left out.
            if piece > 1 || best.steps.len() == before {
                piece /= 2;
            }
        }
        best
    }
}

impl Difference {
    /// Returns the requests, without those that read the data afterwards.
    pub fn requests(&self) -> Vec<Step> {
        self.real.sequence().steps
    }
}

impl Played {
    /// Plays the same requests on the double at the same time, and compares.
    ///
    /// # Errors
    /// If the double does not reply.
    pub fn compare(self, double: &mut Peer) -> io::Result<Option<Difference>> {
        double.begin(Some(self.at_ms))?;
        let mut comparer = Comparer::new(self.at_ms, self.took_ms);
        for at in 0..self.steps.len() {
            let (step, theirs) = &self.steps[at];
            let ours = if step.connection == OBSERVER {
                vec![Output {
                    connection: OBSERVER,
                    reply: double.ask(&step.request)?,
                }]
            } else {
                double.play(step)?
            };
            if !comparer.agree(double.table(), step, theirs, &ours) {
                let mut real = self;
                real.steps.truncate(at + 1);
                return Ok(Some(Difference { real, double: ours }));
            }
        }
        Ok(None)
    }

    /// Returns the requests without those that read the data afterwards.
    pub fn sequence(&self) -> Sequence {
        let steps = self.steps.iter().map(|(step, _)| step);
        Sequence {
            seed: self.seed,
            steps: steps
                .filter(|step| step.connection != OBSERVER)
                .cloned()
                .collect(),
        }
    }

    /// Returns the number of error replies and the number of replies.
    pub fn errors(&self) -> (usize, usize) {
        let outputs = || self.steps.iter().flat_map(|(_, outputs)| outputs);
        let errors = outputs().filter(|output| output.reply.starts_with(b"-"));
        (errors.count(), outputs().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(line: &str) -> Step {
        Step {
            connection: 1,
            request: split(line).expect("balanced"),
            is_held: false,
        }
    }

    #[test]
    fn a_failing_sequence_is_shortened() {
        let steps = (0..60).map(|n| Step {
            is_held: n == 17,
            ..step(&format!("SET k{n} v"))
        });
        let sequence = Sequence {
            seed: 0,
            steps: steps.collect(),
        };
        let fails = |it: &Sequence| {
            let guilty = |step: &Step| step.request.iter().any(|arg| arg == b"k17");
            it.steps.iter().any(guilty)
        };
        assert_eq!(sequence.shrunk(fails).steps, [step("SET k17")]);
    }

    #[test]
    fn a_held_request_shares_a_write_with_the_next_one() {
        let mut double = Peer::double().expect("a double");
        let held = Step {
            is_held: true,
            ..step("SET k v")
        };
        let other = Step {
            connection: 2,
            ..step("GET k")
        };
        let sequence = Sequence {
            seed: 0,
            steps: vec![held, other, step("GET k")],
        };
        let played = sequence.play(&mut double).expect("answers");
        let replies = |at: usize| {
            let (_, outputs): &(Step, Vec<Output>) = &played.steps[at];
            let replies = outputs.iter();
            replies
                .map(|it| (it.connection, &*it.reply))
                .collect::<Vec<_>>()
        };
        assert_eq!(replies(0), []);
        assert_eq!(replies(1), [(2, &b"$-1\r\n"[..])]);
        assert_eq!(replies(2), [(1, &b"+OK\r\n"[..]), (1, b"$1\r\nv\r\n")]);
    }

    #[test]
    fn remaining_keys_are_read() {
        let mut double = Peer::double().expect("a double");
        let steps = ["SELECT 15", "HSET h1 f v", "PEXPIREAT h1 4000000000000"];
        let sequence = Sequence {
            seed: 0,
            steps: steps.map(step).to_vec(),
        };
        let played = sequence.play(&mut double).expect("answers");
        let lines: Vec<String> = played
            .steps
            .iter()
            .map(|(step, _)| String::from_utf8_lossy(&step.request.join(&b' ')).into_owned())
            .collect();
        for line in [
            "SELECT 0",
            "KEYS *",
            "TYPE h1",
            "HGETALL h1",
            "PEXPIRETIME h1",
        ] {
            assert!(
                lines.iter().any(|it| it == line),
                "{line} is not in {lines:?}"
            );
        }
    }

    #[test]
    fn a_wrong_reply_is_a_difference() {
        let mut double = Peer::double().expect("a double");
        let sequence = Sequence {
            seed: 0,
            steps: vec![step("SET s1 v"), step("GET s1")],
        };
        let played = sequence.play(&mut double).expect("answers");
        assert!(
            played
                .clone()
                .compare(&mut double)
                .expect("answers")
                .is_none()
        );
        for at in 0..played.steps.len() {
            let mut wrong = played.clone();
            wrong.steps[at].1[0].reply = b"+WRONG\r\n".to_vec();
            let found = wrong.compare(&mut double).expect("answers");
            let found = found.expect("a difference");
            assert_eq!(found.real.steps.len(), at + 1);
            let mut silent = played.clone();
            silent.steps[at].1.clear();
            assert!(silent.compare(&mut double).expect("answers").is_some());
        }
    }
}
