//! A history in lanes: one column per actor and one for the servers. Time runs downwards.

use crate::{
    checker::Witness,
    history::{Actor, Belief, History, Moment, PROBE_HOST},
    report::{Lane, Note, notes_told, time},
};
use std::{
    collections::BTreeSet,
    io::{self, Write},
};

/// Smallest and largest width of a lane, and of all lanes together.
const LANE_MIN: usize = 6;
const LANE_MAX: usize = 40;
const ALL_MAX: usize = 150;

/// Writes a history in lanes.
///
/// A bar marks belief; two bars in a line mean that two clients believe that they hold the lock. A leading
/// exclamation mark marks events while the property was broken.
///
/// # Errors
/// If `out` does.
pub fn lanes(out: &mut impl Write, history: &History, witness: Option<&Witness>) -> io::Result<()> {
    let notes = notes_told(history);
    let lanes: BTreeSet<Lane> = notes.iter().map(|note| note.lane).collect();
    let lanes: Vec<Lane> = lanes.into_iter().filter(|lane| !is_probe(*lane)).collect();
    let sheet = Sheet {
        beliefs: history.beliefs(),
        widths: lanes
            .iter()
            .map(|lane| width(*lane, &notes, lanes.len()))
            .collect(),
        lanes,
        wrong: witness.filter(|witness| witness.at != Moment::NEVER),
    };
    writeln!(out, "{}", sheet.head())?;
    let mut last = None;
    for note in notes.iter().take_while(|note| !is_probe(note.lane)) {
        let repeated = last.replace(note.at.at) == Some(note.at.at);
        for line in sheet.rows(note, repeated) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

const fn is_probe(lane: Lane) -> bool {
    matches!(
        lane,
        Lane::Client(Actor {
            host: PROBE_HOST,
            ..
        })
    )
}

fn width(lane: Lane, notes: &[Note], lanes: usize) -> usize {
    let mine = notes.iter().filter(|note| note.lane == lane);
    let longest = mine.map(|note| note.text.chars().count()).max();
    let most = (ALL_MAX / lanes.max(1)).clamp(LANE_MIN + 8, LANE_MAX);
    longest.unwrap_or(0).clamp(LANE_MIN, most)
}

struct Sheet<'a> {
    lanes: Vec<Lane>,
    widths: Vec<usize>,
    beliefs: Vec<Belief>,
    wrong: Option<&'a Witness>,
}

impl Sheet<'_> {
    fn head(&self) -> String {
        let mut head = format!("    {:>10} ", "");
        for (lane, width) in self.lanes.iter().zip(&self.widths) {
            let title = match lane {
                Lane::Client(actor) => actor.to_string(),
                Lane::Server => "server stores".to_owned(),
            };
            head.push_str(&format!("   {title:width$}"));
        }
        head.trim_end().to_owned()
    }

    fn rows(&self, note: &Note, repeated: bool) -> Vec<String> {
        let place = self.lanes.iter().position(|lane| *lane == note.lane);
        let Some(place) = place else {
            return Vec::new();
        };
        let texts = wrapped(&note.text, self.widths[place]);
        let rows = texts.iter().enumerate().map(|(row, text)| {
            let at = if repeated || row > 0 {
                String::new()
            } else {
                time(note.at.at)
            };
            let sign = if self.is_wrong(note) { '!' } else { ' ' };
            let mut line = format!("  {sign} {at:>10} ");
            for (other, (lane, width)) in self.lanes.iter().zip(&self.widths).enumerate() {
                let bar = if self.believes(*lane, note.at) {
                    '┃'
                } else {
                    ' '
                };
                let text = if other == place { text.as_str() } else { "" };
                line.push_str(&format!(" {bar} {text:width$}"));
            }
            line.trim_end().to_owned()
        });
        rows.collect()
    }

    fn is_wrong(&self, note: &Note) -> bool {
        self.wrong.is_some_and(|witness| {
            let until = witness.until.unwrap_or(witness.at.at);
            witness.at <= note.at && note.at.at <= until
        })
    }

    fn believes(&self, lane: Lane, at: Moment) -> bool {
        let Lane::Client(actor) = lane else {
            return false;
        };
        let mut theirs = self.beliefs.iter().filter(|belief| belief.actor == actor);
        theirs.any(|belief| belief.from <= at && at < belief.to)
    }
}

/// Wraps a text to a width, between words if possible.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        loop {
            let last = lines.len() - 1;
            let used = lines[last].chars().count();
            let space = usize::from(used > 0);
            if used + space + word.len() <= width {
                let word: String = word.into_iter().collect();
                lines[last].push_str(&" ".repeat(space));
                lines[last].push_str(&word);
                break;
            }
            if used == 0 {
                lines[last] = word.drain(..width.max(1)).collect();
            }
            lines.push(String::new());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::hand_made::*;

    #[test]
    fn long_texts_are_wrapped_without_loss() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
        assert_eq!(wrapped("", 3), [""]);
    }

    #[test]
    fn two_bars_in_a_line_are_two_believers() {
        let history = history(vec![
            (0, tries(1, 0)),
            (0, granted(1, Some(9))),
            (1, tries(2, 1)),
            (2, granted(2, Some(9))),
        ]);
        let witness = Witness {
            at: history.moment(3),
            until: Some(s(9)),
            grants: vec![1, 2],
            message: String::new(),
        };
        let mut text = Vec::new();
        lanes(&mut text, &history, Some(&witness)).unwrap();
        let text = String::from_utf8(text).unwrap();
        let wrong: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("  !"))
            .collect();
        assert_eq!(wrong.len(), 1, "{text}");
        assert_eq!(wrong[0].matches('┃').count(), 2, "{text}");
    }
}
