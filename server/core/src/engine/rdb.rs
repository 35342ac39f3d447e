//! The RDB format below values: lengths, strings, listpacks, and the numbers of its types (`rdb.c`, `rdb.h`).
//!
//! Which types of values there are, and how each is written, stands in `value/<type>/row.rs`.

mod crc64;
mod listpack;
mod lzf;
pub(super) mod packed;
mod ziplist;
mod zipmap;

use crate::resp::{Blob, parse_integer};
pub(in crate::engine) use crc64::crc64;
pub(in crate::engine) use listpack::{
    EMPTY_BYTES as LISTPACK_EMPTY_BYTES, entry_bytes as listpack_entry_bytes,
};

/// Numbers of encodings of values (`rdb.h: RDB_TYPE_STRING` ...).
pub(super) mod kind {
    pub(crate) const STRING: u8 = 0;
    pub(crate) const LIST: u8 = 1;
    pub(crate) const SET: u8 = 2;
    pub(crate) const ZSET: u8 = 3;
    pub(crate) const HASH: u8 = 4;
    pub(crate) const ZSET_2: u8 = 5;
    pub(crate) const HASH_ZIPMAP: u8 = 9;
    pub(crate) const LIST_ZIPLIST: u8 = 10;
    pub(crate) const SET_INTSET: u8 = 11;
    pub(crate) const ZSET_ZIPLIST: u8 = 12;
    pub(crate) const HASH_ZIPLIST: u8 = 13;
    pub(crate) const LIST_QUICKLIST: u8 = 14;
    pub(crate) const STREAM_LISTPACKS: u8 = 15;
    pub(crate) const HASH_LISTPACK: u8 = 16;
    pub(crate) const ZSET_LISTPACK: u8 = 17;
    pub(crate) const LIST_QUICKLIST_2: u8 = 18;
    pub(crate) const STREAM_LISTPACKS_2: u8 = 19;
    pub(crate) const STREAM_LISTPACKS_3: u8 = 21;
    pub(crate) const SET_LISTPACK: u8 = 20;
    pub(crate) const HASH_METADATA: u8 = 24;
    pub(crate) const HASH_LISTPACK_EX: u8 = 25;
}

/// Longer strings are never integers.
const INTEGER_BYTES_MAX: usize = 11;
/// Only longer strings are compressed, and only if that saves so much.
const COMPRESSED_BYTES_MIN: usize = 21;
const SAVED_BYTES_MIN: usize = 4;

/// Bytes of RDB in the making.
pub(crate) struct Writer {
    out: Vec<u8>,
    compresses: bool,
}

impl Writer {
    pub(super) fn new(compresses: bool) -> Self {
        Self {
            out: Vec::new(),
            compresses,
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// The number of an encoding.
    pub(super) fn kind(&mut self, number: u8) {
        self.out.push(number);
    }

    /// `rdb.c: rdbSaveLen`.
    pub(super) fn length(&mut self, length: u64) {
        match length {
            0..0x40 => self.out.push(length as u8),
            0x40..0x4000 => self.out.extend((length as u16 | 0x4000).to_be_bytes()),
            0x4000..=0xffff_ffff => {
                self.out.push(0x80);
                self.out.extend((length as u32).to_be_bytes());
            }
            _ => {
                self.out.push(0x81);
                self.out.extend(length.to_be_bytes());
            }
        }
    }

    /// `rdb.c: rdbSaveRawString`.
    pub(super) fn string(&mut self, bytes: &[u8]) {
        let is_short = bytes.len() <= INTEGER_BYTES_MAX;
        let integer = parse_integer(bytes).filter(|_| is_short);
        if let Some(value) = integer.and_then(|value| i32::try_from(value).ok()) {
            match (i8::try_from(value), i16::try_from(value)) {
                (Ok(value), _) => self.out.extend([0xc0, value as u8]),
                (_, Ok(value)) => {
                    self.out.push(0xc1);
                    self.out.extend(value.to_le_bytes());
                }
                _ => {
                    self.out.push(0xc2);
                    self.out.extend(value.to_le_bytes());
                }
            }
            return;
        }
        if self.compresses
            && bytes.len() >= COMPRESSED_BYTES_MIN
            && let Some(compressed) = lzf::compress(bytes, bytes.len() - SAVED_BYTES_MIN)
        {
            self.out.push(0xc3);
            self.length(compressed.len() as u64);
            self.length(bytes.len() as u64);
            self.out.extend(compressed);
            return;
        }
        self.length(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    /// Bytes as they are, without a length.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A listpack of these entries, as a string.
    pub(super) fn listpack<'a>(&mut self, entries: impl Iterator<Item = &'a [u8]>) {
        self.string(&listpack::encode(entries));
    }
}

/// Size of a listpack of these entries, bytes.
pub(super) fn listpack_bytes<'a>(entries: impl Iterator<Item = &'a [u8]>) -> usize {
    let entries = entries.map(listpack::entry_bytes);
    listpack::EMPTY_BYTES + entries.sum::<usize>()
}

/// A length, or the number of a special encoding.
enum Length {
    Plain(u64),
    Special(u8),
}

/// Bytes of RDB that are read. `None` means that they do not fit together.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    /// Number of bytes that are not read yet.
    #[cfg(feature = "script")]
    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// `rdb.c: rdbLoadLenByRef`.
    fn length_or_special(&mut self) -> Option<Length> {
        let [first] = self.array()?;
        Some(match first >> 6 {
            0 => Length::Plain(u64::from(first)),
            1 => {
                let [second] = self.array()?;
                Length::Plain(u64::from(u16::from_be_bytes([first & 0x3f, second])))
            }
            2 if first == 0x80 => Length::Plain(u64::from(u32::from_be_bytes(self.array()?))),
            2 if first == 0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
            2 => return None,
            _ => Length::Special(first & 0x3f),
        })
    }

    pub(super) fn length(&mut self) -> Option<u64> {
        match self.length_or_special()? {
            Length::Plain(length) => Some(length),
            Length::Special(_) => None,
        }
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.length()?).ok()
    }

    pub(super) fn string(&mut self) -> Option<Blob> {
        Some(match self.length_or_special()? {
            Length::Plain(length) => Blob::new(self.take(usize::try_from(length).ok()?)?),
            Length::Special(0) => Blob::from_integer(i8::from_le_bytes(self.array()?).into()),
            Length::Special(1) => Blob::from_integer(i16::from_le_bytes(self.array()?).into()),
            Length::Special(2) => Blob::from_integer(i32::from_le_bytes(self.array()?).into()),
            Length::Special(3) => {
                let (compressed, len) = (self.size()?, self.size()?);
                Blob::from(lzf::decompress(self.take(compressed)?, len)?)
            }
            Length::Special(_) => return None,
        })
    }

    /// The fields and values of a zipmap.
    pub(super) fn zipmap(&mut self) -> Option<Vec<Blob>> {
        zipmap::decode(&self.string()?)
    }

    /// Number of bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// The entries of a ziplist.
    pub(super) fn ziplist(&mut self) -> Option<Vec<Blob>> {
        ziplist::decode(&self.string()?)
    }

    /// The entries of a listpack.
    pub(super) fn listpack(&mut self) -> Option<Vec<Blob>> {
        listpack::decode(&self.string()?)
    }
}
