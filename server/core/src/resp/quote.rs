//! Byte strings as quoted text, for MONITOR and for messages to users.

use super::OwnedRequest;
use std::fmt;

/// Appends `bytes` in double quotes, with escapes as `sds.c: sdscatrepr` writes them.
pub(crate) fn push_quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x07 => out.extend(b"\\a"),
            0x08 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend(format!("\\x{byte:02x}").bytes()),
        }
    }
    out.push(b'"');
}

/// The bytes in double quotes, as `redis-cli` prints them.
pub fn quoted(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    push_quoted(bytes, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The arguments as `redis-cli` accepts them: quoted where necessary.
impl fmt::Display for OwnedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
        let request = self.as_request();
        for (index, arg) in request
            .iter()
            .flat_map(|request| request.iter())
            .enumerate()
        {
            let mut text = Vec::new();
            match arg {
                plain if !plain.is_empty() && plain.iter().all(is_plain) => text.extend(plain),
                other => push_quoted(other, &mut text),
            }
            let gap = if index > 0 { " " } else { "" };
            write!(f, "{gap}{}", String::from_utf8_lossy(&text))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_request_is_written_as_it_is_typed() {
        let request = super::OwnedRequest::new([&b"SET"[..], b"a b", b"", b"x"]);
        assert_eq!(request.to_string(), r#"SET "a b" "" x"#);
    }

    #[test]
    fn bytes_are_quoted_as_redis_does() {
        let mut out = Vec::new();
        super::push_quoted(b"a\"\\\n\r\t\x07\x08\x00\xff~", &mut out);
        assert_eq!(out, b"\"a\\\"\\\\\\n\\r\\t\\a\\b\\x00\\xff~\"");
    }
}
