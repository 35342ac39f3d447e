//! Numbers of bytes as operators write them.

/// A number of bytes with an optional unit (`util.c: memtoull`).
pub(crate) fn parse_memory(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit = match &text[digits..].to_ascii_lowercase()[..] {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1024,
        b"m" => 1_000_000,
        b"mb" => 1024 * 1024,
        b"g" => 1_000_000_000,
        b"gb" => 1024 * 1024 * 1024,
        _ => return None,
    };
    let number = std::str::from_utf8(&text[..digits]).ok()?;
    let number: u64 = match number {
        "" => 0,
        // Past 64 bits C takes the largest.
        number => number.parse().unwrap_or(u64::MAX),
    };
    Some(number.wrapping_mul(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_may_have_a_unit() {
        for (text, expected) in [
            ("", Some(0)),
            ("12", Some(12)),
            ("1kb", Some(1024)),
            ("2K", Some(2000)),
            ("1gB", Some(1 << 30)),
            ("99999999999999999999", Some(u64::MAX)),
            ("-1", None),
            ("1x", None),
        ] {
            assert_eq!(parse_memory(text.as_bytes()), expected, "{text}");
        }
    }
}
