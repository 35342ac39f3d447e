//! Generated sequences: how they run, what counts as equal, how a failing one gets shorter, and
//! how they are kept with the replies of a real server.

use super::{
    frame,
    generate::generate,
    run::{Target, Wire},
    transcript::{lines, multibulk, split},
};
use redouble::engine::UnixMicros;
use std::{
    fmt::Write as _,
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const REPLY_MAX: Duration = Duration::from_secs(10);
/// What the clocks of two runs of one sequence may be apart.
const ELAPSED_MS_MAX: i64 = 5_000;

/// A list of requests, sent in one piece over a fresh connection to an empty server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// Where it came from; an odd one speaks RESP3.
    pub seed: u64,
    /// The requests.
    pub requests: Vec<Vec<Vec<u8>>>,
}

/// What a server answered to a sequence.
#[derive(Clone, Debug)]
pub struct Answered {
    /// The server's clock at the start, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// One reply for each request.
    pub replies: Vec<Vec<u8>>,
}

impl Sequence {
    /// `count` random requests, then some that look at every key they may have touched.
    pub fn random(seed: u64, count: usize) -> Self {
        let mut requests = generate(seed, count);
        let words = |text: &str| split(text).unwrap_or_default();
        requests.push(words("SELECT 0"));
        for key in 1..=5 {
            for name in ["TYPE", "GET", "HGETALL", "PEXPIRETIME"] {
                requests.push(words(&format!("{name} k{key}")));
            }
        }
        Self { seed, requests }
    }
}

/// Milliseconds on the wall clock.
fn wall_clock_ms() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Runs a sequence on an emptied server; the double's clock is set to `at_ms`, a real one shows what it shows.
///
/// # Errors
/// If the server does not answer.
pub fn run_sequence(
    target: &Target,
    sequence: &Sequence,
    at_ms: Option<i64>,
) -> io::Result<Answered> {
    let at_ms = at_ms.unwrap_or_else(wall_clock_ms);
    if let Target::Double(server) = target {
        server.clock().set(UnixMicros(at_ms.saturating_mul(1000)));
    }
    let mut wire = Wire::open(target)?;
    let mut bytes = b"FLUSHALL\r\nSCRIPT FLUSH\r\n".to_vec();
    bytes.extend(if sequence.seed % 2 == 1 {
        &b"HELLO 3\r\n"[..]
    } else {
        b"HELLO 2\r\n"
    });
    sequence
        .requests
        .iter()
        .for_each(|request| bytes.extend(multibulk(request)));
    wire.send(&bytes)?;
    let mut replies = Vec::new();
    for at in 0..sequence.requests.len() + 3 {
        match wire.reply(REPLY_MAX)? {
            Some(reply) => replies.push(reply),
            None => {
                return Err(io::Error::other(format!(
                    "seed {}: reply {at} is missing",
                    sequence.seed
                )));
            }
        }
    }
    replies.drain(..3);
    Ok(Answered { at_ms, replies })
}

/// The first request that two servers answered differently. What may differ is the order of members
/// without order, and what a clock says.
pub fn compare(sequence: &Sequence, real: &Answered, double: &Answered) -> Option<usize> {
    let replies = real.replies.iter().zip(&double.replies);
    sequence
        .requests
        .iter()
        .zip(replies)
        .position(|(request, (real, double))| !same(request, real, double))
}

fn same(request: &[Vec<u8>], real: &[u8], double: &[u8]) -> bool {
    if real == double {
        return true;
    }
    if real.starts_with(b"-ERR Error compiling script") {
        return String::from_utf8_lossy(real).as_bytes() == double;
    }
    let name = request
        .first()
        .map(|name| name.to_ascii_uppercase())
        .unwrap_or_default();
    match &name[..] {
        b"SCAN" if real.starts_with(b"*2\r\n$") && !real.starts_with(b"*2\r\n$1\r\n0\r\n") => {
            double.starts_with(b"*2\r\n$")
        }
        b"KEYS" | b"SCAN" | b"EVAL" if name != b"EVAL" || real.starts_with(b"%") => {
            frame::sorted(real) == frame::sorted(double)
        }
        b"TTL" | b"PTTL" | b"EXPIRETIME" | b"PEXPIRETIME" => {
            let number = |reply: &[u8]| {
                let text = reply.strip_prefix(b":")?.strip_suffix(b"\r\n")?;
                std::str::from_utf8(text).ok()?.parse::<i64>().ok()
            };
            let seconds = matches!(&name[..], b"TTL" | b"EXPIRETIME");
            let apart = if seconds {
                ELAPSED_MS_MAX / 1000
            } else {
                ELAPSED_MS_MAX
            };
            match (number(real), number(double)) {
                (Some(real @ 0..), Some(double @ 0..)) => (real - double).abs() <= apart,
                _ => false,
            }
        }
        _ => false,
    }
}

