//! Random requests for every command of the table, from small pools, so that they meet.

use redouble::engine::Rng;

/// How a command is called: its name, the kinds of its arguments, the options it may have.
///
/// Kinds: `K` key, `V` value, `I` integer, `F` number, `S` and `M` a time to live in seconds and in
/// milliseconds, `A` and `P` a point in time in the same, `H` field, `N` database, `G` pattern,
/// `L` script with its keys and arguments, `R` a whole request, `D` digest. `K*` is one to three of
/// them, `(HV)*` pairs. Other words stand for themselves. Times to live are long or past: what runs
/// out meanwhile belongs into a transcript.
const CALLS: &[(&str, &str, &[&str])] = &[
    (
        "set",
        "K V",
        &[
            "NX", "XX", "GET", "KEEPTTL", "EX S", "PX M", "EXAT A", "PXAT P", "PERSIST", "IFEQ V",
        ],
    ),
    ("set", "K V", &["GET", "PXAT P"]),
    ("set", "K I", &[]),
    ("set", "K F", &[]),
    ("get", "K", &[]),
    ("getset", "K V", &[]),
    ("getdel", "K", &[]),
    (
        "getex",
        "K",
        &["EX S", "PX M", "EXAT A", "PXAT P", "PERSIST", "KEEPTTL"],
    ),
    ("setnx", "K V", &[]),
    ("setex", "K S V", &[]),
    ("psetex", "K M V", &[]),
    ("incr", "K", &[]),
    ("decr", "K", &[]),
    ("incrby", "K I", &[]),
    ("decrby", "K I", &[]),
    ("incrbyfloat", "K F", &[]),
    ("strlen", "K", &[]),
    ("del", "K*", &[]),
    ("unlink", "K*", &[]),
    ("exists", "K*", &[]),
    ("type", "K", &[]),
    ("expire", "K S", &["NX", "XX", "GT", "LT"]),
    ("pexpire", "K M", &["NX", "XX", "GT", "LT"]),
    ("expireat", "K A", &["NX", "XX", "GT", "LT"]),
    ("pexpireat", "K P", &["NX", "XX", "GT", "LT"]),
    ("ttl", "K", &[]),
    ("pttl", "K", &[]),
    ("expiretime", "K", &[]),
    ("pexpiretime", "K", &[]),
    ("persist", "K", &[]),
    ("keys", "G", &[]),
    (
        "scan",
        "0 COUNT 1000",
        &["MATCH G", "TYPE string", "TYPE hash", "TYPE nothing"],
    ),
    ("hset", "K (HV)*", &[]),
    ("hset", "K H I", &[]),
    ("hget", "K H", &[]),
    ("hmget", "K H*", &[]),
    ("hdel", "K H*", &[]),
    ("hexists", "K H", &[]),
    ("hgetall", "K", &[]),
    ("hincrby", "K H I", &[]),
    ("hlen", "K", &[]),
    ("ping", "", &["V"]),
    ("echo", "V", &[]),
    ("select", "N", &[]),
    ("auth", "V", &["V"]),
    ("client id", "surplus surplus", &[]),
    ("client setname", "V", &[]),
    ("client getname", "", &[]),
    ("dbsize", "", &[]),
    ("flushdb", "", &["SYNC", "ASYNC", "V"]),
    ("flushall", "surplus surplus", &[]),
    ("time", "surplus surplus", &[]),
    ("config get", "maxmemory-policy", &[]),
    (
        "command info",
        "",
        &[
            "get",
            "set",
            "expire",
            "hset",
            "eval",
            "nothing",
            "GET",
            "config|get",
        ],
    ),
    ("command getkeys", "R", &[]),
    ("command count", "surplus surplus", &[]),
    ("script exists", "D*", &[]),
    ("script flush", "", &["SYNC", "ASYNC", "V"]),
    ("script load", "return|1", &[]),
    ("script kill", "", &[]),
    ("eval", "L", &[]),
    ("eval", "L", &[]),
    ("eval", "L", &[]),
    ("evalsha", "D 1 K", &[]),
];

