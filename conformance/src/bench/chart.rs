//! Charts as inline SVG: latency curves, and bars. They need no script: a curve or a bar can take the focus;
//! it then shows its values and stands out.

use super::{latencies::Latencies, table::span};
use std::{fmt::Write, time::Duration};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 330.0;
/// Margins around the curves: left, top, right, bottom.
const MARGIN: [f64; 4] = [70.0, 14.0, 170.0, 44.0];
/// Smallest distance between two names at the ends of curves.
const NAME_STEP: f64 = 15.0;
/// Number of colours in the style. Further curves reuse them with other dashes.
const COLOURS: usize = 6;
/// Marked shares on the horizontal axis, with their number of nines.
const MARKS: [(f64, &str); 6] = [
    (0.0, "0"),
    (0.301, "50"),
    (1.0, "90"),
    (2.0, "99"),
    (3.0, "99.9"),
    (4.0, "99.99"),
];

/// Returns the class that gives a lock its colour and dashes in all charts.
fn class(nth: usize) -> String {
    format!("h{} d{}", nth % COLOURS, nth / COLOURS % 3)
}

/// Draws the latencies of some locks. The horizontal axis has the share of all, with equal room for every
/// further nine; the vertical axis has the time, logarithmic.
pub(super) fn curves(title: &str, all: &[(&str, &Latencies)]) -> String {
    let curves: Vec<(usize, &str, &Latencies)> = (0..)
        .zip(all)
        .filter(|(_, (_, it))| it.count() > 0)
        .map(|(nth, (name, it))| (nth, *name, *it))
        .collect();
    let micros = |time: Option<Duration>| time.map_or(1.0, |it| it.as_micros() as f64).max(1.0);
    let lowest = curves.iter().map(|(.., it)| micros(it.within(0.0)));
    let highest = curves.iter().map(|(.., it)| micros(it.longest()));
    let low = lowest.fold(f64::INFINITY, f64::min).log10().floor();
    let high = highest.fold(1.0, f64::max).log10().ceil();
    let (low, high) = if low < high { (low, high) } else { (0.0, 1.0) };
    let most = curves.iter().map(|(.., it)| it.count()).max().unwrap_or(1);
    let nines = (most as f64).log10().clamp(1.0, 4.6);
    // The maximum is a single value and gets a place of its own.
    let end = nines + 0.25;
    let x = |at: f64| MARGIN[0] + at / end * (WIDTH - MARGIN[0] - MARGIN[2]);
    let y = |us: f64| {
        let room = HEIGHT - MARGIN[1] - MARGIN[3];
        MARGIN[1] + (high - us.max(1.0).log10()) / (high - low) * room
    };
    let mut svg = opened(title, HEIGHT);
    scales(&mut svg, (low, high), nines, x, y);
    let mut names = Vec::new();
    for (nth, name, it) in curves {
        let points: Vec<(f64, f64)> = it
            .curve()
            .into_iter()
            .map(|(share, time)| {
                let at = if share < 1.0 {
                    -(1.0 - share).log10()
                } else {
                    end
                };
                (x(at.min(end)), y(time.as_micros() as f64))
            })
            .collect();
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let says = said(name, it);
        let _ = write!(
            svg,
            "<g class=\"curve {}\" tabindex=\"0\" role=\"img\" aria-label=\"{says}\"><title>{says}</title>\
             <polyline class=\"hit\" points=\"{1}\"/><polyline class=\"line\" points=\"{1}\"/>",
            class(nth),
            path.join(" "),
        );
        if let Some((x, y)) = points.last() {
            let _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
            names.push((*y, nth, name));
        }
        svg.push_str("</g>");
    }
    name_ends(&mut svg, names, x(end) + 10.0);
    svg + "</svg>"
}

/// Draws the grid lines and their labels.
fn scales(
    svg: &mut String,
    (low, high): (f64, f64),
    nines: f64,
    x: impl Fn(f64) -> f64,
    y: impl Fn(f64) -> f64,
) {
    let (left, right) = (MARGIN[0], WIDTH - MARGIN[2]);
    let (top, bottom) = (MARGIN[1], HEIGHT - MARGIN[3]);
    svg.push_str("<g aria-hidden=\"true\">");
    let mut power = low;
    while power <= high {
        let us = 10_f64.powf(power);
        let at = y(us);
        let label = match us {
            ..1e3 => format!("{us:.0} us"),
            1e3..1e6 => format!("{:.0} ms", us / 1e3),
            _ => format!("{:.0} s", us / 1e6),
        };
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"side\" x=\"{}\" y=\"{:.1}\">{label}</text>",
            left - 8.0,
            at + 4.0,
        );
        power += 1.0;
    }
    let marks = MARKS.into_iter().filter(|(at, _)| *at <= nines);
    let longest = (nines + 0.25, "all");
    for (at, label) in marks.chain([longest]) {
        let at = x(at);
        let percent = if label == "all" { "" } else { " %" };
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{}\">{label}{percent}</text>",
            bottom + 17.0,
        );
    }
    let _ = write!(
        svg,
        "<text class=\"tick\" x=\"{}\" y=\"{}\">share that took no longer</text></g>",
        f64::midpoint(left, right),
        bottom + 36.0,
    );
}

