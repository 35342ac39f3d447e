//! A binary-safe string of exact size: short ones inline, long ones shared.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Enough for a UUID, 16 random bytes in hexadecimal, and most lock names.
const INLINE_MAX: usize = 38;

/// A string that grows beyond this length gets spare capacity.
const GROWN_MIN: usize = 4096;

/// Most bytes of spare capacity (`sds.h: SDS_MAX_PREALLOC`).
const SPARE_MAX: usize = 1024 * 1024;

/// A byte string with a handle of 40 bytes. Keys, values and bulk replies consist of these.
///
/// A blob owns its bytes and never refers to a larger buffer. Cloning does not allocate: up to 38
/// bytes are copied, longer strings are shared. A long string that grows, as with APPEND and SETBIT, has spare capacity.
#[derive(Clone)]
pub struct Blob(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Shared(Arc<[u8]>),
    Grown(Arc<Vec<u8>>),
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

    /// Overwrites the bytes from `offset` on. If the blob is shorter than `offset`, zero bytes fill
    /// the gap.
    pub fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        let len = offset + bytes.len();
        if len > self.len() {
            self.grow(len);
        }
        self.bytes_mut()[offset..len].copy_from_slice(bytes);
    }

    /// Appends zero bytes up to a length of `len`.
    fn grow(&mut self, len: usize) {
        match &mut self.0 {
            Repr::Inline { len: end, .. } if len <= INLINE_MAX => *end = len as u8,
            Repr::Grown(shared) if Arc::strong_count(shared) == 1 => {
                let bytes = Arc::make_mut(shared);
                if bytes.capacity() < len {
                    let spare = len.min(SPARE_MAX);
                    bytes.reserve_exact(len + spare - bytes.len());
                }
                bytes.resize(len, 0);
            }
            Repr::Inline { .. } | Repr::Shared(_) | Repr::Grown(_) => {
                let mut longer = Self::zeroed(len);
                longer.bytes_mut()[..self.len()].copy_from_slice(self);
                *self = longer;
            }
        }
    }

    /// A blob of `len` zero bytes.
    pub(crate) fn zeroed(len: usize) -> Self {
        if len <= INLINE_MAX {
            Self::new(&[0; INLINE_MAX][..len])
        } else if len < GROWN_MIN {
            Self(Repr::Shared(std::iter::repeat_n(0, len).collect()))
        } else {
            Self(Repr::Grown(Arc::new(vec![0; len])))
        }
    }

    /// The bytes, to change them. Clones that share them keep the old ones.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Repr::Inline { len, bytes } => &mut bytes[..usize::from(*len)],
            Repr::Shared(bytes) => Arc::make_mut(bytes),
            Repr::Grown(bytes) => Arc::make_mut(bytes).as_mut_slice(),
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

    /// The bytes, if they are shared without spare capacity.
    pub(crate) fn shared(&self) -> Option<&Arc<[u8]>> {
        match &self.0 {
            Repr::Inline { .. } | Repr::Grown(_) => None,
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
            Repr::Grown(bytes) => bytes,
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
            (60, GROWN_MIN, 1),
            (GROWN_MIN, 3, 9),
            (GROWN_MIN + 1, GROWN_MIN + 1, 1),
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

    #[test]
    fn a_blob_grows_step_by_step() {
        for step in [1, 7, 100, GROWN_MIN] {
            let (mut blob, mut model) = (Blob::default(), Vec::new());
            for nth in 0..100_u8 {
                let more = vec![nth; step];
                let before = (nth % 8 == 0).then(|| (blob.clone(), model.clone()));
                blob.overwrite(blob.len(), &more);
                model.extend_from_slice(&more);
                assert_eq!(&*blob, &model[..]);
                if let Some((clone, bytes)) = before {
                    assert_eq!(&*clone, &bytes[..]);
                }
            }
        }
    }

    #[test]
    fn an_unshared_long_blob_grows_in_place() {
        let mut blob = Blob::zeroed(GROWN_MIN);
        blob.overwrite(GROWN_MIN, b"x");
        let place = blob.as_ptr();
        blob.overwrite(GROWN_MIN + 1, b"y");
        assert_eq!(blob.as_ptr(), place);
        let clone = blob.clone();
        blob.overwrite(GROWN_MIN + 2, b"z");
        assert_ne!(blob.as_ptr(), place);
        assert_eq!(&clone[GROWN_MIN..], b"xy");
    }
}
