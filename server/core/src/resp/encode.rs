//! Encodes replies in RESP2 and RESP3.

use super::{Reply, format_decimal, format_double, format_shortest};

/// The protocol of a connection; HELLO selects it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2, the protocol of every new connection.
    #[default]
    Resp2,
    /// RESP3: maps, sets, doubles, pushes.
    Resp3,
}

impl Protocol {
    /// The version number in HELLO.
    pub fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// Appends `reply` to `out`, and frees it.
///
/// The replies of most requests own nothing, so there is nothing to look for when they go.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "all others go the ordinary way"
)]
#[inline]
pub fn encode_owned(reply: Reply, protocol: Protocol, out: &mut Vec<u8>) {
    match reply {
        Reply::Ok => out.extend_from_slice(b"+OK\r\n"),
        Reply::Int(value) => head(b':', value, out),
        Reply::Bulk(bytes) => bulk(&bytes, out),
        Reply::Static(text) => line(b'+', text.as_bytes(), out),
        reply => encode(&reply, protocol, out),
    }
}

/// Appends `reply` to `out`.
pub fn encode(reply: &Reply, protocol: Protocol, out: &mut Vec<u8>) {
    let resp3 = protocol == Protocol::Resp3;
    match reply {
        Reply::Ok => out.extend_from_slice(b"+OK\r\n"),
        Reply::Nil | Reply::NilArray if resp3 => out.extend_from_slice(b"_\r\n"),
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
        Reply::Int(value) => head(b':', *value, out),
        Reply::Bulk(bytes) => bulk(bytes, out),
        Reply::Raw(bytes) => out.extend_from_slice(bytes),
        Reply::Static(text) => line(b'+', text.as_bytes(), out),
        Reply::Status(text) => line(b'+', text, out),
        Reply::Error(error) => line(b'-', error.as_bytes(), out),
        Reply::Array(items) => {
            head(b'*', items.len() as i64, out);
            items.iter().for_each(|item| encode(item, protocol, out));
        }
        Reply::Map(pairs) => {
            let count = pairs.len() as i64;
            if resp3 {
                head(b'%', count, out)
            } else {
                head(b'*', count * 2, out)
            }
            for (key, value) in pairs {
                encode(key, protocol, out);
                encode(value, protocol, out);
            }
        }
        Reply::Pairs(pairs) => {
            let count = pairs.len() as i64;
            head(b'*', if resp3 { count } else { count * 2 }, out);
            for (first, second) in pairs {
                if resp3 {
                    head(b'*', 2, out);
                }
                encode(first, protocol, out);
                encode(second, protocol, out);
            }
        }
        Reply::Streams(pairs) => {
            head(if resp3 { b'%' } else { b'*' }, pairs.len() as i64, out);
            for (key, entries) in pairs {
                if !resp3 {
                    head(b'*', 2, out);
                }
                encode(key, protocol, out);
                encode(entries, protocol, out);
            }
        }
        Reply::Set(items) => {
            head(if resp3 { b'~' } else { b'*' }, items.len() as i64, out);
            items.iter().for_each(|item| encode(item, protocol, out));
        }
        Reply::Push(items) => {
            head(if resp3 { b'>' } else { b'*' }, items.len() as i64, out);
            items.iter().for_each(|item| encode(item, protocol, out));
        }
        Reply::Earlier { protocol, reply } => encode(reply, *protocol, out),
        Reply::Attributed { attributes, reply } => {
            if resp3 {
                head(b'|', attributes.len() as i64, out);
                for (key, value) in attributes {
                    encode(key, protocol, out);
                    encode(value, protocol, out);
                }
            }
            encode(reply, protocol, out);
        }
        Reply::Several(frames) => frames.iter().for_each(|frame| encode(frame, protocol, out)),
        Reply::Double(value) if resp3 => line(b',', format_double(*value).as_bytes(), out),
        Reply::Double(value) => bulk(format_double(*value).as_bytes(), out),
        Reply::ShortDouble(value) if resp3 => {
            line(b',', format_shortest(*value).as_bytes(), out);
        }
        Reply::ShortDouble(value) => bulk(format_shortest(*value).as_bytes(), out),
        Reply::Decimal(value) if resp3 => line(b',', format_decimal(*value).as_bytes(), out),
        Reply::Decimal(value) => bulk(format_decimal(*value).as_bytes(), out),
        Reply::Bool(value) if resp3 => line(b'#', if *value { b"t" } else { b"f" }, out),
        Reply::Bool(value) => head(b':', i64::from(*value), out),
        Reply::BigNumber(digits) if resp3 => line(b'(', digits, out),
        Reply::BigNumber(digits) => bulk(digits, out),
        Reply::Verbatim { format, text } if resp3 => {
            head(b'=', text.len() as i64 + 4, out);
            out.extend_from_slice(format);
            out.push(b':');
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Reply::Verbatim { text, .. } => bulk(text, out),
    }
}

fn line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

#[inline]
fn head(kind: u8, value: i64, out: &mut Vec<u8>) {
    if let Ok(digit @ 0..10) = u8::try_from(value) {
        out.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']);
        return;
    }
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Length of a bulk string that [`bulk`] writes with a header of two digits.
const SHORT: std::ops::Range<usize> = 10..100;

#[inline]
fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    let len = bytes.len();
    out.reserve(len + 16);
    if SHORT.contains(&len) {
        let (tens, ones) = (b'0' + (len / 10) as u8, b'0' + (len % 10) as u8);
        out.extend_from_slice(&[b'$', tens, ones, b'\r', b'\n']);
    } else {
        head(b'$', len as i64, out);
    }
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_two_spellings() {
        let map = Reply::Map(vec![(Reply::bulk("k"), Reply::Int(1))]);
        let verbatim = Reply::Verbatim {
            format: *b"txt",
            text: "hi".into(),
        };
        for (reply, resp2, resp3) in [
            (Reply::Ok, "+OK\r\n", "+OK\r\n"),
            (Reply::Nil, "$-1\r\n", "_\r\n"),
            (Reply::NilArray, "*-1\r\n", "_\r\n"),
            (Reply::Int(-7), ":-7\r\n", ":-7\r\n"),
            (
                Reply::bulk("a\r\nb"),
                "$4\r\na\r\nb\r\n",
                "$4\r\na\r\nb\r\n",
            ),
            (Reply::error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (map, "*2\r\n$1\r\nk\r\n:1\r\n", "%1\r\n$1\r\nk\r\n:1\r\n"),
            (
                Reply::Set(vec![Reply::Ok]),
                "*1\r\n+OK\r\n",
                "~1\r\n+OK\r\n",
            ),
            (
                Reply::Pairs(vec![(Reply::Ok, Reply::Int(1))]),
                "*2\r\n+OK\r\n:1\r\n",
                "*1\r\n*2\r\n+OK\r\n:1\r\n",
            ),
            (
                Reply::Streams(vec![(Reply::Ok, Reply::Int(1))]),
                "*1\r\n*2\r\n+OK\r\n:1\r\n",
                "%1\r\n+OK\r\n:1\r\n",
            ),
            (Reply::Push(vec![]), "*0\r\n", ">0\r\n"),
            (Reply::Double(0.5), "$3\r\n0.5\r\n", ",0.5\r\n"),
            (
                Reply::Decimal(1e-9),
                "$11\r\n0.000000001\r\n",
                ",0.000000001\r\n",
            ),
            (Reply::Bool(true), ":1\r\n", "#t\r\n"),
            (Reply::BigNumber(b"12".to_vec()), "$2\r\n12\r\n", "(12\r\n"),
            (verbatim, "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
        ] {
            for (protocol, expected) in [(Protocol::Resp2, resp2), (Protocol::Resp3, resp3)] {
                let mut out = Vec::new();
                encode(&reply, protocol, &mut out);
                assert_eq!(
                    String::from_utf8_lossy(&out),
                    expected,
                    "{reply:?} {protocol:?}"
                );
            }
        }
    }
}