const SCRIPTS: &[&str] = &[
    "return redis.call('GET', KEYS[1])",
    "return redis.pcall('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], ARGV[1], 'NX')",
    "return redis.call('INCRBY', KEYS[1], ARGV[1])",
    "return redis.pcall('HINCRBY', KEYS[1], 'f1', ARGV[1])",
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end",
    "return {KEYS, ARGV, #KEYS, #ARGV}",
    "return {1, 2.9, -3.9, 'x', true, false, {1, {}}, nil, 4}",
    "return redis.call('HGETALL', KEYS[1])",
    "redis.setresp(3); return redis.call('HGETALL', KEYS[1])",
    "return redis.call('PEXPIREAT', KEYS[1], 4000000000000 + tonumber(ARGV[1] or 0))",
    "return redis.call('TYPE', KEYS[1])",
    "return redis.call('TYPE', KEYS[1]).ok",
    "return tostring(tonumber(ARGV[1]))",
    "return tonumber(ARGV[1])",
    "return redis.error_reply(ARGV[1] or 'none')",
    "return redis.status_reply(ARGV[1] or 'none')",
    "return redis.sha1hex(ARGV[1] or '')",
    "error(ARGV[1])",
    "error({err = ARGV[1] or 'none'})",
    "return redis.call('NOSUCH', KEYS[1])",
    "return redis.pcall('SET', KEYS[1])",
    "return {err = ARGV[1]}",
    "return {ok = ARGV[1], err = nil}",
    "return {double = tonumber(ARGV[1])}",
    "local r = redis.pcall('INCR', KEYS[1]); return type(r) == 'table' and r.err or r",
    "redis.call('SET', KEYS[1], 12345678901234567890); return redis.call('GET', KEYS[1])",
    "redis.call('SET', KEYS[1], tonumber(ARGV[1] or 0) + 0.5); return redis.call('GET', KEYS[1])",
    "x = 1",
    "return nosuch",
    "return 1 +",
];

const KEYS: &[&str] = &["k1", "k2", "k3", "k4", "k5"];
const FIELDS: &[&str] = &["f1", "f2", "f3", "", "a b"];
const VALUES: &[&str] = &[
    "",
    "a",
    "b",
    "hello",
    "1",
    "-1",
    "0",
    "10",
    "3.5",
    "a b",
    "\r\n",
    "\0\u{1}",
    "é",
    "9223372036854775807",
    "a text that is longer than twenty-two bytes",
];
const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "7",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775806",
    "9223372036854775808",
    "-9223372036854775809",
    "01",
    "+1",
    "-0",
    " 1",
    "1 ",
    "",
    "1.0",
    "abc",
    "1e3",
    "0x10",
];
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "0.1",
    "0.2",
    "-0.3",
    "3.0e3",
    "1e17",
    "1e-17",
    "5e-18",
    "1e300",
    "1e4932",
    "-1e4932",
    "1e5000",
    "inf",
    "-inf",
    "nan",
    "0x10",
    "1.",
    ".5",
    "-0",
    "",
    "abc",
    " 1",
    "1 ",
    "9223372036854775807",
    "123456789.987654321",
];
const PATTERNS: &[&str] = &[
    "*", "k*", "k?", "k[12]", "k[^1]", "k[1-3]", "k\\1", "K1", "", "[", "k1",
];
const DATABASES: &[&str] = &[
    "0",
    "0",
    "0",
    "1",
    "15",
    "16",
    "-1",
    "abc",
    "9223372036854775807",
];
const TTLS: &[&str] = &[
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775",
    "abc",
    "",
    "1.5",
    "1e3",
];
const TIMES: &[&str] = &[
    "0",
    "1",
    "-1",
    "1000",
    "9223372036854775807",
    "9223372036854775",
    "-9223372036854775808",
    "abc",
    "",
];

struct Source(Rng);

