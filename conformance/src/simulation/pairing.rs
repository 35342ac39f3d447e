//! Finds the requests and replies in the bytes of one connection and pairs them.
//!
//! The link carries chunks of bytes; a chunk may hold a part of a request, or several. Replies come in the
//! order of the requests. RESP3 pushes and messages to a subscriber are no replies. SUBSCRIBE and its
//! relatives have one confirmation for each argument. Other commands need no special case.

use super::blocking::blocks_for;
use std::{collections::VecDeque, ops::Range, time::Duration};

/// The requests of one connection that have no reply yet.
#[derive(Default)]
pub(super) struct Pairing {
    requests: Frames,
    replies: Frames,
    /// Requests without a reply, the oldest first.
    open: VecDeque<Open>,
    /// True if the connection has subscribed. In RESP2 an array may then be a message.
    subscribed: bool,
}

/// A request without a reply.
struct Open {
    /// Its index in the history.
    request: usize,
    /// Number of confirmations to wait for, if it is a subscription.
    confirmations: Option<usize>,
    /// True if it asks the server to block.
    blocks: bool,
    /// Its size.
    bytes: usize,
}

/// A request found in the bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Name of the command, in upper case.
    pub(super) command: String,
    /// Size of the request.
    pub(super) bytes: usize,
    /// Longest time for which it asks the server to block.
    pub(super) blocks: Duration,
    arguments: usize,
}

/// A request with a complete reply, and the error code if the reply is an error.
pub(super) type Answered = (usize, Option<String>);

impl Pairing {
    /// Takes bytes from the client. Passes each request that they complete to `note`, which returns its index
    /// in the history.
    pub(super) fn asked(&mut self, bytes: &[u8], mut note: impl FnMut(Found) -> usize) {
        let (open, subscribed) = (&mut self.open, &mut self.subscribed);
        self.requests.feed(bytes, request, |frame| {
            let found = found(frame);
            let subscribes = is_subscription(found.command.as_bytes());
            *subscribed |= subscribes;
            open.push_back(Open {
                confirmations: subscribes.then_some(found.arguments.max(1)),
                blocks: found.blocks > Duration::ZERO,
                bytes: found.bytes,
                request: note(found),
            });
        });
    }

    /// Returns where to cut a chunk that has just been taken and completes these requests: behind each request that asks the
    /// server to block, as the number of bytes up to the end of the chunk, with the next request. The last cut comes first.
    pub(super) fn cuts(&self, requests: &Range<usize>) -> Vec<(usize, usize)> {
        let mut cuts = Vec::new();
        let mut tail = self.requests.begun.len();
        let newest = self.open.iter().rev();
        for it in newest.take_while(|it| requests.contains(&it.request)) {
            if it.blocks && tail > 0 {
                cuts.push((tail, it.request + 1));
            }
            tail += it.bytes;
        }
        cuts
    }

    /// Returns true if a request before `request` asks the server to block and has no reply yet: the server does not read on.
    pub(super) fn blocks_before(&self, request: usize) -> bool {
        let mut before = self.open.iter().take_while(|it| it.request < request);
        before.any(|it| it.blocks)
    }

    /// Takes bytes from the server. Returns the requests whose replies they complete.
    pub(super) fn answered(&mut self, bytes: &[u8]) -> Vec<Answered> {
        let mut answered = Vec::new();
        let (open, subscribed) = (&mut self.open, self.subscribed);
        self.replies.feed(bytes, reply, |frame| {
            let first = first_word(frame).filter(|_| frame[0] == b'>' || subscribed);
            let confirms = first.is_some_and(is_subscription);
            let is_message = first.is_some_and(is_message);
            if frame[0] == b'>' && !confirms || is_message {
                return;
            }
            let Some(oldest) = open.front_mut() else {
                return;
            };
            if let Some(missing) = oldest.confirmations.as_mut().filter(|_| confirms) {
                *missing -= 1;
                if *missing > 0 {
                    return;
                }
            } else if confirms {
                return; // UNSUBSCRIBE without arguments has any number of confirmations
            }
            answered.extend(open.pop_front().map(|it| (it.request, error(frame))));
        });
        answered
    }
}

