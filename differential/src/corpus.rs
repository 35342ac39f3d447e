//! The text form of sequences with the replies of a server. It has the lines of a transcript, so a case can
//! become a transcript.

use super::{
    sequence::{Difference, Output, Played, Step},
    transcript::{lines, split},
};
use std::fmt::Write as _;

fn quoted(arg: &[u8]) -> String {
    let plain = !arg.is_empty()
        && arg
            .iter()
            .all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(byte));
    if plain {
        return String::from_utf8_lossy(arg).into_owned();
    }
    let mut text = String::from("\"");
    for byte in arg {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(*byte)]),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => {
                let _infallible = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text.push('"');
    text
}

fn prefix(connection: u32) -> String {
    match connection {
        1 => String::new(),
        other => other.to_string(),
    }
}

fn write_outputs(outputs: &[Output], sign: char, text: &mut String) {
    for output in outputs {
        let prefix = prefix(output.connection);
        for line in lines(&output.reply) {
            let _infallible = writeln!(text, "{}", format!("{prefix}{sign} {line}").trim_end());
        }
    }
}

/// Formats a sequence with its replies as a transcript.
pub fn transcript(played: &Played) -> String {
    let mut text = String::new();
    for (step, outputs) in &played.steps {
        let words: Vec<String> = step.request.iter().map(|arg| quoted(arg)).collect();
        let is_answered = outputs.iter().any(|it| it.connection == step.connection);
        let sign = match (step.is_held, is_answered) {
            (true, _) => "+>",
            (false, true) => ">",
            (false, false) => ">>",
        };
        let prefix = prefix(step.connection);
        let _infallible = writeln!(text, "{prefix}{sign} {}", words.join(" "));
        write_outputs(outputs, '<', &mut text);
    }
    text
}

impl Difference {
    /// Formats the difference as a transcript: output of the real server starts with `<`, the double's output
    /// after the last request with `|`.
    pub fn transcript(&self) -> String {
        let mut text = transcript(&self.real);
        write_outputs(&self.double, '|', &mut text);
        if self.double.is_empty() {
            text.push_str("# the double sends nothing\n");
        }
        text
    }
}

/// Formats recorded sequences as one text.
pub fn write_corpus(recorded: &[Played]) -> String {
    let mut text = String::from(
        "# Generated requests with the replies of a real server; UPDATE=1 records them anew.\n",
    );
    for played in recorded {
        let _infallible = writeln!(
            text,
            "\n# seed {} at {} for {}",
            played.seed, played.at_ms, played.took_ms
        );
        text.push_str(&transcript(played));
    }
    text
}

/// Reads the result of [`write_corpus`], or a transcript of that form; `None` if it is malformed.
pub fn parse_corpus(text: &str) -> Option<Vec<Played>> {
    let mut recorded: Vec<Played> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix('#') {
            if let Some(head) = comment.strip_prefix(" seed ") {
                let (seed, times) = head.split_once(" at ")?;
                let (at_ms, took_ms) = times.split_once(" for ")?;
                recorded.push(Played {
                    seed: seed.parse().ok()?,
                    at_ms: at_ms.parse().ok()?,
                    took_ms: took_ms.parse().ok()?,
                    steps: Vec::new(),
                });
            }
            continue;
        }
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let connection = if digits == 0 {
            1
        } else {
            line[..digits].parse().ok()?
        };
        let line = &line[digits..];
        let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
        if matches!(sign, ">" | ">>" | "~>" | "+>") {
            if recorded.is_empty() {
                recorded.push(Played {
                    seed: 0,
                    at_ms: 0,
                    took_ms: 0,
                    steps: Vec::new(),
                });
            }
            let step = Step {
                connection,
                request: split(rest)?,
                is_held: sign == "+>",
            };
            recorded.last_mut()?.steps.push((step, Vec::new()));
            continue;
        }
        let (_, outputs) = recorded.last_mut()?.steps.last_mut()?;
        match sign {
            "<" => add_line(outputs, connection, &unescape(rest)?),
            "|" => {}
            _ => return None,
        }
    }
    Some(recorded)
}

/// Adds a line to the reply that it continues, or starts a new reply.
fn add_line(outputs: &mut Vec<Output>, connection: u32, line: &[u8]) {
    let is_whole = |reply: &[u8]| super::frame::reply_len(reply) == Some(reply.len());
    match outputs.last_mut() {
        Some(output) if output.connection == connection && !is_whole(&output.reply) => {
            output.reply.extend(line);
        }
        _ => outputs.push(Output {
            connection,
            reply: line.to_vec(),
        }),
    }
    if let Some(output) = outputs.last_mut() {
        output.reply.extend(b"\r\n");
    }
}

fn unescape(line: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = line.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = match (byte, tail) {
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
                tail
            }
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            _ => {
                bytes.push(byte);
                tail
            }
        };
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corpus_is_read_as_it_was_written() {
        let replies: [&[u8]; 6] = [
            b"+OK\r\n",
            b"$4\r\n\r\n \\\r\n",
            b"*1\r\n$1\r\n{\r\n",
            b"$0\r\n\r\n",
            b"$2\r\n x\r\n",
            b"$5\r\n\r\n\r\n\xff\r\n",
        ];
        let args: [&[u8]; 5] = [b"", b"a b", b"\"\\\xff", b"SET", b"\r\n"];
        let outputs = |at: usize| {
            let output = |n: usize| Output {
                connection: 1 + ((at + n) % 3) as u32,
                reply: replies[(at + n) % replies.len()].to_vec(),
            };
            (0..at % 4).map(output).collect::<Vec<_>>()
        };
        let step = |at: usize| Step {
            connection: 1 + (at % 2) as u32,
            request: vec![b"SET".to_vec(), args[at % args.len()].to_vec()],
            is_held: at.is_multiple_of(3),
        };
        let recorded = [3, 4].map(|seed| Played {
            seed,
            at_ms: -5,
            took_ms: 7,
            steps: (0..40).map(|at| (step(at), outputs(at))).collect(),
        });
        let read = parse_corpus(&write_corpus(&recorded)).expect("well formed");
        assert_eq!(read.len(), 2);
        for (read, written) in read.iter().zip(&recorded) {
            assert_eq!((read.seed, read.at_ms, read.took_ms), (written.seed, -5, 7));
            assert_eq!(read.steps, written.steps);
        }
    }
}
