//! Texts that Lua compiles: the name of ours, and the reasons to refuse one before it is parsed. Knows no Lua values.

/// Limit of words of [`CHAINED`] in one text. The parser of Lua 5.1 walks each chain of jumps again
/// for every link. This number takes two seconds at most, ten times as many take three minutes, and
/// nothing can interrupt the parser. Redis has no such limit.
const CHAIN_WORDS_MAX: usize = 20_000;
/// The words that add a link to such a chain.
const CHAINED: &[&[u8]] = &[b"elseif", b"break", b"and", b"or"];
/// Name of the prelude's chunk in stack frames.
pub(super) const PRELUDE_NAME: &str = "=redouble.prelude";
/// First byte of `lua.h: LUA_SIGNATURE`.
const ESCAPE: u8 = 27;

/// The reason why a text must not be compiled, with the message of Lua.
pub(crate) fn refuse(text: &[u8]) -> Option<&'static str> {
    // Lua does not verify bytecode.
    if text.first() == Some(&ESCAPE) {
        return Some("attempt to load a binary chunk");
    }
    // The shortest link takes three bytes, so most texts need not be scanned.
    if text.len() / 3 > CHAIN_WORDS_MAX && chain_words(text) > CHAIN_WORDS_MAX {
        return Some("control structure too long");
    }
    None
}

/// Also counts words in strings and comments: the result may be too high, never too low.
fn chain_words(text: &[u8]) -> usize {
    text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
        .filter(|word| CHAINED.contains(word))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_chains_and_bytecode_are_refused() {
        let elseif = |count: usize| format!("if x then {}end", "elseif x then ".repeat(count));
        assert_eq!(refuse(elseif(CHAIN_WORDS_MAX).as_bytes()), None);
        let long = elseif(CHAIN_WORDS_MAX + 1);
        assert_eq!(refuse(long.as_bytes()), Some("control structure too long"));
        let either = format!("return x{}", " or(x)".repeat(CHAIN_WORDS_MAX + 1));
        assert!(refuse(either.as_bytes()).is_some());
        assert_eq!(refuse("-- sort of\n".repeat(20_000).as_bytes()), None);
        assert_eq!(
            refuse("x = 'order, band'\n".repeat(20_000).as_bytes()),
            None
        );
        assert!(refuse(b"\x1bLua").is_some() && refuse(b"return 1").is_none());
    }
}
