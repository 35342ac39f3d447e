//! Incremental decoder of requests, multibulk and inline, with the limits and error texts of
//! `networking.c: processMultibulkBuffer` and `processInlineBuffer`. Knows no command.
//!
//! Every byte is copied once and examined once, so an argument of 64 MiB costs the same in small
//! pieces as in one.

use super::request::{OwnedRequest, Request, Span};
use std::fmt;

/// `PROTO_INLINE_MAX_SIZE`: the longest inline request, and the longest length line.
const INLINE_BYTES_MAX: usize = 64 * 1024;
/// Larger buffers are freed once they are empty (`PROTO_MBULK_BIG_ARG`).
const KEEP_BYTES_MAX: usize = 32 * 1024;
/// Limits for a client that has not authenticated.
const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
const UNAUTHENTICATED_BULK_MAX: i64 = 16 * 1024;

/// The limits of one connection. They change with AUTH and CONFIG SET.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `proto-max-bulk-len`: bytes of one argument.
    pub bulk_bytes_max: i64,
    /// `client-query-buffer-limit`: bytes buffered for one connection.
    pub buffer_bytes_max: usize,
    /// True if the client may send long requests: it has authenticated, or no password is set.
    pub authenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bulk_bytes_max: 512 * 1024 * 1024,
            buffer_bytes_max: 1024 * 1024 * 1024,
            authenticated: true,
        }
    }
}

/// Malformed input. The server sends the error (unless [`ProtocolError::is_silent`]) and closes the
/// connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// A line of more than 64 KiB, unbalanced quotes, or an invalid length.
    Text(&'static str),
    /// A bulk header that does not begin with `$`.
    ExpectedDollar(u8),
    /// More bytes were buffered than `client-query-buffer-limit`.
    BufferLimit,
}

impl ProtocolError {
    /// True if Redis closes the connection without an error reply.
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::BufferLimit)
    }

    /// The error text on the wire, with the byte that was found.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::ExpectedDollar(found) => {
                [b"Protocol error: expected '$', got '", &[*found][..], b"'"].concat()
            }
            Self::Text(_) | Self::BufferLimit => self.to_string().into_bytes(),
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "Protocol error: {text}"),
            Self::ExpectedDollar(found) => write!(
                f,
                "Protocol error: expected '$', got '{}'",
                char::from(*found)
            ),
            Self::BufferLimit => f.write_str("client query buffer limit exceeded"),
        }
    }
}

impl std::error::Error for ProtocolError {}

#[derive(Clone, Copy, Debug, PartialEq)]
enum DecodeState {
    /// Before the first byte of a request.
    Start,
    /// Inside a multibulk request, before the header of an argument. `missing` arguments have not
    /// been read.
    Header { missing: u32 },
    /// Inside an argument of `len` bytes.
    Body { missing: u32, len: u32 },
    /// A request was returned; the next call frees its bytes.
    Done,
    /// A request was returned; the next call returns it again.
    Again,
}

/// Decodes the requests of one connection.
///
/// ```
/// # extern crate redouble_core as redouble;
/// use redouble::resp::{Decoder, Limits};
///
/// let mut decoder = Decoder::default();
/// decoder.feed(b"*2\r\n$3\r\nGET\r\n$1\r");
/// assert!(decoder.next(&Limits::default())?.is_none());
/// decoder.feed(b"\nk\r\nPING\r\n");
/// let get = decoder.next(&Limits::default())?.expect("complete by now");
/// assert_eq!((get.name(), get.arg(1)), (&b"GET"[..], Some(&b"k"[..])));
/// let ping = decoder.next(&Limits::default())?.expect("an inline request");
/// assert_eq!((ping.name(), ping.len()), (&b"PING"[..], 1));
/// # Ok::<(), redouble::resp::ProtocolError>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    buf: Vec<u8>,
    /// Start of the current request; spans are relative to it.
    base: usize,
    /// The next byte to examine.
    pos: usize,
    /// Number of bytes after `pos` that are known to contain no line end.
    scanned: usize,
    state: DecodeState,
    spans: Vec<Span>,
    /// The unquoted arguments of an inline request.
    inline: OwnedRequest,
    /// A request without arguments came since [`Decoder::take_empty`].
    has_empty: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            buf: Vec::new(),
            base: 0,
            pos: 0,
            scanned: 0,
            state: DecodeState::Start,
            spans: Vec::new(),
            inline: OwnedRequest::default(),
            has_empty: false,
        }
    }
}

