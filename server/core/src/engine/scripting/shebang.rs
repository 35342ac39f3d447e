//! The shebang line of a script, which gives its flags: `#!lua flags=no-writes`.
//!
//! `eval.c: evalExtractShebangFlags`.

use crate::engine::libraries::ScriptFlags;
use crate::resp::{ErrorReply, OwnedRequest, split_inline};

/// The content of a shebang line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct Shebang {
    /// Length without the line end. Lua gets the line end, so that line numbers stay right.
    pub(in crate::engine) len: usize,
    flags: ScriptFlags,
}

impl Shebang {
    /// The flags of a script that has a shebang line. Other scripts declare nothing.
    pub(in crate::engine) fn flags(self) -> Option<ScriptFlags> {
        (self.len > 0).then_some(self.flags)
    }

    /// Parses the shebang line of a script, if it has one.
    pub(in crate::engine) fn parse(body: &[u8]) -> Result<Self, ErrorReply> {
        if !body.starts_with(b"#!") {
            return Ok(Self::default());
        }
        let refuse = |text: &str, word: &[u8]| {
            let word = word.split(|byte| *byte == 0).next().unwrap_or_default();
            Err(ErrorReply::from_bytes(
                [b"ERR ", text.as_bytes(), word].concat(),
            ))
        };
        let Some(len) = body.iter().position(|byte| *byte == b'\n') else {
            return refuse("Invalid script shebang", b"");
        };
        // Quotes are those of `sdssplitargs`, and the line also ends at a zero byte.
        let line = body[..len].split(|byte| *byte == 0).next();
        let mut words = OwnedRequest::default();
        if split_inline(line.unwrap_or_default(), &mut words).is_none() {
            return refuse("Invalid engine in script shebang", b"");
        }
        let words = words.as_request();
        let mut words = words.iter().flat_map(|words| words.iter());
        let engine = words.next().unwrap_or_default();
        if engine != b"#!lua" {
            return refuse("Unexpected engine in script shebang: ", engine);
        }
        let mut shebang = Self {
            len,
            ..Self::default()
        };
        for word in words {
            let Some(flags) = word.strip_prefix(b"flags=") else {
                return refuse("Unknown lua shebang option: ", word);
            };
            for flag in flags
                .split(|byte| *byte == b',')
                .filter(|_| !flags.is_empty())
            {
                match ScriptFlags::named(flag) {
                    Some(flag) => shebang.flags = shebang.flags.or(flag),
                    None => return refuse("Unexpected flag in script shebang: ", flag),
                }
            }
        }
        Ok(shebang)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_read_as_redis_does() {
        let read = |body: &str| Shebang::parse(body.as_bytes());
        let plain = Shebang::default();
        assert_eq!(read("return 1"), Ok(plain));
        assert_eq!(read("# !lua\n"), Ok(plain));
        assert_eq!(read("#!lua\nreturn 1"), Ok(Shebang { len: 5, ..plain }));
        assert_eq!(read("#!lua flags=\n"), Ok(Shebang { len: 12, ..plain }));
        let both = "#!lua  flags=allow-oom,no-writes\n";
        let expected = Shebang {
            len: both.len() - 1,
            flags: ScriptFlags::NO_WRITES.or(ScriptFlags::ALLOW_OOM),
        };
        assert_eq!(read(both), Ok(expected));
        assert_eq!(
            read("#!lua 'flags=no-writes'\n").map(Shebang::flags),
            Ok(Some(ScriptFlags::NO_WRITES))
        );
        for (body, expected) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!\n", "ERR Unexpected engine in script shebang: #!"),
            ("#!lua x\n", "ERR Unknown lua shebang option: x"),
            (
                "#!lua flags=no-writes,\n",
                "ERR Unexpected flag in script shebang: ",
            ),
            ("#!lua 'x\n", "ERR Invalid engine in script shebang"),
        ] {
            assert_eq!(read(body).expect_err(body).text(), expected);
        }
    }
}
