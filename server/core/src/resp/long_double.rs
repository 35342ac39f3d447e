//! The x86 `long double`, in which INCRBYFLOAT computes: a sign, a mantissa of 64 bits, an exponent
//! of 15 bits.
//!
//! Parses like `strtold`, adds with one rounding to nearest even, and formats as `%.17Lf` without
//! trailing zeros (`util.c: string2ld`, `ld2string`). In software, so that every platform gives the
//! replies of Redis on x86-64.

use std::cmp::Ordering;

/// `MAX_LONG_DOUBLE_CHARS`: texts of this length or more are not numbers.
const TEXT_BYTES_MAX: usize = 5 * 1024;
/// Exponent of the last mantissa bit of the smallest numbers.
const EXPONENT_MIN: i64 = -16_445;
/// Exponent of the last mantissa bit of the greatest numbers.
const EXPONENT_MAX: i64 = 16_320;
/// Beyond this decimal exponent a number is zero or infinite, whatever its digits are.
const DECIMAL_EXPONENT_MAX: i64 = 100_000;
/// Digits after the decimal point (`LD_STR_HUMAN`).
const DECIMALS: u32 = 17;
const TEN_TO_DECIMALS: u128 = 10_u128.pow(DECIMALS);

/// A number in the extended format; never NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LongDouble {
    Infinite {
        negative: bool,
    },
    /// `mantissa * 2^exponent`. The top bit is set unless the exponent is the smallest.
    Finite {
        negative: bool,
        mantissa: u64,
        exponent: i64,
    },
}

/// A result before the check for its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounded {
    Zero,
    TooSmall,
    TooGreat,
    To(u64, i64),
}

impl LongDouble {
    pub(crate) const ZERO: Self = Self::Finite {
        negative: false,
        mantissa: 0,
        exponent: EXPONENT_MIN,
    };

    /// Parses a whole text; `None` if it is not a number or out of range.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (negative, digits) = match text {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite { negative });
        }
        let rounded = match digits {
            [b'0', b'x' | b'X', digits @ ..] => parse_digits(digits, 16)?,
            digits => parse_digits(digits, 10)?,
        };
        match rounded {
            Rounded::Zero => Some(Self::Finite {
                negative,
                mantissa: 0,
                exponent: EXPONENT_MIN,
            }),
            Rounded::To(mantissa, exponent) => Some(Self::Finite {
                negative,
                mantissa,
                exponent,
            }),
            Rounded::TooSmall | Rounded::TooGreat => None,
        }
    }

    /// The sum, rounded once; `None` for infinity minus infinity.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        let (a, b) = match (self, other) {
            (Self::Infinite { negative: a }, Self::Infinite { negative: b }) => {
                return (a == b).then_some(self);
            }
            (Self::Infinite { .. }, Self::Finite { .. }) => return Some(self),
            (Self::Finite { .. }, Self::Infinite { .. }) => return Some(other),
            (
                Self::Finite {
                    negative: an,
                    mantissa: am,
                    exponent: ae,
                },
                Self::Finite {
                    negative: bn,
                    mantissa: bm,
                    exponent: be,
                },
            ) => ((an, am, ae), (bn, bm, be)),
        };
        let (great, small) = if (a.2, a.1) >= (b.2, b.1) {
            (a, b)
        } else {
            (b, a)
        };
        // The greater mantissa is shifted by 63 bits. Bits that are lost below that become one
        // sticky bit.
        let base = u128::from(great.1) << 63;
        let shift = u32::try_from(great.2 - small.2).unwrap_or(u32::MAX);
        let whole = u128::from(small.1) << 63;
        let moved = whole.checked_shr(shift).unwrap_or(0);
        let lost = moved.checked_shl(shift).unwrap_or(0) != whole;
        let moved = moved | u128::from(lost);
        let (negative, sum) = if great.0 == small.0 {
            (great.0, base + moved)
        } else if base >= moved {
            (great.0, base - moved)
        } else {
            (small.0, moved - base)
        };
        if sum == 0 {
            // Only the sum of two negative zeros is a negative zero.
            let negative = great.0 && small.0;
            return Some(Self::Finite {
                negative,
                mantissa: 0,
                exponent: EXPONENT_MIN,
            });
        }
        Some(match round(sum, false, great.2 - 63) {
            Rounded::To(mantissa, exponent) => Self::Finite {
                negative,
                mantissa,
                exponent,
            },
            Rounded::TooGreat => Self::Infinite { negative },
            Rounded::Zero | Rounded::TooSmall => Self::Finite {
                negative,
                mantissa: 0,
                exponent: EXPONENT_MIN,
            },
        })
    }

    pub(crate) fn is_finite(self) -> bool {
        matches!(self, Self::Finite { .. })
    }

    /// Converts seconds to milliseconds, rounded up. A number out of range becomes the smallest
    /// integer, as in the C conversion on x86-64 (`timeout.c: getTimeoutFromObjectOrReply`).
    pub(crate) fn to_millis_up(self) -> i64 {
        let Self::Finite {
            negative,
            mantissa,
            exponent,
        } = self
        else {
            return i64::MIN;
        };
        let (mantissa, exponent) = match round(u128::from(mantissa) * 1000, false, exponent) {
            Rounded::To(mantissa, exponent) => (mantissa, exponent),
            Rounded::Zero => return 0,
            Rounded::TooSmall => return i64::from(!negative),
            Rounded::TooGreat => return i64::MIN,
        };
        // The top bit of the mantissa is set, so a left shift would overflow.
        if exponent >= 0 {
            return i64::MIN;
        }
        let shift = u32::try_from(-exponent).unwrap_or(u32::MAX);
        let whole = mantissa.checked_shr(shift).unwrap_or(0);
        let has_fraction = whole.checked_shl(shift).unwrap_or(0) != mantissa;
        let whole = i128::from(whole) + i128::from(has_fraction && !negative);
        i64::try_from(if negative { -whole } else { whole }).unwrap_or(i64::MIN)
    }

    /// The nearest double; infinite if the number is too great.
    pub(crate) fn to_f64(self) -> f64 {
        let (negative, size) = match self {
            Self::Infinite { negative } => (negative, f64::INFINITY),
            Self::Finite {
                negative,
                mantissa,
                exponent,
            } => (negative, scale(mantissa, exponent)),
        };
        if negative { -size } else { size }
    }
}

