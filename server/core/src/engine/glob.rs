//! Glob patterns as `util.c: stringmatchlen` reads them: `*`, `?`, `[a-z]`, `[^a]`, `\x`.

/// A `*` after this many others matches nothing, unless it is the last element (`util.c:
/// stringmatchlen_impl`).
const STARS_MAX: usize = 1000;

/// Returns true if `text` matches `pattern`. Takes at most `O(pattern x text)` steps for any pattern.
pub fn glob_match(pattern: &[u8], text: &[u8]) -> bool {
    // Redis never enters its loop for an empty text; only KEYS and SCAN know `*` before that.
    if text.is_empty() {
        return pattern.is_empty() || pattern == b"*";
    }
    let (mut p, mut t) = (0, 0);
    // Position to retry from after a mismatch: after the last `*`, one byte further into the text.
    let mut retry: Option<(usize, usize)> = None;
    let mut stars = 0;
    loop {
        let step = match pattern.get(p) {
            Some(b'*') => {
                while pattern.get(p) == Some(&b'*') {
                    p += 1;
                }
                if p == pattern.len() {
                    return true;
                }
                stars += 1;
                if stars > STARS_MAX {
                    return false;
                }
                retry = Some((p, t));
                continue;
            }
            None if t == text.len() => return true,
            None => None,
            Some(_) => text.get(t).and_then(|byte| match_one(pattern, p, *byte)),
        };
        match (step, retry) {
            (Some(next), _) => {
                p = next;
                t += 1;
            }
            (None, Some((star, from))) if from < text.len() => {
                retry = Some((star, from + 1));
                (p, t) = (star, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Matches one byte against the pattern element at `p`; gives the position after the element.
fn match_one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match pattern[p] {
        b'?' => Some(p + 1),
        b'[' => {
            let mut at = p + 1;
            let negated = pattern.get(at) == Some(&b'^');
            at += usize::from(negated);
            let mut found = false;
            loop {
                match pattern.get(at..).unwrap_or_default() {
                    [b'\\', escaped, ..] => {
                        at += 1;
                        found |= *escaped == byte;
                    }
                    [b']', ..] => break,
                    // An unclosed class ends with the pattern.
                    [] => {
                        at -= 1;
                        break;
                    }
                    [low, b'-', high, ..] => {
                        at += 2;
                        found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                    }
                    [plain, ..] => found |= *plain == byte,
                }
                at += 1;
            }
            (found != negated).then_some(at + 1)
        }
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        literal => (literal == byte).then_some(p + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::glob_match;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("*", "", true),
            ("**", "", false),
            ("a*", "a", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a**c*", "acx", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]", "hb", true),
            ("h[c-a]", "hb", true),
            ("h[a-", "h-", true),
            ("h[a", "ha", true),
            ("h\\*", "h*", true),
            ("h\\*", "hx", false),
            ("[\\]]", "]", true),
            ("\\", "\\", true),
            ("a*b", "a", false),
            ("*a*b", "xxaxxb", true),
        ] {
            assert_eq!(
                glob_match(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern:?} {text:?}"
            );
        }
        let stars = |count: usize| "*a".repeat(count);
        assert!(glob_match(stars(1000).as_bytes(), &[b'a'; 1100]));
        assert!(!glob_match(stars(1001).as_bytes(), &[b'a'; 1100]));
        assert!(glob_match(
            format!("{}*", stars(1000)).as_bytes(),
            &[b'a'; 1100]
        ));
        assert!(!glob_match(
            "a*".repeat(50).as_bytes(),
            "a".repeat(49).as_bytes()
        ));
    }
}
