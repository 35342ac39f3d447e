//! The DUMP of a stream (`rdb.c: rdbSaveObject`) as words. Ids and times are written as in XINFO, so present
//! ones can be compared with a tolerance for two clocks.

/// Type of streams, the first byte of a DUMP.
const STREAM: u8 = 19;
/// Length of the version and the checksum at the end.
const FOOTER_LEN: usize = 10;
/// Flag of an entry with the same fields as the first one of its node.
const SAME_FIELDS: i64 = 2;

/// Returns the words of a dump; none if it is not a stream.
pub(super) fn words(dump: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (payload, footer) = dump.split_at_checked(dump.len().checked_sub(FOOTER_LEN)?)?;
    let mut reader = Reader {
        rest: payload.strip_prefix(&[STREAM])?,
        words: vec![footer[..2].to_vec()],
    };
    reader.stream()?;
    reader.rest.is_empty().then_some(reader.words)
}

/// Reads a dump from the start; every method returns `None` if the dump ends too early.
struct Reader<'a> {
    rest: &'a [u8],
    words: Vec<Vec<u8>>,
}

impl<'a> Reader<'a> {
    fn stream(&mut self) -> Option<()> {
        for _ in 0..self.counted()? {
            let first = Id::of_bytes(&self.string()?)?;
            self.say(first.text());
            let node = self.string()?;
            self.words.extend(node_words(first, &node)?);
        }
        self.counted()?;
        // The last, the first and the greatest deleted id.
        for _ in 0..3 {
            self.id()?;
        }
        self.counted()?;
        for _ in 0..self.counted()? {
            self.group()?;
        }
        Some(())
    }

    fn group(&mut self) -> Option<()> {
        self.name()?;
        self.id()?;
        self.counted()?;
        for _ in 0..self.counted()? {
            self.raw_id()?;
            self.time()?;
            self.counted()?;
        }
        for _ in 0..self.counted()? {
            self.name()?;
            self.time()?;
            for _ in 0..self.counted()? {
                self.raw_id()?;
            }
        }
        Some(())
    }

    fn say(&mut self, word: impl Into<Vec<u8>>) {
        self.words.push(word.into());
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// Reads a length; an error with the encoding if it is not a length.
    fn length(&mut self) -> Option<Result<u64, u8>> {
        let first = self.byte()?;
        let low = u64::from(first & 0x3f);
        Some(match (first >> 6, first) {
            (0, _) => Ok(low),
            (1, _) => Ok(low << 8 | u64::from(self.byte()?)),
            (2, 0x80) => Ok(u32::from_be_bytes(self.take(4)?.try_into().ok()?).into()),
            (2, 0x81) => Ok(u64::from_be_bytes(self.take(8)?.try_into().ok()?)),
            (_, _) => Err(first),
        })
    }

    fn number(&mut self) -> Option<u64> {
        self.length()?.ok()
    }

    /// Reads a number and adds it as a word.
    fn counted(&mut self) -> Option<u64> {
        let number = self.number()?;
        self.say(number.to_string());
        Some(number)
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        let size = |number: u64| usize::try_from(number).ok();
        Some(match self.length()? {
            Ok(len) => self.take(size(len)?)?.to_vec(),
            Err(0xc0) => (self.byte()? as i8).to_string().into(),
            Err(0xc1) => {
                let bytes = self.take(2)?.try_into().ok()?;
                i16::from_le_bytes(bytes).to_string().into()
            }
            Err(0xc2) => {
                let bytes = self.take(4)?.try_into().ok()?;
                i32::from_le_bytes(bytes).to_string().into()
            }
            Err(0xc3) => {
                let (packed, len) = (size(self.number()?)?, size(self.number()?)?);
                let unpacked = unpack(self.take(packed)?)?;
                (unpacked.len() == len).then_some(unpacked)?
            }
            Err(_) => return None,
        })
    }

    fn name(&mut self) -> Option<()> {
        let name = self.string()?;
        self.say(name);
        Some(())
    }

    /// Reads an id of two numbers.
    fn id(&mut self) -> Option<()> {
        let id = Id {
            ms: self.number()?,
            seq: self.number()?,
        };
        self.say(id.text());
        Some(())
    }

    /// Reads an id of sixteen bytes.
    fn raw_id(&mut self) -> Option<()> {
        let id = Id::of_bytes(self.take(16)?)?;
        self.say(id.text());
        Some(())
    }

    fn time(&mut self) -> Option<()> {
        let millis = i64::from_le_bytes(self.take(8)?.try_into().ok()?);
        self.say(millis.to_string());
        Some(())
    }
}

#[derive(Clone, Copy)]
struct Id {
    ms: u64,
    seq: u64,
}

impl Id {
    fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let (ms, seq) = bytes.split_at_checked(8)?;
        Some(Self {
            ms: u64::from_be_bytes(ms.try_into().ok()?),
            seq: u64::from_be_bytes(seq.try_into().ok()?),
        })
    }