const SUBSCRIPTIONS: [&[u8]; 6] = [
    b"SUBSCRIBE",
    b"PSUBSCRIBE",
    b"SSUBSCRIBE",
    b"UNSUBSCRIBE",
    b"PUNSUBSCRIBE",
    b"SUNSUBSCRIBE",
];

fn is_subscription(word: &[u8]) -> bool {
    SUBSCRIPTIONS.iter().any(|it| it.eq_ignore_ascii_case(word))
}

fn is_message(word: &[u8]) -> bool {
    let messages: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];
    messages.contains(&word)
}

/// A byte stream, cut into frames.
#[derive(Default)]
struct Frames {
    /// Start of a frame without its end.
    begun: Vec<u8>,
    /// The bytes are not RESP: the rest is ignored.
    lost: bool,
}

/// Length of the frame at the start of a buffer.
enum Length {
    Of(usize),
    /// The frame is incomplete.
    Open,
    /// The bytes are not a frame.
    Nonsense,
}

impl Frames {
    fn feed(&mut self, bytes: &[u8], length: fn(&[u8]) -> Length, mut each: impl FnMut(&[u8])) {
        if self.lost {
            return;
        }
        let mut joined = std::mem::take(&mut self.begun);
        let mut rest = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        while !rest.is_empty() {
            match length(rest) {
                Length::Of(end) => {
                    each(&rest[..end]);
                    rest = &rest[end..];
                }
                Length::Open => break,
                Length::Nonsense => {
                    self.lost = true;
                    return;
                }
            }
        }
        self.begun = rest.to_vec();
    }
}

/// Returns the first line without its end, and the offset of the next line.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Measures a request: an array of bulk strings, or an inline command.
fn request(bytes: &[u8]) -> Length {
    match (bytes.first(), line(bytes)) {
        (_, None) => Length::Open,
        (Some(b'*'), Some(_)) => reply(bytes),
        (_, Some((_, end))) => Length::Of(end),
    }
}

/// Measures a value of any type.
fn reply(bytes: &[u8]) -> Length {
    let mut missing: i64 = 1;
    let mut at = 0;
    while missing > 0 {
        let Some((head, next)) = bytes.get(at..).and_then(line) else {
            return Length::Open;
        };
        let Some((&kind, digits)) = head.split_first() else {
            return Length::Nonsense;
        };
        missing -= 1;
        at += next;
        match kind {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => {}
            b'$' | b'=' | b'!' => match number(digits) {
                Some(length) => {
                    if let Ok(length) = usize::try_from(length) {
                        at = at.saturating_add(length).saturating_add(2);
                    }
                }
                None => return Length::Nonsense,
            },
            b'*' | b'~' | b'>' | b'%' => match number(digits) {
                Some(count) => {
                    let each = if kind == b'%' { 2 } else { 1 };
                    missing = missing.saturating_add(count.max(0).saturating_mul(each));
                }
                None => return Length::Nonsense,
            },
            _ => return Length::Nonsense,
        }
    }
    if at <= bytes.len() {
        Length::Of(at)
    } else {
        Length::Open
    }
}

/// Reads a request: an array of bulk strings, or an inline command.
fn found(frame: &[u8]) -> Found {
    let head = line(frame).map_or(&[][..], |(head, _)| head);
    if let Some(count) = head.strip_prefix(b"*") {
        let count = number(count).and_then(|count| usize::try_from(count).ok());
        Found::of(frame.len(), count.unwrap_or(0), elements(frame))
    } else {
        let words = || {
            let words = head.split(u8::is_ascii_whitespace);
            words.filter(|word| !word.is_empty())
        };
        Found::of(frame.len(), words().count(), words())
    }
}

impl Found {
    /// Takes the size of a request, the number of its words, and the words.
    fn of<'a>(bytes: usize, count: usize, mut words: impl Iterator<Item = &'a [u8]>) -> Self {
        let command = words.next().unwrap_or_default();
        let mut command = String::from_utf8_lossy(command).into_owned();
        command.make_ascii_uppercase();
        Self {
            bytes,
            blocks: blocks_for(&command, words),
            arguments: count.saturating_sub(1),
            command,
        }
    }
}

