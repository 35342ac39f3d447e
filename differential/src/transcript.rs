//! The text form of a conversation with a server, with its parser and writer.
//!
//! | line | meaning |
//! |---|---|
//! | `> SET k "a b"` | sends a request and reads its reply; quoting as in `redis-cli` |
//! | `~> KEYS *` | the same, members of the reply in any order |
//! | `>> EVAL ...` | sends a request; its reply is read where `<` lines stand later |
//! | `= "*1\r\n$4\r\nPI"` | sends raw bytes; what comes back is read until there is silence |
//! | `< +OK` | one line of a reply; `{*}` stands for anything in the line |
//! | `\| +OK` | what the double answers instead, after `% known:` |
//! | `! closed` | the server ends the connection |
//! | `@ +101ms` | time passes |
//! | `# text` | a comment |
//! | `% real: no, why` | the file is for the double alone |
//! | `% real: skip time, why` | the real server is left at the first `@` |
//! | `% double: no, why` | the file is for the real server alone, until the double can do it |
//! | `% known: name` | the double differs in the next reply, see [`super::KNOWN`] |
//!
//! `{id 2}` in a request is the number that CLIENT ID answers connection 2, which is asked for it when it is
//! first needed.
//!
//! A number before `>`, `=`, `<`, `|` or `!` names the connection; without one it is the first.

use std::{collections::BTreeMap, fmt, fs, io, path::Path, time::Duration};

/// A conversation.
#[derive(Clone, Debug)]
pub struct Transcript {
    /// Name of its file, relative to the folder of all transcripts.
    pub name: String,
    pub(super) real: Real,
    /// Reason why the double does not play it, if there is one.
    pub(super) not_on_double: Option<String>,
    pub(super) steps: Vec<Step>,
}

/// True if a real server can play it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Real {
    Whole,
    UntilTimePasses,
    Never,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Comments, directives, empty lines.
    Text(String),
    Known(String),
    Send(Send),
    /// Output that is expected from a connection at this point.
    Expect(Expect),
    Advance(Duration),
}

#[derive(Clone, Debug)]
pub(super) struct Send {
    pub(super) line: String,
    pub(super) connection: u32,
    pub(super) bytes: Vec<u8>,
    pub(super) read: Read,
}

/// What to read after something was sent, when replies are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    One,
    OneUnordered,
    Nothing,
    All,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Expect {
    pub(super) connection: u32,
    pub(super) unordered: bool,
    pub(super) known: Option<String>,
    pub(super) lines: Vec<String>,
    /// Lines of the double, if it differs.
    pub(super) double: Vec<String>,
    pub(super) closed: bool,
}

/// A file that is not a valid transcript.
#[derive(Debug, thiserror::Error)]
#[error("{name}:{line}: {problem}")]
pub struct MalformedTranscript {
    name: String,
    line: usize,
    problem: String,
}

