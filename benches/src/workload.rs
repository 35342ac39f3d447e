//! The requests of a comparison, encoded beforehand and drawn from a seed, with their expected replies. This
//! file knows no sockets.

use crate::{RELEASE, RELEASE_SHA};

/// Bytes of a lock key, as in `lock:00001f4`.
pub const KEY_BYTES: usize = 12;
/// Time to live of locks, longer than any lap.
const TTL_MILLIS: &[u8] = b"600000";
/// Number of requests in one write while a server is filled or emptied.
const FILL_BATCH: usize = 64;

/// SplitMix64: small, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }
}

/// Returns the name of lock `index`: 12 bytes up to 2^28 locks.
pub fn key(index: usize) -> Vec<u8> {
    format!("lock:{index:07x}").into_bytes()
}

/// Returns the token that holds lock `index`: 32 hexadecimal digits.
pub fn token(index: usize) -> Vec<u8> {
    let mut generator = Generator::new(index as u64 ^ 0x746f_6b65_6e00_0000);
    format!("{:016x}{:016x}", generator.next_u64(), generator.next_u64()).into_bytes()
}

/// The sorted set that all locks share in the workloads of sorted sets.
const QUEUE: &[u8] = b"lock:queue";

/// Returns the score of lock `index` in a sorted set: a whole number of up to ten digits, in no order.
fn score(index: usize) -> Vec<u8> {
    (Generator::new(index as u64).next_u64() >> 32)
        .to_string()
        .into_bytes()
}

fn zadd(index: usize, out: &mut Vec<u8>) {
    encode(&[b"ZADD", QUEUE, &score(index), &token(index)], out);
}

/// The set that all locks share in the workload of sets.
const OWNERS: &[u8] = b"lock:owners";

fn sadd(index: usize, out: &mut Vec<u8>) {
    encode(&[b"SADD", OWNERS, &token(index)], out);
}

/// The stream that all locks share in the workloads of streams, and its group.
const EVENTS: &[u8] = b"lock:events";
const GROUP: &[u8] = b"workers";

fn xadd(index: usize, out: &mut Vec<u8>) {
    encode(&[b"XADD", EVENTS, b"*", b"owner", &token(index)], out);
}

/// Appends a request in RESP.
pub fn encode(args: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// Requests of one client: batches, each sent after all replies to the previous one.
#[derive(Clone, Debug, Default)]
pub struct Lane {
    bytes: Vec<u8>,
    /// End of each batch, and number of its requests.
    batches: Vec<(usize, u32)>,
}

impl Lane {
    /// Returns the batches in order: bytes and number of requests.
    pub fn batches(&self) -> impl ExactSizeIterator<Item = (&[u8], u32)> {
        let mut from = 0;
        self.batches.iter().map(move |(end, requests)| {
            let bytes = &self.bytes[from..*end];
            from = *end;
            (bytes, *requests)
        })
    }
}

/// Requests of all clients in one lap, and the expected replies.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Lanes, one per client.
    pub lanes: Vec<Lane>,
    /// Number of requests in all lanes.
    pub requests: u64,
    /// Number of requests with a reply other than nil or 0, in any order of execution. `None` if it is not
    /// known beforehand.
    pub positive: Option<u64>,
}

impl Stream {
    /// Distributes `requests` requests over `clients` lanes, in batches of `pipeline`. `request` appends the
    /// next one.
    pub fn new(
        clients: usize,
        pipeline: usize,
        requests: usize,
        mut request: impl FnMut(&mut Vec<u8>),
    ) -> Self {
        let (clients, pipeline) = (clients.max(1), pipeline.max(1));
        let lane = |index: usize| {
            let mut lane = Lane::default();
            let mut left = requests / clients + usize::from(index < requests % clients);
            while left > 0 {
                let batch = left.min(pipeline);
                (0..batch).for_each(|_| request(&mut lane.bytes));
                lane.batches.push((lane.bytes.len(), batch as u32));
                left -= batch;
            }
            lane
        };
        Self {
            lanes: (0..clients).map(lane).collect(),
            requests: requests as u64,
            positive: None,
        }
    }
}

