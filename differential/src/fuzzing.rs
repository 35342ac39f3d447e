//! Bodies of the fuzz targets: functions that take bytes and panic if the double breaks a rule.
//! `tests/double/fuzz_corpus.rs` replays the committed corpus through them.

use redouble::{
    engine::{Config, Effect, Engine, NodeApi, Outcome, UnixMicros},
    resp::{Decoder, Limits, OwnedRequest, Protocol, Reply, encode},
};

/// Number of requests of one input that are run.
const REQUESTS_MAX: usize = 200;
/// Instruction limit of a fuzzed script.
const INSTRUCTIONS_MAX: u64 = 200_000;
const SCRIPT_BYTES_MAX: usize = 8 << 20;

/// Output of a decoder: requests, followed by an error if there is one.
type Decoded = (Vec<Vec<Vec<u8>>>, Option<String>);

fn decode_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: &Limits) -> Decoded {
    let mut decoder = Decoder::default();
    let (mut requests, mut fed, mut taken) = (Vec::new(), 0, 0);
    for piece in pieces {
        decoder.feed(piece);
        fed += piece.len();
        loop {
            match decoder.next(limits) {
                Ok(Some(request)) => {
                    taken += request.iter().map(<[u8]>::len).sum::<usize>();
                    requests.push(request.iter().map(<[u8]>::to_vec).collect());
                }
                Ok(None) => break,
                Err(error) => return (requests, Some(error.to_string())),
            }
        }
        let held = decoder.buffered_bytes();
        assert!(
            held + taken <= fed,
            "{held} bytes held after {taken} of {fed}"
        );
    }
    (requests, None)
}

/// Decodes the same bytes in different pieces; requests and errors must be equal.
///
/// # Panics
/// If they differ.
pub fn decode(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else {
        return;
    };
    let limits = Limits {
        bulk_bytes_max: 1 << 20,
        authenticated: first & 1 == 0,
        ..Limits::default()
    };
    let whole = decode_pieces(std::iter::once(bytes), &limits);
    let single = decode_pieces(bytes.chunks(1), &limits);
    assert_eq!(whole, single, "byte by byte");
    let size = usize::from(first >> 1) + 2;
    let pieces = decode_pieces(bytes.chunks(size), &limits);
    assert_eq!(whole, pieces, "in pieces of {size}");
}

/// Encodes requests and decodes them again; inline requests too.
///
/// # Panics
/// If they differ.
pub fn round_trip(input: &[u8]) {
    let requests: Vec<Vec<&[u8]>> = input
        .split(|byte| *byte == 0xff)
        .map(|request| request.split(|byte| *byte == 0xfe).collect())
        .collect();
    let mut bytes = Vec::new();
    for request in &requests {
        bytes.extend(format!("*{}\r\n", request.len()).bytes());
        for arg in request {
            bytes.extend(format!("${}\r\n", arg.len()).bytes());
            bytes.extend(*arg);
            bytes.extend(b"\r\n");
        }
    }
    let size = input.first().map_or(1, |first| usize::from(*first) + 1);
    let (decoded, error) = decode_pieces(bytes.chunks(size), &Limits::default());
    assert_eq!(error, None);
    assert_eq!(decoded, requests);
    for request in &requests {
        let owned = OwnedRequest::new(request.iter().copied());
        let owned: Vec<&[u8]> = owned
            .as_request()
            .into_iter()
            .flat_map(|request| request.iter())
            .collect();
        assert_eq!(&owned, request);
        let mut line = Vec::new();
        for arg in request {
            line.extend(b"\"");
            arg.iter()
                .for_each(|byte| line.extend(format!("\\x{byte:02x}").bytes()));
            line.extend(b"\" ");
        }
        line.extend(b"\r\n");
        if line.len() < 60_000 {
            let (decoded, error) = decode_pieces(std::iter::once(&line[..]), &Limits::default());
            assert_eq!(error, None);
            assert_eq!(decoded, std::slice::from_ref(request));
        }
    }
}

/// A node and its clock.
struct Rig {
    engine: Engine,
    now: UnixMicros,
    written: Vec<u8>,
}

impl Rig {
    fn new() -> Self {
        let now = UnixMicros(1_700_000_000_000_000);
        let mut config = Config::default();
        config.databases = 2;
        config.script_instructions_max = INSTRUCTIONS_MAX;
        config.script_memory_bytes_max = SCRIPT_BYTES_MAX;
        Self {
            engine: Engine::new(config, now),
            now,
            written: Vec::new(),
        }
    }

    fn write(&mut self, reply: &Reply, protocol: Protocol) {
        let from = self.written.len();
        encode(reply, protocol, &mut self.written);
        let mut rest = &self.written[from..];
        while !rest.is_empty() {
            let len = crate::frame::reply_len(rest);
            let whole = len.filter(|len| (1..=rest.len()).contains(len));
            let len =
                whole.unwrap_or_else(|| panic!("not one whole reply: {}", rest.escape_ascii()));
            rest = &rest[len..];
        }
    }