    fn text(self) -> String {
        format!("{}-{}", self.ms, self.seq)
    }
}

/// Returns the words of a node. Its ids are relative to its first one.
fn node_words(first: Id, listpack: &[u8]) -> Option<Vec<Vec<u8>>> {
    let elements = elements(listpack)?;
    let mut elements = elements.iter();
    let mut words = Vec::new();
    let mut next = |words: &mut Vec<Vec<u8>>| -> Option<i64> {
        let element = elements.next()?;
        words.push(element.clone());
        std::str::from_utf8(element).ok()?.parse().ok()
    };
    // Number of entries, number of deleted entries, fields of the first one, and a zero.
    next(&mut words);
    next(&mut words);
    let fields = next(&mut words)?;
    for _ in 0..=fields {
        next(&mut words);
    }
    while let Some(flags) = next(&mut words) {
        let mut distances = Vec::new();
        let (ms, seq) = (next(&mut distances)?, next(&mut distances)?);
        let id = Id {
            ms: first.ms.checked_add_signed(ms)?,
            seq: first.seq.wrapping_add_signed(seq),
        };
        words.push(id.text().into());
        let values = if flags & SAME_FIELDS == 0 {
            next(&mut words)?.checked_mul(2)?
        } else {
            fields
        };
        // The number of elements of the entry follows its values.
        for _ in 0..=values {
            next(&mut words);
        }
    }
    Some(words)
}

/// Returns the elements of a listpack; integers as text.
fn elements(listpack: &[u8]) -> Option<Vec<Vec<u8>>> {
    const HEADER_LEN: usize = 6;
    const END: u8 = 0xff;
    let mut rest = listpack.get(HEADER_LEN..)?;
    let mut elements = Vec::new();
    loop {
        let (&first, behind) = rest.split_first()?;
        if first == END {
            return behind.is_empty().then_some(elements);
        }
        let int = |bytes: usize| -> Option<(usize, Vec<u8>)> {
            let mut wide = [0; 8];
            wide[8 - bytes..].copy_from_slice(behind.get(..bytes)?);
            let value = i64::from_le_bytes(wide) >> (64 - 8 * bytes);
            Some((1 + bytes, value.to_string().into()))
        };
        let text = |head: usize, len: usize| -> Option<(usize, Vec<u8>)> {
            let text = rest.get(head..head.checked_add(len)?)?;
            Some((head + len, text.to_vec()))
        };
        let low = |mask: u8| usize::from(first & mask);
        let (len, element) = match first {
            0..0x80 => (1, first.to_string().into()),
            0x80..0xc0 => text(1, low(0x3f))?,
            0xc0..0xe0 => {
                let value = (low(0x1f) << 8 | usize::from(*behind.first()?)) as i64;
                let value = if value >= 1 << 12 {
                    value - (1 << 13)
                } else {
                    value
                };
                (2, value.to_string().into())
            }
            0xe0..0xf0 => text(2, low(0x0f) << 8 | usize::from(*behind.first()?))?,
            0xf0 => {
                let len = u32::from_le_bytes(behind.get(..4)?.try_into().ok()?);
                text(5, usize::try_from(len).ok()?)?
            }
            0xf1 => int(2)?,
            0xf2 => int(3)?,
            0xf3 => int(4)?,
            0xf4 => int(8)?,
            0xf5.. => return None,
        };
        elements.push(element);
        rest = rest.get(len + backward_len(len)..)?;
    }
}

