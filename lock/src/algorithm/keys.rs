//! The names of the further keys of a lock, such as the counter of its fencing tokens.
//!
//! Each name has the slot of the lock itself, so that one script can use both in a cluster. No two locks share a
//! name: each of the three forms can be told from the others, and the lock's own name be read off it.
//!
//! | name of the lock | name of the further key |
//! |---|---|
//! | `order:17`, without `}` | `{order:17}:fence` |
//! | `{order}:17`, with a hash tag | `{order}:17::fence` |
//! | `or}der`, with `}` and without a hash tag | `{88260}or}der}:fence`: the number is a tag with the same slot |

use std::sync::LazyLock;

/// Number of slots of a cluster.
const SLOTS: usize = 16_384;

/// Returns the name of the further key of the lock `key` that ends with `suffix`.
pub(crate) fn beside(key: &[u8], suffix: &str) -> Vec<u8> {
    if hash_tag(key).is_some() {
        [key, b":", suffix.as_bytes()].concat()
    } else if key.is_empty() || key.contains(&b'}') {
        let tag = TAGS[slot(key)].to_string();
        [b"{", tag.as_bytes(), b"}", key, b"}", suffix.as_bytes()].concat()
    } else {
        [b"{", key, b"}", suffix.as_bytes()].concat()
    }
}

/// Returns the name of the sorted set of the waiters of the lock `key`.
pub(crate) fn waiters_key(key: &[u8]) -> Vec<u8> {
    beside(key, ":waiters")
}

/// The part of a name that alone decides on its slot: what stands between the first `{` and the next `}`.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let begin = key.iter().position(|&byte| byte == b'{')? + 1;
    let length = key[begin..].iter().position(|&byte| byte == b'}')?;
    (length > 0).then(|| &key[begin..begin + length])
}

/// The slot of a key in a cluster.
fn slot(key: &[u8]) -> usize {
    usize::from(crc16(hash_tag(key).unwrap_or(key))) % SLOTS
}

/// CRC16 with the polynomial 0x1021, from zero (XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            let carry = crc & 0x8000 != 0;
            (crc << 1) ^ if carry { 0x1021 } else { 0 }
        })
    })
}

/// For each slot the lowest number whose decimal digits have it.
static TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![None; SLOTS];
    let mut missing = SLOTS;
    for number in 0_u32.. {
        let tag = &mut tags[slot(number.to_string().as_bytes())];
        if tag.is_none() {
            *tag = Some(number);
            missing -= 1;
        }
        if missing == 0 {
            break;
        }
    }
    tags.into_iter().flatten().collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const NAMES: [&[u8]; 22] = [
        b"order:17",
        b"a:{order}:17",
        b"{order}:17",
        b"a",
        b"{a}",
        b"{a}:",
        b"{a}}",
        b"{a",
        b"{{a}",
        b"a}",
        b"}a{",
        b"ab}c",
        b"{}",
        b"{}x",
        b"{}{x}",
        b"{}}",
        b"x{}y{z}",
        b"",
        b"}",
        b"{",
        b"\xff}\x00",
        b"{12}a}",
    ];

    #[test]
    fn a_slot_is_that_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot(b"{}x"), usize::from(crc16(b"{}x")) % SLOTS);
        assert_eq!(slot(b"x{a}y{b}"), slot(b"a"));
    }

    #[test]
    fn further_keys_have_the_slot_of_the_lock() {
        for name in NAMES {
            let further = beside(name, ":fence");
            assert_eq!(slot(&further), slot(name), "{}", further.escape_ascii());
        }
    }

    #[test]
    fn no_two_locks_share_a_further_key() {
        let mut further = BTreeSet::new();
        for name in NAMES {
            for suffix in [":fence", ":queue"] {
                assert!(
                    further.insert(beside(name, suffix)),
                    "{}",
                    name.escape_ascii()
                );
            }
        }
    }

    #[test]
    fn names_are_readable() {
        assert_eq!(beside(b"order:17", ":fence"), b"{order:17}:fence");
        assert_eq!(beside(b"{order}:17", ":fence"), b"{order}:17::fence");
    }

    #[test]
    fn each_slot_has_a_tag() {
        assert_eq!(TAGS.len(), SLOTS);
        for (wanted, tag) in TAGS.iter().enumerate() {
            assert_eq!(slot(tag.to_string().as_bytes()), wanted);
        }
    }
}
