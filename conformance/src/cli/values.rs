//! Values of options.

use clap::Args;
use redouble_conformance::scenario::generate::Timing;
use std::{ops::Range, str::FromStr, time::Duration};

/// The lease and the other times of generated scenarios.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Times {
    /// Draw the lease of each scenario from 2 to 60 seconds, and put all other times in proportion to it [default: leases from
    /// 100 ms to 10 minutes, and latency and request timeout drawn on their own].
    #[arg(long)]
    proportional_times: bool,
}

impl Times {
    pub(super) const fn timing(self) -> Timing {
        match self.proportional_times {
            true => Timing::DrawnLease,
            false => Timing::DrawnTimes,
        }
    }
}

/// A part of a long run: `2/4` is the second of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    part: u64,
    of: u64,
}

impl Shard {
    /// Returns the shard's part of the seeds; all shards together cover them.
    pub(super) fn of(self, seeds: &Range<u64>) -> Range<u64> {
        let count = u128::from(seeds.end.saturating_sub(seeds.start));
        let border = |part: u64| {
            let share = count * u128::from(part) / u128::from(self.of);
            seeds
                .start
                .saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
        };
        border(self.part - 1)..border(self.part)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let numbers = parts.and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((part, of)) if (1..=of).contains(&part) => Ok(Self { part, of }),
            _ => Err("a shard is i/n, as in 1/4, with i from 1 to n".to_owned()),
        }
    }
}

/// A duration: `90` or `90s`, `15m`, `2h`, `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let number: Option<u64> = digits.parse().ok();
    let millis = match &text[digits.len()..] {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let product = number
        .zip(millis)
        .and_then(|(number, millis)| number.checked_mul(millis));
    product
        .map(Duration::from_millis)
        .ok_or_else(|| "a time is a number with ms, s, m or h, as in 90s or 15m".to_owned())
}

/// A short time, which may have microseconds: `200us`, `5ms`.
#[cfg(feature = "bench")]
pub(super) fn span(text: &str) -> Result<Duration, String> {
    match text.strip_suffix("us").map(str::parse) {
        Some(Ok(micros)) => Ok(Duration::from_micros(micros)),
        Some(Err(_)) => Err("a time in microseconds is a number with us, as in 200us".to_owned()),
        None => duration(text),
    }
}

/// Returns true if a name matches a pattern in which `*` stands for any characters and `?` for one, ignoring
/// case.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let name: Vec<char> = name.to_lowercase().chars().collect();
    // Position to retry from if the rest of the pattern does not match after the last star.
    let mut retry: Option<(usize, usize)> = None;
    let (mut at, mut of) = (0, 0);
    while of < name.len() {
        match pattern.get(at) {
            Some('*') => {
                retry = Some((at, of));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == name[of] => {
                at += 1;
                of += 1;
            }
            Some(_) | None => match &mut retry {
                Some((star, taken)) => {
                    *taken += 1;
                    (at, of) = (*star + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|&character| character == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_all_seeds_once() {
        for of in 1..=7 {
            let mut next = 5;
            for part in 1..=of {
                let shard: Shard = format!("{part}/{of}").parse().unwrap();
                let seeds = shard.of(&(5..105));
                assert_eq!(seeds.start, next);
                next = seeds.end;
            }
            assert_eq!(next, 105);
        }
        assert!("1/2".parse::<Shard>().unwrap().of(&(0..u64::MAX)).end > u64::MAX / 3);
        for wrong in ["0/2", "3/2", "1", "1/0", "a/b", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("90").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("15m").unwrap(), Duration::from_secs(900));
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(span("200us").unwrap(), Duration::from_micros(200));
        assert_eq!(span("5ms").unwrap(), Duration::from_millis(5));
        assert!(span("us").is_err() && span("x").is_err());
        for wrong in [
            "",
            "m",
            "-1s",
            "1d",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("mutex", "mutex", true),
            ("mutex", "mutex-watchdog", false),
            ("mutex*", "mutex-watchdog", true),
            ("b0?", "B07", true),
            ("b0?", "B07a", false),
            ("*a", "B08a", true),
            ("*a*b", "aab", true),
            ("*a*b", "aba", false),
            ("*", "", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