/// Returns the number of bytes of the length behind an element.
fn backward_len(len: usize) -> usize {
    match len {
        ..128 => 1,
        128..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

/// Decompresses LZF.
fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let mut packed = packed.iter().copied().map(usize::from);
    let mut unpacked = Vec::new();
    while let Some(first) = packed.next() {
        if first < 0x20 {
            for _ in 0..=first {
                unpacked.push(u8::try_from(packed.next()?).ok()?);
            }
            continue;
        }
        let mut len = first >> 5;
        if len == 7 {
            len += packed.next()?;
        }
        let distance = ((first & 0x1f) << 8 | packed.next()?) + 1;
        for _ in 0..len + 2 {
            unpacked.push(*unpacked.get(unpacked.len().checked_sub(distance)?)?);
        }
    }
    Some(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DUMP in 7.0.15 of a stream with a compressed node, a deleted entry, a group and two pending entries.
    const DUMP: &[u8] = b"\x13\x01\x10\x00\x00\x01\x8b\xcf\xe5h\x00\x00\x00\x00\x00\x00\x00\x00\x00\xc3@`@\xaa\x16\xaa\x00\x00\x00\x1f\x00\x03\x01\x01\x01\x02\x01\x85field\x06\x81n\x02\x00 \x0d\x00\x00 \x01\x0d\x85value\x06\x00\x01\x05\x01\x03\x01( $\xa0\x10\x03\xdf\x9c\x02\x05 \x22\x00P \x03\xa0\x11\x04\xf18\xef\x03\x05 1\x02\xc3\x84\x02 &\x0a\x01\x85other\x06\xe0Fa\xe0<\x00\x03H\x06\x01\xff\x03\x81\x00\x00\x01\x8b\xcf\xe5k\x84\x01\x81\x00\x00\x01\x8b\xcf\xe5h\x00\x00\x81\x00\x00\x01\x8b\xcf\xe5h(\x01\x04\x01\xc0\x0c\x81\x00\x00\x01\x8b\xcf\xe5hP\x02\x81\xff\xff\xff\xff\xff\xff\xff\xff\x02\x00\x00\x01\x8b\xcf\xe5h\x00\x00\x00\x00\x00\x00\x00\x00\x00\x88{\xe5\xcf\x8b\x01\x00\x00A,\x00\x00\x01\x8b\xcf\xe5hP\x00\x00\x00\x00\x00\x00\x00\x025\xef\xd2\x0a\xa2\x01\x00\x00\x01\x01\x01c5\xef\xd2\x0a\xa2\x01\x00\x00\x02\x00\x00\x01\x8b\xcf\xe5h\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x8b\xcf\xe5hP\x00\x00\x00\x00\x00\x00\x00\x02\x0a\x00H\x94\xc8\x84\xad1O\xe8";

    #[test]
    fn the_parts_of_a_stream_become_words() {
        let words = words(DUMP).expect("a stream");
        let words: Vec<_> = words
            .iter()
            .map(|word| String::from_utf8_lossy(word))
            .collect();
        let expected = "\n\0 1 1700000000000-0 3 1 2 field n 0 2 1700000000000-0 value 0 5 3 1700000000040-1 value -100 5 2 \
                        1700000000080-2 value -4296 5 0 1700000000900-1 1 other AAA 6 3 1700000000900-1 1700000000000-0 \
                        1700000000040-1 4 1 12 1700000000080-2 18446744073709551615 2 1700000000000-0 1700000005000 300 \
                        1700000000080-2 1795477925685 1 1 c 1795477925685 2 1700000000000-0 1700000000080-2";
        let long = "a".repeat(70);
        assert_eq!(words.join(" ").replace(&long, "AAA"), expected);
    }

    #[test]
    fn an_incomplete_stream_has_no_words() {
        for end in 0..DUMP.len() {
            assert!(words(&DUMP[..end]).is_none(), "{end} bytes");
        }
        assert!(words(b"\x00\x01a\x0a\x00checksum").is_none());
        let damaged: Vec<u8> = DUMP.iter().map(|byte| byte ^ 0x55).collect();
        assert!(words(&damaged).is_none());
    }
}
