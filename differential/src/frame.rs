//! Finds the end of a reply in a stream of bytes, and its parts, in RESP2 and RESP3. It knows no commands.

/// Returns the length of the first complete reply in `bytes`; `None` until there is one.
pub(super) fn reply_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut missing = 1_usize;
    while missing > 0 {
        let (len, members) = element_len(bytes.get(at..)?)?;
        at += len;
        missing = missing - 1 + members;
    }
    Some(at)
}

/// Returns the length of a reply without its members, and the number of its members.
fn element_len(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let (kind, text) = (bytes[0], bytes.get(1..end).unwrap_or_default());
    let count = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<i64>().ok())
        .unwrap_or(-1);
    let mut len = end + 2;
    let mut members = 0;
    let count = usize::try_from(count).unwrap_or(0);
    match kind {
        b'$' | b'=' | b'!' if text != b"-1" => len += count + 2,
        b'*' | b'~' | b'>' => members = count,
        b'%' => members = count * 2,
        // An attribute comes before the reply that it describes.
        b'|' => members = count * 2 + 1,
        _ => {}
    }
    (bytes.len() >= len).then_some((len, members))
}

/// Moves push frames from among the members of the first complete reply to behind it.
///
/// Redis before 7.2 writes them there if a command pushes an event to its own connection before it has
/// written its whole reply, as ZPOPMIN does. Confirmations of channels stay: they are replies within EXEC.
pub(super) fn move_pushes_out(bytes: &mut [u8]) {
    let (mut reply, mut pushes) = (Vec::new(), Vec::new());
    let (mut at, mut missing) = (0, 1_usize);
    while missing > 0 {
        let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) else {
            return;
        };
        let is_push = match (rest[0], reply_len(rest)) {
            (b'>', None) => return,
            (b'>', Some(len)) => at > 0 && is_message(&rest[..len]),
            _ => false,
        };
        let (len, members) = match is_push {
            true => match reply_len(rest) {
                Some(len) => (len, 1),
                None => return,
            },
            false => match element_len(rest) {
                Some(element) => element,
                None => return,
            },
        };
        let out = if is_push { &mut pushes } else { &mut reply };
        out.extend_from_slice(&rest[..len]);
        missing = missing - 1 + members;
        at += len;
    }
    reply.extend(pushes);
    bytes[..at].copy_from_slice(&reply);
}

/// Returns true for a message, false for a confirmation.
fn is_message(frame: &[u8]) -> bool {
    let value = Value::parse(frame);
    let word = value.as_ref().and_then(|it| it.members().first()?.text());
    word.is_some_and(|word| {
        [&b"message"[..], b"pmessage", b"smessage", b"invalidate"].contains(&word)
    })
}

/// Returns the reply with the members of every array, set and map in order of their bytes.
pub(super) fn sorted(reply: &[u8]) -> Vec<u8> {
    let Some(end) = reply.windows(2).position(|two| two == b"\r\n") else {
        return reply.to_vec();
    };
    let group = match reply[0] {
        b'*' | b'~' | b'>' => 1,
        b'%' => 2,
        _ => return reply.to_vec(),
    };
    let mut members = Vec::new();
    let mut at = end + 2;
    while at < reply.len() {
        let mut member = Vec::new();
        for _ in 0..group {
            let Some(len) = reply_len(&reply[at..]) else {
                return reply.to_vec();
            };
            member.extend(sorted(&reply[at..at + len]));
            at += len;
        }
        members.push(member);
    }
    members.sort();
    let mut out = reply[..end + 2].to_vec();
    out.extend(members.concat());
    out
}

/// A parsed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A value without members: its first byte, and its text unless it is nil.
    Scalar(u8, Option<Vec<u8>>),
    /// A value with members: its first byte, and the members; keys and values of a map alternate.
    Group(u8, Vec<Self>),
}

