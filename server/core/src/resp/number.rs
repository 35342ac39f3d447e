//! Parses and formats numbers as Redis does.

use super::long_double::LongDouble;

/// Numbers of so many digits fit into 64 bits.
const DIGITS_SURE: usize = 18;

/// Parses a signed 64-bit decimal exactly as `util.c: string2ll`: no sign but `-`, no leading
/// zeros, no spaces.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut value: u64 = 0;
    if digits.len() <= DIGITS_SURE {
        for digit in digits {
            let digit = digit.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        let value = value as i64;
        return Some(if negative { -value } else { value });
    }
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))?;
    }
    if negative {
        0_i64.checked_sub_unsigned(value)
    } else {
        i64::try_from(value).ok()
    }
}

/// Reads a whole text as C's `strtod` reads it: white space in front, an exponent, hexadecimal digits, `inf`, `nan`.
/// The empty text is no number. A number out of range is infinite or zero, see [`is_out_of_range`].
pub(crate) fn parse_double(text: &[u8]) -> Option<f64> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let begin = text.iter().position(|byte| !is_space(byte))?;
    let number = &text[begin..];
    let unsigned = number
        .strip_prefix(b"-")
        .or_else(|| number.strip_prefix(b"+"));
    if matches!(unsigned.unwrap_or(number), [b'0', b'x' | b'X', ..]) {
        return LongDouble::parse(number).map(LongDouble::to_f64);
    }
    if let Some(value) = parse_integer(number).filter(|value| value.unsigned_abs() < 1 << 53) {
        return Some(value as f64);
    }
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// True if C's `strtod` reports that this text, read as `value`, is too great or too small for a double.
/// Numbers that only lose digits because they are very small do not count.
pub(crate) fn is_out_of_range(text: &[u8], value: f64) -> bool {
    if value.is_infinite() {
        // Only a word is infinite by itself.
        return text.iter().any(u8::is_ascii_digit);
    }
    let is_hex = text.iter().any(|byte| b"xX".contains(byte));
    let ends = |byte: &&u8| !(b"pP".contains(byte) || !is_hex && b"eE".contains(byte));
    let is_mark = |byte: &u8| !byte.is_ascii_hexdigit();
    let mut digits = text.iter().take_while(ends).filter(|byte| !is_mark(byte));
    value == 0.0 && digits.any(|digit| *digit != b'0')
}

/// Formats a double as the C library's `%.17g` does.
pub fn format_double(value: f64) -> String {
    const DIGITS: i32 = 17;
    if value.is_nan() {
        return if value.is_sign_negative() {
            "-nan".into()
        } else {
            "nan".into()
        };
    }
    if value.is_infinite() {
        return if value < 0.0 {
            "-inf".into()
        } else {
            "inf".into()
        };
    }
    if value.fract() == 0.0 && value.abs() < 1e15 && value != 0.0 {
        return itoa::Buffer::new().format(value as i64).to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() {
            "-0".into()
        } else {
            "0".into()
        };
    }
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        let plain = format!("{value:.decimals$}");
        return trim_zeros(&plain).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs())
}