impl Source {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_u64() % bound as u64) as usize
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'a>(&mut self, pool: &[&'a str]) -> &'a str {
        pool[self.below(pool.len())]
    }

    fn push_kind(&mut self, kind: &str, into: &mut Vec<String>) {
        if let Some(kind) = kind.strip_suffix('*') {
            let members: Vec<String> = kind
                .chars()
                .filter(char::is_ascii_alphabetic)
                .map(String::from)
                .collect();
            for _ in 0..=self.below(3) {
                members
                    .iter()
                    .for_each(|member| self.push_kind(member, into));
            }
            return;
        }
        let text = match kind {
            "K" => self.pick(KEYS).to_owned(),
            "V" => self.pick(VALUES).to_owned(),
            "H" => self.pick(FIELDS).to_owned(),
            "I" => self.pick(INTEGERS).to_owned(),
            "F" => self.pick(NUMBERS).to_owned(),
            "N" => self.pick(DATABASES).to_owned(),
            "G" => self.pick(PATTERNS).to_owned(),
            "S" if self.one_in(4) => self.pick(TTLS).to_owned(),
            "M" if self.one_in(4) => self.pick(TTLS).to_owned(),
            "A" | "P" if self.one_in(4) => self.pick(TIMES).to_owned(),
            // Drawn from so many that two relative times are never a millisecond apart by chance.
            "S" => (1_000 + self.below(10_000_000)).to_string(),
            "M" => (1_000_000 + self.below(10_000_000_000)).to_string(),
            "A" => (4_000_000_000 + self.below(5)).to_string(),
            "P" => (4_000_000_000_000 + self.below(5) * 499).to_string(),
            "D" => match self.below(5) {
                0 => "e0e1f9fabfc9d4800c877a703b823ac0578ff8db".to_owned(),
                1 => "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB".to_owned(),
                2 => "abc".to_owned(),
                _ => "4e6d8fc8bb01276962cce5371fa795a7763657ae".to_owned(),
            },
            "L" => {
                into.push(self.pick(SCRIPTS).to_owned());
                let count = self.below(3);
                let said = if self.one_in(20) {
                    self.pick(INTEGERS).to_owned()
                } else {
                    count.to_string()
                };
                into.push(said);
                (0..count).for_each(|_| self.push_kind("K", into));
                for _ in 0..self.below(3) {
                    let kind = ["V", "I", "F"][self.below(3)];
                    self.push_kind(kind, into);
                }
                return;
            }
            "R" => {
                let request = self.request();
                into.extend(
                    request
                        .iter()
                        .map(|arg| String::from_utf8_lossy(arg).into_owned()),
                );
                return;
            }
            word => word.replace('|', " "),
        };
        into.push(text);
    }

    fn request(&mut self) -> Vec<Vec<u8>> {
        let (name, kinds, options) = CALLS[self.below(CALLS.len())];
        let mut args: Vec<String> = name.split(' ').map(str::to_owned).collect();
        kinds
            .split(' ')
            .filter(|kind| !kind.is_empty())
            .for_each(|kind| self.push_kind(kind, &mut args));
        if !options.is_empty() {
            for _ in 0..[0, 0, 1, 1, 1, 2, 2, 3][self.below(8)] {
                let option = self.pick(options);
                option
                    .split(' ')
                    .for_each(|kind| self.push_kind(kind, &mut args));
            }
        }
        if self.one_in(4) {
            args[0].make_ascii_uppercase();
        }
        if args.len() > 1 && self.one_in(30) {
            args.pop();
        }
        if self.one_in(50) {
            self.push_kind("V", &mut args);
        }
        if args.len() <= 2 && args[0].eq_ignore_ascii_case("command") {
            // Alone it lists everything, which is less here.
            args.extend(["info".to_owned(), "get".to_owned()]);
        }
        if args.len() > 2 && self.one_in(40) {
            let at = 2 + self.below(args.len() - 2);
            let kind = ["V", "I", "F", "S"][self.below(4)];
            let mut other = Vec::new();
            self.push_kind(kind, &mut other);
            args[at] = other.concat();
        }
        args.into_iter().map(String::into_bytes).collect()
    }
}

/// `count` random requests, always the same ones for a seed.
pub fn generate(seed: u64, count: usize) -> Vec<Vec<Vec<u8>>> {
    let mut source = Source(Rng::new(seed));
    (0..count).map(|_| source.request()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_drawn_or_says_why_not() {
        const ELSEWHERE: &[(&str, &str)] = &[
            ("quit", "ends the conversation"),
            ("reset", "takes the protocol with it"),
            (
                "hello",
                "its reply has an id; sequences begin in either protocol",
            ),
            ("shutdown", "ends the server"),
            ("debug", "stops the server for a while"),
            ("info", "its figures are those of one server"),
            ("config set", "changes the server for later sequences"),
            (
                "command list",
                "lists all commands, and there are fewer here",
            ),
        ];
        for name in redouble::command_names() {
            let drawn = CALLS.iter().any(|(call, ..)| *call == name);
            let elsewhere = ELSEWHERE.iter().any(|(other, _)| *other == name);
            assert!(drawn != elsewhere, "{name}");
        }
    }

    #[test]
    fn a_seed_is_a_sequence() {
        assert_eq!(generate(3, 50), generate(3, 50));
        assert_ne!(generate(3, 50), generate(4, 50));
    }
}