/// The shortest sequence, by leaving requests out, for which `fails` still holds.
pub fn shrink(sequence: &Sequence, mut fails: impl FnMut(&Sequence) -> bool) -> Sequence {
    let mut best = sequence.clone();
    let mut piece = best.requests.len() / 2;
    while piece > 0 {
        let mut at = 0;
        while at < best.requests.len() {
            let mut shorter = best.clone();
            shorter
                .requests
                .drain(at..(at + piece).min(best.requests.len()));
            if fails(&shorter) {
                best = shorter;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    best
}

fn quoted(arg: &[u8]) -> String {
    let plain = !arg.is_empty()
        && arg
            .iter()
            .all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(byte));
    if plain {
        return String::from_utf8_lossy(arg).into_owned();
    }
    let mut text = String::from("\"");
    for byte in arg {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => {
                let _infallible = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text.push('"');
    text
}

/// A sequence with replies, as a transcript.
pub fn replay(sequence: &Sequence, answered: &Answered) -> String {
    let mut text = String::new();
    for (request, reply) in sequence.requests.iter().zip(&answered.replies) {
        let words: Vec<String> = request.iter().map(|arg| quoted(arg)).collect();
        let _infallible = writeln!(text, "> {}", words.join(" "));
        for line in lines(reply) {
            let _infallible = writeln!(text, "{}", format!("< {line}").trim_end());
        }
    }
    text
}

/// Recorded sequences as one text.
pub fn write_corpus(recorded: &[(Sequence, Answered)]) -> String {
    let mut text = String::from(
        "# Generated requests with the replies of a real server; UPDATE=1 records them anew.\n",
    );
    for (sequence, answered) in recorded {
        let _infallible = writeln!(text, "\n# seed {} at {}", sequence.seed, answered.at_ms);
        text.push_str(&replay(sequence, answered));
    }
    text
}

/// Reads what [`write_corpus`] wrote; `None` when it is malformed.
pub fn parse_corpus(text: &str) -> Option<Vec<(Sequence, Answered)>> {
    let mut recorded: Vec<(Sequence, Answered)> = Vec::new();
    for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
        if let Some(head) = line.strip_prefix("# seed ") {
            let (seed, at_ms) = head.split_once(" at ")?;
            let sequence = Sequence {
                seed: seed.parse().ok()?,
                requests: Vec::new(),
            };
            recorded.push((
                sequence,
                Answered {
                    at_ms: at_ms.parse().ok()?,
                    replies: Vec::new(),
                },
            ));
            continue;
        }
        let (sequence, answered) = recorded.last_mut()?;
        if let Some(words) = line.strip_prefix("> ") {
            sequence.requests.push(split(words)?);
            answered.replies.push(Vec::new());
        } else {
            let reply = answered.replies.last_mut()?;
            let line = line.strip_prefix('<')?;
            reply.extend(unescape(line.strip_prefix(' ').unwrap_or(line))?);
            reply.extend(b"\r\n");
        }
    }
    Some(recorded)
}

fn unescape(line: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = line.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = match (byte, tail) {
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                tail
            }
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            _ => {
                bytes.push(byte);
                tail
            }
        };
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corpus_is_read_as_it_was_written() {
        let sequence = Sequence::random(5, 20);
        let reply = |at: usize| {
            [
                &b"+OK\r\n"[..],
                b"$4\r\n\r\n \\\r\n",
                b"*1\r\n$1\r\n{\r\n",
                b"$0\r\n\r\n",
                b"$2\r\n x\r\n",
            ][at % 5]
                .to_vec()
        };
        let replies = (0..sequence.requests.len()).map(reply).collect();
        let recorded = vec![(sequence, Answered { at_ms: -5, replies })];
        let read = parse_corpus(&write_corpus(&recorded)).expect("well formed");
        assert_eq!(read[0].0, recorded[0].0);
        assert_eq!(
            (read[0].1.at_ms, &read[0].1.replies),
            (-5, &recorded[0].1.replies)
        );
    }

    #[test]
    fn what_fails_gets_short() {
        let sequence = Sequence::random(9, 60);
        let guilty = sequence.requests[17].clone();
        let shrunk = shrink(&sequence, |shorter| shorter.requests.contains(&guilty));
        assert_eq!(shrunk.requests, [guilty]);
    }

    #[test]
    fn only_clocks_and_order_are_forgiven() {
        let request = |name: &str| vec![name.as_bytes().to_vec()];
        assert!(same(&request("pttl"), b":1000\r\n", b":1004\r\n"));
        assert!(!same(&request("pttl"), b":1000\r\n", b":-1\r\n"));
        assert!(!same(&request("pttl"), b":1000\r\n", b":900000\r\n"));
        assert!(!same(&request("incr"), b":1\r\n", b":2\r\n"));
        assert!(same(
            &request("KEYS"),
            b"*2\r\n+a\r\n+b\r\n",
            b"*2\r\n+b\r\n+a\r\n"
        ));
        assert!(!same(
            &request("MGET"),
            b"*2\r\n+a\r\n+b\r\n",
            b"*2\r\n+b\r\n+a\r\n"
        ));
    }
}