    /// Moves the clock, forward or back, and handles the deadlines that it passes.
    fn pass(&mut self, millis: i64) {
        self.now = UnixMicros(self.now.0.saturating_add(millis.saturating_mul(1000)));
        self.engine.handle_timeout(self.now);
        if let Some(due) = self.engine.poll_timeout() {
            assert!(
                due > self.now.millis(),
                "a deadline that has passed was not handled"
            );
        }
    }
}

/// Runs bytes as commands on a node. The node must not panic, replies must be complete, counts must agree,
/// and a fresh node must give the same output for the same bytes.
///
/// # Panics
/// If a rule is broken.
pub fn commands(input: &[u8]) {
    let first = run_commands(input);
    let second = run_commands(input);
    assert!(
        first == second,
        "two runs differ:\n{}\n{}",
        first.escape_ascii(),
        second.escape_ascii()
    );
}

fn run_commands(input: &[u8]) -> Vec<u8> {
    let mut rig = Rig::new();
    let Ok(mut conn) = rig.engine.connect("127.0.0.1:1", rig.now) else {
        return Vec::new();
    };
    let mut decoder = Decoder::default();
    let (switches, bytes) = input
        .split_first()
        .map_or((0, input), |(first, rest)| (*first, rest));
    decoder.feed(bytes);
    for at in 0..REQUESTS_MAX {
        let Ok(Some(request)) = decoder.next(&rig.engine.limits(conn)) else {
            break;
        };
        if request.name().eq_ignore_ascii_case(b"@") {
            // `@ millis` in an input moves the clock.
            let by = request
                .arg(1)
                .and_then(redouble::resp::parse_integer)
                .unwrap_or(1);
            rig.pass(by);
            continue;
        }
        let is_script =
            request.name().len() >= 4 && request.name()[..4].eq_ignore_ascii_case(b"eval");
        if is_script && switches & 1 == 1 {
            continue;
        }
        let outcome = rig.engine.handle(conn, request, rig.now);
        let protocol = rig.engine.protocol(conn);
        match outcome {
            Outcome::Reply(reply) => rig.write(&reply, protocol),
            Outcome::Silent => {}
            // An endless script: the node is usable again only after a kill.
            Outcome::Parked => break,
        }
        let mut is_closed = false;
        rig.engine.end_turn();
        while let Some(effect) = rig.engine.poll_effect() {
            is_closed |= matches!(effect, Effect::Close { .. });
            if let Effect::Push { frame, .. } | Effect::Reply { reply: frame, .. } = &effect {
                rig.write(frame, protocol);
            }
        }
        if is_closed {
            rig.engine.disconnect(conn);
            assert_eq!(rig.engine.connections(), 0);
            match rig.engine.connect("127.0.0.1:2", rig.now) {
                Ok(next) => conn = next,
                Err(_) => break,
            }
        }
        if switches & 2 == 2 {
            rig.pass(i64::from(at as u8 % 16) - i64::from(switches >> 4));
        }
    }
    check_counts(&mut rig);
    rig.written
}

/// Checks that DBSIZE, KEYS and the inspected data agree, once no expired key is left.
fn check_counts(rig: &mut Rig) {
    rig.pass(0);
    let Ok(conn) = rig.engine.connect("127.0.0.1:3", rig.now) else {
        return;
    };
    for db in 0..2 {
        let live = rig.engine.keys(db, rig.now);
        let mut ask = |words: &[&str]| {
            let request = OwnedRequest::new(words.iter().map(|word| word.as_bytes()));
            let request = request.as_request()?;
            match rig.engine.handle(conn, request, rig.now) {
                Outcome::Reply(reply) => Some(reply),
                Outcome::Parked | Outcome::Silent => None,
            }
        };
        let name = db.to_string();
        // After AUTH is required, or beside an endless script, requests get no useful reply.
        if ask(&["SELECT", &name]) != Some(Reply::Ok) {
            return;
        }
        let Some(Reply::Array(keys)) = ask(&["KEYS", "*"]) else {
            panic!("KEYS answers an array");
        };
        assert_eq!(keys.len(), live.len(), "KEYS and the inspected data");
        // SCAN removes expired keys, so that DBSIZE counts live keys only.
        let found = match ask(&["SCAN", "0", "COUNT", "1000000"]) {
            Some(Reply::Array(parts)) => match &parts[..] {
                [_, Reply::Array(found)] => found.len(),
                _ => panic!("SCAN answers a cursor and an array"),
            },
            other => panic!("SCAN answers an array, not {other:?}"),
        };
        assert_eq!(found, live.len(), "SCAN and the inspected data");
        assert_eq!(ask(&["DBSIZE"]), Some(Reply::Int(live.len() as i64)));
    }
    rig.engine.disconnect(conn);
}
