//! Replies and requests in one line each, for people: histories, assertions, messages.

use super::quote::push_quoted;
use super::{ErrorReply, OwnedRequest, Reply};
use std::fmt;

/// Characters of a script that a line of a history shows.
const SCRIPT_CHARS_MAX: usize = 32;

/// In one line: `OK`, `7`, `text`, `(nil)`, `-ERR text`, `[1 2]`; maps are flat, as in RESP2.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("OK"),
            Self::Static(text) => f.write_str(text),
            Self::Nil | Self::NilArray => f.write_str("(nil)"),
            Self::Int(number) => write!(f, "{number}"),
            Self::Double(number) | Self::ShortDouble(number) | Self::Decimal(number) => {
                write!(f, "{number}")
            }
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Bulk(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Self::Raw(bytes) => write!(f, "({} bytes)", bytes.len()),
            Self::Status(text) | Self::BigNumber(text) | Self::Verbatim { text, .. } => {
                f.write_str(&String::from_utf8_lossy(text))
            }
            Self::Error(error) => write!(f, "-{error}"),
            Self::Array(items) | Self::Set(items) | Self::Push(items) => list(f, items),
            Self::Map(pairs) | Self::Pairs(pairs) | Self::Streams(pairs) => {
                list(f, pairs.iter().flat_map(|(key, value)| [key, value]))
            }
            Self::Several(frames) => separated(f, frames),
            Self::Attributed { reply, .. } | Self::Earlier { reply, .. } => reply.fmt(f),
        }
    }
}

fn list<'a>(f: &mut fmt::Formatter<'_>, items: impl IntoIterator<Item = &'a Reply>) -> fmt::Result {
    f.write_str("[")?;
    separated(f, items)?;
    f.write_str("]")
}

fn separated<'a>(
    f: &mut fmt::Formatter<'_>,
    items: impl IntoIterator<Item = &'a Reply>,
) -> fmt::Result {
    let mut gap = "";
    for item in items {
        write!(f, "{gap}{item}")?;
        gap = " ";
    }
    Ok(())
}

/// Code and text, as in `ERR no such key`.
impl fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for ErrorReply {}

impl OwnedRequest {
    /// The request as `redis-cli` would take it, except that a long script is cut and ends with `...`.
    pub fn shortened(&self) -> String {
        let is = |arg: Option<&[u8]>, names: &[&str]| {
            arg.is_some_and(|arg| {
                names
                    .iter()
                    .any(|name| arg.eq_ignore_ascii_case(name.as_bytes()))
            })
        };
        let Some(request) = self.as_request() else {
            return String::new();
        };
        let place = if is(request.arg(0), &["EVAL", "EVAL_RO"]) {
            1
        } else if is(request.arg(0), &["SCRIPT"]) && is(request.arg(1), &["LOAD"]) {
            2
        } else {
            return self.to_string();
        };
        let Some(script) = request.arg(place) else {
            return self.to_string();
        };
        let text = String::from_utf8_lossy(script);
        let Some((end, _)) = text.char_indices().nth(SCRIPT_CHARS_MAX) else {
            return self.to_string();
        };
        let mut line = Vec::new();
        for (index, arg) in request.iter().enumerate() {
            if index > 0 {
                line.push(b' ');
            }
            if index == place {
                push_quoted(&[&text.as_bytes()[..end], b"..."].concat(), &mut line);
            } else {
                line.extend(Self::new([arg]).to_string().bytes());
            }
        }
        String::from_utf8_lossy(&line).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_one_line_each() {
        let pair = || (Reply::bulk("a"), Reply::Int(1));
        for (reply, line) in [
            (Reply::Ok, "OK"),
            (Reply::Static("PONG"), "PONG"),
            (Reply::Status(b"OK".to_vec()), "OK"),
            (Reply::Nil, "(nil)"),
            (Reply::NilArray, "(nil)"),
            (Reply::Int(-7), "-7"),
            (Reply::Double(1.5), "1.5"),
            (Reply::Bool(true), "true"),
            (Reply::bulk("a b"), "a b"),
            (Reply::error("ERR no such key"), "-ERR no such key"),
            (Reply::Array(vec![Reply::Int(1), Reply::Nil]), "[1 (nil)]"),
            (Reply::Array(vec![Reply::Array(Vec::new())]), "[[]]"),
            (Reply::Map(vec![pair(), pair()]), "[a 1 a 1]"),
            (Reply::Several(vec![Reply::Ok, Reply::Int(2)]), "OK 2"),
        ] {
            assert_eq!(reply.to_string(), line);
        }
    }

    #[test]
    fn long_scripts_are_cut() {
        let line =
            |args: &[&str]| OwnedRequest::new(args.iter().map(|arg| arg.as_bytes())).shortened();
        let script = "if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end";
        assert_eq!(
            line(&["EVAL", script, "1", "a b"]),
            r#"EVAL "if redis.call('GET', KEYS[1]) ==..." 1 "a b""#
        );
        assert_eq!(
            line(&["script", "Load", script]),
            r#"script Load "if redis.call('GET', KEYS[1]) ==...""#
        );
        assert_eq!(line(&["EVAL", "return 1", "0"]), r#"EVAL "return 1" 0"#);
        assert_eq!(line(&["EVAL"]), "EVAL");
        let ae = "ä".repeat(40);
        assert!(line(&["EVAL", &ae, "0"]).ends_with("...\" 0"));
        assert_eq!(line(&["SET", "k", script]), format!("SET k \"{script}\""));
    }
}
