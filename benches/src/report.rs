//! Figures of two servers side by side: ratios, targets, and tables.

use crate::arithmetic::{median, ratio};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Target of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// At least this value.
    AtLeast(f64),
    /// At most this value.
    AtMost(f64),
    /// No target: the figure is for information.
    None,
}

impl Target {
    /// Returns true if `ratio` meets the target. NaN meets none.
    pub fn is_met_by(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(bound) => ratio >= bound,
            Self::AtMost(bound) => ratio <= bound,
            Self::None => true,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(bound) => format!(">= {bound}x"),
            Self::AtMost(bound) => format!("<= {bound}x"),
            Self::None => "-".to_owned(),
        }
    }
}

/// Unit of a figure's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Number per second.
    PerSecond,
    /// Seconds. The ratio is a share: 0.5x is half the time.
    Seconds,
    /// Seconds. The ratio is a speed-up.
    SecondsFaster,
    /// Bytes.
    Bytes,
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Self::PerSecond if value >= 1e6 => format!("{:.2} M/s", value / 1e6),
            Self::PerSecond => format!("{:.1} k/s", value / 1e3),
            Self::Seconds | Self::SecondsFaster if value >= 1e-3 => {
                format!("{:.2} ms", value * 1e3)
            }
            Self::Seconds | Self::SecondsFaster if value >= 1e-5 => {
                format!("{:.0} us", value * 1e6)
            }
            Self::Seconds | Self::SecondsFaster => format!("{:.0} ns", value * 1e9),
            Self::Bytes => format!("{value:.0} B"),
        }
    }
}

/// A figure, measured on both servers in several rounds.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Name of the workload, as in `GET, pipeline 16`.
    pub row: String,
    /// Measured quantity, as in `requests per CPU-second`.
    pub what: &'static str,
    /// Unit of the values.
    pub unit: Unit,
    /// Values of Redis, by round.
    pub redis: Vec<f64>,
    /// Values of redouble, by round.
    pub redouble: Vec<f64>,
    /// True if the rounds were measured in pairs, one right after the other, so that they can be compared.
    pub is_paired: bool,
    /// Target of the ratio.
    pub target: Target,
}

impl Figure {
    /// Returns redouble over Redis, or the inverse for [`Unit::SecondsFaster`]. For paired rounds it is the
    /// median of their ratios, so a machine that becomes slower for a while has no effect; otherwise the
    /// ratio of the medians.
    pub fn ratio(&self) -> f64 {
        match self.ratios() {
            Some(ratios) => median(&ratios),
            None => self.quotient(median(&self.redouble), median(&self.redis)),
        }
    }

    /// Returns the lowest and the highest ratio of paired rounds.
    pub fn range(&self) -> Option<(f64, f64)> {
        let ratios = self.ratios()?.into_iter();
        let range = ratios.fold(None, |range, ratio| {
            let (low, high) = range.unwrap_or((ratio, ratio));
            Some((ratio.min(low), ratio.max(high)))
        });
        range.filter(|_| self.redouble.len() > 1)
    }

    /// Returns the ratio of each round, if the rounds are paired.
    fn ratios(&self) -> Option<Vec<f64>> {
        let is_paired =
            self.is_paired && !self.redis.is_empty() && self.redis.len() == self.redouble.len();
        is_paired.then(|| {
            let rounds = self.redouble.iter().zip(&self.redis);
            rounds
                .map(|(ours, theirs)| self.quotient(*ours, *theirs))
                .collect()
        })
    }

    /// Returns true if the target is met.
    pub fn is_met(&self) -> bool {
        self.target.is_met_by(self.ratio())
    }

    fn quotient(&self, ours: f64, theirs: f64) -> f64 {
        match self.unit {
            Unit::PerSecond | Unit::Seconds | Unit::Bytes => ratio(ours, theirs),
            Unit::SecondsFaster => ratio(theirs, ours),
        }
    }

    fn cells(&self) -> [String; 8] {
        let value = |values: &[f64]| {
            if values.is_empty() {
                "-".to_owned()
            } else {
                self.unit.text(median(values))
            }
        };
        let verdict = match (self.target, self.is_met()) {
            (Target::None, _) => "-",
            (_, true) => "yes",
            (_, false) => "NO",
        };
        let ratio = self.ratio();
        [
            self.row.clone(),
            self.what.to_owned(),
            value(&self.redis),
            value(&self.redouble),
            if ratio.is_nan() {
                "-".to_owned()
            } else {
                times(ratio)
            },
            self.range().map_or_else(
                || "-".to_owned(),
                |(low, high)| format!("{}-{}", times(low), times(high)),
            ),
            self.target.text(),
            verdict.to_owned(),
        ]
    }
}

fn times(ratio: f64) -> String {
    if ratio < 10.0 {
        format!("{ratio:.2}x")
    } else {
        format!("{ratio:.0}x")
    }
}

const HEADINGS: [&str; 8] = [
    "row", "measured", "Redis", "redouble", "ratio", "rounds", "target", "met",
];

/// Results of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The version of the real server.
    pub redis_version: String,
    /// Machine and date, from [`facts`](crate::machine::facts).
    pub machine: Value,
    /// The figures, one per line of the table.
    pub figures: Vec<Figure>,
}

impl Report {
    /// Returns true if every target is met.
    pub fn is_met(&self) -> bool {
        self.figures.iter().all(Figure::is_met)
    }

