//! Scores and bounds of ranges in the form of requests. A range becomes a range of ranks.

use crate::command::CommandError;
use crate::engine::SortedSet;
use crate::resp::{Blob, is_out_of_range, parse_double};
use std::ops::Range;

/// Parses a score, or the weight of a key (`object.c: getDoubleFromObject`).
pub(super) fn double(text: &[u8]) -> Option<f64> {
    // C stops at a zero byte, but the argument continues.
    if text
        .first()
        .is_none_or(|byte| byte.is_ascii_whitespace() || *byte == 0x0b)
    {
        return None;
    }
    let value = parse_double(text)?;
    (!value.is_nan() && !is_out_of_range(text, value)).then_some(value)
}

pub(in crate::command) fn score(text: &[u8]) -> Result<f64, CommandError> {
    double(text).ok_or(CommandError::NotFloat)
}

/// One end of a range of scores.
#[derive(Clone, Copy)]
struct ScoreBound {
    value: f64,
    is_exclusive: bool,
}

impl ScoreBound {
    /// `t_zset.c: zslParseRange`, which accepts the same texts as `strtod`, including numbers out of range.
    fn parse(text: &[u8]) -> Option<Self> {
        let (is_exclusive, text) = match text {
            [b'(', text @ ..] => (true, text),
            text => (false, text),
        };
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        // An empty text is zero.
        let value = if text.is_empty() {
            0.0
        } else {
            parse_double(text)?
        };
        (!value.is_nan()).then_some(Self {
            value,
            is_exclusive,
        })
    }
}

/// A range of scores.
#[derive(Clone, Copy)]
pub(super) struct ScoreRange {
    min: ScoreBound,
    max: ScoreBound,
}

impl ScoreRange {
    pub(super) fn parse(min: &[u8], max: &[u8]) -> Result<Self, CommandError> {
        match (ScoreBound::parse(min), ScoreBound::parse(max)) {
            (Some(min), Some(max)) => Ok(Self { min, max }),
            (_, _) => Err(CommandError::Text("ERR min or max is not a float".into())),
        }
    }

    /// The ranks of the elements within.
    pub(super) fn ranks(self, set: &SortedSet) -> Range<usize> {
        let Self { min, max } = self;
        let start = set
            .rank_where_score(|score| score < min.value || min.is_exclusive && score == min.value);
        let end = set
            .rank_where_score(|score| score < max.value || !max.is_exclusive && score == max.value);
        start..end.max(start)
    }
}

/// One end of a range of members.
#[derive(Clone, Copy)]
enum LexBound<'a> {
    /// Before all members.
    Lowest,
    /// After all members.
    Highest,
    Inclusive(&'a [u8]),
    Exclusive(&'a [u8]),
}

impl<'a> LexBound<'a> {
    /// `t_zset.c: zslParseLexRangeItem`.
    fn parse(text: &'a [u8]) -> Option<Self> {
        match text {
            [b'+'] | [b'+', 0, ..] => Some(Self::Highest),
            [b'-'] | [b'-', 0, ..] => Some(Self::Lowest),
            [b'(', member @ ..] => Some(Self::Exclusive(member)),
            [b'[', member @ ..] => Some(Self::Inclusive(member)),
            _ => None,
        }
    }

    /// True if a member is after this lower bound.
    fn is_below(self, member: &[u8]) -> bool {
        match self {
            Self::Lowest => true,
            Self::Highest => false,
            Self::Inclusive(bound) => member >= bound,
            Self::Exclusive(bound) => member > bound,
        }
    }

    /// True if a member is before this upper bound.
    fn is_above(self, member: &[u8]) -> bool {
        match self {
            Self::Lowest => false,
            Self::Highest => true,
            Self::Inclusive(bound) => member <= bound,
            Self::Exclusive(bound) => member < bound,
        }
    }
}

/// A range of members, for sorted sets whose scores are all equal.
#[derive(Clone, Copy)]
pub(super) struct LexRange<'a> {
    min: LexBound<'a>,
    max: LexBound<'a>,
}

impl<'a> LexRange<'a> {
    pub(super) fn parse(min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        match (LexBound::parse(min), LexBound::parse(max)) {
            (Some(min), Some(max)) => Ok(Self { min, max }),
            (_, _) => Err(CommandError::Text(
                "ERR min or max not valid string range item".into(),
            )),
        }
    }

