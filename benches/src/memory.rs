//! Memory of locks and collections, on servers that have done nothing else.

use crate::Result;
use crate::client::Clients;
use crate::process::Program;
use crate::report::{Figure, Target, Unit};
use crate::workload::{KEY_BYTES, Stream, encode, fill, key, token};
use std::sync::Arc;

/// Number of locks.
pub const KEYS: usize = 1_000_000;
const CLIENTS: usize = 8;
/// Number of elements of each type: enough that the steps in which an allocator takes memory (4 MiB) do not count.
const ELEMENTS: usize = 2_560_000;
/// Number of elements in a small collection, which Redis packs, and bytes of each.
const SMALL: usize = 16;
const ELEMENT_BYTES: usize = 16;
/// Number of elements that a server gets before the measurement: it then has loaded its code, and has its buffers.
const WARM_UP: usize = 1_024;
/// Number of elements in one request that fills a large collection.
const AT_ONCE: usize = 16;

/// Compares the growth of resident memory per lock: a key of 12 bytes, a token of 32, a deadline.
///
/// # Errors
/// If a server cannot be started or gives a wrong reply.
pub fn compare(redis: &Program, redouble: &Program) -> Result<Figure> {
    let row = format!(
        "memory of {} M locks ({KEY_BYTES} B key, 32 B token, TTL)",
        KEYS / 1_000_000
    );
    let streams = [Arc::new(fill(CLIENTS, KEYS))];
    figure(
        row,
        "resident bytes per lock",
        KEYS,
        &streams,
        1.0,
        [redis, redouble],
    )
}

/// Compares the growth of resident memory per element of each type of collection, small and large.
///
/// # Errors
/// If a server cannot be started or gives a wrong reply.
pub fn compare_types(redis: &Program, redouble: &Program) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (name, command, shape) in TYPES {
        for is_small in [true, false] {
            let row = match is_small {
                true => format!("memory of small {name} ({SMALL} elements of {ELEMENT_BYTES} B)"),
                false => format!("memory of a large {name} (elements of {ELEMENT_BYTES} B)"),
            };
            let streams = [WARM_UP, ELEMENTS]
                .map(|elements| Arc::new(collections(command, *shape, is_small, elements)));
            let programs = [redis, redouble];
            figures.push(figure(
                row,
                "resident bytes per element",
                ELEMENTS,
                &streams,
                1.2,
                programs,
            )?);
        }
    }
    Ok(figures)
}

/// Arguments of a command for one element.
#[derive(Clone, Copy)]
enum Shape {
    Alone,
    /// A field and a value.
    Pair,
    /// A score before the member.
    Scored,
    /// An entry of one field; the command takes one entry at a time.
    Entry,
}

/// Types of collections, with the commands that fill them.
const TYPES: &[(&str, &[u8], Shape)] = &[
    ("hash", b"HSET", Shape::Pair),
    ("list", b"RPUSH", Shape::Alone),
    ("set", b"SADD", Shape::Alone),
    ("sorted set", b"ZADD", Shape::Scored),
    ("stream", b"XADD", Shape::Entry),
];

/// Returns the requests that add elements, to collections of [`SMALL`] or to one.
fn collections(command: &[u8], shape: Shape, is_small: bool, elements: usize) -> Stream {
    let at_once = match shape {
        Shape::Entry => 1,
        Shape::Alone | Shape::Pair | Shape::Scored => AT_ONCE,
    };
    let mut next = 0;
    // One client: no other request interrupts the filling of a small collection.
    Stream::new(1, 64, elements / at_once, |out| {
        let name = key(if is_small { next / SMALL } else { 0 });
        let mut args: Vec<Vec<u8>> = vec![command.to_vec(), name];
        for index in next..next + at_once {
            let text = token(index)[..ELEMENT_BYTES].to_vec();
            match shape {
                Shape::Alone => args.push(text),
                Shape::Pair => args.extend([text.clone(), text]),
                Shape::Scored => args.extend([(index % 100_000).to_string().into(), text]),
                Shape::Entry => args.extend([b"*".to_vec(), b"owner".to_vec(), text]),
            }
        }
        next += at_once;
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        encode(&args, out);
    })
}

fn figure(
    row: String,
    what: &'static str,
    count: usize,
    streams: &[Arc<Stream>],
    most: f64,
    [redis, redouble]: [&Program; 2],
) -> Result<Figure> {
    Ok(Figure {
        row,
        what,
        unit: Unit::Bytes,
        redis: vec![growth(redis, streams)? / count as f64],
        redouble: vec![growth(redouble, streams)? / count as f64],
        target: Target::AtMost(most),
        is_paired: false,
    })
}

/// Returns the growth of a new server's resident memory by the last stream, in bytes. Those before warm it up.
fn growth(program: &Program, streams: &[Arc<Stream>]) -> Result<f64> {
    let (stream, warm_ups) = streams.split_last().ok_or("nothing to measure")?;
    let server = program.start()?;
    let mut clients = Clients::connect(server.addr(), CLIENTS)?;
    for warm_up in warm_ups {
        clients.run(warm_up)?;
    }
    let before = server.resident_bytes()?;
    clients.run(stream)?;
    Ok(server.resident_bytes()?.saturating_sub(before) as f64)
}