/// Formats a double with as few digits as tell it from its neighbours, as Redis 7.2 and later do (`fpconv_dtoa`).
pub(crate) fn format_shortest(value: f64) -> String {
    /// Integers up to this one are written as integers (`util.c: double2ll`).
    const INTEGER_MAX: f64 = (i64::MAX / 2) as f64;
    /// So many zeros may stand behind the digits of an integer.
    const ZEROS_MAX: i32 = 7;
    if !value.is_finite() {
        return format_double(value);
    }
    if value.fract() == 0.0 && value.abs() <= INTEGER_MAX {
        return itoa::Buffer::new().format(value as i64).to_owned();
    }
    let scientific = format!("{:e}", value.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = mantissa.replace('.', "");
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = exponent + 1 - count;
    let sign = if value < 0.0 { "-" } else { "" };
    if zeros >= 0 && exponent < count + ZEROS_MAX {
        let zeros = "0".repeat(usize::try_from(zeros).unwrap_or(0));
        return format!("{sign}{digits}{zeros}");
    }
    if zeros < 0 && (zeros > -ZEROS_MAX || exponent.abs() < 4) {
        return match usize::try_from(exponent) {
            Ok(before) => format!("{sign}{}.{}", &digits[..=before], &digits[before + 1..]),
            Err(_) => {
                let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
                format!("{sign}0.{zeros}{digits}")
            }
        };
    }
    let of_exponent = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{mantissa}e{of_exponent}{}", exponent.abs())
}

/// Formats a double in decimal notation, with at most 17 decimals (`util.c: ld2string` for people to read).
pub(crate) fn format_decimal(value: f64) -> String {
    match trim_zeros(&format!("{value:.17}")) {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

fn trim_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_follow_string2ll() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
            ("1.0", None),
        ] {
            assert_eq!(parse_integer(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn doubles_are_read_as_strtod_reads_them() {
        for (text, expected, is_out) in [
            ("1", Some(1.0), false),
            ("-0", Some(-0.0), false),
            (" \t-2.5", Some(-2.5), false),
            ("", None, false),
            (" ", None, false),
            ("1 ", None, false),
            ("0x10", Some(16.0), false),
            ("-0x1p-1", Some(-0.5), false),
            ("inf", Some(f64::INFINITY), false),
            ("-Infinity", Some(f64::NEG_INFINITY), false),
            ("1e400", Some(f64::INFINITY), true),
            ("1e-400", Some(0.0), true),
            ("0.00e-400", Some(0.0), false),
            ("5e-324", Some(5e-324), false),
            ("0e5", Some(0.0), false),
            ("0x0", Some(0.0), false),
            (".5", Some(0.5), false),
            ("5.", Some(5.0), false),
            ("1e", None, false),
            ("+1", Some(1.0), false),
            ("9007199254740993", Some(9_007_199_254_740_992.0), false),
        ] {
            let value = parse_double(text.as_bytes());
            assert_eq!(
                value.map(f64::to_bits),
                expected.map(f64::to_bits),
                "{text:?}"
            );
            if let Some(value) = value {
                assert_eq!(is_out_of_range(text.as_bytes(), value), is_out, "{text:?}");
            }
        }
        assert!(parse_double(b"nan").is_some_and(f64::is_nan));
    }

    /// Replies of redis-server 8.0.2 and valkey-server 8.1.1.
    #[test]
    fn doubles_have_as_few_digits_as_they_need() {
        for (value, expected) in [
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-0.0, "0"),
            (5e-324, "5e-324"),
            (1e-7, "1e-7"),
            (1e-5, "0.00001"),
            (4_294_967_296.5, "4294967296.5"),
            (1e17, "100000000000000000"),
            (123_456_789_012_345_680.0, "123456789012345680"),
            (9_223_372_036_854_776_000.0, "9223372036854776000"),
            (1e20, "1e+20"),
            (1e21, "1e+21"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NEG_INFINITY, "-inf"),
            (15.087_267_458_438_873, "15.087267458438873"),
            (2.682_209_014_892_578e-6, "2.682209014892578e-6"),
        ] {
            assert_eq!(format_shortest(value), expected, "{value:e}");
        }
    }

    #[test]
    fn doubles_follow_printf() {
        for (value, expected) in [
            (1.0, "1"),
            (0.1, "0.10000000000000001"),
            (3.5, "3.5"),
            (1e17, "1e+17"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1e16, "10000000000000000"),
            (1e-4, "0.0001"),
            (1e-5, "1.0000000000000001e-05"),
            (-0.0, "-0"),
            (1e300, "1.0000000000000001e+300"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(format_double(value), expected, "{value:e}");
        }
    }
}
