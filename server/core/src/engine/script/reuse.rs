//! Finds out from the text of a script what the script does not do. If in doubt, the answer is no.
//!
//! Most scripts only read the elements of KEYS and ARGV. For those, the two tables can be reused,
//! because the script can neither change nor keep them. Most scripts assign only to locals, and
//! need no read-only tables around the globals. A script may declare local functions outside of parentheses and braces:
//! their statements are then analysed like those around them.

/// Texts that make the analysis impossible.
const UNCLEAR: &[&[u8]] = &[b"_G", b"load", b"[[", b"[=", b"\\", b"__CALL", b"__PCALL"];
/// Size of a text in bytes up to which a script without loops needs little memory.
const SMALL_BYTES_MAX: usize = 16 * 1024;
/// Words of loops and functions: code that may run more than once.
const REPEATING: &[&[u8]] = &[
    b"while",
    b"for",
    b"repeat",
    b"until",
    b"do",
    b"in",
    b"function",
];
/// Functions that a small script may call. Each returns one value.
const SMALL_FUNCTIONS: &[&[u8]] = &[
    b"__CALL",
    b"__CALL_WITH",
    b"__PCALL",
    b"__PCALL_WITH",
    b"tonumber",
];
/// Words that do not end a value.
const WORDS: &[&[u8]] = &[
    b"and", b"break", b"else", b"elseif", b"if", b"local", b"not", b"or", b"return", b"then",
];
/// Words that precede an expression.
const BEFORE_EXPRESSION: &[&[u8]] = &[
    b"return", b"and", b"or", b"not", b"if", b"elseif", b"while", b"until", b"in",
];

fn is_unclear(body: &[u8]) -> bool {
    let mentions = |text: &&[u8]| body.windows(text.len()).any(|window| window == *text);
    UNCLEAR.iter().any(mentions)
}

/// True if every `=` declares a local or is in a table constructor, and `redis` is used only to
/// read its fields.
pub(crate) fn assigns_only_locals(body: &[u8]) -> bool {
    if is_unclear(body) {
        return false;
    }
    let mut tokens = Tokens::of(body);
    let mut previous: &[u8] = b"";
    let mut braces = 0_u32;
    let mut declares = false;
    while let Some(token) = tokens.next() {
        let goes_on = token == b"," || matches!(previous, b"local" | b"for" | b",");
        match token {
            b"{" => braces += 1,
            b"}" => braces = braces.saturating_sub(1),
            b"function" if previous != b"local" => return false,
            // The second character of `~=`, `<=` or `>=`.
            b"=" if matches!(previous, b"~" | b"<" | b">") => {}
            b"=" if !declares && braces == 0 => return false,
            b"redis" if tokens.clone().next() != Some(b".") => return false,
            _ => {}
        }
        declares = matches!(token, b"local" | b"for") || declares && goes_on;
        previous = token;
    }
    true
}

