//! The first line of a script that says how it may be run: `#!lua flags=no-writes`.
//!
//! `eval.c: evalExtractShebangFlags`. What the flag of stale data allows is allowed anyway.

use crate::resp::{ErrorReply, OwnedRequest, split_inline};

/// Flags that are accepted.
const FLAGS: &[&[u8]] = &[
    b"no-writes",
    b"allow-oom",
    b"allow-stale",
    b"no-cluster",
    b"allow-cross-slot-keys",
];

/// What the first line says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shebang {
    /// Bytes that are not Lua. The line's end is, so that lines keep their numbers.
    pub(super) len: usize,
    /// Whether the script may not write.
    pub(super) reads_only: bool,
    /// Whether the script wants to run nowhere in a cluster.
    pub(super) shuns_clusters: bool,
    /// Whether it may write where no memory is left.
    pub(super) allows_oom: bool,
    /// Whether its keys may lie in several slots.
    pub(super) crosses_slots: bool,
}

impl Shebang {
    /// Whether there is a first line that leaves the script free to write.
    pub(super) fn may_write(self) -> bool {
        self.len > 0 && !self.reads_only
    }

    /// Whether all keys have to lie in one slot, as they need not without a first line.
    pub(super) fn keeps_to_slot(self) -> bool {
        self.len > 0 && !self.crosses_slots
    }

    /// Reads the first line of a script; most scripts have nothing to say.
    pub(super) fn parse(body: &[u8]) -> Result<Self, ErrorReply> {
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
        // Quotes are those of `sdssplitargs`, and C reads up to the first zero byte.
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
                if !FLAGS.contains(&flag) {
                    return refuse("Unexpected flag in script shebang: ", flag);
                }
                shebang.reads_only |= flag == b"no-writes";
                shebang.allows_oom |= flag == b"allow-oom";
                shebang.shuns_clusters |= flag == b"no-cluster";
                shebang.crosses_slots |= flag == b"allow-cross-slot-keys";
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
            reads_only: true,
            allows_oom: true,
            ..plain
        };
        assert_eq!(read(both), Ok(expected));
        assert_eq!(
            read("#!lua 'flags=no-writes'\n").map(|shebang| shebang.reads_only),
            Ok(true)
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
