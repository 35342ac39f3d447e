//! Short descriptions of messages on a link, derived from their first bytes.

/// Largest number of characters of an argument.
const ARGUMENT_MAX: usize = 14;
/// Largest number of arguments of a request.
const ARGUMENTS_MAX: usize = 5;

/// Describes a request: `SET lock 5f2a… PX 30000`.
pub(crate) fn request(head: &[u8]) -> String {
    let Some((words, whole)) = words(head) else {
        return shown(head);
    };
    let mut words: Vec<String> = words.into_iter().map(shown).collect();
    let more = words.len() > ARGUMENTS_MAX || !whole;
    words.truncate(ARGUMENTS_MAX);
    let dots = if more { " …" } else { "" };
    words.join(" ") + dots
}

/// Returns the arguments of the first array of bulk strings, as far as they are complete, and whether all
/// are.
fn words(head: &[u8]) -> Option<(Vec<&[u8]>, bool)> {
    let (count, mut rest) = line(head.strip_prefix(b"*")?)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let Some((length, after)) = rest.strip_prefix(b"$").and_then(line) else {
            return Some((words, false));
        };
        if after.len() < length + 2 {
            words.push(after);
            return Some((words, false));
        }
        words.push(&after[..length]);
        rest = &after[length + 2..];
    }
    Some((words, true))
}

/// Parses a number up to the end of its line, and returns the rest.
fn line(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let number = std::str::from_utf8(&bytes[..end]).ok()?.parse().ok()?;
    Some((number, &bytes[end + 2..]))
}

/// Describes one or several replies: `+OK`, `:1`, `nil`.
pub(crate) fn reply(head: &[u8]) -> String {
    let first = head.split(|&byte| byte == b'\r').next().unwrap_or(head);
    match first.split_first() {
        Some((b'_', _)) => "nil".to_owned(),
        Some((b'$' | b'*', b"-1")) => "nil".to_owned(),
        Some((b'$', _)) => {
            let text = head.split(|&byte| byte == b'\n').nth(1).unwrap_or(&[]);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            format!("\"{}\"", shown(text))
        }
        Some((b'*' | b'%' | b'~', count)) => format!("{} values", String::from_utf8_lossy(count)),
        Some((b'>', _)) => "push".to_owned(),
        Some((b'-', error)) => {
            let code = error.split(|&byte| byte == b' ').next().unwrap_or(error);
            format!("error {}", String::from_utf8_lossy(code))
        }
        Some(_) | None => shown(first),
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = bytes.escape_ascii().to_string();
    if text.len() <= ARGUMENT_MAX {
        return text;
    }
    text.chars().take(ARGUMENT_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_shown_in_words() {
        let set = b"*3\r\n$3\r\nSET\r\n$4\r\nlock\r\n$20\r\n0123456789abcdef0123\r\n";
        assert_eq!(request(set), "SET lock 0123456789abc…");
        assert_eq!(
            request(&set[..30]),
            "SET lock 01 …",
            "only its first bytes are known"
        );
        assert_eq!(request(b"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n"), "PING");
        assert_eq!(request(b"\xff\r\n"), "\\xff\\r\\n");
    }

    #[test]
    fn replies_are_shown_in_words() {
        for (bytes, text) in [
            (&b"+OK\r\n"[..], "+OK"),
            (b":1\r\n", ":1"),
            (b"$-1\r\n", "nil"),
            (b"_\r\n", "nil"),
            (b"$3\r\nabc\r\n", "\"abc\""),
            (b"*2\r\n:1\r\n:2\r\n", "2 values"),
            (b"-NOSCRIPT No matching script.\r\n", "error NOSCRIPT"),
            (b"", ""),
        ] {
            assert_eq!(reply(bytes), text);
        }
    }
}
