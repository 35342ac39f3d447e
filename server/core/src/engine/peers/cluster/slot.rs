//! Computes the slot of a key.

/// `CLUSTER_SLOTS`.
pub const SLOTS: u16 = 16_384;

/// `crc16.c`: XMODEM, polynomial 0x1021.
const CRC: [u16; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut crc = (at as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x1021
            };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
};

/// The part of a key that is hashed: the text between its first `{` and the next `}`, if there is
/// any.
fn tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else {
        return key;
    };
    let behind = &key[open + 1..];
    match behind.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &behind[..close],
    }
}

/// The slot of a key or of a sharded channel (`cluster.c: keyHashSlot`).
pub fn slot_of(key: &[u8]) -> u16 {
    let step = |crc: u16, byte: &u8| crc << 8 ^ CRC[usize::from((crc >> 8) as u8 ^ *byte)];
    tag(key).iter().fold(0, step) % SLOTS
}

/// The slots for which `is_in` is true, as ranges.
pub(crate) fn ranges(is_in: impl Fn(u16) -> bool) -> Vec<(u16, u16)> {
    let mut ranges: Vec<(u16, u16)> = Vec::new();
    for slot in (0..SLOTS).filter(|slot| is_in(*slot)) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    ranges
}

/// The slots of one master, as `redis-cli --cluster create` divides them.
pub fn share_of(master: usize, masters: usize) -> std::ops::Range<u16> {
    let per_node = f64::from(SLOTS) / masters as f64;
    let begin = |of: usize| (of as f64 * per_node).round() as u16;
    let end = if master + 1 == masters {
        SLOTS
    } else {
        begin(master + 1)
    };
    begin(master)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        for (key, slot) in [
            ("b", 3300),
            ("a", 15495),
            ("f", 3168),
            ("foo{bar}x", 5061),
            ("bar", 5061),
            ("{bar}{b}", 5061),
            ("", 0),
            ("123456789", 0x31c3),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        // An empty or unclosed tag does not count.
        for key in ["x{}y", "x{", "{}b", "b}{"] {
            assert_eq!(tag(key.as_bytes()), key.as_bytes());
        }
        assert_eq!(tag(b"{{b}}"), b"{b");
    }

    #[test]
    fn every_slot_has_one_master() {
        assert_eq!(
            (0..3).map(|master| share_of(master, 3)).collect::<Vec<_>>(),
            [0..5461, 5461..10923, 10923..16384]
        );
        for masters in [1, 2, 5, 6, 7, 100, 999] {
            let all = (0..masters).flat_map(|master| share_of(master, masters));
            assert!(all.eq(0..SLOTS), "{masters}");
        }
    }
}
