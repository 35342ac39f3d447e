//! Formats and parses numbers as C does: `%.14g` and `strtod`. Knows neither JSON nor Lua.

/// Formats a number with this number of significant digits (`%.<digits>g`).
pub(super) fn format(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    let number = number.abs();
    if number.is_infinite() {
        return format!("{sign}inf");
    }
    if number == 0.0 {
        return format!("{sign}0");
    }
    let scientific = format!("{number:.*e}", digits.max(1) - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let figures = mantissa.replace('.', "");
    let figures = match figures.trim_end_matches('0') {
        "" => "0",
        figures => figures,
    };
    let point_at = |at: usize| {
        if at >= figures.len() {
            format!("{figures:0<at$}")
        } else {
            format!("{}.{}", &figures[..at], &figures[at..])
        }
    };
    match usize::try_from(exponent) {
        Ok(whole) if whole < digits => format!("{sign}{}", point_at(whole + 1)),
        Err(_) if exponent >= -4 => {
            let zeros = "0".repeat(exponent.unsigned_abs() as usize - 1);
            format!("{sign}0.{zeros}{figures}")
        }
        _ => {
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            let size = exponent.unsigned_abs();
            format!("{sign}{}e{exponent_sign}{size:02}", point_at(1))
        }
    }
}

/// Parses the number at the start of a text; returns it with its length in bytes.
pub(super) fn parse(text: &[u8]) -> Option<(f64, usize)> {
    let sign_len = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let is_negative = text.first() == Some(&b'-');
    let (number, len) = unsigned(&text[sign_len..])?;
    let number = if is_negative { -number } else { number };
    Some((number, sign_len + len))
}

fn unsigned(text: &[u8]) -> Option<(f64, usize)> {
    let starts = |word: &[u8]| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if starts(b"inf") {
        let len = if starts(b"infinity") { 8 } else { 3 };
        return Some((f64::INFINITY, len));
    }
    if starts(b"nan") {
        let inside = run(text[3..].get(1..).unwrap_or_default(), |byte| {
            byte.is_ascii_alphanumeric() || byte == b'_'
        });
        let is_closed = text.get(3) == Some(&b'(') && text.get(4 + inside) == Some(&b')');
        return Some((f64::NAN, if is_closed { inside + 5 } else { 3 }));
    }
    if starts(b"0x")
        && let Some((number, len)) = hexadecimal(&text[2..])
    {
        return Some((number, len + 2));
    }
    let digits = |at: usize| {
        run(text.get(at..).unwrap_or_default(), |byte| {
            byte.is_ascii_digit()
        })
    };
    let whole = digits(0);
    let mut len = whole;
    let mut fraction = 0;
    if text.get(len) == Some(&b'.') {
        fraction = digits(len + 1);
        len += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits(len + 1 + sign);
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    let number = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((number, len))
}

fn run(text: &[u8], accepts: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|byte| accepts(**byte)).count()
}

/// Parses the part after `0x`: digits, a fraction and a power of two.
fn hexadecimal(text: &[u8]) -> Option<(f64, usize)> {
    /// A mantissa below this accepts another digit. Bits that do not fit are merged into the last
    /// one.
    const FULL: u64 = 1 << 59;
    let (mut mantissa, mut exponent) = (0_u64, 0_i64);
    let (mut len, mut digits, mut is_fraction) = (0, 0, false);
    while let Some(&byte) = text.get(len) {
        if byte == b'.' && !is_fraction {
            is_fraction = true;
        } else if let Some(digit) = char::from(byte).to_digit(16) {
            digits += 1;
            if mantissa < FULL {
                mantissa = mantissa * 16 + u64::from(digit);
                exponent -= if is_fraction { 4 } else { 0 };
            } else {
                mantissa |= u64::from(digit != 0);
                exponent += if is_fraction { 0 } else { 4 };
            }
        } else {
            break;
        }
        len += 1;
    }
    if digits == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'p' | b'P')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let from = len + 1 + sign;
        let power = run(text.get(from..).unwrap_or_default(), |byte| {
            byte.is_ascii_digit()
        });
        if power > 0 {
            let value = text[from..from + power].iter().fold(0_i64, |value, digit| {
                (value * 10 + i64::from(digit - b'0')).min(1 << 40)
            });
            exponent += if text[len + 1] == b'-' { -value } else { value };
            len = from + power;
        }
    }
    // Multiplies in steps, so that no power of two overflows before the product does.
    let mut number = mantissa as f64;
    let mut left = exponent.clamp(-3_000, 3_000) as i32;
    while left != 0 {
        let step = left.clamp(-1_000, 1_000);
        number *= 2_f64.powi(step);
        left -= step;
    }
    Some((number, len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_does() {
        for (number, digits, expected) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (0.1, 14, "0.1"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (1e14, 14, "1e+14"),
            (99_999_999_999_999.0, 14, "99999999999999"),
            (1e20, 14, "1e+20"),
            (1e-4, 14, "0.0001"),
            (1e-5, 14, "1e-05"),
            (12_345_678_901_234.5, 14, "12345678901234"),
            (12_345_678_901_235.5, 14, "12345678901236"),
            (5e-324, 14, "4.9406564584125e-324"),
            (f64::MAX, 14, "1.7976931348623e+308"),
            (12_345.0, 3, "1.23e+04"),
            (99_999.0, 3, "1e+05"),
            (2.675, 3, "2.67"),
            (0.25, 1, "0.2"),
            (1.5, 1, "2"),
            (100.0, 14, "100"),
            (-100.5, 14, "-100.5"),
            (f64::NEG_INFINITY, 14, "-inf"),
            (f64::NAN, 14, "nan"),
        ] {
            assert_eq!(format(number, digits), expected, "{number:e} in {digits}");
        }
    }

    #[test]
    fn numbers_are_read_as_c_does() {
        for (text, expected) in [
            ("1", Some((1.0, 1))),
            ("-1.5e3x", Some((-1500.0, 6))),
            ("1e", Some((1.0, 1))),
            ("1e+", Some((1.0, 1))),
            ("1.", Some((1.0, 2))),
            ("-.5", Some((-0.5, 3))),
            (".", None),
            ("-", None),
            ("", None),
            ("+7", Some((7.0, 2))),
            ("007", Some((7.0, 3))),
            ("0x10", Some((16.0, 4))),
            ("0x", Some((0.0, 1))),
            ("0xg", Some((0.0, 1))),
            ("-0x.8", Some((-0.5, 5))),
            ("0x1.8p3", Some((12.0, 7))),
            ("0x1p", Some((1.0, 3))),
            ("0x1p-2000", Some((0.0, 9))),
            ("0x1p99999999999999999999", Some((f64::INFINITY, 24))),
            ("infin", Some((f64::INFINITY, 3))),
            ("-Infinity", Some((f64::NEG_INFINITY, 9))),
            ("1e400", Some((f64::INFINITY, 5))),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text}");
        }
        // A set bit below the half rounds up; otherwise the even neighbour is chosen.
        let (half, more) = (
            0x10_0000_0000_0000_8000_0000_u128,
            0x10_0000_0000_0000_8000_0001,
        );
        for number in [half, more, half + (1 << 32), more + (1 << 32)] {
            let (read, _) = parse(format!("{number:#x}").as_bytes()).expect("a number");
            assert_eq!(read, number as f64, "{number:#x}");
        }
        for (text, expected) in [("nan", 3), ("nan(a1)", 7), ("nan(", 3), ("NaN()", 5)] {
            let (number, len) = parse(text.as_bytes()).expect(text);
            assert!(number.is_nan() && len == expected, "{text}");
        }
    }
}