/// `mantissa * 2^exponent` as a double, rounded once.
fn scale(mantissa: u64, exponent: i64) -> f64 {
    /// Exponent of the last bit of the smallest doubles.
    const LAST_BIT_MIN: i64 = -1074;
    const BITS: i64 = 53;
    if mantissa == 0 {
        return 0.0;
    }
    let length = 64 - i64::from(mantissa.leading_zeros());
    let drop = (length - BITS).max(LAST_BIT_MIN - exponent).max(0);
    let kept = round_shift(
        u128::from(mantissa),
        u32::try_from(drop).unwrap_or(u32::MAX),
    ) as f64;
    // Each step is exact: the remaining bits fit in a double.
    let mut value = kept;
    let mut left = exponent + drop;
    while left != 0 && value != 0.0 && value.is_finite() {
        let step = left.clamp(-1000, 1000);
        value *= 2_f64.powi(step as i32);
        left -= step;
    }
    value
}

impl std::fmt::Display for LongDouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (negative, mantissa, exponent) = match *self {
            Self::Infinite { negative } => {
                return f.write_str(if negative { "-inf" } else { "inf" });
            }
            Self::Finite {
                negative,
                mantissa,
                exponent,
            } => (negative, mantissa, exponent),
        };
        let text = if exponent >= 0 {
            let mut whole = Natural::from(mantissa);
            whole.shift_left(usize::try_from(exponent).unwrap_or(0));
            whole.into_decimal()
        } else {
            let shift = u32::try_from(-exponent).unwrap_or(u32::MAX);
            let scaled = round_shift(u128::from(mantissa) * TEN_TO_DECIMALS, shift);
            let (whole, decimals) = (scaled / TEN_TO_DECIMALS, scaled % TEN_TO_DECIMALS);
            let text = format!("{whole}.{decimals:0width$}", width = DECIMALS as usize);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        if negative && text != "0" {
            write!(f, "-{text}")
        } else {
            f.write_str(&text)
        }
    }
}

/// `value / 2^shift`, to nearest even.
fn round_shift(value: u128, shift: u32) -> u128 {
    let whole = value.checked_shr(shift).unwrap_or(0);
    let half = match shift {
        1..=128 => 1_u128 << (shift - 1),
        _ => return whole,
    };
    let rest = value - whole.checked_shl(shift).unwrap_or(0);
    match rest.cmp(&half) {
        Ordering::Greater => whole + 1,
        Ordering::Equal => whole + (whole & 1),
        Ordering::Less => whole,
    }
}