    /// Formats a table for a terminal.
    pub fn text(&self) -> String {
        let rows = self.rows();
        let width = |column: usize| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: [usize; 8] = std::array::from_fn(width);
        let mut text = String::new();
        for row in &rows {
            let cells = row
                .iter()
                .zip(widths)
                .enumerate()
                .map(|(column, (cell, width))| match column {
                    2..=5 => format!("{cell:>width$}"),
                    _ => format!("{cell:<width$}"),
                });
            let cells = cells.collect::<Vec<_>>().join("  ");
            text.push_str(cells.trim_end());
            text.push('\n');
        }
        text
    }

    /// Formats a table in Markdown.
    pub fn markdown(&self) -> String {
        let mut text = String::new();
        for (index, row) in self.rows().iter().enumerate() {
            text.push_str(&format!("| {} |\n", row.join(" | ")));
            if index == 0 {
                text.push_str("|---|---|--:|--:|--:|--:|---|---|\n");
            }
        }
        let _infallible = writeln!(text, "\nCompared with Redis {}.", self.redis_version);
        text
    }

    /// Formats the report as JSON, with the value of every round.
    pub fn json(&self) -> Value {
        let figures = self.figures.iter().map(|figure| {
            json!({
                "row": figure.row,
                "measured": figure.what,
                "unit": match figure.unit {
                    Unit::PerSecond => "1/s",
                    Unit::Seconds | Unit::SecondsFaster => "s",
                    Unit::Bytes => "bytes",
                },
                "redis": figure.redis,
                "redouble": figure.redouble,
                "ratio": figure.ratio(),
                "ratios": figure.ratios(),
                "target": figure.target.text(),
                "met": figure.is_met(),
            })
        });
        json!({
            "machine": self.machine,
            "redis_version": self.redis_version,
            "met": self.is_met(),
            "figures": figures.collect::<Vec<_>>(),
        })
    }

    fn rows(&self) -> Vec<[String; 8]> {
        let head = HEADINGS.map(str::to_owned);
        std::iter::once(head)
            .chain(self.figures.iter().map(Figure::cells))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(unit: Unit, redis: &[f64], redouble: &[f64], target: Target) -> Figure {
        let (redis, redouble) = (redis.to_vec(), redouble.to_vec());
        Figure {
            row: "GET".to_owned(),
            what: "requests per second",
            unit,
            redis,
            redouble,
            is_paired: true,
            target,
        }
    }

    #[test]
    fn ratios_are_judged_at_the_bound() {
        use {Target::*, Unit::*};
        for (unit, redis, redouble, target, ratio, is_met) in [
            (
                PerSecond,
                &[1.0, 2.0, 90.0][..],
                &[3.0, 4.0, 5.0][..],
                AtLeast(2.0),
                2.0,
                true,
            ),
            (PerSecond, &[2.0], &[3.9], AtLeast(2.0), 1.95, false),
            (Seconds, &[2.0], &[2.4], AtMost(1.2), 1.2, true),
            (Bytes, &[160.0], &[161.0], AtMost(1.0), 1.00625, false),
            // A machine that is slow in two rounds of five.
            (
                Seconds,
                &[1.0, 1.0, 1.0, 3.0, 3.0],
                &[0.5, 0.5, 1.5, 1.5, 1.5],
                AtMost(0.5),
                0.5,
                true,
            ),
            (
                SecondsFaster,
                &[0.010, 0.012],
                &[0.0001],
                AtLeast(100.0),
                110.0,
                true,
            ),
            (PerSecond, &[], &[1.0], None, f64::NAN, true),
            (PerSecond, &[], &[1.0], AtLeast(0.1), f64::NAN, false),
        ] {
            let figure = figure(unit, redis, redouble, target);
            let found = figure.ratio();
            assert!(
                (found - ratio).abs() < 1e-9 || found.is_nan() && ratio.is_nan(),
                "{figure:?}: {found}"
            );
            assert_eq!(figure.is_met(), is_met, "{figure:?}");
        }
    }

    #[test]
    fn the_range_comes_from_paired_rounds() {
        let paired = figure(Unit::PerSecond, &[10.0, 20.0], &[20.0, 20.0], Target::None);
        assert_eq!(paired.range(), Some((1.0, 2.0)));
        let unpaired = Figure {
            is_paired: false,
            ..paired
        };
        assert_eq!(unpaired.range(), None);
    }

    #[test]
    fn tables_show_the_figures() {
        let good = figure(
            Unit::PerSecond,
            &[1_000_000.0],
            &[2_500_000.0],
            Target::AtLeast(2.0),
        );
        let bad = figure(Unit::Bytes, &[160.0], &[320.0], Target::AtMost(1.0));
        let report = Report {
            machine: Value::Null,
            redis_version: "7.0.15".to_owned(),
            figures: vec![good, bad],
        };
        assert!(!report.is_met());
        let markdown = report.markdown();
        assert!(
            markdown.contains(
                "| GET | requests per second | 1.00 M/s | 2.50 M/s | 2.50x | - | >= 2x | yes |"
            ),
            "{markdown}"
        );
        assert!(
            markdown.contains("| 160 B | 320 B | 2.00x | - | <= 1x | NO |"),
            "{markdown}"
        );
        assert_eq!(report.text().lines().count(), 3);
        assert_eq!(report.json()["figures"][1]["ratio"], 2.0);
        assert_eq!(report.json()["met"], false);
    }
}