impl Decoder {
    /// Appends bytes from the client.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.state == DecodeState::Done {
            self.finish();
        }
        if self.base > 0 {
            if self.base == self.buf.len() {
                self.buf.clear();
                if self.buf.capacity() > KEEP_BYTES_MAX {
                    self.buf.shrink_to(bytes.len());
                }
            } else if self.base >= self.buf.len() - self.base {
                self.buf.copy_within(self.base.., 0);
                self.buf.truncate(self.buf.len() - self.base);
            } else {
                self.buf.extend_from_slice(bytes);
                return;
            }
            self.pos -= self.base;
            self.base = 0;
        }
        self.buf.extend_from_slice(bytes);
    }

    /// Number of bytes that were fed and not yet returned as requests.
    pub fn buffered_bytes(&self) -> usize {
        match self.state {
            DecodeState::Done => self.buf.len() - self.pos,
            DecodeState::Start
            | DecodeState::Again
            | DecodeState::Header { .. }
            | DecodeState::Body { .. } => self.buf.len() - self.base,
        }
    }

    /// The part of [`Decoder::buffered_bytes`] that belongs to no argument that is complete.
    pub fn unparsed_bytes(&self) -> usize {
        self.buf.len() - self.pos
    }

    /// Number of bytes that the argument whose length is known still lacks.
    pub fn missing_bytes(&self) -> usize {
        match self.state {
            DecodeState::Body { len, .. } => {
                (self.pos + len as usize + 2).saturating_sub(self.buf.len())
            }
            DecodeState::Start
            | DecodeState::Again
            | DecodeState::Done
            | DecodeState::Header { .. } => 0,
        }
    }

    /// Makes the next call return the last request again.
    pub fn put_back(&mut self) {
        if self.state == DecodeState::Done {
            self.state = DecodeState::Again;
        }
    }

    /// Discards all input.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The next complete request, or `None` until more bytes are fed.
    ///
    /// # Errors
    /// On malformed input. The decoder cannot be used after that.
    #[inline]
    pub fn next(&mut self, limits: &Limits) -> Result<Option<Request<'_>>, ProtocolError> {
        Ok(if self.advance(limits)? {
            self.current()
        } else {
            None
        })
    }

    /// True if requests without arguments have come since the last call: an empty line, or `*0`. They are no requests of
    /// [`Decoder::next`].
    #[inline]
    pub fn take_empty(&mut self) -> bool {
        let has_empty = self.has_empty;
        if has_empty {
            self.has_empty = false;
        }
        has_empty
    }

    /// The request that [`Decoder::advance`] has found last.
    #[inline]
    pub fn current(&self) -> Option<Request<'_>> {
        if self.spans.is_empty() {
            return self.inline.as_request();
        }
        Some(Request {
            bytes: &self.buf[self.base..self.pos],
            spans: &self.spans,
        })
    }

    /// Searches the next complete request, which is [`Decoder::current`] then. Returns false if more bytes are needed.
    ///
    /// # Errors
    /// On malformed input. The decoder cannot be used after that.
    pub fn advance(&mut self, limits: &Limits) -> Result<bool, ProtocolError> {
        loop {
            match self.state {
                DecodeState::Done => self.finish(),
                DecodeState::Again => break,
                DecodeState::Start => {
                    let Some(&first) = self.buf.get(self.pos) else {
                        return Ok(false);
                    };
                    if first != b'*' {
                        match self.inline(limits)? {
                            None => return Ok(false),
                            Some(false) => self.pass_empty(),
                            Some(true) => break,
                        }
                        continue;
                    }
                    if let Some(&[b'*', count @ b'1'..=b'9', b'\r', _]) =
                        self.buf.get(self.pos..self.pos + 4)
                    {
                        self.pos += 4;
                        self.scanned = 0;
                        self.state = DecodeState::Header {
                            missing: u32::from(count - b'0'),
                        };
                        continue;
                    }
                    let Some(line) = self.line("too big mbulk count string", limits)? else {
                        return Ok(false);
                    };
                    let count = super::parse_integer(&self.buf[line.0 + 1..line.1])
                        .filter(|count| *count <= i64::from(i32::MAX))
                        .ok_or(ProtocolError::Text("invalid multibulk length"))?;
                    if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
                        return Err(ProtocolError::Text("unauthenticated multibulk length"));
                    }
                    match u32::try_from(count) {
                        Ok(missing) if missing > 0 => self.state = DecodeState::Header { missing },
                        _ => self.pass_empty(),
                    }
                }
                DecodeState::Header { missing } => {
                    let missing = self.short_args(missing);
                    if missing == 0 {
                        break;
                    }
                    self.state = DecodeState::Header { missing };
                    let Some(len) = self.length(limits)? else {
                        return Ok(false);
                    };
                    if len > UNAUTHENTICATED_BULK_MAX && !limits.authenticated {
                        return Err(ProtocolError::Text("unauthenticated bulk length"));
                    }
                    let len = u32::try_from(len)
                        .map_err(|_| ProtocolError::Text("invalid bulk length"))?;
                    self.state = DecodeState::Body { missing, len };
                }
                DecodeState::Body { missing, len } => {
                    let end = self.pos + len as usize + 2;
                    if self.buf.len() < end {
                        return self.wait(limits).map(|()| false);
                    }
                    let at = u32::try_from(self.pos - self.base)
                        .map_err(|_| ProtocolError::BufferLimit)?;
                    self.spans.push(Span { at, len });
                    self.pos = end;
                    if missing > 1 {
                        self.state = DecodeState::Header {
                            missing: missing - 1,
                        };
                    } else {
                        break;
                    }
                }
            }
        }
        self.state = DecodeState::Done;
        Ok(true)
    }

    /// Frees the bytes of the current request.
    fn finish(&mut self) {
        self.base = self.pos;
        self.scanned = 0;
        self.spans.clear();
        self.inline.clear();
        self.state = DecodeState::Start;
    }

    fn pass_empty(&mut self) {
        self.has_empty = true;
        self.finish();
    }

    /// Fails if the rest of the current request exceeds the buffer limit.
    fn wait(&self, limits: &Limits) -> Result<(), ProtocolError> {
        if self.buf.len() - self.base > limits.buffer_bytes_max {
            return Err(ProtocolError::BufferLimit);
        }
        Ok(())
    }

    /// Reads arguments of at most 99 bytes while they are complete and well formed. Returns the
    /// number of arguments that are still missing.
    #[inline]
    fn short_args(&mut self, mut missing: u32) -> u32 {
        let (base, begin) = (self.base, self.pos);
        let buf = &self.buf[..];
        if u32::try_from(buf.len() - base).is_err() {
            return missing;
        }
        let mut at = begin;
        while missing > 0 {
            let Some(&[b'$', first, second, third]) =
                buf.get(at..).and_then(|rest| rest.first_chunk())
            else {
                break;
            };
            let (tens, ones) = (first.wrapping_sub(b'0'), second.wrapping_sub(b'0'));
            let (len, body) = if second == b'\r' && tens <= 9 {
                (tens, at + 4)
            } else if third == b'\r' && (1..=9).contains(&tens) && ones <= 9 {
                (tens * 10 + ones, at + 5)
            } else {
                break;
            };
            let next = body + usize::from(len) + 2;
            if next > buf.len() {
                break;
            }
            self.spans.push(Span {
                at: (body - base) as u32,
                len: len.into(),
            });
            at = next;
            missing -= 1;
        }
        if at > begin {
            (self.pos, self.scanned) = (at, 0);
        }
        missing
    }

    /// Reads the header of an argument; `None` if it is incomplete.
    fn length(&mut self, limits: &Limits) -> Result<Option<i64>, ProtocolError> {
        let Some(line) = self.line("too big bulk count string", limits)? else {
            return Ok(None);
        };
        let first = self.buf[line.0];
        if first != b'$' {
            return Err(ProtocolError::ExpectedDollar(first));
        }
        super::parse_integer(&self.buf[line.0 + 1..line.1])
            .filter(|len| (0..=limits.bulk_bytes_max).contains(len))
            .map(Some)
            .ok_or(ProtocolError::Text("invalid bulk length"))
    }

    /// Finds a line that ends in CR and one more byte. Returns its start and the position of its
    /// CR.
    fn line(
        &mut self,
        too_long: &'static str,
        limits: &Limits,
    ) -> Result<Option<(usize, usize)>, ProtocolError> {
        let from = self.pos + self.scanned;
        let end = self.line_end(from, b'\r');
        let is_found = self.buf.get(end) == Some(&b'\r');
        let len = if is_found { end } else { self.buf.len() } - self.pos;
        if len > INLINE_BYTES_MAX {
            return Err(ProtocolError::Text(too_long));
        }
        if !is_found || end + 1 == self.buf.len() {
            self.scanned = end - self.pos;
            return self.wait(limits).map(|()| None);
        }
        let line = (self.pos, end);
        self.pos = end + 2;
        self.scanned = 0;
        Ok(Some(line))
    }

    /// Position of the next `byte`, of a zero byte before it, or the end of the buffer. Redis uses
    /// `strchr`, so a line with a zero byte never ends.
    #[inline]
    fn line_end(&self, from: usize, byte: u8) -> usize {
        let found = self.buf[from..]
            .iter()
            .position(|found| *found == byte || *found == 0);
        found.map_or(self.buf.len(), |offset| from + offset)
    }

    /// Reads an inline request into `self.inline`; `Some(false)` for an empty line.
    fn inline(&mut self, limits: &Limits) -> Result<Option<bool>, ProtocolError> {
        let from = self.pos + self.scanned;
        let newline = self.line_end(from, b'\n');
        let is_found = self.buf.get(newline) == Some(&b'\n');
        let len = if is_found { newline } else { self.buf.len() } - self.pos;
        if len > INLINE_BYTES_MAX {
            return Err(ProtocolError::Text("too big inline request"));
        }
        if !is_found {
            self.scanned = newline - self.pos;
            return self.wait(limits).map(|()| None);
        }
        let line = &self.buf[self.pos..newline];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.inline.clear();
        split_inline(line, &mut self.inline)
            .ok_or(ProtocolError::Text("unbalanced quotes in request"))?;
        self.pos = newline + 1;
        Ok(Some(self.inline.as_request().is_some()))
    }
}

