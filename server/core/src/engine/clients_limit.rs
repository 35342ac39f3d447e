//! The values of `maxmemory-clients`.

use super::memory_size::parse_memory;
use crate::resp::parse_integer;
use std::fmt;

/// A number of bytes, or a share of `maxmemory`; 0 for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientsLimit {
    Bytes(u64),
    /// At most 100.
    Percent(u64),
}

/// The least limit: with less, no client could talk to the node (`server.c: getClientEvictionLimit`).
const BYTES_MIN: u64 = 128 * 1024;

impl Default for ClientsLimit {
    fn default() -> Self {
        Self::Bytes(0)
    }
}

impl fmt::Display for ClientsLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl ClientsLimit {
    pub(super) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        const INVALID: &str = "argument must be a memory or percent value";
        const TOO_HIGH: &str = "percentage argument must be less or equal to 100";
        let Some(percent) = text.strip_suffix(b"%") else {
            let bytes = parse_memory(text).ok_or(INVALID)?;
            // Redis keeps a signed number, and percentages as negative ones.
            return match i64::try_from(bytes) {
                Ok(_) => Ok(Self::Bytes(bytes)),
                Err(_) => match (bytes as i64).unsigned_abs() {
                    percent @ 1..=100 => Ok(Self::Percent(percent)),
                    _ => Err(TOO_HIGH),
                },
            };
        };
        match parse_integer(percent).map(u64::try_from) {
            // Redis keeps percentages as negative numbers, so none is 0 bytes.
            Some(Ok(0)) => Ok(Self::default()),
            Some(Ok(percent @ 1..=100)) => Ok(Self::Percent(percent)),
            Some(Ok(_)) => Err(TOO_HIGH),
            Some(Err(_)) | None => Err(INVALID),
        }
    }

    /// Checks a value; returns it as CONFIG GET prints it.
    pub(super) fn check(text: &[u8]) -> Result<Vec<u8>, &'static str> {
        Self::parse(text).map(|limit| limit.to_string().into_bytes())
    }

    /// The limit in bytes; `None` for no limit.
    #[inline]
    pub(crate) fn bytes(self, maxmemory: u64) -> Option<u64> {
        let bytes = match self {
            Self::Bytes(0) => return None,
            Self::Bytes(bytes) => bytes,
            Self::Percent(_) if maxmemory == 0 => return None,
            Self::Percent(percent) => (u128::from(maxmemory) * u128::from(percent) / 100) as u64,
        };
        Some(bytes.max(BYTES_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_counts_from_maxmemory() {
        let bytes = |text: &str, maxmemory| {
            ClientsLimit::parse(text.as_bytes()).map(|limit| limit.bytes(maxmemory))
        };
        assert_eq!(bytes("1mb", 0), Ok(Some(1024 * 1024)));
        assert_eq!(bytes("1kb", 0), Ok(Some(BYTES_MIN)));
        assert_eq!(bytes("7%", 10_000_000), Ok(Some(700_000)));
        assert_eq!(bytes("7%", 1000), Ok(Some(BYTES_MIN)));
        assert_eq!(bytes("7%", 0), Ok(None));
        assert_eq!(bytes("0%", 1000), Ok(None));
        assert_eq!(bytes("100%", u64::MAX), Ok(Some(u64::MAX)));
        assert_eq!(bytes("9223372036854775807", 0), Ok(Some(i64::MAX as u64)));
        assert!(bytes("9223372036854775808", 0).is_err());
        assert!(bytes("101%", 1).is_err() && bytes("-1%", 1).is_err() && bytes("%", 1).is_err());
    }
}
