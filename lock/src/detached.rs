//! A grant that goes from one process to another.

use crate::{
    error::DetachedLockError,
    token::{FencingToken, Token},
};
use std::{fmt, str::FromStr, time::Duration};

/// What another process needs to go on holding a lock: made by [`Guard::detach`](crate::Guard::detach),
/// taken by [`Lock::adopt`](crate::Lock::adopt).
///
/// It can be sent as text: `Display` writes what `FromStr` reads. With the feature `serde` it is serialized as that text. Every process
/// that has it can take over the lock, so it is a secret as the token is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "String", try_from = "String"))]
#[must_use = "the lock stands until its lease is over"]
pub struct DetachedLock {
    pub(crate) key: Vec<u8>,
    pub(crate) token: Token,
    pub(crate) fence: Option<FencingToken>,
    pub(crate) remaining: Duration,
    /// The rest of its minimum hold.
    pub(crate) hold: Duration,
}

impl DetachedLock {
    /// Returns the key of the lock.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the random value that Redis knows the grant by.
    #[must_use]
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Returns the fencing token of the grant, if its kind has one. It stays the same.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.fence
    }

    /// Returns for how long the grant was valid when it was detached. A process that adopts it later than
    /// that may find it gone.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.remaining
    }
}

/// `token:fence:milliseconds:key`, the key in hexadecimal digits; and `:milliseconds` if there is a rest of the minimum hold.
impl fmt::Display for DetachedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.token)?;
        if let Some(fence) = self.fence {
            write!(f, "{fence}")?;
        }
        write!(f, ":{}:", self.remaining.as_millis())?;
        self.key
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        match self.hold.as_micros().div_ceil(1_000) {
            0 => Ok(()),
            hold_ms => write!(f, ":{hold_ms}"),
        }
    }
}

impl FromStr for DetachedLock {
    type Err = DetachedLockError;

    fn from_str(text: &str) -> Result<Self, DetachedLockError> {
        let mut fields = text.split(':');
        let mut next = || fields.next().ok_or(DetachedLockError);
        let token = Token::parse(next()?).ok_or(DetachedLockError)?;
        let fence = match next()? {
            "" => None,
            number => Some(FencingToken::new(
                number.parse().map_err(|_| DetachedLockError)?,
            )),
        };
        let remaining = next()?.parse().map_err(|_| DetachedLockError)?;
        let digits = next()?.as_bytes();
        let pairs = digits.chunks(2).map(byte);
        let key = pairs
            .collect::<Option<Vec<u8>>>()
            .ok_or(DetachedLockError)?;
        let hold = fields.next().map_or(Ok(0), str::parse);
        let hold = hold.map_err(|_| DetachedLockError)?;
        if fields.next().is_some() {
            return Err(DetachedLockError);
        }
        Ok(Self {
            key,
            token,
            fence,
            remaining: Duration::from_millis(remaining),
            hold: Duration::from_millis(hold),
        })
    }
}

impl From<DetachedLock> for String {
    fn from(detached: DetachedLock) -> Self {
        detached.to_string()
    }
}

impl TryFrom<String> for DetachedLock {
    type Error = DetachedLockError;

    fn try_from(text: String) -> Result<Self, DetachedLockError> {
        text.parse()
    }
}

fn byte(pair: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detached_lock_survives_as_text() {
        for (fence, hold, fields) in [
            (None, 0, 4),
            (Some(FencingToken::new(17)), 0, 4),
            (None, 7, 5),
        ] {
            let detached = DetachedLock {
                key: b"order:17\xff".to_vec(),
                token: Token::new([7; 16]),
                fence,
                remaining: Duration::from_millis(29_998),
                hold: Duration::from_millis(hold),
            };
            let text = detached.to_string();
            assert_eq!(text.split(':').count(), fields, "{text}");
            assert_eq!(text.parse(), Ok(detached));
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_writes_the_text() -> serde_json::Result<()> {
        let detached = DetachedLock {
            key: b"k".to_vec(),
            token: Token::new([7; 16]),
            fence: Some(FencingToken::new(17)),
            remaining: Duration::from_millis(29_998),
            hold: Duration::ZERO,
        };
        let json = serde_json::to_string(&detached)?;
        assert_eq!(json, format!("\"{detached}\""));
        assert_eq!(serde_json::from_str::<DetachedLock>(&json)?, detached);
        assert!(serde_json::from_str::<DetachedLock>("\"17\"").is_err());
        assert_eq!(serde_json::to_string(&detached.fence)?, "17");
        assert_eq!(serde_json::from_str::<FencingToken>("17")?.get(), 17);
        Ok(())
    }

    #[test]
    fn other_texts_are_refused() {
        let token = "0".repeat(32);
        for text in [
            String::new(),
            format!("{token}:1:1"),
            format!("{token}:x:1:6b"),
            format!("{token}:1:-1:6b"),
            format!("{token}:1:1:6"),
            format!("{token}:1:1:6g"),
            format!("{token}:1:1:6b:"),
            format!("{token}:1:1:6b:x"),
            format!("{token}:1:1:6b:1:"),
            format!("{}:1:1:6b", "A".repeat(32)),
            format!("{}:1:1:6b", "a".repeat(31)),
        ] {
            assert_eq!(
                text.parse::<DetachedLock>(),
                Err(DetachedLockError),
                "{text}"
            );
        }
    }
}