/// Splits a line into arguments as `sds.c: sdssplitargs` does; `None` if quotes are unbalanced.
pub(crate) fn split_inline(line: &[u8], into: &mut OwnedRequest) -> Option<()> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let mut rest = line;
    loop {
        rest = &rest[rest
            .iter()
            .position(|byte| !is_space(byte))
            .unwrap_or(rest.len())..];
        if rest.is_empty() {
            return Some(());
        }
        let mut arg = Vec::new();
        let mut quote = None;
        loop {
            match (quote, rest) {
                (None, []) => break,
                (Some(_), []) => return None,
                (Some(b'"'), [b'\\', b'x', high, low, tail @ ..])
                    if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
                {
                    arg.push(hex(*high) << 4 | hex(*low));
                    rest = tail;
                }
                (Some(b'"'), [b'\\', escaped, tail @ ..]) => {
                    arg.push(match escaped {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b't' => b'\t',
                        b'b' => 0x08,
                        b'a' => 0x07,
                        other => *other,
                    });
                    rest = tail;
                }
                (Some(b'\''), [b'\\', b'\'', tail @ ..]) => {
                    arg.push(b'\'');
                    rest = tail;
                }
                (Some(open), [byte, tail @ ..]) if *byte == open => {
                    if tail.first().is_some_and(|next| !is_space(next)) {
                        return None;
                    }
                    rest = tail;
                    break;
                }
                // Vertical tabs and form feeds separate words, but do not end one.
                (None, [b' ' | b'\t' | b'\n' | b'\r', ..]) => break,
                (None, [byte @ (b'"' | b'\''), tail @ ..]) => {
                    quote = Some(*byte);
                    rest = tail;
                }
                (_, [byte, tail @ ..]) => {
                    arg.push(*byte);
                    rest = tail;
                }
            }
        }
        into.push(&arg);
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `input` in pieces of `step` bytes, and collects requests until the end or an error.
    fn decode(input: &[u8], step: usize, limits: Limits) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
        let mut decoder = Decoder::default();
        let mut requests = Vec::new();
        for piece in input.chunks(step) {
            decoder.feed(piece);
            loop {
                match decoder.next(&limits) {
                    Ok(Some(request)) => {
                        requests.push(request.iter().map(<[u8]>::to_vec).collect())
                    }
                    Ok(None) => break,
                    Err(error) => return (requests, Some(error.to_string())),
                }
            }
        }
        (requests, None)
    }

    fn check(input: &[u8], expected: &[&[&[u8]]], error: Option<&str>) {
        for step in [1, 2, 3, 7, input.len().max(1)] {
            let (requests, found) = decode(input, step, Limits::default());
            assert_eq!(
                requests,
                expected,
                "{} in pieces of {step}",
                input.escape_ascii()
            );
            assert_eq!(
                found.as_deref(),
                error,
                "{} in pieces of {step}",
                input.escape_ascii()
            );
        }
    }

    #[test]
    fn a_request_without_arguments_is_told_once() {
        for empty in ["\r\n", "   \r\n", "*0\r\n", "*-1\r\n"] {
            let mut decoder = Decoder::default();
            let limits = Limits::default();
            decoder.feed(b"PING\r\n");
            assert!(decoder.next(&limits).is_ok_and(|it| it.is_some()));
            assert!(!decoder.take_empty());
            decoder.feed(empty.as_bytes());
            assert!(decoder.next(&limits).is_ok_and(|it| it.is_none()));
            assert!(decoder.take_empty() && !decoder.take_empty(), "{empty:?}");
        }
    }

    #[test]
    fn requests_come_out_as_they_went_in() {
        check(b"*1\r\n$4\r\nPING\r\n", &[&[b"PING"]], None);
        check(
            b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n*1\r\n$0\r\n\r\n",
            &[&[b"GET", b"a\r\n"], &[b""]],
            None,
        );
        check(b"*0\r\n*-1\r\nPING\r\n", &[&[b"PING"]], None);
        check(
            b"  set  k \"a\\x41\\n\" 'it\\'s'\r\n\r\nPING\n",
            &[&[b"set", b"k", b"aA\n", b"it's"], &[b"PING"]],
            None,
        );
    }

    #[test]
    fn malformed_input_is_refused_in_redis_words() {
        check(
            b"*x\r\n",
            &[],
            Some("Protocol error: invalid multibulk length"),
        );
        check(
            b"*2147483648\r\n",
            &[],
            Some("Protocol error: invalid multibulk length"),
        );
        check(
            b"*1\r\n#3\r\n",
            &[],
            Some("Protocol error: expected '$', got '#'"),
        );
        check(
            b"*1\r\n$-1\r\n",
            &[],
            Some("Protocol error: invalid bulk length"),
        );
        check(
            b"*1\r\n$536870913\r\n",
            &[],
            Some("Protocol error: invalid bulk length"),
        );
        check(
            b"ec\x0bo \x0c \"a\"\x0bb\x0c\r\n",
            &[&[b"ec\x0bo", b"a", b"b\x0c"]],
            None,
        );
        check(
            b"GET \"x\r\n",
            &[],
            Some("Protocol error: unbalanced quotes in request"),
        );
        check(
            b"GET \"x\"y\r\n",
            &[],
            Some("Protocol error: unbalanced quotes in request"),
        );
        check(
            &[b'a'; 64 * 1024 + 8],
            &[],
            Some("Protocol error: too big inline request"),
        );
    }

    #[test]
    fn a_stranger_may_ask_for_little() {
        let limits = Limits {
            authenticated: false,
            ..Limits::default()
        };
        let error = |input: &[u8]| decode(input, 5, limits).1.expect("refused");
        assert_eq!(
            error(b"*11\r\n"),
            "Protocol error: unauthenticated multibulk length"
        );
        assert_eq!(
            error(b"*1\r\n$16385\r\n"),
            "Protocol error: unauthenticated bulk length"
        );
    }

    #[test]
    fn the_query_buffer_is_bounded() {
        let limits = Limits {
            buffer_bytes_max: 100,
            ..Limits::default()
        };
        let (requests, error) = decode(
            &[b"*1\r\n$500\r\n".as_slice(), &[b'x'; 300]].concat(),
            50,
            limits,
        );
        assert_eq!(
            (requests.len(), error.as_deref()),
            (0, Some("client query buffer limit exceeded"))
        );
    }

    #[test]
    fn a_huge_argument_in_small_pieces_is_held_once() {
        let mut decoder = Decoder::default();
        let len = 8 << 20;
        decoder.feed(format!("*2\r\n$4\r\nECHO\r\n${len}\r\n").as_bytes());
        for _ in 0..len / 4096 {
            assert!(
                decoder
                    .next(&Limits::default())
                    .expect("well formed")
                    .is_none()
            );
            decoder.feed(&[7; 4096]);
        }
        decoder.feed(b"\r\n");
        let request = decoder
            .next(&Limits::default())
            .expect("well formed")
            .expect("complete");
        assert_eq!(request.arg(1).map(<[u8]>::len), Some(len));
        decoder.feed(b"PING\r\n");
        assert!(
            decoder.buf.capacity() <= KEEP_BYTES_MAX,
            "the big buffer is freed"
        );
    }
}
