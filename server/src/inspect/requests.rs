//! Assertions about requests and their replies in order, and how they show a difference.

use crate::engine::glob_match;
use crate::history::Entry;
use crate::resp::Reply;
use crate::server::Server;
use std::fmt::Write as _;

/// Any number of requests, also none.
const ANYTHING: &str = "...";
/// Separator between a request and its reply.
const ARROW: &str = " -> ";

/// One expected line.
enum Pattern {
    Anything,
    Request(String),
    /// The whole line, with the reply.
    Answered(String),
}

impl Pattern {
    fn of(text: &str) -> Self {
        let text = text.trim();
        match text {
            ANYTHING => Self::Anything,
            _ if text.contains(ARROW) => Self::Answered(text.to_owned()),
            _ => Self::Request(text.to_owned()),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Anything => ANYTHING,
            Self::Request(text) | Self::Answered(text) => text,
        }
    }

    fn fits(&self, line: &Line) -> bool {
        match self {
            Self::Anything => true,
            Self::Request(text) => fits(text, &line.request) || fits(text, &line.shown),
            Self::Answered(text) => {
                let full = format!("{}{ARROW}{}", line.request, line.reply);
                fits(text, &full) || fits(text, &line.to_string())
            }
        }
    }
}

/// True if a pattern matches a line, or is the very line.
fn fits(pattern: &str, line: &str) -> bool {
    pattern == line || glob_match(pattern.as_bytes(), line.as_bytes())
}

/// A request and its reply, as texts.
struct Line {
    /// With all of its script.
    request: String,
    /// With its script cut.
    shown: String,
    reply: String,
}

impl Line {
    fn of(entry: &Entry) -> Self {
        let waits = || "(waits)".to_owned();
        Self {
            request: entry.request.to_string(),
            shown: entry.request.shortened(),
            reply: entry.reply.as_ref().map_or_else(waits, Reply::to_string),
        }
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{ARROW}{}", self.shown, self.reply)
    }
}

/// An alignment of two sequences with the fewest lines that only one of them has: the number of such
/// lines that follow, by place in both.
struct Alignment {
    costs: Vec<u32>,
    width: usize,
}

impl Alignment {
    fn of(patterns: &[Pattern], lines: &[Line]) -> Self {
        let width = lines.len() + 1;
        let mut all = Self {
            costs: vec![0; width * (patterns.len() + 1)],
            width,
        };
        for at in (0..=patterns.len()).rev() {
            for line in (0..width).rev() {
                let cost = match (patterns.get(at), lines.get(line)) {
                    (None, _) => (lines.len() - line) as u32,
                    (Some(Pattern::Anything), None) => all.cost(at + 1, line),
                    (Some(Pattern::Anything), Some(_)) => {
                        all.cost(at + 1, line).min(all.cost(at, line + 1))
                    }
                    (Some(_), None) => 1 + all.cost(at + 1, line),
                    (Some(pattern), Some(found)) => {
                        let without = all.cost(at + 1, line).min(all.cost(at, line + 1)) + 1;
                        if pattern.fits(found) {
                            all.cost(at + 1, line + 1).min(without)
                        } else {
                            without
                        }
                    }
                };
                all.costs[at * width + line] = cost;
            }
        }
        all
    }

    fn cost(&self, pattern: usize, line: usize) -> u32 {
        self.costs[pattern * self.width + line]
    }

    /// All lines, those that are missing (`-`) and those that were not expected (`+`).
    fn diff(&self, patterns: &[Pattern], lines: &[Line]) -> String {
        let (mut at, mut line) = (0, 0);
        let mut text = String::new();
        loop {
            let cost = self.cost(at, line);
            let (sign, shown) = match (patterns.get(at), lines.get(line)) {
                (None, None) => return text,
                (Some(Pattern::Anything), found) => {
                    if self.cost(at + 1, line) == cost {
                        at += 1;
                        continue;
                    }
                    line += 1;
                    (' ', found.map(Line::to_string))
                }
                (Some(pattern), Some(found))
                    if pattern.fits(found) && self.cost(at + 1, line + 1) == cost =>
                {
                    (at, line) = (at + 1, line + 1);
                    (' ', Some(found.to_string()))
                }
                (Some(pattern), _) if self.cost(at + 1, line) + 1 == cost => {
                    at += 1;
                    ('-', Some(pattern.text().to_owned()))
                }
                (_, found) => {
                    line += 1;
                    ('+', found.map(Line::to_string))
                }
            };
            let _infallible = writeln!(text, "  {sign} {}", shown.unwrap_or_default());
        }
    }
}