/// A kind of request for both servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// `SET key token NX PX`: for every second request the lock is held.
    SetNxPx,
    /// `EVAL` of the release script: for every second request the lock is gone.
    EvalRelease,
    /// The same by `EVALSHA`.
    EvalshaRelease,
    /// `GET` of the token of a held lock.
    Get,
    /// `INCR key`, the count of fencing tokens.
    Incr,
    /// `HINCRBY key owner 1`, the count of a reentrant lock.
    Hincrby,
    /// `HSET key field token`, the owner of a lock with fields.
    Hset,
    /// `LPUSH key token` and `RPOP key` in turn, on lists that are never empty.
    PushPop,
    /// `ZADD queue score token` on one large sorted set: for every second request the member exists.
    Zadd,
    /// `ZADD key score token` on sorted sets of one element: for every second request the member exists.
    ZaddOne,
    /// `SADD owners token` on one large set: for every second request the member exists.
    Sadd,
    /// `XADD events * owner token`.
    Xadd,
    /// `XREADGROUP GROUP workers worker COUNT 1 STREAMS events >`: each request receives an entry.
    Xreadgroup,
    /// `ZRANGEBYSCORE queue score +inf LIMIT 0 10` on a large sorted set.
    Zrangebyscore,
    /// `PUBLISH channel token` to a channel without subscribers.
    Publish,
    /// `MULTI`, `INCR key`, `PEXPIRE key`, `EXEC`: four requests.
    Multi,
}

/// The requests of one lap, with those before it.
#[derive(Clone, Debug)]
pub struct Lap {
    /// Requests before the first lap.
    pub before_all: Stream,
    /// Requests before every lap, not measured.
    pub before_each: Stream,
    /// Measured requests.
    pub measured: Stream,
}

/// Returns the number of requests of a lap that draws from `locks` locks.
pub fn lap_requests(locks: usize) -> usize {
    locks * 8 / 5
}

/// A reply to [`Workload::Zrangebyscore`].
const TEN_TOKENS: &str = "*10\r\n\
    $32\r\n0123456789abcdef0123456789abcdef\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n\
    $32\r\n0123456789abcdef0123456789abcdef\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n\
    $32\r\n0123456789abcdef0123456789abcdef\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n\
    $32\r\n0123456789abcdef0123456789abcdef\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n\
    $32\r\n0123456789abcdef0123456789abcdef\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n";

/// A reply to [`Workload::Xreadgroup`].
const ONE_ENTRY: &str = "*1\r\n*2\r\n$11\r\nlock:events\r\n*1\r\n*2\r\n$15\r\n1700000000000-0\r\n*2\r\n\
    $5\r\nowner\r\n$32\r\n0123456789abcdef0123456789abcdef\r\n";

impl Workload {
    /// Returns the number of requests that belong together and use one connection.
    fn group(self) -> usize {
        match self {
            Self::SetNxPx
            | Self::EvalRelease
            | Self::EvalshaRelease
            | Self::Get
            | Self::Incr
            | Self::Hincrby
            | Self::Hset
            | Self::Zadd
            | Self::ZaddOne
            | Self::Sadd
            | Self::Xadd
            | Self::Xreadgroup
            | Self::Zrangebyscore
            | Self::Publish => 1,
            Self::PushPop => 2,
            Self::Multi => 4,
        }
    }