/// Draws the names beside the ends of curves, without overlap.
fn name_ends(svg: &mut String, mut names: Vec<(f64, usize, &str)>, x: f64) {
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = MARGIN[1];
    for (y, nth, name) in names {
        let at = y.max(free);
        free = at + NAME_STEP;
        let _ = write!(
            svg,
            "<text class=\"name {}\" x=\"{x:.1}\" y=\"{:.1}\" aria-hidden=\"true\">{}</text>",
            class(nth),
            at + 4.0,
            escaped(name),
        );
    }
}

/// Describes a curve for screen readers.
fn said(name: &str, it: &Latencies) -> String {
    let shares = [
        (0.5, "half"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (1.0, "all"),
    ];
    let parts = shares.map(|(share, word)| {
        let within = it.within(share).map(span).unwrap_or_default();
        format!("{word} within {within}")
    });
    escaped(&format!("{name}: {}", parts.join(", ")))
}

/// Draws a bar per lock, with its value.
pub(super) fn bars(title: &str, all: &[(&str, f64, String)], full: Option<f64>) -> String {
    const STEP: f64 = 26.0;
    let (left, right) = (190.0, WIDTH - 120.0);
    let longest = all.iter().map(|(_, value, _)| *value).fold(0.0, f64::max);
    let full = full.unwrap_or(longest).max(f64::EPSILON);
    let height = STEP * all.len() as f64 + 6.0;
    let mut svg = opened(title, height);
    for (nth, (name, value, says)) in all.iter().enumerate() {
        let top = STEP * nth as f64 + 4.0;
        let width = (value / full).clamp(0.0, 1.0) * (right - left);
        let (name, says) = (escaped(name), escaped(says));
        let _ = write!(
            svg,
            "<g class=\"bar {}\" tabindex=\"0\" role=\"img\" aria-label=\"{name}: {says}\">\
             <rect class=\"rail\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" rx=\"3\"/>\
             <rect class=\"value\" x=\"{left}\" y=\"{top}\" width=\"{width:.1}\" height=\"{}\" rx=\"3\"/>\
             <text class=\"side\" x=\"{}\" y=\"{:.1}\">{name}</text>\
             <text x=\"{}\" y=\"{:.1}\">{says}</text></g>",
            class(nth),
            right - left,
            STEP - 8.0,
            STEP - 8.0,
            left - 10.0,
            top + 13.0,
            right + 10.0,
            top + 13.0,
        );
    }
    svg + "</svg>"
}

fn opened(title: &str, height: f64) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" role=\"group\" aria-label=\"{}\">",
        escaped(title)
    )
}

/// Escapes a text for HTML.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every number in an attribute of all elements of the chart.
    fn numbers(svg: &str, attribute: &str) -> Vec<f64> {
        let attribute = format!(" {attribute}=\"");
        let texts = svg
            .split(&attribute)
            .skip(1)
            .filter_map(|piece| piece.split('"').next());
        texts.filter_map(|text| text.parse().ok()).collect()
    }

    #[test]
    fn all_elements_lie_within_the_chart() {
        let mut slow = Latencies::default();
        (1..=5_000).for_each(|us| slow.add(Duration::from_micros(us * us)));
        let (mut one, none) = (Latencies::default(), Latencies::default());
        one.add(Duration::from_micros(3));
        let svg = curves(
            "acquire",
            &[("slow", &slow), ("one", &one), ("none", &none)],
        );
        assert_eq!(svg.matches("class=\"curve").count(), 2, "{svg}");
        assert!(
            svg.contains("slow: half within 6250 ms, 99 % within"),
            "{svg}"
        );
        let points = svg.split("points=\"").skip(1);
        let points = points.flat_map(|it| it.split('"').next().unwrap().split(' '));
        for (x, y) in points.filter_map(|it| it.split_once(',')) {
            let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
            assert!(
                (0.0..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y),
                "{x} {y}"
            );
        }
        for attribute in ["x", "x1", "x2", "cx"] {
            assert!(
                numbers(&svg, attribute)
                    .iter()
                    .all(|it| (0.0..=WIDTH).contains(it))
            );
        }
        let empty = curves("acquire", &[("none", &none)]);
        assert!(!empty.contains("NaN") && !empty.contains("inf"), "{empty}");
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let all = [
            ("a", 1.0, "1".to_owned()),
            ("<b>", 0.5, "a \"half\"".to_owned()),
        ];
        let svg = bars("fairness", &all, Some(1.0));
        let widths = numbers(&svg, "width");
        assert_eq!(widths[1] / 2.0, widths[3], "{svg}");
        assert!(svg.contains("&lt;b&gt;: a &quot;half&quot;"), "{svg}");
    }
}
