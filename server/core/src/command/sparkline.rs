//! A row of numbers as a picture of characters, filled below, with a label written downwards under each.
//!
//! Source: `sparkline.c`.

/// The steps within one row of characters, lowest first.
const STEPS: [char; 3] = ['_', 'o', '#'];
const FULL: char = '|';

/// One column.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) value: i64,
    /// ASCII.
    pub(super) label: String,
}

/// The picture: blocks of at most `columns` points, each of `rows` rows and the labels below an empty row.
pub(super) fn sparkline(points: &[Point], columns: usize, rows: usize) -> String {
    let values = || points.iter().map(|point| point.value);
    let low = values().min().unwrap_or(0);
    let range = (values().max().unwrap_or(0) - low).max(1);
    let steps = (STEPS.len() * rows) as i64;
    let mut text = String::new();
    for block in points.chunks(columns) {
        for row in (0..rows).rev() {
            text.extend(block.iter().map(|point| {
                let step = ((point.value - low) * steps / range).min(steps - 1) as usize;
                match step.checked_sub(row * STEPS.len()) {
                    None => ' ',
                    Some(above) => STEPS.get(above).copied().unwrap_or(FULL),
                }
            }));
            text.push('\n');
        }
        text.push_str(&" ".repeat(block.len()));
        text.push('\n');
        let longest = block.iter().map(|point| point.label.len()).max();
        for place in 0..longest.unwrap_or(0) {
            text.extend(block.iter().map(|point| {
                let byte = point.label.as_bytes().get(place);
                char::from(*byte.unwrap_or(&b' '))
            }));
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_filled_up_to_their_value() {
        let points = [1, 2, 7, 4].map(|value| Point {
            value,
            label: format!("{value}0s"),
        });
        let picture = sparkline(&points, 80, 4);
        let expected = [
            "  # ", "  |_", "  ||", "_#||", "    ", "1274", "0000", "ssss", "",
        ];
        assert_eq!(picture, expected.join("\n"));
    }
}