    /// Returns the ranks of the members in the range after the first `offset` of them; before the last ones
    /// if the range is walked from its end.
    ///
    /// If scores differ, members have no order, and the result shows how Redis searches: from one end to the
    /// first member in the range, past `offset` members of any kind, and then while members are in the range.
    /// The double does the same unless there are too many members.
    pub(super) fn ranks(self, set: &SortedSet, is_reversed: bool, offset: usize) -> Range<usize> {
        if set.len() > SEARCHED_MAX {
            let Range { start, end } = self.ranks_in_order(set);
            let offset = offset.min(end - start);
            return if is_reversed {
                start..end - offset
            } else {
                start + offset..end
            };
        }
        let members = Members::of(set, self);
        if is_reversed {
            members.backward(offset)
        } else {
            members.forward(offset)
        }
    }

    /// Number of members within (`t_zset.c: zlexcountCommand`).
    pub(super) fn count(self, set: &SortedSet) -> usize {
        if set.len() > SEARCHED_MAX {
            return self.ranks_in_order(set).len();
        }
        let members = Members::of(set, self);
        let forward = members.forward(0);
        if set.is_packed() || forward.is_empty() {
            return forward.len();
        }
        // A skip list counts from the first to the last member in the range.
        match members.backward(0) {
            backward if backward.is_empty() => set.len() - forward.start,
            backward => backward.end.saturating_sub(forward.start),
        }
    }

    /// The ranks of the members that ZREMRANGEBYLEX removes.
    pub(super) fn removed(self, set: &SortedSet) -> Range<usize> {
        if set.is_packed() || set.len() > SEARCHED_MAX {
            return self.ranks(set, false, 0);
        }
        // Redis does not check the ends of a skip list first.
        Members::of(set, self).beginning_above_min(0)
    }

    /// The same where all scores are equal.
    fn ranks_in_order(self, set: &SortedSet) -> Range<usize> {
        let start = set.rank_where(|_, member| !self.min.is_below(member));
        let end = set.rank_where(|_, member| self.max.is_above(member));
        start..end.max(start)
    }

    /// True if no member can be within (`t_zset.c: zslIsInLexRange`).
    fn is_empty(self) -> bool {
        match (self.min, self.max) {
            (LexBound::Lowest, LexBound::Lowest) | (LexBound::Highest, LexBound::Highest) => false,
            (LexBound::Highest, _) | (_, LexBound::Lowest) => true,
            (LexBound::Inclusive(min), LexBound::Inclusive(max)) => min > max,
            (
                LexBound::Inclusive(min) | LexBound::Exclusive(min),
                LexBound::Inclusive(max) | LexBound::Exclusive(max),
            ) => min >= max,
            (LexBound::Lowest, _) | (_, LexBound::Highest) => false,
        }
    }
}

/// Size up to which sorted sets are searched for members as in Redis, one by one.
const SEARCHED_MAX: usize = 128;

/// The members of a small sorted set beside a range of members.
struct Members<'a> {
    elements: Vec<(Blob, f64)>,
    range: LexRange<'a>,
}

impl<'a> Members<'a> {
    fn of(set: &SortedSet, range: LexRange<'a>) -> Self {
        Self {
            elements: set.elements(0..set.len()),
            range,
        }
    }

    fn is_above_min(&self, at: usize) -> bool {
        self.range.min.is_below(&self.elements[at].0)
    }

    fn is_below_max(&self, at: usize) -> bool {
        self.range.max.is_above(&self.elements[at].0)
    }

    /// Returns true if the range overlaps the first and the last member (`t_zset.c: zslIsInLexRange`).
    fn has_some(&self) -> bool {
        let last = self.elements.len().checked_sub(1);
        last.is_some_and(|last| self.is_above_min(last) && self.is_below_max(0))
            && !self.range.is_empty()
    }

    fn forward(&self, offset: usize) -> Range<usize> {
        let len = self.elements.len();
        let first = (0..len).find(|at| self.is_above_min(*at));
        match first {
            Some(first) if self.has_some() && self.is_below_max(first) => {
                self.beginning_above_min(offset)
            }
            _ => 0..0,
        }
    }

    /// Returns the ranks from the first member above the lower bound, `offset` further on, to the last one
    /// below the upper bound.
    fn beginning_above_min(&self, offset: usize) -> Range<usize> {
        let len = self.elements.len();
        let first = (0..len).find(|at| self.is_above_min(*at)).unwrap_or(len);
        let start = first.saturating_add(offset).min(len);
        let end = (start..len).find(|at| !self.is_below_max(*at));
        start..end.unwrap_or(len)
    }

