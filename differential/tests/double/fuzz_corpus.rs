//! The committed corpus, and some thousand inputs from a fixed seed, through the bodies of the fuzz
//! targets: on stable, in every test run.

use redouble::{
    engine::Rng,
    resp::{Decoder, Limits},
};
use redouble_differential::{Generator, Peer, fuzzing};
use std::{fs, path::Path};

/// Its name, its body, and how many generated inputs it gets.
type Target = (&'static str, fn(&[u8]), u64);

const TARGETS: &[Target] = &[
    ("decode", fuzzing::decode, 4_000),
    ("round_trip", fuzzing::round_trip, 4_000),
    ("commands", fuzzing::commands, 1_500),
];

/// Pieces from which inputs are glued: what the wire is made of, and what breaks it.
const PIECES: &[&[u8]] = &[
    b"*1\r\n",
    b"*2\r\n",
    b"*3\r\n",
    b"$1\r\n",
    b"$3\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"\r\n",
    b"\r",
    b"\n",
    b"PING",
    b"PING\r\n",
    b"GET k\r\n",
    b"$4\r\nPING\r\n",
    b"\"",
    b"'",
    b"\\x41",
    b"\0",
    b"*11\r\n",
    b"$99999\r\n",
    b"$2000000\r\n",
    b"*2147483648\r\n",
    b" ",
    b"\xff",
    b"\xfe",
    b"k",
    b"v",
    b"SET k v PX 10\r\n",
    b"@ 11\r\n",
    b"@ -50\r\n",
];

fn glued(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![rng.next_u64() as u8];
    for _ in 0..rng.next_u64() % 24 {
        match rng.next_u64() % 8 {
            0 => bytes.push(rng.next_u64() as u8),
            1 if rng.next_u64().is_multiple_of(8) => {
                bytes.extend(vec![b'x'; (rng.next_u64() % 70_000) as usize])
            }
            _ => bytes.extend(PIECES[(rng.next_u64() % PIECES.len() as u64) as usize]),
        }
    }
    bytes
}

/// Commands of the table, as multibulk requests, with the clock moved now and then.
fn requests(generator: &Generator<'_>, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![rng.next_u64() as u8];
    let sequence = generator.sequence(rng.next_u64(), 30).sequence;
    for request in sequence.steps.iter().map(|step| &step.request) {
        bytes.extend(format!("*{}\r\n", request.len()).bytes());
        for arg in request {
            bytes.extend(format!("${}\r\n", arg.len()).bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
        if rng.next_u64().is_multiple_of(8) {
            let by = (rng.next_u64() % 40_000_000) as i64 - 10_000_000;
            bytes.extend(format!("@ {by}\r\n").bytes());
        }
    }
    bytes
}

#[test]
fn the_committed_corpus_passes() {
    for (target, body, _) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../fuzz/corpus")
            .join(target);
        let mut count = 0;
        for file in fs::read_dir(&folder).expect("a corpus for each target") {
            body(&fs::read(file.expect("readable").path()).expect("readable"));
            count += 1;
        }
        assert!(count >= 5, "{count} inputs for {target}");
    }
}

#[test]
fn generated_inputs_pass() {
    let double = Peer::double().expect("a double");
    let generator = Generator::new(double.table(), "");
    for (target, body, count) in TARGETS {
        let mut rng = Rng::for_component(7, target);
        let mut meaningful = 0;
        for n in 0..*count {
            let input = if *target == "commands" && n % 3 != 0 {
                requests(&generator, &mut rng)
            } else {
                glued(&mut rng)
            };
            body(&input);
            meaningful += u64::from(has_a_request(&input));
        }
        assert!(
            meaningful * 5 > *count,
            "{target}: {meaningful} of {count} inputs hold a request"
        );
    }
}

fn has_a_request(input: &[u8]) -> bool {
    let mut decoder = Decoder::default();
    decoder.feed(input.get(1..).unwrap_or_default());
    decoder
        .next(&Limits::default())
        .is_ok_and(|request| request.is_some())
}
