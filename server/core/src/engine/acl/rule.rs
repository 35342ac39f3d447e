//! Why a rule is refused, and how a line of rules is split.

/// Why a rule is refused (`acl.c: ACLSetUserStringError`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleError {
    /// The command or category does not exist.
    Unknown,
    Syntax,
    /// A key pattern behind `~*`.
    KeysAfterAll,
    /// A channel pattern behind `&*`.
    ChannelsAfterAll,
    NoSuchPassword,
    InvalidHash,
    /// A subcommand has no first arguments.
    FirstArgOfSubcommand,
}

impl RuleError {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::KeysAfterAll => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::ChannelsAfterAll => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoSuchPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Self::InvalidHash => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::FirstArgOfSubcommand => "Allowing first-arg of a subcommand is not supported",
        }
    }
}

/// True if a name or pattern contains a space or a zero byte, which rules cannot express.
pub(super) fn has_spaces(text: &[u8]) -> bool {
    text.iter().any(|byte| is_space(*byte) || *byte == 0)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// The part of a text that C reads.
pub(super) fn c_text(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Joins selectors that stand in several arguments, such as `(+get` and `~a)`.
///
/// # Errors
/// The position of an opening parenthesis that is never closed.
pub(super) fn merge_selectors(args: &[&[u8]]) -> Result<Vec<Vec<u8>>, usize> {
    let mut merged = Vec::with_capacity(args.len());
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, arg) in args.iter().enumerate() {
        if arg.starts_with(b"(") && !arg.ends_with(b")") {
            open = Some((at, arg.to_vec()));
            continue;
        }
        match &mut open {
            None => merged.push(arg.to_vec()),
            Some((_, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(c_text(arg));
                if arg.ends_with(b")") {
                    merged.extend(open.take().map(|(_, selector)| selector));
                }
            }
        }
    }
    match open {
        Some((at, _)) => Err(at),
        None => Ok(merged),
    }
}

/// The words of a text, which may be quoted (`sds.c: sdssplitargs`); none if a quote is not closed.
pub(super) fn split_words(text: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut rest = c_text(text);
    loop {
        rest = &rest[rest.iter().take_while(|byte| is_space(**byte)).count()..];
        if rest.is_empty() {
            return words;
        }
        let Some((word, behind)) = first_word(rest) else {
            return Vec::new();
        };
        words.push(word);
        rest = behind;
    }
}

fn first_word(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut rest = text;
    loop {
        match rest {
            [] => return Some((word, rest)),
            [b'"', behind @ ..] => {
                rest = double_quoted(behind, &mut word)?;
                return ends_word(rest).then_some((word, rest));
            }
            [b'\'', behind @ ..] => {
                rest = single_quoted(behind, &mut word)?;
                return ends_word(rest).then_some((word, rest));
            }
            [space, ..] if is_space(*space) => return Some((word, rest)),
            [byte, behind @ ..] => {
                word.push(*byte);
                rest = behind;
            }
        }
    }
}

fn ends_word(rest: &[u8]) -> bool {
    rest.first().is_none_or(|byte| is_space(*byte))
}

fn double_quoted<'a>(mut text: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        text = match text {
            [] => return None,
            [b'"', behind @ ..] => return Some(behind),
            [b'\\', b'x', high, low, behind @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digits = [*high, *low];
                let byte = std::str::from_utf8(&digits).ok()?;
                word.push(u8::from_str_radix(byte, 16).ok()?);
                behind
            }
            [b'\\', escaped, behind @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                behind
            }
            [byte, behind @ ..] => {
                word.push(*byte);
                behind
            }
        };
    }
}

fn single_quoted<'a>(mut text: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        text = match text {
            [] => return None,
            [b'\'', behind @ ..] => return Some(behind),
            [b'\\', b'\'', behind @ ..] => {
                word.push(b'\'');
                behind
            }
            [byte, behind @ ..] => {
                word.push(*byte);
                behind
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_in_several_arguments_are_joined() {
        let merge = |line: &str| {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            merge_selectors(&args).map(|merged| {
                let texts = merged
                    .into_iter()
                    .map(|arg| String::from_utf8(arg).expect("UTF-8"));
                texts.collect::<Vec<_>>()
            })
        };
        let texts = |texts: &[&str]| Ok(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(
            merge("on (+get ~a) off"),
            texts(&["on", "(+get ~a)", "off"])
        );
        assert_eq!(merge("() (+get)"), texts(&["()", "(+get)"]));
        assert_eq!(merge(")"), texts(&[")"]));
        assert_eq!(merge("on ( +get"), Err(1));
    }

    #[test]
    fn words_may_be_quoted() {
        let split = |text: &str| {
            let words = split_words(text.as_bytes()).into_iter();
            words
                .map(|word| String::from_utf8_lossy(&word).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(split(" ~a \t+get "), ["~a", "+get"]);
        assert_eq!(split(r#""a b\x41\n" 'c\'d'"#), ["a bA\n", "c'd"]);
        assert_eq!(split(r#"a "b"#), Vec::<String>::new());
        assert_eq!(split(r#"a "b"c"#), Vec::<String>::new());
        assert_eq!(split(""), Vec::<String>::new());
    }
}
