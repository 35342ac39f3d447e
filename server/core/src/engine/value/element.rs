//! A string in a collection: short ones inline, long ones shared. Smaller than a [`Blob`], since a
//! collection holds many.

use crate::resp::Blob;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

const INLINE_MAX: usize = 22;

/// Bytes, 24 bytes of handle. A clone allocates nothing.
#[derive(Clone)]
pub(crate) struct Element(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Shared(Arc<[u8]>),
}

impl Element {
    #[inline]
    pub(crate) fn new(bytes: &[u8]) -> Self {
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

    /// The decimal digits of `value`.
    pub(crate) fn from_integer(value: i64) -> Self {
        Self::new(itoa::Buffer::new().format(value).as_bytes())
    }

    /// Returns the bytes as a reply.
    #[inline]
    pub(crate) fn to_blob(&self) -> Blob {
        match &self.0 {
            Repr::Inline { len, bytes } => Blob::new(&bytes[..usize::from(*len)]),
            Repr::Shared(bytes) => Blob::from_shared(bytes),
        }
    }
}

impl From<&Blob> for Element {
    fn from(blob: &Blob) -> Self {
        match blob.shared() {
            Some(bytes) => Self(Repr::Shared(Arc::clone(bytes))),
            None => Self::new(blob),
        }
    }
}

impl Deref for Element {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Shared(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

/// A string in a collection: a separate element, or a part of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Text<'a> {
    Own(&'a Element),
    Packed(&'a [u8]),
}

impl<'a> Text<'a> {
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Own(element) => element,
            Self::Packed(bytes) => bytes,
        }
    }

    /// Returns the bytes as a reply.
    #[inline]
    pub(crate) fn to_blob(self) -> Blob {
        match self {
            Self::Own(element) => element.to_blob(),
            Self::Packed(bytes) => Blob::new(bytes),
        }
    }
}

impl Deref for Text<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_keeps_its_bytes() {
        assert_eq!(size_of::<Element>(), 24);
        for len in [0, 1, INLINE_MAX, INLINE_MAX + 1, 38, 39, 1024] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let blob = Blob::new(&bytes);
            for element in [Element::new(&bytes), Element::from(&blob)] {
                assert_eq!(&*element, &bytes[..]);
                assert_eq!(element.to_blob(), blob);
            }
        }
    }
}