impl Transcript {
    /// Reads all transcripts below a folder, sorted by name.
    ///
    /// # Errors
    /// If a file cannot be read or is malformed.
    pub fn read_all(folder: &Path) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for group in fs::read_dir(folder)? {
            let group = group?.path();
            if !group.is_dir() {
                continue;
            }
            for file in fs::read_dir(&group)? {
                let file = file?.path();
                if file.extension().is_some_and(|extension| extension == "txt") {
                    let name = file.strip_prefix(folder).unwrap_or(&file);
                    let name = name.to_string_lossy().replace('\\', "/");
                    let text = fs::read_to_string(&file)?;
                    found.push(Self::parse(&name, &text).map_err(io::Error::other)?);
                }
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Reads one transcript.
    ///
    /// # Errors
    /// If a line is invalid.
    pub fn parse(name: &str, text: &str) -> Result<Self, MalformedTranscript> {
        let mut transcript = Self {
            name: name.to_owned(),
            real: Real::Whole,
            not_on_double: None,
            steps: Vec::new(),
        };
        for (at, line) in text.lines().enumerate() {
            transcript
                .line(line)
                .map_err(|problem| MalformedTranscript {
                    name: name.to_owned(),
                    line: at + 1,
                    problem,
                })?;
        }
        Ok(transcript)
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let connection = if digits == 0 {
            1
        } else {
            line[..digits].parse().map_err(|_| "bad connection")?
        };
        let rest = &line[digits..];
        let (sign, rest) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let read = match sign {
            "" | "#" => {
                self.steps.push(Step::Text(line.to_owned()));
                return Ok(());
            }
            "%" => return self.directive(line, rest),
            "@" => {
                let by = rest.strip_prefix('+').and_then(|by| by.strip_suffix("ms"));
                let by = by.and_then(|by| by.parse().ok());
                let by = by.ok_or("time passes as in `@ +101ms`")?;
                self.steps.push(Step::Advance(Duration::from_millis(by)));
                return Ok(());
            }
            "<" | "|" | "!" => {
                let expect = self.expectation(connection);
                match sign {
                    "<" => expect.lines.push(rest.to_owned()),
                    "|" => expect.double.push(rest.to_owned()),
                    _ => expect.closed = true,
                }
                return Ok(());
            }
            ">" => Read::One,
            "~>" => Read::OneUnordered,
            ">>" => Read::Nothing,
            "=" => Read::All,
            _ => return Err(format!("a line cannot begin with `{sign}`")),
        };
        let words = split(rest).ok_or("unbalanced quotes")?;
        self.steps.push(Step::Send(Send {
            line: line.to_owned(),
            connection,
            bytes: bytes_of(&words, read),
            read,
        }));
        Ok(())
    }

    fn directive(&mut self, line: &str, rest: &str) -> Result<(), String> {
        if let Some(name) = rest.strip_prefix("known: ") {
            self.steps.push(Step::Known(name.to_owned()));
            return Ok(());
        }
        let why = |text: &str| text.strip_prefix(", ").is_some_and(|why| why.len() > 10);
        if let Some(reason) = rest.strip_prefix("double: no").filter(|text| why(text)) {
            self.not_on_double = Some(reason.trim_start_matches(", ").to_owned());
            self.steps.push(Step::Text(line.to_owned()));
            return Ok(());
        }
        self.real = match rest.strip_prefix("real: ") {
            Some(text) if text.strip_prefix("skip time").is_some_and(why) => Real::UntilTimePasses,
            Some(text) if text.strip_prefix("no").is_some_and(why) => Real::Never,
            _ => {
                return Err(format!(
                    "unknown directive, or directive without a reason: {rest}"
                ));
            }
        };
        self.steps.push(Step::Text(line.to_owned()));
        Ok(())
    }

    /// Returns the latest expectation, or adds one.
    fn expectation(&mut self, connection: u32) -> &mut Expect {
        let known = match self.steps.iter().rev().nth(1) {
            Some(Step::Known(name)) => Some(name.clone()),
            _ => None,
        };
        let unordered = match self.steps.last() {
            Some(Step::Send(send)) => send.read == Read::OneUnordered,
            _ => false,
        };
        if !matches!(self.steps.last(), Some(Step::Expect(expect)) if expect.connection == connection)
        {
            self.steps.push(Step::Expect(Expect {
                connection,
                unordered,
                known,
                ..Expect::default()
            }));
        }
        match self.steps.last_mut() {
            Some(Step::Expect(expect)) => expect,
            _ => unreachable!("an expectation was pushed if there was none"),
        }
    }

    /// Returns true if it is played on this kind of server.
    pub(super) fn is_for(&self, real: bool) -> bool {
        if real {
            self.real != Real::Never
        } else {
            self.not_on_double.is_none()
        }
    }

    /// Returns the reason why the double does not play it, if there is one.
    pub fn not_on_double(&self) -> Option<&str> {
        self.not_on_double.as_deref()
    }

    /// Returns the number of its requests.
    pub fn requests(&self) -> usize {
        let sends = self
            .steps
            .iter()
            .filter(|step| matches!(step, Step::Send(_)));
        sends.count()
    }

    /// Returns the names of commands that are sent as separate requests, in lower case, each also with the
    /// next word, which may be a subcommand.
    pub fn commands(&self) -> impl Iterator<Item = String> {
        let sends = self.steps.iter().filter_map(|step| match step {
            Step::Send(send) => Some(send),
            Step::Text(_) | Step::Known(_) | Step::Expect(_) | Step::Advance(_) => None,
        });
        sends.flat_map(|send| {
            let words = match send.read {
                // Raw bytes are included if they are an inline request.
                Read::All => split(String::from_utf8_lossy(&send.bytes).trim_end()),
                Read::One | Read::OneUnordered | Read::Nothing => {
                    send.line.split_once(' ').and_then(|(_, line)| split(line))
                }
            };
            let mut words = words.into_iter().flatten();
            let mut word = || {
                let word = words.next()?;
                Some(String::from_utf8_lossy(&word).to_lowercase())
            };
            let name = word();
            let with_subcommand = name.as_ref().zip(word()).map(|(a, b)| format!("{a} {b}"));
            name.into_iter().chain(with_subcommand)
        })
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                Step::Text(line) => writeln!(f, "{line}")?,
                Step::Known(name) => writeln!(f, "% known: {name}")?,
                Step::Send(send) => writeln!(f, "{}", send.line)?,
                Step::Advance(by) => writeln!(f, "@ +{}ms", by.as_millis())?,
                Step::Expect(expect) => {
                    let prefix = match expect.connection {
                        1 => String::new(),
                        other => other.to_string(),
                    };
                    for line in &expect.lines {
                        writeln!(f, "{}", format!("{prefix}< {line}").trim_end())?;
                    }
                    for line in &expect.double {
                        writeln!(f, "{}", format!("{prefix}| {line}").trim_end())?;
                    }
                    if expect.closed {
                        writeln!(f, "{prefix}! closed")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Encodes a request as clients do.
pub(super) fn multibulk(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Splits a line as `redis-cli` does, with one addition: `"x"*100` repeats the quoted text.
pub(super) fn split(line: &str) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches(' ').as_bytes();
    while let Some(&first) = rest.first() {
        let mut word = Vec::new();
        if first == b'"' {
            rest = &rest[1..];
            loop {
                match rest {
                    [b'"', tail @ ..] => {
                        rest = tail;
                        break;
                    }
                    [b'\\', b'x', high, low, tail @ ..] => {
                        let digits = [*high, *low];
                        let digits = std::str::from_utf8(&digits).ok()?;
                        word.push(u8::from_str_radix(digits, 16).ok()?);
                        rest = tail;
                    }
                    [b'\\', escaped, tail @ ..] => {
                        word.push(match escaped {
                            b'n' => b'\n',
                            b'r' => b'\r',
                            b't' => b'\t',
                            other => *other,
                        });
                        rest = tail;
                    }
                    [byte, tail @ ..] => {
                        word.push(*byte);
                        rest = tail;
                    }
                    [] => return None,
                }
            }
            if let [b'*', tail @ ..] = rest {
                let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
                word = word.repeat(std::str::from_utf8(&tail[..digits]).ok()?.parse().ok()?);
                rest = &tail[digits..];
            }
            if !matches!(rest, [] | [b' ', ..]) {
                return None;
            }
        } else {
            let end = rest
                .iter()
                .position(|byte| *byte == b' ')
                .unwrap_or(rest.len());
            word.extend(&rest[..end]);
            rest = &rest[end..];
        }
        words.push(word);
        let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
        rest = &rest[spaces..];
    }
    Some(words)
}

fn bytes_of(words: &[Vec<u8>], read: Read) -> Vec<u8> {
    if read == Read::All {
        words.concat()
    } else {
        multibulk(words)
    }
}

impl Send {
    /// Returns the connections whose ids the request contains.
    pub(super) fn named(&self) -> impl Iterator<Item = u32> {
        let parts = self.line.split("{id ").skip(1);
        parts.filter_map(|part| part.split_once('}')?.0.parse().ok())
    }

    /// Returns the bytes to send, with those ids filled in.
    pub(super) fn bytes_with(&self, ids: &BTreeMap<u32, String>) -> Vec<u8> {
        let mut line = self.line.clone();
        for (connection, id) in ids {
            line = line.replace(&format!("{{id {connection}}}"), id);
        }
        let words = line.split_once(' ').and_then(|(_, rest)| split(rest));
        bytes_of(&words.unwrap_or_default(), self.read)
    }
}

/// Returns the lines of a reply, with unprintable characters escaped.
pub(super) fn lines(reply: &[u8]) -> Vec<String> {
    let reply = reply.strip_suffix(b"\r\n").unwrap_or(reply);
    let mut lines = vec![Vec::new()];
    let mut rest = reply;
    while let Some((&byte, tail)) = rest.split_first() {
        if let [b'\r', b'\n', tail @ ..] = rest {
            lines.push(Vec::new());
            rest = tail;
            continue;
        }
        if let Some(line) = lines.last_mut() {
            line.push(byte);
        }
        rest = tail;
    }
    lines.iter().map(|line| escape(line)).collect()
}

fn escape(line: &[u8]) -> String {
    let mut text = String::new();
    for (at, &byte) in line.iter().enumerate() {
        let last = at + 1 == line.len();
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'{' if line[at..].starts_with(b"{*}") => text.push_str("\\x7b"),
            b' ' if last => text.push_str("\\x20"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// Returns true if a line matches a `<` line, in which `{*}` stands for anything.
pub(super) fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split("{*}");
    let Some(rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    let mut rest = rest;
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_redis_cli_does() {
        let words = split(r#"SET  "a b\x00\n" x"y "*"*3"#).expect("balanced");
        assert_eq!(words, [&b"SET"[..], b"a b\0\n", b"x\"y", b"***"]);
        assert_eq!(split("\"a"), None);
        assert_eq!(split("\"a\"b"), None);
    }

    #[test]
    fn a_request_names_connections() {
        let transcript =
            Transcript::parse("x", "2> CLIENT KILL ID {id 12}\n").expect("well formed");
        let Some(Step::Send(send)) = transcript.steps.first() else {
            panic!("a request");
        };
        assert_eq!(send.named().collect::<Vec<_>>(), [12]);
        let ids = BTreeMap::from([(12, "7".to_owned())]);
        let words = ["CLIENT", "KILL", "ID", "7"].map(|word| word.as_bytes().to_vec());
        assert_eq!(send.bytes_with(&ids), multibulk(&words));
    }

    #[test]
    fn a_wildcard_stands_for_anything_in_its_line() {
        for (pattern, line, expected) in [
            (":{*}", ":12", true),
            (":{*}", "+OK", false),
            ("{*}", "", true),
            ("a{*}b{*}c", "a1b2c", true),
            ("a{*}b{*}c", "a1c", false),
            ("ab{*}b", "ab", false),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, line), expected, "{pattern} {line}");
        }
    }

    #[test]
    fn text_is_written_as_it_was_read() {
        let text = "# a case\n> SET k v\n< +OK\n\n@ +5ms\n2~> KEYS *\n2< *1\n2< $1\n2< k\n% known: x\n> GET k\n< $-1\n| +no\n= \"PING\\r\\n\"\n< +PONG\n! closed\n";
        let transcript = Transcript::parse("x", text).expect("well formed");
        assert_eq!(transcript.to_string(), text);
        assert_eq!(transcript.requests(), 4);
        assert!(Transcript::parse("x", "? what").is_err());
        assert!(Transcript::parse("x", "% real: no").is_err(), "no reason");
    }
}
