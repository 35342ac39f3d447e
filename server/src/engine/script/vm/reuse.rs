//! Whether a script does no more with KEYS and ARGV than to read their elements.
//!
//! Nearly all scripts do no more; for them the two tables can be filled anew instead of made anew,
//! since nothing can have changed or kept them. The answer errs towards no.

/// Text in which reading and writing are not told apart here.
const UNCLEAR: &[&[u8]] = &[b"_G", b"load", b"function", b"--", b"[[", b"[=", b"\\"];
/// Words that an expression follows.
const BEFORE_EXPRESSION: &[&[u8]] = &[
    b"return", b"and", b"or", b"not", b"if", b"elseif", b"while", b"until", b"in",
];

/// True if every mention of KEYS and ARGV is `#KEYS` or the value of `KEYS[...]`.
pub(crate) fn only_reads_arguments(body: &[u8]) -> bool {
    if UNCLEAR
        .iter()
        .any(|text| body.windows(text.len()).any(|window| window == *text))
    {
        return false;
    }
    let mut tokens = Tokens { body, at: 0 };
    let mut previous: &[u8] = b"";
    let mut depth = 0_i32;
    while let Some(token) = tokens.next() {
        match token {
            b"(" | b"{" => depth += 1,
            b")" | b"}" => depth -= 1,
            b"KEYS" | b"ARGV" => {
                let is_list = previous == b",";
                let is_expression = previous.len() == 1
                    && b"(,=<>~+-*/%^{[#".contains(&previous[0])
                    || previous == b".."
                    || previous == b"=="
                    || BEFORE_EXPRESSION.contains(&previous);
                if !is_expression {
                    return false;
                }
                if previous != b"#" && tokens.clone().next() != Some(b"[") {
                    return false;
                }
                // At the outermost level a list may also be the left side of an assignment.
                if is_list && depth == 0 && !tokens.clone().ends_list() {
                    return false;
                }
            }
            _ => {}
        }
        previous = token;
    }
    true
}

#[derive(Clone)]
struct Tokens<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.body[self.at..];
        let blank = rest
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b)
            .count();
        let rest = &rest[blank..];
        let first = *rest.first()?;
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let len = match first {
            quote @ (b'"' | b'\'') => {
                let inside = rest[1..].iter().take_while(|byte| **byte != quote).count();
                (inside + 2).min(rest.len())
            }
            byte if is_word(&byte) => rest.iter().take_while(|byte| is_word(byte)).count(),
            _ if rest.starts_with(b"..") || rest.starts_with(b"==") => 2,
            _ => 1,
        };
        self.at += blank + len;
        Some(&rest[..len])
    }

    /// True if neither a comma nor an assignment follows the brackets that come next.
    fn ends_list(mut self) -> bool {
        let mut nesting = 0_u32;
        while let Some(token) = self.next() {
            match token {
                b"[" => nesting += 1,
                b"]" if nesting <= 1 => return !matches!(self.next(), Some(b"," | b"=")),
                b"]" => nesting -= 1,
                _ => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_told_from_all_else() {
        for body in [
            "return 1",
            r#"if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end"#,
            "return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX')",
            "local ttl = tonumber(ARGV[2])\nlocal a, b = KEYS[1], KEYS[2]\nreturn #KEYS + #ARGV .. ARGV[#ARGV]",
            "for i = 1, #KEYS do redis.call('del', KEYS[i]) end",
            "return {KEYS[1], ARGV[1], 'KEYS = 1'}",
            "if not ARGV[1] or ARGV[2] then return KEYS[1]..KEYS[2] end",
            "return KEYS[1]:upper()",
        ] {
            assert!(only_reads_arguments(body.as_bytes()), "{body}");
        }
        for body in [
            "KEYS[1] = 2",
            "local x = 1 KEYS[1] = x",
            "local x KEYS[1], x = 1, 2",
            "local x x, KEYS[1] = 1, 2",
            "local x x, KEYS[1], x = 1, 2, 3",
            "local x x, ARGV[KEYS[1]] = 1, 2",
            "table.insert(KEYS, 1)",
            "return KEYS",
            "local k = KEYS k[1] = 2",
            "setmetatable(ARGV, {})",
            "_G.KEYS[1] = 2",
            "_G['KE'..'YS'][1] = 2",
            "loadstring('KEYS[1] = 2')()",
            "for i = 1, 2 do KEYS[i] = 1 end",
            "if true then KEYS[1] = 1 end",
            "(KEYS)[1] = 1",
            "local t = {KEYS} t[1][1] = 1",
            "return unpack(ARGV)",
            "for i, k in ipairs(KEYS) do end",
            "pcall(function() local a a, KEYS[1], a = 1, 2, 3 end)",
            "redis.call('x') KEYS[1] = 1",
            "x = 'a' KEYS[1] = 1",
            "local a = 1; KEYS[1] = 2",
            "local a = {} KEYS[1] = 1",
        ] {
            assert!(!only_reads_arguments(body.as_bytes()), "{body}");
        }
    }
}
