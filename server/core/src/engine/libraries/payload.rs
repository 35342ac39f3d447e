//! Payloads of FUNCTION DUMP and FUNCTION RESTORE: libraries as an RDB file has them, the version of RDB, a checksum.
//!
//! A payload is not trusted.

use super::Libraries;
use crate::engine::config::Config;
use crate::engine::rdb::{Reader, Writer};
use crate::engine::value::{FOOTER_BYTES, checked_body, sealed};
use crate::resp::{Blob, ErrorReply};

/// `rdb.h: RDB_OPCODE_FUNCTION2`, in front of each library.
const LIBRARY: u8 = 245;
/// `rdb.h: RDB_OPCODE_FUNCTION`, of the release candidates of 7.0.
const OLD_LIBRARY: u8 = 246;

/// The payload of all libraries.
pub(crate) fn dump(libraries: &Libraries, config: &Config) -> Vec<u8> {
    let mut writer = Writer::new(config.rdbcompression);
    for library in libraries.iter() {
        writer.kind(LIBRARY);
        writer.string(&library.code);
    }
    sealed(writer.into_bytes(), config)
}

/// The texts of the libraries in a payload, up to the first error (`functions.c: functionRestoreCommand`).
pub(crate) fn restore<'a>(
    payload: &'a [u8],
    config: &Config,
) -> Result<impl Iterator<Item = Result<Blob, ErrorReply>> + use<'a>, ErrorReply> {
    checked_body(payload, config)
        .ok_or_else(|| ErrorReply::new("ERR DUMP payload version or checksum are wrong"))?;
    let mut reader = Reader::new(payload);
    let mut has_failed = false;
    Ok(std::iter::from_fn(move || {
        // As in Redis, a length may reach into the footer.
        if has_failed || reader.remaining() <= FOOTER_BYTES {
            return None;
        }
        let code = next(&mut reader);
        has_failed = code.is_err();
        Some(code.map_err(|text| ErrorReply::new(format!("ERR {text}"))))
    }))
}

/// The next library (`rdb.c: rdbFunctionLoad`).
fn next(reader: &mut Reader<'_>) -> Result<Blob, &'static str> {
    match reader.array() {
        Some([LIBRARY]) => reader.string().ok_or("Failed loading library payload"),
        Some([OLD_LIBRARY]) => old(reader),
        Some(_) => Err("given type is not a function"),
        None => Err("can not read data type"),
    }
}

/// A library of the old format, which had its name and engine outside of the text.
fn old(reader: &mut Reader<'_>) -> Result<Blob, &'static str> {
    let name = reader.string().ok_or("Failed loading library name")?;
    let engine = reader.string().ok_or("Failed loading engine name")?;
    let has_description = reader
        .length()
        .ok_or("Failed loading library description indicator")?;
    if has_description != 0 {
        reader
            .string()
            .ok_or("Failed loading library description")?;
    }
    let body = reader.string().ok_or("Failed loading library blob")?;
    let parts = [b"#!", &*engine, b" name=", &name, b"\n", &body];
    Ok(Blob::new(&parts.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_payload_is_that_of_redis() {
        let config = Config::default();
        let payload = dump(&Libraries::default(), &config);
        assert_eq!(payload, b"\n\x00]\x9b\\@\x0f\x7f\xa2\xda");
        assert_eq!(restore(&payload, &config).expect("a payload").count(), 0);
    }

    #[test]
    fn the_old_format_is_read_and_nonsense_is_refused() {
        let config = Config::default();
        let read = |body: &[u8]| {
            let payload = sealed(body.to_vec(), &config);
            let codes = restore(&payload, &config).expect("a payload");
            let codes: Result<Vec<_>, _> = codes.collect();
            codes.map_err(|error| error.text().to_owned())
        };
        let old = b"\xf6\x03lib\x03LUA\x01\x01d\x04code";
        assert_eq!(read(old), Ok(vec![Blob::from("#!LUA name=lib\ncode")]));
        assert_eq!(
            read(b"\xf5\x04code\xf5\x20abc"),
            Err("ERR Failed loading library payload".into())
        );
        assert_eq!(
            read(b"\x00\x01a"),
            Err("ERR given type is not a function".into())
        );
        assert_eq!(
            read(b"\xf6\x03lib\x20"),
            Err("ERR Failed loading engine name".into())
        );
        let text = "ERR DUMP payload version or checksum are wrong";
        assert!(restore(b"x", &config).is_err_and(|error| error.text() == text));
    }
}