impl Value {
    /// Parses a complete reply; `None` if it is not one.
    pub(super) fn parse(reply: &[u8]) -> Option<Self> {
        let (value, rest) = Self::split(reply)?;
        rest.is_empty().then_some(value)
    }

    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let (kind, text) = (*bytes.first()?, &bytes[1..end]);
        let mut rest = &bytes[end + 2..];
        let count = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
        match kind {
            b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%' if text == b"-1" => {
                Some((Self::Scalar(kind, None), rest))
            }
            b'$' | b'=' | b'!' => {
                let len = usize::try_from(count()?).ok()?;
                let (text, tail) = rest.split_at_checked(len)?;
                let tail = tail.strip_prefix(b"\r\n")?;
                Some((Self::Scalar(kind, Some(text.to_vec())), tail))
            }
            b'*' | b'~' | b'>' | b'%' => {
                let mut members = Vec::new();
                let each = if kind == b'%' { 2 } else { 1 };
                for _ in 0..count()? * each {
                    let (member, tail) = Self::split(rest)?;
                    members.push(member);
                    rest = tail;
                }
                Some((Self::Group(kind, members), rest))
            }
            b'_' => Some((Self::Scalar(kind, None), rest)),
            _ => Some((Self::Scalar(kind, Some(text.to_vec())), rest)),
        }
    }

    /// Returns the text of a scalar.
    pub(super) fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Scalar(_, text) => text.as_deref(),
            Self::Group(..) => None,
        }
    }

    /// Returns the first byte.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Self::Scalar(kind, _) | Self::Group(kind, _) => *kind,
        }
    }

    /// Returns the members of a group; none for a scalar.
    pub(super) fn members(&self) -> &[Self] {
        match self {
            Self::Scalar(..) => &[],
            Self::Group(_, members) => members,
        }
    }

    /// Returns the value for a name in a map, or in an array of names and values.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        let mut pairs = self.members().chunks_exact(2);
        let pair = pairs.find(|pair| pair[0].text() == Some(name.as_bytes()))?;
        Some(&pair[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_frames_leave_the_reply_that_they_stand_in() {
        for (read, expected) in [
            (
                "*2\r\n>1\r\n+message\r\n:1\r\n:2\r\n:3\r\n",
                "*2\r\n:1\r\n:2\r\n>1\r\n+message\r\n:3\r\n",
            ),
            (
                "*1\r\n*1\r\n>1\r\n*1\r\n:7\r\n",
                "*1\r\n*1\r\n>1\r\n*1\r\n:7\r\n",
            ),
            (
                "*1\r\n*1\r\n>1\r\n+message\r\n$1\r\na\r\n",
                "*1\r\n*1\r\n$1\r\na\r\n>1\r\n+message\r\n",
            ),
            (
                ">1\r\n+message\r\n*1\r\n:1\r\n",
                ">1\r\n+message\r\n*1\r\n:1\r\n",
            ),
            (
                "*2\r\n>1\r\n+message\r\n:1\r\n",
                "*2\r\n>1\r\n+message\r\n:1\r\n",
            ),
            (
                "*2\r\n>1\r\n+unsubscribe\r\n*1\r\n>1\r\n+message\r\n:1\r\n",
                "*2\r\n>1\r\n+unsubscribe\r\n*1\r\n:1\r\n>1\r\n+message\r\n",
            ),
        ] {
            let mut bytes = read.as_bytes().to_vec();
            move_pushes_out(&mut bytes);
            assert_eq!(String::from_utf8_lossy(&bytes), expected);
        }
    }

    #[test]
    fn a_reply_ends_where_it_ends() {
        for whole in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":12\r\n",
            "$-1\r\n",
            "$0\r\n\r\n",
            "$4\r\na\r\nb\r\n",
            "*-1\r\n",
            "*0\r\n",
            "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
            "%1\r\n+k\r\n~1\r\n_\r\n",
            "=6\r\ntxt:hi\r\n",
            "|1\r\n+a\r\n+b\r\n:7\r\n",
        ] {
            let bytes = whole.as_bytes();
            assert_eq!(reply_len(bytes), Some(bytes.len()), "{whole:?}");
            assert_eq!(
                reply_len(&[bytes, b"+OK\r\n"].concat()),
                Some(bytes.len()),
                "{whole:?}"
            );
            for cut in 0..bytes.len() {
                assert_eq!(reply_len(&bytes[..cut]), None, "{whole:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn members_without_order_are_sorted() {
        assert_eq!(
            sorted(b"*2\r\n:2\r\n*2\r\n:1\r\n:0\r\n"),
            b"*2\r\n*2\r\n:0\r\n:1\r\n:2\r\n"
        );
        assert_eq!(
            sorted(b"%2\r\n+b\r\n+a\r\n+a\r\n+b\r\n"),
            b"%2\r\n+a\r\n+b\r\n+b\r\n+a\r\n"
        );
    }

    #[test]
    fn a_reply_has_parts() {
        let reply = b"*3\r\n%1\r\n+k\r\n~2\r\n:1\r\n_\r\n$-1\r\n$2\r\n\r\n\r\n";
        let value = Value::parse(reply).expect("a whole reply");
        let [map, nil, text] = value.members() else {
            panic!("three members: {value:?}");
        };
        let set = map.field("k").expect("a field");
        assert_eq!(set.members()[0].text(), Some(&b"1"[..]));
        assert_eq!(set.members()[1], Value::Scalar(b'_', None));
        assert_eq!((nil.text(), text.text()), (None, Some(&b"\r\n"[..])));
        for cut in 0..reply.len() {
            assert_eq!(Value::parse(&reply[..cut]), None, "cut at {cut}");
        }
    }
}