/// `value * 2^exponent` in the extended format. `sticky` means that the true value is slightly
/// greater.
fn round(value: u128, sticky: bool, exponent: i64) -> Rounded {
    if value == 0 {
        return if sticky {
            Rounded::TooSmall
        } else {
            Rounded::Zero
        };
    }
    let excess = 64 - i64::from(value.leading_zeros());
    let drop = excess.max(EXPONENT_MIN - exponent);
    let (mantissa, exponent) = if drop <= 0 {
        // Fewer than 64 bits: the value is exact and shifted left as far as possible.
        (value << (-drop), exponent + drop)
    } else {
        // One extra bit at the bottom makes the sticky bit count in the comparison with one half.
        let shift = u32::try_from(drop).unwrap_or(u32::MAX);
        let exact_half = shift <= 128 && shift > 0 && value & ((1 << (shift - 1)) - 1) == 0;
        let rounded = if sticky && exact_half && value.checked_shr(shift - 1).unwrap_or(0) & 1 == 1
        {
            value.checked_shr(shift).unwrap_or(0) + 1
        } else {
            round_shift(value, shift)
        };
        (rounded, exponent + drop)
    };
    let (mantissa, exponent) = if mantissa >> 64 == 0 {
        (mantissa, exponent)
    } else {
        (mantissa >> 1, exponent + 1)
    };
    match u64::try_from(mantissa) {
        Ok(0) => Rounded::TooSmall,
        Ok(mantissa) if exponent <= EXPONENT_MAX => Rounded::To(mantissa, exponent),
        _ => Rounded::TooGreat,
    }
}

/// Parses digits with an optional point and exponent, up to the end of the text.
fn parse_digits(text: &[u8], radix: u32) -> Option<Rounded> {
    let mut digits = Natural::from(0);
    let (mut count, mut decimals, mut seen_point) = (0_usize, 0_i64, false);
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match char::from(byte).to_digit(radix) {
            Some(digit) => {
                digits.multiply_add(radix, digit);
                count += 1;
                decimals += i64::from(seen_point);
            }
            None if byte == b'.' && !seen_point => seen_point = true,
            None => break,
        }
        at += 1;
    }
    if count == 0 {
        return None;
    }
    let exponent = match &text[at..] {
        [] => 0,
        [letter, rest @ ..]
            if letter.eq_ignore_ascii_case(if radix == 16 { &b'p' } else { &b'e' }) =>
        {
            parse_exponent(rest)?
        }
        _ => return None,
    };
    if digits.is_zero() {
        return Some(Rounded::Zero);
    }
    if radix == 16 {
        let (value, sticky, shift) = digits.top_bits();
        return Some(round(value, sticky, shift + exponent - 4 * decimals));
    }
    let exponent = exponent - decimals;
    if exponent.abs() > DECIMAL_EXPONENT_MAX {
        return Some(if exponent > 0 {
            Rounded::TooGreat
        } else {
            Rounded::TooSmall
        });
    }
    if exponent >= 0 {
        (0..exponent).for_each(|_| digits.multiply_add(10, 0));
        let (value, sticky, shift) = digits.top_bits();
        return Some(round(value, sticky, shift));
    }
    let mut divisor = Natural::from(1);
    (0..-exponent).for_each(|_| divisor.multiply_add(10, 0));
    let (value, sticky, shift) = divide(digits, divisor);
    Some(round(value, sticky, shift))
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0_i64, |value, digit| {
        (value * 10 + i64::from(digit - b'0')).min(10_000_000)
    });
    Some(if negative { -value } else { value })
}

/// The first 100 bits of a quotient, whether more bits are set, and the exponent of the last bit.
fn divide(mut dividend: Natural, mut divisor: Natural) -> (u128, bool, i64) {
    const BITS: i64 = 100;
    // Both numbers get the same length, so that the quotient is in (1/2, 2).
    let (long, short) = (dividend.bits(), divisor.bits());
    if long >= short {
        divisor.shift_left(long - short);
    } else {
        dividend.shift_left(short - long);
    }
    let mut quotient = 0_u128;
    for _ in 0..BITS {
        quotient <<= 1;
        if dividend.compare(&divisor) != Ordering::Less {
            dividend.subtract(&divisor);
            quotient |= 1;
        }
        dividend.shift_left(1);
    }
    let length = |bits: usize| i64::try_from(bits).unwrap_or(i64::MAX / 2);
    (
        quotient,
        !dividend.is_zero(),
        length(long) - length(short) - (BITS - 1),
    )
}

/// A natural number of any size, as 32-bit digits, lowest first, without leading zeros.
#[derive(Clone, Debug)]
struct Natural(Vec<u32>);

impl From<u64> for Natural {
    fn from(value: u64) -> Self {
        let mut limbs = vec![low(value), low(value >> 32)];
        trim(&mut limbs);
        Self(limbs)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "only the lower half is needed"
)]
fn low(value: u64) -> u32 {
    value as u32
}

fn trim(limbs: &mut Vec<u32>) {
    while limbs.last() == Some(&0) {
        limbs.pop();
    }
}

impl Natural {
    fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn bits(&self) -> usize {
        self.0
            .last()
            .map_or(0, |top| self.0.len() * 32 - top.leading_zeros() as usize)
    }

