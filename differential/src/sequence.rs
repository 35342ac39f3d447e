//! Generated sequences: how they are played, how the data is read afterwards, and how a failing one
//! gets shorter.

use super::{compare::Comparer, frame::Value, peer::Peer, transcript::split};
use std::{io, time::Instant};

/// The connection that looks at what a sequence has left behind.
pub(super) const OBSERVER: u32 = 99;
/// Databases of a server. All are looked at: a request may select any.
const DATABASES: usize = 16;
/// What shows a value of each type, and what shows more about any key.
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

/// The arguments of a request, the name first.
pub type Request = Vec<Vec<u8>>;

/// One request on one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Connections are numbered from 1.
    pub connection: u32,
    /// What is sent.
    pub request: Request,
    /// It goes out in one write with the next request of its connection.
    pub is_held: bool,
}

/// Requests to an empty server, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Where it came from.
    pub seed: u64,
    /// The requests.
    pub steps: Vec<Step>,
}

/// Something that a connection was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Which connection.
    pub connection: u32,
    /// One whole reply or message.
    pub reply: Vec<u8>,
}

/// A sequence with what a server sent after each request, and requests that read the data afterwards.
#[derive(Clone, Debug)]
pub struct Played {
    /// Where the sequence came from.
    pub seed: u64,
    /// The server's clock at the start, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// How long the server took for all of it, in milliseconds.
    pub took_ms: i64,
    /// Each request with all that was sent after it, to its own connection first.
    pub steps: Vec<(Step, Vec<Output>)>,
}

/// Where two servers part.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The real server's part, up to the request that they answer differently.
    pub real: Played,
    /// What the double sent after that request.
    pub double: Vec<Output>,
}

impl Sequence {
    /// Plays it on a server that is emptied for it, and looks at every key that is left.
    ///
    /// # Errors
    /// If the server does not answer.
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
        let mut look = |line: String, key: Option<&[u8]>| {
            let mut request = split(&line).unwrap_or_default();
            if let (Some(key), Some(place)) = (key, request.iter_mut().find(|it| *it == b"{}")) {
                *place = key.to_vec();
            }
            // Data that the server does not have cannot be read.
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

    /// Plays it on both servers.
    ///
    /// # Errors
    /// If one of them does not answer.
    pub fn compare(&self, real: &mut Peer, double: &mut Peer) -> io::Result<Option<Difference>> {
        self.play(real)?.compare(double)
    }

    /// The shortest one, by leaving out requests, then by sending them apart and leaving out arguments, for which `fails`
    /// still holds.
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
        // A request that got shorter may be needless now.
        best.with_fewer_requests(&mut fails)
    }

    /// The shortest one, by leaving out requests.
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
            // What one request needed may have gone with a later one.
            if piece > 1 || best.steps.len() == before {
                piece /= 2;
            }
        }
        best
    }
}

impl Difference {
    /// The requests that it takes, without those that read the data afterwards.
    pub fn requests(&self) -> Vec<Step> {
        self.real.sequence().steps
    }
}

impl Played {
    /// Plays the same requests on the double at the same time, and compares.
    ///
    /// # Errors
    /// If the double does not answer.
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

    /// The requests alone, without those that read the data afterwards.
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

    /// How many replies are errors, and how many there are.
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
    fn what_fails_gets_short() {
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
    fn what_is_held_goes_out_with_the_next_request_of_its_connection() {
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
    fn what_is_left_is_looked_at() {
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
    fn the_double_differs_from_what_is_wrong() {
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