/// True if every mention of KEYS and ARGV is `#KEYS` or the value of `KEYS[...]`.
pub(crate) fn only_reads_arguments(body: &[u8]) -> bool {
    if is_unclear(body) {
        return false;
    }
    let mut tokens = Tokens::of(body);
    let mut previous: &[u8] = b"";
    let mut depth = 0_i32;
    while let Some(token) = tokens.next() {
        match token {
            b"(" | b"{" => depth += 1,
            b")" | b"}" => depth -= 1,
            b"function" if previous != b"local" || depth != 0 => return false,
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

/// True if a script needs little memory, apart from the replies of its calls, and returns one value. Such a
/// script has no loops, concatenates nothing and calls nothing but commands and `tonumber`. `text` is
/// the script's text after its calls were replaced (see `template.rs`).
pub(super) fn is_small(text: &[u8]) -> bool {
    if text.len() > SMALL_BYTES_MAX {
        return false;
    }
    let mut tokens = Tokens::of(text);
    let mut previous: &[u8] = b"";
    let (mut nesting, mut returns) = (0_u32, false);
    while let Some(token) = tokens.next() {
        if REPEATING.contains(&token) || matches!(token, b".." | b":") {
            return false;
        }
        // Parentheses, quotes or braces after a value are a call.
        let is_argument = matches!(token[0], b'(' | b'{' | b'"' | b'\'');
        if is_argument
            && ends_value(previous)
            && !(SMALL_FUNCTIONS.contains(&previous) && token == b"(")
        {
            return false;
        }
        match token {
            b"(" | b"{" | b"[" => nesting += 1,
            b")" | b"}" | b"]" => nesting = nesting.saturating_sub(1),
            b"return" => returns = true,
            b"end" | b"else" | b"elseif" => returns = false,
            b"," if returns && nesting == 0 => return false,
            _ => {}
        }
        previous = token;
    }
    true
}

/// True if this token may end a value.
fn ends_value(token: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match token {
        [] => false,
        [b')' | b']' | b'}' | b'"' | b'\'', ..] => true,
        word => word.iter().all(is_name) && !WORDS.contains(&word),
    }
}

#[derive(Clone)]
pub(super) struct Tokens<'a> {
    pub(super) body: &'a [u8],
    /// End of the last token.
    pub(super) at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(body: &'a [u8]) -> Self {
        Self { body, at: 0 }
    }

    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let mut rest = &self.body[self.at..];
        loop {
            let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0x0b;
            let blank = rest.iter().take_while(|byte| is_blank(byte)).count();
            rest = &rest[blank..];
            if !rest.starts_with(b"--") {
                break;
            }
            let comment = rest.iter().take_while(|byte| **byte != b'\n').count();
            rest = &rest[comment..];
        }
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
        self.at = self.body.len() - rest.len() + len;
        Some(&rest[..len])
    }

    /// True if neither a comma nor an assignment follows the next brackets.
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
            "-- Moves KEYS to ARGV = 'them\nreturn KEYS[1] -- KEYS\n",
            "return '--' .. KEYS[1]",
            "local function f(a, b) return a .. ARGV[1] end return f(KEYS[1])",
            "local function f() local function g() return KEYS[1] end return g() end return f()",
            "-- a function of KEYS\nreturn 'function' .. KEYS[1]",
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
            "local function f() KEYS[1] = 1 end",
            "local function f() local a a, KEYS[1] = 1, 2 end",
            "local function f(KEYS) KEYS[1] = 1 end",
            "local function f(a, KEYS) KEYS[1] = 1 end",
            "local function KEYS() end",
            "local function f() return KEYS end",
            "local f = function() local a a, KEYS[1] = 1, 2 end",
            "function f() return KEYS[1] end",
            "pcall(function() return KEYS[1] end)",
            "(function() local function f() local a a, KEYS[1], a = 1, 2, 3 end end)()",
        ] {
            assert!(!only_reads_arguments(body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn small_scripts_neither_repeat_nor_join_nor_call() {
        for text in [
            "if __CALL(0) == ARGV[1] then return __CALL(1) else return 0 end",
            "local a, b = __CALL(0), tonumber(ARGV[1]) if not (a and b) then return {a, {b}} end return #KEYS",
            "local t = __PCALL_WITH(0, (1 + 2) * 3) if t[1] == 'x' then return t[2] elseif t['a'] then return redis.x end",
            "return (1)",
        ] {
            assert!(is_small(text.as_bytes()), "{text}");
        }
        for text in [
            "while true do __CALL(0) end",
            "for i = 1, 2 do __CALL(0) end",
            "repeat local a = __CALL(0) until a",
            "return KEYS[1] .. KEYS[1]",
            "return KEYS[1]:rep(1000)",
            "return string.rep('x', 1000)",
            "return unpack(ARGV)",
            "return tostring(1)",
            "return redis.sha1hex('x')",
            "return error 'x'",
            "return f{}",
            "return (f)(1)",
            "return t[1](1)",
            "return __CALL(0)(1)",
            "return ('x'){1}",
            "return 1, 2",
            "if a then return 1, 2 end",
            "return __CALL 'x'",
        ] {
            assert!(!is_small(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn assigning_locals_is_told_from_assigning_anything_else() {
        for body in [
            "return 1",
            r#"if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end"#,
            "local a, b = 1, 2\nlocal c\nfor i = 1, 3 do local d = {x = i, [i] = 2} end return a <= b",
            "local call = redis.call if a ~= b and a >= b then return call('x') end",
            "for k, v in pairs({a = 1}) do redis.log(redis.LOG_NOTICE, k) end",
            "-- x = 1\nreturn {ok = 'x = 1'}",
            "if redis.replicate_commands then\n  redis.replicate_commands()\nend",
            "return table.concat(KEYS, unpack(ARGV))",
            "local function f() end",
            "local function f(a, ...) local b = a if b == 1 then return f(...) end end return f(1)",
        ] {
            assert!(assigns_only_locals(body.as_bytes()), "{body}");
        }
        for body in [
            "x = 1",
            "local x x = 1",
            "local x\ny = 1",
            "local x, y z, x = 1, 2",
            "local x = 1, 2 y = 3",
            "for i = 1, 2 do y = i end",
            "for i = 1, 2 do end y = 1",
            "local t = {} t.x = 1",
            "local t = {a = 1} x = 2",
            "redis.call = 1",
            "redis['call'] = 1",
            "local r = redis r.call = 1",
            "rawset(redis, 'call', 1)",
            "return redis",
            "pairs(redis)",
            "string.x = 1",
            "KEYS = {}",
            "x, y = 1, 2",
            "_G.x = 1",
            "for k in pairs({}) do k = 1 end",
            "function f() end",
            "local function f() x = 1 end",
            "local function f(x) x = 1 end",
            "local function f(a, x) x = 1 end",
            "local function f(redis) return redis end",
            "local function f() redis.call = 1 end",
            "local t = {} function t.f() end",
            "local f = function() end",
            "f(function() local x = 1 end)",
        ] {
            assert!(!assigns_only_locals(body.as_bytes()), "{body}");
        }
    }
}