    fn multiply_add(&mut self, factor: u32, plus: u32) {
        let mut carry = u64::from(plus);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = low(carry);
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(low(carry));
        }
    }

    fn shift_left(&mut self, bits: usize) {
        if self.is_zero() {
            return;
        }
        let (limbs, bits) = (bits / 32, bits % 32);
        let mut carry = 0;
        if bits > 0 {
            for limb in &mut self.0 {
                let wide = u64::from(*limb) << bits | carry;
                *limb = low(wide);
                carry = wide >> 32;
            }
        }
        if carry > 0 {
            self.0.push(low(carry));
        }
        if limbs > 0 {
            self.0.splice(0..0, std::iter::repeat_n(0, limbs));
        }
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0
            .len()
            .cmp(&other.0.len())
            .then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Subtracts a number that is not greater.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = 0;
        for (at, limb) in self.0.iter_mut().enumerate() {
            let taken = i64::from(other.0.get(at).copied().unwrap_or(0)) + borrow;
            let rest = i64::from(*limb) - taken;
            borrow = i64::from(rest < 0);
            *limb = low(rest.cast_unsigned());
        }
        trim(&mut self.0);
    }

    /// The first 100 bits or so, whether lower bits are set, and the exponent of the last bit.
    fn top_bits(&self) -> (u128, bool, i64) {
        let from = self.0.len().saturating_sub(4);
        let value = self.0[from..]
            .iter()
            .rev()
            .fold(0_u128, |value, limb| value << 32 | u128::from(*limb));
        let sticky = self.0[..from].iter().any(|limb| *limb != 0);
        (value, sticky, i64::try_from(from * 32).unwrap_or(i64::MAX))
    }

    fn into_decimal(mut self) -> String {
        const BILLION: u64 = 1_000_000_000;
        let mut parts = Vec::new();
        while !self.is_zero() {
            let mut rest = 0;
            for limb in self.0.iter_mut().rev() {
                let wide = rest << 32 | u64::from(*limb);
                *limb = low(wide / BILLION);
                rest = wide % BILLION;
            }
            trim(&mut self.0);
            parts.push(rest);
        }
        let Some(first) = parts.pop() else {
            return "0".to_owned();
        };
        parts
            .iter()
            .rev()
            .fold(first.to_string(), |text, part| format!("{text}{part:09}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One `a b sum` per line, recorded from Redis 7.0.15 with `SET k a`, `INCRBYFLOAT k b`.
    const RECORDED: &str = include_str!("long_double.txt");

    #[test]
    fn sums_are_those_of_redis() {
        let mut count = 0;
        for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
            let [a, b, expected] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let found = match (
                LongDouble::parse(a.as_bytes()),
                LongDouble::parse(b.as_bytes()),
            ) {
                (Some(a), Some(b)) => match a.add(b) {
                    Some(sum) if sum.is_finite() => sum.to_string(),
                    _ => "infinite".to_owned(),
                },
                _ => "invalid".to_owned(),
            };
            assert_eq!(found, expected, "{a} + {b}");
            count += 1;
        }
        assert!(count > 1000, "{count}");
    }

    #[test]
    fn seconds_are_rounded_up_to_milliseconds() {
        for (text, expected) in [
            ("0", 0),
            ("-0", 0),
            ("1", 1000),
            ("0.0001", 1),
            ("1e-400", 1),
            ("0.001", 1),
            ("0.0011", 2),
            ("-0.0001", 0),
            ("-1.0015", -1001),
            ("1.5e3", 1_500_000),
            ("9223372036854775.807", i64::MAX),
            ("9223372036854775.808", i64::MIN),
            ("-9223372036854775.808", i64::MIN + 1),
            ("1e300", i64::MIN),
            ("1e4932", i64::MIN),
            ("inf", i64::MIN),
            ("0x10", 16_000),
        ] {
            let number = LongDouble::parse(text.as_bytes()).expect(text);
            assert_eq!(number.to_millis_up(), expected, "{text}");
        }
    }

    #[test]
    fn the_nearest_double_is_found() {
        for text in [
            "0",
            "1",
            "-2.5",
            "0.1",
            "1e300",
            "1e-300",
            "123456789.987654321",
            "1e-310",
        ] {
            let number = LongDouble::parse(text.as_bytes()).expect(text);
            assert_eq!(number.to_f64(), text.parse::<f64>().expect(text), "{text}");
        }
        let number = LongDouble::parse(b"1e400").expect("in the range of the format");
        assert_eq!(number.to_f64(), f64::INFINITY);
    }

    #[test]
    fn a_text_that_is_no_number_is_refused() {
        for text in [
            "", " 1", "1 ", "1e", "0x", ".", "-", "+-1", "1e5000", "1e-5000", "nan", "1\0", "0x1p",
            "1.2.3", "infin",
        ] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(LongDouble::parse(&[b'1'; TEXT_BYTES_MAX]), None);
    }
}
