//! The parameters of CONFIG: what each may be, where it is kept, and which of them can be changed
//! while the server runs.
//!
//! *Policy.* A parameter either has its effect here ([`Place::Field`]); or it governs something that a double does not have (files
//! that are written at intervals, memory layouts, other processes), and then CONFIG GET gives back any valid value; or it has values
//! whose absence could endanger a user (TLS), and these are refused with an error that says so. Source: `config.c`.
//!
//! `parameter/table.rs` has the parameters, `row.rs` what a row of it says, `value.rs` checks of single values.

mod row;
mod table;
mod value;

use super::Config;
use super::glob::glob_match;
use crate::engine::CommandError;
use crate::resp::parse_integer;
use row::{Parameter, Place};
use table::PARAMETERS;
use value::percentile;

impl Config {
    /// The value of a parameter, as CONFIG GET prints it; empty if there is none.
    pub(crate) fn value_of(&self, name: &str) -> Vec<u8> {
        let found = find(name.as_bytes());
        debug_assert!(found.is_some_and(|(_, row)| row.has_effect()), "{name}");
        found.map_or_else(Vec::new, |(_, row)| row.value(self))
    }

    /// The value of a numeric parameter; 0 if there is none.
    pub(crate) fn number_of(&self, name: &str) -> i64 {
        parse_integer(&self.value_of(name)).unwrap_or(0)
    }

    /// The value of a parameter that is a number of bytes or of elements.
    pub(crate) fn size_of(&self, name: &str) -> usize {
        usize::try_from(self.number_of(name)).unwrap_or(0)
    }

    /// True if a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.value_of(name) == b"yes"
    }

    /// The percentiles that INFO tells of, with their names.
    pub(crate) fn percentiles(&self) -> impl Iterator<Item = (f64, String)> {
        let all = self.latency_tracking_info_percentiles.iter();
        all.map(|value| (*value, percentile(*value)))
    }
}

fn find(name: &[u8]) -> Option<(&'static str, &'static Parameter)> {
    PARAMETERS.iter().find_map(|row| {
        let mut names = row.names();
        let name = names.find(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some((name, row))
    })
}

/// Names of the parameters that CONFIG SET checks and keeps, and that have no effect: they govern what a double does not
/// have, such as memory layouts, other processes and files that are written at intervals.
///
/// ```
/// # extern crate redouble_core as redouble;
/// let names = redouble::parameters_without_effect();
/// assert!(names.contains(&"activerehashing") && !names.contains(&"maxmemory"));
/// ```
pub fn parameters_without_effect() -> Vec<&'static str> {
    let rows = PARAMETERS.iter();
    let idle = rows.filter(|row| !row.has_effect() && !row.is_hidden);
    idle.map(|row| row.name).collect()
}

/// True if the value of this parameter is a secret, which no command shows.
pub(crate) fn is_secret(name: &[u8]) -> bool {
    find(name).is_some_and(|(_, row)| row.is_secret)
}

fn failed(name: &[u8], why: &str) -> CommandError {
    let before = "ERR CONFIG SET failed (possibly related to argument '";
    CommandError::echoing(before, name, &format!("') - {why}"))
}

impl Config {
    /// Parameters whose names match, sorted by name. One that is asked for by its name is called as
    /// it was asked for (`config.c: configGetCommand`).
    pub(crate) fn matching(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let is_pattern = |pattern: &[u8]| pattern.iter().any(|byte| b"[*?".contains(byte));
        let called = |name: &str, is_hidden: bool| {
            patterns
                .iter()
                .find_map(|pattern| match is_pattern(pattern) {
                    true if is_hidden => None,
                    true if glob_match(&pattern.to_ascii_lowercase(), name.as_bytes()) => {
                        Some(name.as_bytes().to_vec())
                    }
                    false if pattern.eq_ignore_ascii_case(name.as_bytes()) => {
                        Some(pattern.to_vec())
                    }
                    true | false => None,
                })
        };
        let rows = PARAMETERS.iter();
        let mut found: Vec<_> = rows
            .filter(|row| self.profile.has(row.since))
            .flat_map(|row| row.names().map(move |name| (name, row)))
            .filter_map(|(name, row)| {
                called(name, row.is_hidden).map(|called| (called, row.value(self)))
            })
            .collect();
        found.sort();
        found
    }