    fn backward(&self, offset: usize) -> Range<usize> {
        let len = self.elements.len();
        let last = (0..len).rev().find(|at| self.is_below_max(*at));
        match last {
            Some(last) if self.has_some() && self.is_above_min(last) => {
                let end = (last + 1).saturating_sub(offset);
                let below = (0..end).rev().find(|at| !self.is_above_min(*at));
                below.map_or(0, |at| at + 1)..end
            }
            _ => 0..0,
        }
    }
}

/// The ranks from `start` to `stop`, both counted from the end if they are negative.
pub(super) fn ranks(start: i64, stop: i64, len: usize) -> Range<usize> {
    let len_signed = i64::try_from(len).unwrap_or(i64::MAX);
    let from_end = |at: i64| {
        if at < 0 {
            at.saturating_add(len_signed)
        } else {
            at
        }
    };
    let (start, stop) = (from_end(start).max(0), from_end(stop));
    if start > stop || start >= len_signed {
        return 0..0;
    }
    let to_index = |at: i64| usize::try_from(at).unwrap_or(0);
    to_index(start)..to_index(stop.min(len_signed - 1)) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::SortedSetLimits;

    fn set(elements: &[(&str, f64)], entries: usize) -> SortedSet {
        let limits = SortedSetLimits {
            entries,
            bytes: 64,
            seed: 1,
        };
        let owned = elements
            .iter()
            .map(|(member, score)| (Blob::from(*member), *score));
        SortedSet::from_elements(owned.collect(), limits)
    }

    #[test]
    fn scores_are_parsed_as_in_redis() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("+Infinity", Some(f64::INFINITY)),
            ("0x1F", Some(31.0)),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("nan", None),
            ("1e309", None),
            ("1e-400", None),
            ("1\0", None),
        ] {
            assert_eq!(double(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn ranges_of_scores_are_ranks() {
        let elements = [("a", 1.0), ("b", 1.0), ("c", 2.0), ("d", f64::INFINITY)];
        for entries in [0, 128] {
            let set = set(&elements, entries);
            for (min, max, expected) in [
                ("-inf", "+inf", 0..4),
                ("-inf", "(inf", 0..3),
                ("1", "1", 0..2),
                ("(1", "2", 2..3),
                ("(1", "(2", 2..2),
                ("3", "1", 3..3),
                ("", " 1", 0..2),
                ("1e400", "inf", 3..4),
                ("1\0x", "2", 0..3),
            ] {
                let range = ScoreRange::parse(min.as_bytes(), max.as_bytes());
                let ranks = range.ok().map(|range| range.ranks(&set));
                assert_eq!(ranks, Some(expected), "{min} {max}");
            }
        }
        for bad in ["nan", "(", "((1", "1 ", "abc", " "] {
            let is_bad = ScoreRange::parse(bad.as_bytes(), b"1").is_err();
            assert_eq!(is_bad, bad != "(", "{bad}");
        }
    }

    #[test]
    fn ranges_of_members_are_ranks() {
        let elements = [("a", 0.0), ("b", 0.0), ("c", 0.0), ("d", 0.0)];
        for (entries, is_reversed) in [(0, false), (128, false), (0, true), (128, true)] {
            let set = set(&elements, entries);
            for (min, max, expected) in [
                ("-", "+", 0..4),
                ("[b", "[c", 1..3),
                ("(b", "(d", 2..3),
                ("[aa", "[bb", 1..2),
                ("-", "(c", 0..2),
                ("(d", "+", 4..4),
                ("[c", "[b", 2..2),
                ("+", "-", 4..4),
                ("[", "[a", 0..1),
            ] {
                let range = LexRange::parse(min.as_bytes(), max.as_bytes());
                let ranks = range.ok().map(|range| range.ranks(&set, is_reversed, 0));
                let ranks = ranks.unwrap_or_default();
                if expected.is_empty() {
                    assert!(ranks.is_empty(), "{min} {max} {ranks:?}");
                } else {
                    assert_eq!(ranks, expected, "{min} {max}");
                }
            }
        }
        assert!(LexRange::parse(b"a", b"+").is_err() && LexRange::parse(b"-", b"++").is_err());
    }

    #[test]
    fn ranks_count_from_both_ends() {
        for (start, stop, expected) in [
            (0, -1, 0..5),
            (1, 2, 1..3),
            (-2, -1, 3..5),
            (-100, 100, 0..5),
            (3, 1, 0..0),
            (5, 9, 0..0),
            (0, -6, 0..0),
            (i64::MIN, i64::MAX, 0..5),
        ] {
            assert_eq!(ranks(start, stop, 5), expected, "{start} {stop}");
        }
        assert_eq!(ranks(0, -1, 0), 0..0);
    }
}
