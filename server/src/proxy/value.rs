//! Converts a frame to the value that rules see.

use crate::resp::{ErrorReply, Reply, parse_integer};

/// The value of a complete frame. Leaves out what is inside a reply but no element of it, such as
/// pushes inside of an EXEC reply.
pub(super) fn value(frame: &[u8]) -> Reply {
    Reader(frame).value().unwrap_or(Reply::Nil)
}

/// The kind of a push, or the first element of an array.
pub(super) fn first_word(frame: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader(frame);
    reader.line()?;
    let (kind, text) = reader.line()?;
    match kind {
        b'$' => reader.bytes(text),
        _ => Some(text),
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn line(&mut self) -> Option<(u8, &'a [u8])> {
        let end = self.0.windows(2).position(|two| two == b"\r\n")?;
        let (line, rest) = (&self.0[..end], &self.0[end + 2..]);
        self.0 = rest;
        line.split_first().map(|(kind, text)| (*kind, text))
    }

    fn bytes(&mut self, length: &[u8]) -> Option<&'a [u8]> {
        let length = usize::try_from(parse_integer(length)?).ok()?;
        let bytes = self.0.get(..length)?;
        self.0 = self.0.get(length + 2..)?;
        Some(bytes)
    }

    fn value(&mut self) -> Option<Reply> {
        let (kind, text) = self.line()?;
        let lossy = || String::from_utf8_lossy(text).into_owned();
        Some(match kind {
            b'+' if text == b"OK" => Reply::Ok,
            b'+' => Reply::Status(text.to_vec()),
            b'-' => Reply::Error(ErrorReply::from_bytes(text.to_vec())),
            b':' => Reply::Int(parse_integer(text)?),
            b',' => Reply::Double(lossy().parse().ok()?),
            b'#' => Reply::Bool(text == b"t"),
            b'(' => Reply::BigNumber(text.to_vec()),
            b'$' => self.bytes(text).map_or(Reply::Nil, Reply::bulk),
            b'!' => Reply::Error(ErrorReply::from_bytes(self.bytes(text)?.to_vec())),
            b'=' => {
                let (format, text) = self.bytes(text)?.split_at_checked(4)?;
                let format = format.first_chunk().copied()?;
                let text = text.to_vec();
                Reply::Verbatim { format, text }
            }
            b'*' if text == b"-1" => Reply::NilArray,
            b'*' => Reply::Array(self.values(text)?),
            b'~' => Reply::Set(self.values(text)?),
            b'>' => Reply::Push(self.values(text)?),
            b'%' => Reply::Map(self.pairs(text)?),
            b'|' => {
                let attributes = self.pairs(text)?;
                let reply = Box::new(self.value()?);
                Reply::Attributed { attributes, reply }
            }
            _ => Reply::Nil,
        })
    }

    fn values(&mut self, count: &[u8]) -> Option<Vec<Reply>> {
        let count = parse_integer(count)?;
        let mut values = Vec::new();
        while (values.len() as i64) < count {
            let value = self.value()?;
            if !matches!(value, Reply::Push(_)) {
                values.push(value);
            }
        }
        Some(values)
    }

    fn pairs(&mut self, count: &[u8]) -> Option<Vec<(Reply, Reply)>> {
        let count = parse_integer(count)?;
        (0..count)
            .map(|_| Some((self.value()?, self.value()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Protocol, encode};

    /// Values that our encoder writes are read back.
    #[test]
    fn values_come_back() {
        let (key, ok) = (Reply::bulk("k\r\n"), Reply::Ok);
        for reply in [
            Reply::Array(vec![Reply::Int(-1), Reply::Nil, ok.clone()]),
            Reply::Map(vec![(key.clone(), Reply::Set(vec![Reply::Bool(true)]))]),
            Reply::Push(vec![key.clone(), Reply::Double(1.5)]),
            Reply::error("ERR no"),
            Reply::Verbatim {
                format: *b"txt",
                text: "x".into(),
            },
            Reply::Attributed {
                attributes: vec![(key, ok)],
                reply: Box::new(Reply::BigNumber(b"123".to_vec())),
            },
        ] {
            let mut bytes = Vec::new();
            encode(&reply, Protocol::Resp3, &mut bytes);
            assert_eq!(value(&bytes), reply);
        }
        let exec = b"*1\r\n>2\r\n+invalidate\r\n*1\r\n+k\r\n+OK\r\n";
        assert_eq!(value(exec), Reply::Array(vec![Reply::Ok]));
        assert_eq!(first_word(b"*1\r\n$3\r\nabc\r\n"), Some(&b"abc"[..]));
    }
}