/// Returns the elements of an array, up to the first one that is no bulk string.
fn elements(frame: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line(frame).map_or(&[][..], |(_, next)| &frame[next..]);
    std::iter::from_fn(move || {
        let (head, then) = line(rest)?;
        let length = usize::try_from(number(head.strip_prefix(b"$")?)?).ok()?;
        let element = rest.get(then..then.checked_add(length)?)?;
        rest = rest.get(then + length + 2..).unwrap_or_default();
        Some(element)
    })
}

/// Returns the first element of an array, if it is a string.
fn first_word(frame: &[u8]) -> Option<&[u8]> {
    let array = matches!(frame.first(), Some(b'*' | b'>'));
    elements(frame).next().filter(|_| array)
}

/// Returns the code of an error reply.
fn error(frame: &[u8]) -> Option<String> {
    let text = frame.strip_prefix(b"-")?;
    let code = text.split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(String::from_utf8_lossy(code).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the commands found in chunks.
    fn commands(pairing: &mut Pairing, chunks: &[&[u8]]) -> Vec<String> {
        let mut commands = Vec::new();
        for chunk in chunks {
            pairing.asked(chunk, |found| {
                commands.push(found.command.clone());
                commands.len() - 1
            });
        }
        commands
    }

    const GET: &[u8] = b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n";

    #[test]
    fn a_request_may_span_chunks() {
        let pipeline = [GET, b"PING\r\n", GET].concat();
        for cut in 0..pipeline.len() {
            let (one, other) = pipeline.split_at(cut);
            let mut pairing = Pairing::default();
            assert_eq!(
                commands(&mut pairing, &[one, other]),
                ["GET", "PING", "GET"]
            );
        }
    }

    #[test]
    fn replies_are_paired_in_order_wherever_they_are_cut() {
        let replies =
            b"$1\r\nv\r\n+PONG\r\n*2\r\n:1\r\n*1\r\n$-1\r\n-NOSCRIPT none\r\n%1\r\n+a\r\n:1\r\n";
        for cut in 0..replies.len() {
            let (one, other) = replies.split_at(cut);
            let mut pairing = Pairing::default();
            commands(&mut pairing, &[&GET.repeat(5)]);
            let mut answered = pairing.answered(one);
            answered.extend(pairing.answered(other));
            let expected = [
                (0, None),
                (1, None),
                (2, None),
                (3, Some("NOSCRIPT".into())),
                (4, None),
            ];
            assert_eq!(answered, expected, "cut at {cut}");
        }
    }

    #[test]
    fn pushes_and_messages_are_no_replies() {
        let subscribe = b"*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n";
        let (confirms, message) = (
            |mark: char| format!("{mark}3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"),
            |mark: char| format!("{mark}3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n"),
        );
        for mark in ['*', '>'] {
            let mut pairing = Pairing::default();
            commands(&mut pairing, &[subscribe, GET]);
            let (confirms, message) = (confirms(mark), message(mark));
            assert_eq!(pairing.answered(confirms.as_bytes()), []);
            assert_eq!(pairing.answered(message.as_bytes()), []);
            assert_eq!(pairing.answered(confirms.as_bytes()), [(0, None)]);
            assert_eq!(pairing.answered(message.as_bytes()), []);
            assert_eq!(pairing.answered(b"$-1\r\n"), [(1, None)]);
        }
        let mut pairing = Pairing::default();
        commands(&mut pairing, &[GET]);
        assert_eq!(
            pairing.answered(b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"),
            []
        );
        assert_eq!(pairing.answered(b"$-1\r\n"), [(0, None)]);
    }

    #[test]
    fn bytes_that_are_not_resp_are_ignored() {
        let mut pairing = Pairing::default();
        commands(&mut pairing, &[GET]);
        assert_eq!(pairing.answered(b"HTTP/1.1 400\r\n"), []);
        assert_eq!(pairing.answered(b"+OK\r\n"), []);
    }
}