    /// Returns the most frequent reply of servers, or one of the mean size.
    pub fn usual_reply(self) -> &'static str {
        match self {
            Self::SetNxPx => "+OK\r\n",
            Self::Get => "$32\r\n0123456789abcdef0123456789abcdef\r\n",
            Self::EvalRelease
            | Self::EvalshaRelease
            | Self::Incr
            | Self::Hincrby
            | Self::Hset
            | Self::Zadd
            | Self::ZaddOne
            | Self::Sadd
            | Self::Publish => ":1\r\n",
            Self::Xadd => "$15\r\n1700000000000-0\r\n",
            Self::Xreadgroup => ONE_ENTRY,
            Self::Zrangebyscore => TEN_TOKENS,
            // The replies are `:1` and a token in turn.
            Self::PushPop => "$16\r\n0123456789abcdef\r\n",
            Self::Multi => "+QUEUED\r\n",
        }
    }

    /// Makes a lap of `requests` requests for `clients` clients.
    ///
    /// Keys are drawn from 5/8 as many locks, so that half of the draws (1 - e^-1.6 of 5/8) use a lock for
    /// the first time. A lap's request has an effect on a lock only once; later draws find it done. As many
    /// other locks are held throughout, because the tables of a real server neither start empty nor shrink in
    /// between.
    pub fn lap(self, clients: usize, pipeline: usize, requests: usize, seed: u64) -> Lap {
        let locks = (requests * 5 / 8).max(1);
        let whole = clients.max(1) * self.group();
        let requests = (requests / whole).max(1) * whole;
        let set = |index: usize, out: &mut Vec<u8>| {
            encode(
                &[b"SET", &key(index), &token(index), b"PX", TTL_MILLIS],
                out,
            );
        };
        let each = |count: usize, request: &dyn Fn(usize, &mut Vec<u8>)| {
            let mut next = 0..;
            let next = |out: &mut Vec<u8>| request(next.next().unwrap_or_default(), out);
            Stream::new(clients, FILL_BATCH, count, next)
        };
        let mut generator = Generator::new(seed);
        let mut drawn = vec![false; locks];
        let mut first_draws = 0;
        let mut draw = || {
            let index = generator.below(locks);
            first_draws += u64::from(!std::mem::replace(&mut drawn[index], true));
            index
        };
        let mut measured = match self {
            Self::SetNxPx => Stream::new(clients, pipeline, requests, |out| {
                let index = draw();
                encode(
                    &[b"SET", &key(index), &token(index), b"NX", b"PX", TTL_MILLIS],
                    out,
                );
            }),
            Self::EvalRelease => Stream::new(clients, pipeline, requests, |out| {
                let index = draw();
                encode(
                    &[
                        b"EVAL",
                        RELEASE.as_bytes(),
                        b"1",
                        &key(index),
                        &token(index),
                    ],
                    out,
                );
            }),
            Self::EvalshaRelease => Stream::new(clients, pipeline, requests, |out| {
                let index = draw();
                let sha = RELEASE_SHA.as_bytes();
                encode(&[b"EVALSHA", sha, b"1", &key(index), &token(index)], out);
            }),
            Self::Get => Stream::new(clients, pipeline, requests, |out| {
                encode(&[b"GET", &key(draw())], out)
            }),
            Self::Incr => Stream::new(clients, pipeline, requests, |out| {
                encode(&[b"INCR", &key(draw())], out)
            }),
            Self::Hincrby => Stream::new(clients, pipeline, requests, |out| {
                let index = draw();
                encode(&[b"HINCRBY", &key(index), &token(index), b"1"], out);
            }),
            Self::Hset => Stream::new(clients, pipeline, requests, |out| {
                let index = draw();
                encode(&[b"HSET", &key(index), b"owner", &token(index)], out);
            }),
            Self::PushPop => {
                let mut pushed = None;
                Stream::new(clients, pipeline, requests, |out| match pushed.take() {
                    None => {
                        let index = *pushed.insert(draw());
                        encode(&[b"LPUSH", &key(index), &token(index)], out);
                    }
                    Some(index) => encode(&[b"RPOP", &key(index)], out),
                })
            }
            Self::Zadd => Stream::new(clients, pipeline, requests, |out| zadd(draw(), out)),
            Self::ZaddOne => Stream::new(clients, pipeline, requests, |out| {
                let index = draw();
                encode(&[b"ZADD", &key(index), &score(index), &token(index)], out);
            }),
            Self::Sadd => Stream::new(clients, pipeline, requests, |out| sadd(draw(), out)),
            Self::Xadd => Stream::new(clients, pipeline, requests, |out| xadd(draw(), out)),
            Self::Xreadgroup => Stream::new(clients, pipeline, requests, |out| {
                let args: [&[u8]; 9] = [
                    b"XREADGROUP",
                    b"GROUP",
                    GROUP,
                    b"worker",
                    b"COUNT",
                    b"1",
                    b"STREAMS",
                    EVENTS,
                    b">",
                ];
                encode(&args, out);
            }),
            Self::Zrangebyscore => Stream::new(clients, pipeline, requests, |out| {
                let min = score(draw());
                let args: [&[u8]; 7] = [
                    b"ZRANGEBYSCORE",
                    QUEUE,
                    &min,
                    b"+inf",
                    b"LIMIT",
                    b"0",
                    b"10",
                ];
                encode(&args, out);
            }),
            Self::Publish => Stream::new(clients, pipeline, requests, |out| {
                let index = draw();
                encode(&[b"PUBLISH", &key(index), &token(index)], out);
            }),
            Self::Multi => {
                let (mut step, mut index) = (0, 0);
                Stream::new(clients, pipeline, requests, |out| {
                    if step == 0 {
                        index = draw();
                    }
                    match step {
                        0 => encode(&[b"MULTI"], out),
                        1 => encode(&[b"INCR", &key(index)], out),
                        2 => encode(&[b"PEXPIRE", &key(index), TTL_MILLIS], out),
                        _ => encode(&[b"EXEC"], out),
                    }
                    step = (step + 1) % 4;
                })
            }
        };
        measured.positive = match self {
            Self::SetNxPx
            | Self::EvalRelease
            | Self::EvalshaRelease
            | Self::Zadd
            | Self::ZaddOne
            | Self::Sadd => Some(first_draws),
            Self::Publish => Some(0),
            Self::Get
            | Self::Incr
            | Self::Hincrby
            | Self::PushPop
            | Self::Zrangebyscore
            | Self::Xadd
            | Self::Xreadgroup
            | Self::Multi => Some(measured.requests),
            // The reply is 1 for a new field, which it is only in the first lap.
            Self::Hset => None,
        };
        let held = |index: usize, out: &mut Vec<u8>| set(locks + index, out);
        Lap {
            before_all: match self {
                Self::Get => each(2 * locks, &set),
                Self::Zadd => each(locks, &|index, out| zadd(locks + index, out)),
                Self::Sadd => each(locks, &|index, out| sadd(locks + index, out)),
                Self::Xadd | Self::Xreadgroup => Stream::default(),
                Self::Zrangebyscore => each(2 * locks, &zadd),
                Self::PushPop => each(locks, &|index, out| {
                    encode(&[b"LPUSH", &key(index), &token(index)], out);
                }),
                Self::EvalshaRelease => {
                    let mut loaded = false;
                    let mut index = locks;
                    // This is the first request of the first lane.
                    Stream::new(clients, FILL_BATCH, locks, |out| {
                        if std::mem::replace(&mut loaded, true) {
                            set(index, out);
                            index += 1;
                        } else {
                            encode(&[b"SCRIPT", b"LOAD", RELEASE.as_bytes()], out);
                        }
                    })
                }
                Self::SetNxPx
                | Self::EvalRelease
                | Self::Incr
                | Self::Hincrby
                | Self::Hset
                | Self::ZaddOne
                | Self::Publish
                | Self::Multi => each(locks, &held),
            },
            before_each: match self {
                Self::SetNxPx | Self::ZaddOne => {
                    each(locks, &|index, out| encode(&[b"DEL", &key(index)], out))
                }
                Self::Sadd => each(locks, &|index, out| {
                    encode(&[b"SREM", OWNERS, &token(index)], out);
                }),
                // One client, because the order matters.
                Self::Xadd => Stream::new(1, 1, 1, |out| encode(&[b"DEL", EVENTS], out)),
                Self::Xreadgroup => {
                    let mut step = 0..;
                    Stream::new(1, FILL_BATCH, requests + 2, |out| {
                        match step.next().unwrap_or_default() {
                            0 => encode(&[b"DEL", EVENTS], out),
                            1 => {
                                let args: [&[u8]; 6] =
                                    [b"XGROUP", b"CREATE", EVENTS, GROUP, b"0", b"MKSTREAM"];
                                encode(&args, out);
                            }
                            index => xadd(index, out),
                        }
                    })
                }
                Self::EvalRelease | Self::EvalshaRelease => each(locks, &set),
                Self::Zadd => each(locks, &|index, out| {
                    encode(&[b"ZREM", QUEUE, &token(index)], out);
                }),
                Self::Get
                | Self::Incr
                | Self::Hincrby
                | Self::Hset
                | Self::PushPop
                | Self::Zrangebyscore
                | Self::Publish
                | Self::Multi => Stream::default(),
            },
            measured,
        }
    }
}