impl Server {
    /// Asserts the requests and replies, oldest first: a line for each request, as `redis-cli` would
    /// take it, with its reply behind ` -> ` where that matters (`OK`, `7`, `text`, `(nil)`, `-ERR text`,
    /// `[1 2]`). Lines are patterns as those of KEYS; `...` stands for any number of requests. A script
    /// may be written in full or as the [history](crate::History) prints it. `CLIENT SETINFO`, which
    /// client libraries send by themselves, is left out. Needs a history
    /// ([`ServerBuilder::history`](crate::ServerBuilder::history)).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use redis::AsyncTypedCommands;
    ///
    /// let server = redouble::Server::builder().history(100).start().await?;
    /// let mut redis = server.connection().await?;
    /// redis.set_nx("lock", "3f2a").await?;
    /// redis.get("other").await?;
    /// redis.del("lock").await?;
    /// server.assert_history(["SETNX lock * -> 1", "...", "DEL lock -> 1"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// If the requests or replies were others, with a line for each difference; or if no history was kept.
    #[track_caller]
    pub fn assert_history<P: AsRef<str>>(&self, expected: impl IntoIterator<Item = P>) {
        let history = self.history();
        assert!(
            history.is_on(),
            "no history was kept: Server::builder().history(100)"
        );
        let expected = expected.into_iter();
        let expected: Vec<Pattern> = expected.map(|line| Pattern::of(line.as_ref())).collect();
        let found = history.entries().map(Line::of);
        let found = found.filter(|line| !line.request.starts_with("CLIENT SETINFO "));
        let found: Vec<Line> = found.collect();
        let alignment = Alignment::of(&expected, &found);
        assert!(
            alignment.cost(0, 0) == 0,
            "the history:\n{}  (- expected and missing, + found and not expected)",
            alignment.diff(&expected, &found)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(expected: &[&str], found: &[(&str, &str)]) -> (u32, String) {
        let expected: Vec<Pattern> = expected.iter().map(|text| Pattern::of(text)).collect();
        let line = |(request, reply): &(&str, &str)| Line {
            request: (*request).to_owned(),
            shown: (*request).to_owned(),
            reply: (*reply).to_owned(),
        };
        let found: Vec<Line> = found.iter().map(line).collect();
        let alignment = Alignment::of(&expected, &found);
        (alignment.cost(0, 0), alignment.diff(&expected, &found))
    }

    const FOUND: &[(&str, &str)] = &[("SET k 1", "OK"), ("GET k", "1"), ("DEL k", "1")];

    #[test]
    fn lines_are_patterns_and_dots_stand_for_any_of_them() {
        for expected in [
            &["SET k *", "GET k -> 1", "DEL ?"][..],
            &["..."],
            &["...", "GET *", "..."],
            &["...", "SET k 1", "GET k", "DEL k", "..."],
            &["SET * -> OK", "...", "DEL k -> [0-9]"],
        ] {
            assert_eq!(diff(expected, FOUND).0, 0, "{expected:?}");
        }
        for expected in [
            &[][..],
            &["SET k 1", "GET k"],
            &["GET k", "...", "SET k 1"],
            &["SET k 1 -> (nil)", "..."],
            &["...", "DEL k", "GET k"],
        ] {
            assert_ne!(diff(expected, FOUND).0, 0, "{expected:?}");
        }
        assert_eq!(diff(&["..."], &[]).0, 0);
    }

    #[test]
    fn a_difference_stands_where_it_is() {
        let (cost, text) = diff(&["SET k *", "EXPIRE k 10", "...", "DEL k -> 0"], FOUND);
        assert_eq!(cost, 2);
        assert_eq!(
            text,
            "    SET k 1 -> OK\n  - EXPIRE k 10\n    GET k -> 1\n    DEL k -> 1\n  - DEL k -> 0\n"
        );
    }
}
