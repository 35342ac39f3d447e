//! Measurements as a table for a terminal or a README, with the same columns for every backend.

use super::{
    latencies::Latencies,
    measured::{Failure, Measured},
};
use std::time::Duration;

const HEADINGS: [&str; 15] = [
    "lock", "cycles/s", "p50", "p99", "p99.9", "max", "p50", "p99", "p99.9", "max", "fairness",
    "commands", "requests", "server", "failed",
];

/// Formats a line per lock, with remarks below.
#[must_use]
pub fn table(all: &[Measured]) -> String {
    let rows: Vec<[String; 15]> = [HEADINGS.map(str::to_owned)]
        .into_iter()
        .chain(all.iter().map(cells))
        .collect();
    let widths: [usize; 15] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    });
    let span = |columns: std::ops::Range<usize>| {
        let columns: usize = widths[columns].iter().map(|width| width + 2).sum();
        columns - 2
    };
    let over = |title: &str, width: usize| format!("{:-^width$}", format!(" {title} "));
    let mut text = format!(
        "{:indent$}  {}  {}\n",
        "",
        over("acquire", span(2..6)),
        over("hand-over", span(6..10)),
        indent = span(0..2),
    );
    for row in &rows {
        let cells = row.iter().zip(widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    all.iter()
        .flat_map(remarks)
        .for_each(|remark| text.push_str(&format!("{remark}\n")));
    text
}

fn cells(measured: &Measured) -> [String; 15] {
    let [p50, p99, p999, max] = quartet(&measured.acquire);
    let [of50, of99, of999, most] = quartet(&measured.hand_over);
    let number = |it: Option<f64>, digits: usize| {
        it.map_or_else(|| "-".to_owned(), |it| format!("{it:.digits$}"))
    };
    [
        measured.lock.to_owned(),
        format!("{:.0}", measured.per_second()),
        p50,
        p99,
        p999,
        max,
        of50,
        of99,
        of999,
        most,
        number(measured.fairness(), 2),
        number(measured.commands_per_cycle(), 1),
        number(measured.requests_per_cycle(), 1),
        measured
            .server_us_per_cycle()
            .map_or_else(|| "-".to_owned(), |us| format!("{us:.0} us")),
        measured.failed().to_string(),
    ]
}

/// Returns the four times of a table.
pub(super) fn quartet(all: &Latencies) -> [String; 4] {
    let times = [0.5, 0.99, 0.999, 1.0].map(|share| all.within(share));
    times.map(|time| time.map_or_else(|| "-".to_owned(), span))
}

/// Returns the remarks about a lock, for which the table has no column.
pub(super) fn remarks(measured: &Measured) -> Vec<String> {
    let name = measured.lock;
    let mut all = Vec::new();
    if measured.overlaps.count > 0 {
        let first = measured.overlaps.first.as_deref().unwrap_or_default();
        let times = times(measured.overlaps.count);
        all.push(format!(
            "!! {name} HAD MORE HOLDERS THAN ALLOWED, {times}: {first}"
        ));
    }
    for how in Failure::ALL {
        if let Some(&count) = measured.failures.get(&how) {
            let why = measured.complaints.get(&how).map_or("", |why| why);
            all.push(format!(
                "   {name}: {} {}: {why}",
                how.name().replace('_', " "),
                times(count)
            ));
        }
    }
    if measured.unserved > 0 {
        all.push(format!(
            "   {name}: {} cycles were due and had not started at the end; the latencies do not include them",
            measured.unserved
        ));
    }
    if let [_, _, ..] = &measured.rounds[..] {
        let rates = measured.rounds.iter();
        let rates = rates.map(|it| match it.failed {
            0 => format!("{:.0}", it.cycles_per_second),
            failed => format!("{:.0} ({failed} failed)", it.cycles_per_second),
        });
        let rates = rates.collect::<Vec<_>>().join(", ");
        all.push(format!(
            "   {name}: the median of rounds with {rates} cycles/s"
        ));
    }
    if measured.interrupted {
        let seconds = measured.elapsed.as_secs_f64();
        all.push(format!("   {name}: interrupted after {seconds:.1} s"));
    }
    all
}

fn times(count: u64) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    }
}

/// Formats a time with about three digits.
pub(super) fn span(time: Duration) -> String {
    let us = time.as_micros();
    match us {
        0..10_000 => format!("{us} us"),
        10_000..100_000 => format!("{:.1} ms", us as f64 / 1e3),
        100_000..10_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::measured::sample, *};

    #[test]
    fn columns_align_with_headings_and_failures_are_reported() {
        let mut measured = sample(vec![1_000, 2_000]);
        (1..=1_000).for_each(|us| measured.acquire.add(Duration::from_micros(us * 20)));
        measured.work.commands.insert("set".to_owned(), 6_000);
        measured.work.cpu = Duration::from_millis(60);
        measured.asked = 3_001;
        measured.failures.insert(Failure::Lost, 1);
        let text = table(&[measured.clone(), sample(vec![0])]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].contains("- acquire -") && lines[0].contains("- hand-over -"));
        for part in [
            "1500", "10.0 ms", "19.8 ms", "20.0 ms", "0.90", "2.0", "20 us",
        ] {
            assert!(lines[2].contains(part), "{part} is missing:\n{text}");
        }
        let end = |line: &str, part: &str| line.find(part).unwrap() + part.len();
        assert_eq!(end(lines[1], "cycles/s"), end(lines[2], "1500"), "{text}");
        assert!(lines[4].contains("lost once"), "{text}");
        measured.overlaps.count = 2;
        measured.overlaps.first = Some("caller 1 acquired the lock".to_owned());
        let text = table(&[measured]);
        assert!(
            text.contains("!! mutex HAD MORE") && text.contains("2 times: caller 1"),
            "{text}"
        );
    }

    #[test]
    fn times_have_units() {
        for (us, text) in [
            (0, "0 us"),
            (9_999, "9999 us"),
            (12_345, "12.3 ms"),
            (123_456, "123 ms"),
            (12_345_678, "12.3 s"),
        ] {
            assert_eq!(span(Duration::from_micros(us)), text);
        }
    }
}
