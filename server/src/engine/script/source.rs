//! Texts that are refused before Lua's parser sees them. Knows nothing of Lua values.

/// Words of [`CHAINED`] in one text. The parser of Lua 5.1 walks each chain of jumps anew for every
/// link: this many take two seconds at the most, ten times as many three minutes, and nothing can
/// interrupt it. Redis has no such limit.
const CHAIN_WORDS_MAX: usize = 20_000;
/// What makes a link of such a chain.
const CHAINED: &[&[u8]] = &[b"elseif", b"break", b"and", b"or"];
/// `lua.h: LUA_SIGNATURE` begins with it.
const ESCAPE: u8 = 27;

/// Why a text must not be compiled, in the words of Lua.
pub(crate) fn refuse(text: &[u8]) -> Option<&'static str> {
    // Bytecode is not verified.
    if text.first() == Some(&ESCAPE) {
        return Some("attempt to load a binary chunk");
    }
    // The shortest link takes three bytes, so that nearly no text has to be read.
    if text.len() / 3 > CHAIN_WORDS_MAX && chain_words(text) > CHAIN_WORDS_MAX {
        return Some("control structure too long");
    }
    None
}

/// Also counts words in texts and comments: the answer errs towards too many.
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
