//! The random value by which Redis knows one acquisition from all others.

use std::fmt;

/// Names one acquisition of a lock: 128 random bits, never used twice.
///
/// The token is drawn anew for each acquisition. It does not stand for a lock object, a thread or a
/// process, so a grant that was lost can neither free nor extend a later one.
/// It is stored in Redis as 32 lower-case hexadecimal digits, which is also what it displays as.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; Self::LEN]);

impl Token {
    /// Bytes on the wire.
    pub(crate) const LEN: usize = 32;

    /// Makes a token of random bytes.
    pub(crate) fn new(random: [u8; 16]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; Self::LEN];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(random) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(digits)
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits: [u8; Self::LEN] = text.as_bytes().try_into().ok()?;
        let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        digits.iter().all(is_digit).then_some(Self(digits))
    }

    pub(crate) fn digits(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// Returns the token as it is stored in Redis.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Token {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|&digit| write!(f, "{}", char::from(digit)))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

/// A fencing token: a number that grows from grant to grant of one lock, by which a resource refuses outdated holders.
///
/// The resource keeps the highest one that it has seen, raises it on *any* access, read or write, and
/// refuses a lower one, or an equal one that comes with another [`Token`]. It is made from a `u64` and turned into one, to be
/// stored and sent; with the feature `serde` it is serialized as that number:
///
/// ```
/// use redouble_lock::FencingToken;
///
/// let highest = FencingToken::from(7_u64);
/// assert!(FencingToken::from(6) < highest);
/// assert_eq!(u64::from(highest), 7);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct FencingToken(u64);

impl FencingToken {
    pub(crate) fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl From<u64> for FencingToken {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_written_in_hexadecimal() {
        let token = Token::new([0, 1, 15, 16, 171, 205, 239, 255, 0, 0, 0, 0, 0, 0, 0, 9]);
        assert_eq!(token.as_bytes(), b"00010f10abcdefff0000000000000009");
        assert_eq!(token.to_string(), "00010f10abcdefff0000000000000009");
    }
}