    /// The configuration with some parameters changed: all or none (`config.c: configSetCommand`).
    ///
    /// # Errors
    /// First for a name that is wrong, then for a value.
    pub(crate) fn with(&self, changes: &[(&[u8], &[u8])]) -> Result<Self, CommandError> {
        let mut rows: Vec<(&'static str, &'static Parameter)> = Vec::new();
        for (name, _) in changes {
            let found = find(name).filter(|(_, row)| self.profile.has(row.since));
            let Some(found) = found else {
                let before = "ERR Unknown option or number of arguments for CONFIG SET - '";
                return Err(CommandError::echoing(before, name, "'"));
            };
            match found.1.place {
                Place::Immutable(_) => return Err(failed(name, "can't set immutable config")),
                Place::Protected(_) => return Err(failed(name, "can't set protected config")),
                Place::Others | Place::Field(..) | Place::Settled(_) => {}
            }
            if rows.iter().any(|(known, _)| *known == found.0) {
                return Err(failed(name, "duplicate parameter"));
            }
            rows.push(found);
        }
        let mut next = self.clone();
        for ((name, row), (_, value)) in rows.iter().zip(changes) {
            let set = row.set(&mut next, value);
            set.map_err(|why| failed(name.as_bytes(), &why))?;
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_valid_and_comes_back() {
        let config = Config::default();
        for row in PARAMETERS {
            let value = row.value(&config);
            let (_, printed) = row.check(&value).expect(row.name);
            if row.name != "hz" {
                assert_eq!(printed, value, "{}", row.name);
            }
            assert!(
                row.only.is_empty() || row.only.iter().any(|only| only.as_bytes() == value),
                "{}",
                row.name
            );
            let has_field = matches!(row.place, Place::Field(..) | Place::Settled(_));
            assert!(row.set(&mut config.clone(), &value).is_ok(), "{}", row.name);
            assert!(
                !has_field || row.default.is_empty() || row.default.as_bytes() == value,
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn names_are_sorted_and_single() {
        let mut names: Vec<&str> = PARAMETERS.iter().map(|row| row.name).collect();
        assert!(names.is_sorted());
        names.extend(
            PARAMETERS
                .iter()
                .map(|row| row.alias)
                .filter(|name| !name.is_empty()),
        );
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (count, 199));
    }

    #[test]
    fn most_values_end_at_a_zero() {
        let set = |name: &[u8], value: &[u8]| Config::default().with(&[(name, value)]);
        let letters = |config: Config| config.notify_keyspace_events.letters();
        assert_eq!(
            letters(set(b"notify-keyspace-events", b"KE\0Z").unwrap()),
            "KE"
        );
        assert!(set(b"notify-keyspace-events", b"KEZ").is_err());
        assert_eq!(set(b"maxmemory", b"1mb\0x").unwrap().maxmemory, 1 << 20);
        assert!(set(b"hz", b"12\0").is_err());
    }

    #[test]
    fn a_change_is_whole_or_none() {
        let config = Config::default();
        let error = |changes: &[(&[u8], &[u8])]| match config.with(changes) {
            Ok(_) => String::new(),
            Err(error) => crate::resp::ErrorReply::from(error).text().to_owned(),
        };
        assert!(error(&[(b"timeout", b"x"), (b"nosuch", b"1")]).contains("Unknown option"));
        assert!(error(&[(b"timeout", b"1"), (b"TIMEOUT", b"2")]).contains("'TIMEOUT') - dup"));
        assert!(error(&[(b"tls-cluster", b"yes")]).contains("redouble knows only the value 'no'"));
        let next = config.with(&[(b"Timeout", b"7"), (b"slave-priority", b"3")]);
        let next = next.expect("valid");
        assert_eq!(next.timeout.as_secs(), 7);
        let found = next.matching(&[b"*priority"]);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|(_, value)| value == b"3"));
    }
}
