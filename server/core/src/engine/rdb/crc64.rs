//! The checksum at the end of a payload: CRC-64 by Jones, reflected (`crc64.c`).

/// The polynomial ad93d23594c935a9 with its bits in reverse order.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u64, 0);
        while bit < 8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

pub(in crate::engine) fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| {
        TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value_is_right() {
        assert_eq!(super::crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(super::crc64(b""), 0);
    }
}
