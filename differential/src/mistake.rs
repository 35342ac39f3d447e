//! Deliberate mistakes in valid requests.

use super::{
    generate::Draw,
    table::{Argument, Row},
    values::{ODD, is_whole},
};

/// A deliberate mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mistake {
    /// A missing argument.
    Missing,
    /// A surplus word.
    Surplus,
    /// A repeated option, or one that excludes another.
    Conflict,
    /// A value of the wrong type.
    Odd,
    /// Two swapped arguments.
    Swapped,
    /// A key of another type.
    WrongType,
}

impl Mistake {
    /// All kinds of mistakes.
    pub const ALL: [Self; 6] = [
        Self::Missing,
        Self::Surplus,
        Self::Conflict,
        Self::Odd,
        Self::Swapped,
        Self::WrongType,
    ];
}

/// More milliseconds than a sequence takes.
const SOON_MAX: u64 = 10_000;

impl Draw<'_, '_> {
    /// Makes a mistake in a request, if one fits; true if it did.
    pub(super) fn make_mistake(&mut self, row: &Row, request: &mut Vec<String>) -> bool {
        let words = row.name.split('|').count();
        let values = request.len() - words;
        let options: Vec<&Argument> = row.arguments.iter().filter(|it| it.optional).collect();
        let mistake = match self.source.below(8) {
            0 | 1 => Mistake::Missing,
            2 => Mistake::Surplus,
            3 | 4 if !options.is_empty() => Mistake::Conflict,
            5 => Mistake::Swapped,
            _ => Mistake::Odd,
        };
        let waits = row.waits();
        // A small number as a time to live would expire the key while the sequence is played.
        let is_soon = |word: &String| word.parse().is_ok_and(|n: u64| (1..SOON_MAX).contains(&n));
        let may_end = takes_a_time(row) && request[words..].iter().any(is_soon);
        let fits = match mistake {
            // Without a name the command would describe all items, without a count random ones.
            Mistake::Missing => values > 0 && !is_whole(row),
            Mistake::Surplus => true,
            // With a finite timeout a request that would wait forever waits for a while.
            Mistake::Conflict => !waits,
            Mistake::Odd | Mistake::WrongType => !waits && values > 0,
            Mistake::Swapped => !waits && values > 1 && !may_end,
        };
        if !fits {
            return false;
        }
        match mistake {
            Mistake::Missing => {
                let is_last = waits || self.source.percent(60);
                let at = if is_last {
                    values - 1
                } else {
                    self.source.below(values)
                };
                request.remove(words + at);
            }
            Mistake::Surplus => request.push(self.source.pick(&["surplus", ""]).to_owned()),
            Mistake::Conflict => {
                let option = options[self.source.below(options.len())];
                self.again(row, option, request);
            }
            Mistake::Odd | Mistake::WrongType => {
                let at = words + self.source.below(values);
                request[at] = self.source.pick(ODD).to_owned();
            }
            Mistake::Swapped => {
                let at = words + self.source.below(values - 1);
                request.swap(at, at + 1);
            }
        }
        self.made(mistake);
        true
    }
}

/// Returns true if one of the arguments is a time to live.
fn takes_a_time(row: &Row) -> bool {
    let mut names = row.each_argument().into_iter().map(|it| &*it.name);
    names.any(|name| matches!(name, "seconds" | "milliseconds" | "ttl"))
}
