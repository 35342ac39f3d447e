//! A binary-safe string of exact size: short ones inline, long ones shared.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Enough for a UUID, 16 random bytes in hexadecimal, and most lock names.
const INLINE_MAX: usize = 38;

/// A byte string with a handle of 40 bytes. Keys, values and bulk replies consist of these.
///
/// A blob owns its bytes and never refers to a larger buffer. Cloning does not allocate: up to 38
/// bytes are copied, longer strings are shared.
#[derive(Clone)]
pub struct Blob(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Shared(Arc<[u8]>),
}

impl Blob {
    /// Copies `bytes`.
    #[inline]
    pub fn new(bytes: &[u8]) -> Self {
        let len = bytes.len();
        if len <= INLINE_MAX {
            let mut inline = [0; INLINE_MAX];
            inline[..len].copy_from_slice(bytes);
            Self(Repr::Inline {
                len: len as u8,
                bytes: inline,
            })
        } else {
            Self(Repr::Shared(bytes.into()))
        }
    }

    /// Concatenates two byte strings.
    pub fn concat(first: &[u8], second: &[u8]) -> Self {
        let len = first.len() + second.len();
        if len <= INLINE_MAX {
            let mut inline = [0; INLINE_MAX];
            inline[..first.len()].copy_from_slice(first);
            inline[first.len()..len].copy_from_slice(second);
            Self(Repr::Inline {
                len: len as u8,
                bytes: inline,
            })
        } else {
            Self(Repr::Shared(first.iter().chain(second).copied().collect()))
        }
    }

    /// Overwrites the bytes from `offset` on. If the blob is shorter than `offset`, zero bytes fill
    /// the gap.
    pub fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        let len = offset + bytes.len();
        if len > self.len() && len > INLINE_MAX {
            let zeros = std::iter::repeat_n(&0, len - self.len());
            self.0 = Repr::Shared(self.iter().chain(zeros).copied().collect());
        }
        match &mut self.0 {
            Repr::Inline {
                len: end,
                bytes: inline,
            } => {
                inline[offset..len].copy_from_slice(bytes);
                *end = len.max(usize::from(*end)) as u8;
            }
            Repr::Shared(shared) => Arc::make_mut(shared)[offset..len].copy_from_slice(bytes),
        }
    }

    /// The same bytes, without a copy if they are long.
    pub(crate) fn from_shared(bytes: &Arc<[u8]>) -> Self {
        if bytes.len() <= INLINE_MAX {
            Self::new(bytes)
        } else {
            Self(Repr::Shared(Arc::clone(bytes)))
        }
    }

    /// The bytes, if they are shared.
    pub(crate) fn shared(&self) -> Option<&Arc<[u8]>> {
        match &self.0 {
            Repr::Inline { .. } => None,
            Repr::Shared(bytes) => Some(bytes),
        }
    }

    /// The decimal digits of `value`.
    pub fn from_integer(value: i64) -> Self {
        Self::new(itoa::Buffer::new().format(value).as_bytes())
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Shared(bytes) => bytes,
        }
    }
}

impl Default for Blob {
    fn default() -> Self {
        Self::new(b"")
    }
}

impl Deref for Blob {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl std::borrow::Borrow<[u8]> for Blob {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for Blob {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes)
    }
}

impl From<&str> for Blob {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}

impl From<String> for Blob {
    fn from(text: String) -> Self {
        Self::new(text.as_bytes())
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(&bytes)
    }
}

impl PartialEq for Blob {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Blob {}

impl PartialOrd for Blob {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Blob {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl std::hash::Hash for Blob {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_keeps_its_bytes() {
        assert_eq!(size_of::<Blob>(), 40);
        for len in [0, 1, INLINE_MAX, INLINE_MAX + 1, 1024, 100_000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let blob = Blob::new(&bytes);
            assert_eq!(&*blob, &bytes[..]);
            assert_eq!(blob.clone(), blob);
        }
    }

    #[test]
    fn parts_come_together_at_any_length() {
        for (first, second) in [
            (0, 0),
            (3, 4),
            (30, 8),
            (30, 9),
            (38, 0),
            (100, 1),
            (0, 500),
        ] {
            let (first, second) = (vec![b'a'; first], vec![b'b'; second]);
            let both = Blob::concat(&first, &second);
            assert_eq!(&*both, &[&first[..], &second[..]].concat()[..]);
        }
    }

    #[test]
    fn overwriting_a_blob_does_not_change_its_clones() {
        for (len, offset, count) in [
            (0, 0, 1),
            (5, 2, 2),
            (5, 4, 3),
            (5, 10, 2),
            (30, 36, 2),
            (30, 36, 3),
            (60, 10, 4),
            (60, 58, 4),
            (60, 80, 1),
            (0, 100, 1),
        ] {
            let mut blob = Blob::new(&vec![b'a'; len]);
            let before = blob.clone();
            blob.overwrite(offset, &vec![b'b'; count]);
            let mut model = vec![b'a'; len];
            model.resize(len.max(offset + count), 0);
            model[offset..offset + count].fill(b'b');
            assert_eq!((&*blob, &*before), (&model[..], &vec![b'a'; len][..]));
        }
    }
}
