//! Payloads of DUMP and RESTORE: one value, the version of RDB, a checksum (`cluster.c: createDumpPayload`).
//!
//! A payload is not trusted: one that does not fit together is refused, and no allocation is larger than
//! what the payload's own bytes could fill.

use super::{Kind, Value};
use crate::engine::config::Config;
use crate::engine::rdb::{Reader, Writer, crc64};

/// The version and the checksum at the end.
pub(in crate::engine) const FOOTER_BYTES: usize = 10;

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadError {
    /// The version is newer, or the checksum does not fit.
    Footer,
    /// The bytes are not a valid value.
    Malformed,
    /// The type of the value, or its encoding, is not implemented.
    NotHere(u8),
}

/// The payload of a value.
pub(crate) fn dump(value: &Value, config: &Config) -> Vec<u8> {
    sealed(body(value, config), config)
}

/// Adds the footer of a payload.
pub(in crate::engine) fn sealed(mut out: Vec<u8>, config: &Config) -> Vec<u8> {
    out.extend(config.profile.rdb_version().to_le_bytes());
    let sum = crc64(&out);
    out.extend(sum.to_le_bytes());
    out
}

fn body(value: &Value, config: &Config) -> Vec<u8> {
    let mut writer = Writer::new(config.rdbcompression);
    value.as_type().save(&mut writer, config);
    writer.into_bytes()
}

/// Bytes of a value in an RDB file, without its type.
pub(crate) fn serialized_bytes(value: &Value, config: &Config) -> usize {
    body(value, config).len() - 1
}

/// The value of a payload.
pub(crate) fn restore(payload: &[u8], config: &Config) -> Result<Value, PayloadError> {
    let body = checked_body(payload, config).ok_or(PayloadError::Footer)?;
    let (number, rest) = body.split_first().ok_or(PayloadError::Malformed)?;
    load(*number, &mut Reader::new(rest), config)
}

/// Reads a value behind its RDB type.
pub(crate) fn load(
    number: u8,
    reader: &mut Reader<'_>,
    config: &Config,
) -> Result<Value, PayloadError> {
    let mut rows = Kind::ALL.iter().flat_map(|kind| kind.row().load);
    let found = rows.find(|(known, _)| *known == number);
    let Some((_, load)) = found.filter(|_| config.profile.has_rdb_type(number)) else {
        return Err(if config.profile.has_rdb_type(number) {
            PayloadError::NotHere(number)
        } else {
            PayloadError::Malformed
        });
    };
    let value = load(reader, config).ok_or(PayloadError::Malformed)?;
    if value.as_type().is_empty() {
        return Err(PayloadError::Malformed);
    }
    Ok(value)
}

/// The bytes before the footer, if the footer is right (`cluster.c: verifyDumpPayload`).
pub(in crate::engine) fn checked_body<'a>(payload: &'a [u8], config: &Config) -> Option<&'a [u8]> {
    let body_bytes = payload.len().checked_sub(FOOTER_BYTES)?;
    let (body, footer) = payload.split_at(body_bytes);
    let version = u16::from_le_bytes([footer[0], footer[1]]);
    let (summed, sum) = payload.split_at(body_bytes + 2);
    let is_right = config.skips_checksums || crc64(summed).to_le_bytes() == *sum;
    (version <= config.profile.rdb_version() && is_right).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::value::{Element, Hash, HashLimits, Text};
    use crate::resp::Blob;

    fn round_trip(value: &Value, config: &Config) -> Value {
        restore(&dump(value, config), config).expect("a payload of our own")
    }

    fn list(count: usize, bytes: usize) -> Value {
        let elements = (0..count).map(|i| Element::new(format!("{i:0bytes$}").as_bytes()));
        Value::List(elements.collect())
    }

    #[test]
    fn values_come_back() {
        let mut config = Config::default();
        for text in [
            "",
            "5",
            "-200",
            "70000",
            "12345678901",
            "abc",
            &"ab".repeat(300),
        ] {
            let value = Value::String(Blob::from(text));
            let Value::String(back) = round_trip(&value, &config) else {
                panic!("a string");
            };
            assert_eq!(*back, *text.as_bytes());
        }
        for size_class in [-5, -1, 0, 3, 1000] {
            config.list_max_listpack_size = size_class;
            let given = list(3000, 12);
            let (Value::List(given), Value::List(back)) = (&given, round_trip(&given, &config))
            else {
                panic!("lists");
            };
            assert!(
                given
                    .iter()
                    .map(Text::bytes)
                    .eq(back.iter().map(Text::bytes))
            );
        }
        for count in [1, 100, 2000] {
            let mut hash = Hash::default();
            let limits = HashLimits {
                entries: 512,
                bytes: 64,
            };
            for i in 0..count {
                hash.set(format!("f{i}").as_bytes(), i.to_string().as_bytes(), limits);
            }
            let value = Value::Hash(hash.clone());
            let Value::Hash(back) = round_trip(&value, &config) else {
                panic!("a hash");
            };
            assert!(
                hash.iter()
                    .all(|(field, value)| back.get(&field).is_some_and(|other| *other == *value))
            );
            assert_eq!(hash.len(), back.len());
            assert_eq!(matches!(back, Hash::Small(_)), count <= 512);
        }
    }

    #[test]
    fn a_payload_that_was_cut_or_changed_is_refused() {
        let config = Config::default();
        let payload = dump(&list(20, 30), &config);
        for cut in 0..payload.len() {
            assert!(restore(&payload[..cut], &config).is_err());
            let mut changed = payload.clone();
            changed[cut] ^= 1;
            assert_eq!(restore(&changed, &config).err(), Some(PayloadError::Footer));
        }
        // With a right checksum it is up to the reader, which must neither panic nor make up memory.
        for cut in 0..payload.len() - FOOTER_BYTES {
            for change in [1, 0x40, 0x80, 0xff] {
                let mut body = payload[..payload.len() - FOOTER_BYTES].to_vec();
                body[cut] ^= change;
                body.extend(Config::default().profile.rdb_version().to_le_bytes());
                body.extend(crc64(&body).to_le_bytes());
                let _either = restore(&body, &config);
            }
        }
    }
}
