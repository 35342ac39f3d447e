//! The first line of a library: `#!lua name=mylib` (`functions.c: functionExtractLibMetaData`).

use super::{BAD_NAME, is_name};
use crate::resp::{Blob, ErrorReply, OwnedRequest, split_inline};

/// Content of the first line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Name of the library.
    pub(crate) name: Blob,
    /// Length of the line without its end. Lua gets the line end, so that line numbers stay right.
    pub(crate) len: usize,
}

impl Header {
    /// Reads the first line of a library.
    pub(crate) fn parse(code: &[u8]) -> Result<Self, ErrorReply> {
        let refuse = |text: &'static str| Err(ErrorReply::new(text));
        let quoting = |before: &str, word: &[u8], after: &str| {
            let word = word.split(|byte| *byte == 0).next().unwrap_or_default();
            Err(ErrorReply::from_bytes(
                [before.as_bytes(), word, after.as_bytes()].concat(),
            ))
        };
        if !code.starts_with(b"#!") {
            return refuse("ERR Missing library metadata");
        }
        // The line is read as a C string.
        let end = code.iter().position(|byte| matches!(byte, b'\n' | 0));
        let Some(len) = end.filter(|end| code[*end] == b'\n') else {
            return refuse("ERR Invalid library metadata");
        };
        let mut words = OwnedRequest::default();
        if split_inline(&code[..len], &mut words).is_none() {
            return refuse("ERR Invalid library metadata");
        }
        let words = words.as_request();
        let mut words = words.iter().flat_map(|words| words.iter());
        let engine = words.next().unwrap_or_default();
        let engine = engine.get(2..).unwrap_or_default();
        let mut name = None;
        for word in words {
            const KEY: usize = b"name=".len();
            match word.split_at_checked(KEY) {
                Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => {
                    if name.replace(value).is_some() {
                        return refuse(
                            "ERR Invalid metadata value, name argument was given multiple times",
                        );
                    }
                }
                Some(_) | None => return quoting("ERR Invalid metadata value given: ", word, ""),
            }
        }
        let Some(name) = name else {
            return refuse("ERR Library name was not given");
        };
        if !is_name(name) {
            return refuse(BAD_NAME);
        }
        if !engine.eq_ignore_ascii_case(b"lua") {
            return quoting("ERR Engine '", engine, "' not found");
        }
        let name = Blob::new(name);
        Ok(Self { name, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read_as_redis_does() {
        let read =
            |code: &str| Header::parse(code.as_bytes()).map_err(|error| error.text().to_owned());
        for code in [
            "#!lua name=abc\nx",
            "#!LUA   NAME='abc' \n",
            "#!lua \"name=abc\"\n",
        ] {
            let header = read(code).expect(code);
            assert_eq!(
                (&*header.name, code.as_bytes()[header.len]),
                (&b"abc"[..], b'\n')
            );
        }
        for (code, expected) in [
            ("x", "ERR Missing library metadata"),
            ("#!lua name=a", "ERR Invalid library metadata"),
            ("#!lua name=\"a\nx", "ERR Invalid library metadata"),
            ("#!lua name=a\0b\nx", "ERR Invalid library metadata"),
            ("#!\n", "ERR Library name was not given"),
            ("#!lua\n", "ERR Library name was not given"),
            ("#! name=a\n", "ERR Engine '' not found"),
            ("#!js name=a\n", "ERR Engine 'js' not found"),
            ("#!js name=\n", BAD_NAME),
            ("#!lua name=a-b\n", BAD_NAME),
            (
                "#!lua name=a b=c\n",
                "ERR Invalid metadata value given: b=c",
            ),
            (
                "#!lua NAME=a name=b\n",
                "ERR Invalid metadata value, name argument was given multiple times",
            ),
        ] {
            assert_eq!(read(code).expect_err(code), expected);
        }
    }
}