/// Makes a stream that creates `count` locks, each with its own key, token and deadline.
pub fn fill(clients: usize, count: usize) -> Stream {
    let mut index = 0;
    let mut stream = Stream::new(clients, FILL_BATCH, count, |out| {
        encode(
            &[
                b"SET",
                &key(index),
                &token(index),
                b"NX",
                b"PX",
                b"36000000",
            ],
            out,
        );
        index += 1;
    });
    stream.positive = Some(stream.requests);
    stream
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_laps_and_half_of_the_requests_act() {
        for workload in [
            Workload::SetNxPx,
            Workload::EvalRelease,
            Workload::EvalshaRelease,
        ] {
            let (lap, again) = (
                workload.lap(50, 16, 16_000, 7),
                workload.lap(50, 16, 16_000, 7),
            );
            assert_eq!(lap.measured.lanes[3].bytes, again.measured.lanes[3].bytes);
            let positive = lap.measured.positive.expect("known");
            assert!(
                (7_800..8_200).contains(&positive),
                "{workload:?}: {positive} of 16000"
            );
            assert_ne!(
                lap.measured.lanes[3].bytes,
                workload.lap(50, 16, 16_000, 8).measured.lanes[3].bytes
            );
        }
    }

    #[test]
    fn every_request_is_in_exactly_one_batch() {
        let mut count = 0_u32;
        let stream = Stream::new(3, 4, 20, |out| {
            out.push(b'a' + count as u8);
            count += 1;
        });
        let batches: Vec<Vec<_>> = stream
            .lanes
            .iter()
            .map(|lane| lane.batches().collect())
            .collect();
        let expected: [&[(&[u8], u32)]; 3] = [
            &[(b"abcd", 4), (b"efg", 3)],
            &[(b"hijk", 4), (b"lmn", 3)],
            &[(b"opqr", 4), (b"st", 2)],
        ];
        assert_eq!(batches, expected);
        assert_eq!(stream.requests, 20);
    }

    #[test]
    fn keys_and_tokens_have_their_documented_size() {
        for index in [0, 1, 999_999] {
            assert_eq!((key(index).len(), token(index).len()), (KEY_BYTES, 32));
        }
        let mut out = Vec::new();
        encode(&[b"GET", b""], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
    }
}
