//! Tests of the VM with a host that knows a few commands.

mod attacks;

use super::*;
use crate::engine::script::Tick;
use crate::engine::scripting::RANDOM_START;
use crate::resp::{OwnedRequest, Protocol, encode};
use std::collections::BTreeMap;

/// Scripts, and the replies of redis-server 7.0.15.
const RECORDED: &str = include_str!("../../recorded-7.0.15.txt");
const MEMORY_BYTES_MAX: usize = 64 << 20;
const OPTIONS: VmOptions = VmOptions {
    memory_bytes_max: MEMORY_BYTES_MAX,
    redis_version: crate::REDIS_VERSION,
    digits: Digits::Seventeen,
};
/// Number of instructions after which a script is stopped.
const INSTRUCTIONS_MAX: u64 = 5_000_000;
const SHA: &str = "0000000000000000000000000000000000000000";

/// A few commands, with the errors of Redis.
struct Node {
    store: BTreeMap<Vec<u8>, Vec<u8>>,
    random: u64,
    instructions: u64,
    calls: Vec<OwnedRequest>,
}

impl Node {
    fn new(random: u64) -> Self {
        Self {
            store: BTreeMap::new(),
            random,
            instructions: 0,
            calls: Vec::new(),
        }
    }
}

impl Host for Node {
    fn call(&mut self, request: Request<'_>) -> Reply {
        self.calls.push(request.to_owned());
        let arg = |index| request.arg(index).unwrap_or_default();
        match (&*request.name().to_ascii_lowercase(), request.len()) {
            (b"get", 2) => self.store.get(arg(1)).map_or(Reply::Nil, Reply::bulk),
            (b"set", 3) => {
                self.store.insert(arg(1).to_vec(), arg(2).to_vec());
                Reply::Ok
            }
            (b"del", 2) => Reply::Int(i64::from(self.store.remove(arg(1)).is_some())),
            (b"echo", 2) => Reply::bulk(arg(1)),
            (b"incr", 2) => Reply::error("ERR value is not an integer or out of range"),
            (b"map", _) => Reply::Map(vec![(Reply::bulk("a"), Reply::Double(1.5))]),
            (b"null", _) => Reply::Nil,
            (b"true", _) => Reply::Bool(true),
            (b"get" | b"set" | b"incr" | b"lpush", _) => {
                Reply::error("ERR Wrong number of args calling Redis command from script")
            }
            _ => Reply::error("ERR Unknown Redis command called from script"),
        }
    }

    fn tick(&mut self, instructions: u64) -> Tick {
        self.instructions += instructions;
        if self.instructions > INSTRUCTIONS_MAX {
            Tick::Stop
        } else {
            Tick::Continue
        }
    }

    fn random_state(&mut self) -> Option<&mut u64> {
        Some(&mut self.random)
    }

    fn acl_check(&mut self, request: Request<'_>) -> Option<bool> {
        (request.name() != b"nosuch").then_some(true)
    }
}

fn machine() -> Vm<Node> {
    Vm::new(OPTIONS).expect("a machine")
}

/// The reply in RESP2, with k1 and k2 as KEYS, and a1 and a2 as ARGV.
fn eval(vm: &mut Vm<Node>, body: &str, random: &mut u64) -> String {
    let sha = sha1_smol::Sha1::from(body).digest().to_string();
    let function = match vm.define(&sha, body.as_bytes()) {
        Ok(function) => function,
        Err(error) => return show(&Reply::Error(error)),
    };
    let request = OwnedRequest::new([
        &b"EVAL"[..],
        body.as_bytes(),
        b"2",
        b"k1",
        b"k2",
        b"a1",
        b"a2",
    ]);
    let request = request.as_request().expect("not empty");
    let (ended, node) = vm.run(function, request, 3, 2, Node::new(*random));
    *random = node.random;
    match ended {
        Ended::Reply(reply) => show(&reply),
        Ended::Error(error) => show(&Reply::Error(error)),
        Ended::Stopped { .. } => "stopped".into(),
    }
}

fn show(reply: &Reply) -> String {
    let mut bytes = Vec::new();
    encode(reply, Protocol::Resp2, &mut bytes);
    bytes.iter().map(|&byte| escape(byte)).collect()
}

fn escape(byte: u8) -> String {
    match byte {
        b'\r' => "\\r".into(),
        b'\n' => "\\n".into(),
        b'\\' => "\\\\".into(),
        b' '..=b'~' => char::from(byte).into(),
        other => format!("\\x{other:02x}"),
    }
}

fn check(body: &str, expected: &str) {
    assert_eq!(
        eval(&mut machine(), body, &mut RANDOM_START.clone()),
        expected,
        "{body}"
    );
}

#[test]
fn answers_are_those_of_redis_on_a_fresh_and_on_a_used_machine() {
    let mut used = machine();
    let mut random = RANDOM_START;
    let lines: Vec<&str> = RECORDED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert!(lines.len() > 900, "the recording is complete");
    let mut wrong = Vec::new();
    for pair in lines.chunks(2) {
        let body = pair[0]
            .strip_prefix("> ")
            .expect("a script")
            .replace("\\n", "\n");
        let expected = pair[1].strip_prefix("< ").expect("an answer");
        let mut same = random;
        let fresh = eval(&mut machine(), &body, &mut same);
        if !used.is_usable() {
            used = machine();
        }
        let again = eval(&mut used, &body, &mut random);
        if fresh != expected || again != expected {
            wrong.push(format!(
                "{body}\n  redis {expected}\n  fresh {fresh}\n  used  {again}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_machine_that_rests_keeps_few_scripts_and_forgets_many() {
    let mut vm = machine();
    let function = vm.define(SHA, b"return 1").expect("it compiles");
    vm.rest();
    assert_eq!(vm.known(SHA), Some(function));
    for nth in 1..=SCRIPTS_KEPT_MAX {
        let sha = format!("{nth:040}");
        assert_eq!(vm.known(&sha), None);
        vm.define(&sha, b"return 2").expect("it compiles");
    }
    vm.rest();
    assert_eq!(vm.known(SHA), None);
}

#[test]
fn a_machine_that_wakes_counts_instructions_from_zero() {
    let request = OwnedRequest::new([b"EVALSHA", SHA.as_bytes(), b"0"]);
    let request = request.as_request().expect("not empty");
    let ticks = |vm: &mut Vm<Node>, rounds: u32| {
        let body = format!("for i = 1, {rounds} do local a = i + 1 end");
        let function = vm.define(SHA, body.as_bytes()).expect("it compiles");
        let (_, node) = vm.run(function, request, 3, 0, Node::new(0));
        node.instructions / u64::from(INSTRUCTIONS_PER_TICK)
    };
    // Two instructions a round: 6,000 of the 10,000 between two ticks.
    assert_eq!(ticks(&mut machine(), 3_000), 0);
    let mut used = machine();
    assert_eq!(ticks(&mut used, 3_000), 0);
    assert_eq!(
        ticks(&mut used, 3_000),
        1,
        "the count goes on from script to script"
    );
    assert_eq!(ticks(&mut used, 3_000), 0);
    used.rest();
    used.wake().expect("a hook");
    assert_eq!(ticks(&mut used, 3_000), 0, "but not from node to node");
}

#[test]
fn scripts_reach_the_host_and_get_their_arguments() {
    let mut vm = machine();
    let body = r#"redis.call("SET", KEYS[1], ARGV[1]) return redis.call("GET", KEYS[1])"#;
    let function = vm.define(SHA, body.as_bytes()).expect("it compiles");
    let request = OwnedRequest::new([&b"EVALSHA"[..], SHA.as_bytes(), b"1", b"key", b"value"]);
    let (ended, node) = vm.run(
        function,
        request.as_request().expect("not empty"),
        3,
        1,
        Node::new(0),
    );
    assert_eq!(ended, Ended::Reply(Reply::bulk("value")));
    assert_eq!(node.calls.len(), 2);
    let body = r##"return {#KEYS, #ARGV, KEYS[#KEYS] or "", ARGV[#ARGV] or "", KEYS[1] or "", ARGV[1] or ""}"##;
    let function = vm.define(SHA, body.as_bytes()).expect("it compiles");
    for (keys, args) in [
        (0, 0),
        (0, 5),
        (1, 0),
        (1, 4),
        (1, 1),
        (1, 1),
        (0, 1),
        (2, 4),
        (3, 1),
        (2, 4),
        (2, 9),
        (3, 0),
        (3, 3),
        (2, 100),
        (500, 500),
        (0, 20_000),
    ] {
        let texts: Vec<String> = (0..keys + args).map(|index| format!("v{index}")).collect();
        let request = OwnedRequest::new(texts.iter().map(String::as_bytes).chain([&b"end"[..]]));
        let mut whole = OwnedRequest::new([&b"EVALSHA"[..]]);
        request
            .as_request()
            .expect("not empty")
            .iter()
            .take(keys + args)
            .for_each(|arg| whole.push(arg));
        let (ended, _) = vm.run(
            function,
            whole.as_request().expect("not empty"),
            1,
            keys,
            Node::new(0),
        );
        let at = |index: Option<usize>| {
            Reply::bulk(index.map(|index| format!("v{index}")).unwrap_or_default())
        };
        let some = |count: usize, index: usize| at((count > 0).then_some(index));
        let expected = Reply::Array(vec![
            Reply::Int(keys as i64),
            Reply::Int(args as i64),
            some(keys, keys.saturating_sub(1)),
            some(args, (keys + args).saturating_sub(1)),
            some(keys, 0),
            some(args, keys),
        ]);
        assert_eq!(
            ended,
            Ended::Reply(expected),
            "{keys} keys, {args} arguments"
        );
    }
}

#[test]
fn arguments_are_those_of_the_request_whichever_script_ran_before() {
    let mut vm = machine();
    // They enter by different ways: through templates alone, into tables that are kept, into new tables.
    let bodies = [
        "if redis.call('ECHO', KEYS[1]) == ARGV[1] then return ARGV[1] end return ARGV[1]",
        "return redis.call('ECHO', ARGV[1])",
        "return ARGV[1] .. ''",
        "local list = ARGV return list[1]",
        "if ARGV[2] then return ARGV[2] end return ARGV[1]",
    ];
    let functions = bodies.map(|body| {
        let sha = sha1_smol::Sha1::from(body).digest().to_string();
        vm.define(&sha, body.as_bytes()).expect("it compiles")
    });
    for before in 0..bodies.len() {
        for after in 0..bodies.len() {
            for nth in [before, after] {
                let value = format!("{before} {after} {nth}");
                let request = OwnedRequest::new([b"key", value.as_bytes()]);
                let request = request.as_request().expect("not empty");
                let (ended, _) = vm.run(functions[nth], request, 0, 1, Node::new(0));
                assert_eq!(ended, Ended::Reply(Reply::bulk(&value)), "{}", bodies[nth]);
            }
        }
    }
}

#[test]
fn a_script_cannot_reach_the_functions_that_replace_its_calls() {
    let mut vm = machine();
    let mut random = RANDOM_START;
    eval(&mut vm, "return redis.call('GET', 'a')", &mut random);
    for name in ["__CALL", "__PCALL", "__CALL_WITH", "__PCALL_WITH"] {
        for body in [
            format!("return {name}(1)"),
            format!("redis.call('GET', 'a') return {name}(1, 'b')"),
            format!("return _G['__' .. '{}'](1)", &name[2..]),
        ] {
            let reply = eval(&mut vm, &body, &mut random);
            let expected = format!("nonexistent global variable '{name}'");
            assert!(reply.contains(&expected), "{body}: {reply}");
        }
    }
}

#[test]
fn calls_of_templates_fail_as_others_do() {
    let mut vm = machine();
    let mut random = RANDOM_START;
    for (call, expected) in [
        (
            "redis.call('GET', KEYS[3])",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        (
            "redis.call('GET', ARGV[9], 'x')",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        (
            "redis.call('GET', {})",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        (
            "redis.call(nil)",
            "ERR Lua redis lib command arguments must be strings or integers",
        ),
        (
            "redis.call('INCR', KEYS[1])",
            "ERR value is not an integer or out of range",
        ),
    ] {
        // Without and with what keeps calls as they are, where a nil alone is taken for no argument.
        let ballasts: &[&str] = match call {
            "redis.call(nil)" => &[""],
            _ => &["", "local list = KEYS "],
        };
        for ballast in ballasts {
            let body = format!("{ballast}\nlocal a = 1\n{call}\nreturn a");
            let reply = eval(&mut vm, &body, &mut random);
            assert!(reply.contains(expected), "{body}: {reply}");
            assert!(reply.contains("on @user_script:3."), "{body}: {reply}");
        }
    }
}

#[test]
fn replies_come_in_both_flavours() {
    for (body, expected) in [
        (
            r#"return redis.call("map")"#,
            "*2\\r\\n$1\\r\\na\\r\\n$3\\r\\n1.5\\r\\n",
        ),
        (
            r#"redis.setresp(3) return redis.call("map").map.a.double * 2"#,
            ":3\\r\\n",
        ),
        (
            r#"return type(redis.call("null"))"#,
            "$7\\r\\nboolean\\r\\n",
        ),
        (
            r#"redis.setresp(3) return type(redis.call("null"))"#,
            "$3\\r\\nnil\\r\\n",
        ),
        (r#"return redis.call("true") + 1"#, ":2\\r\\n"),
        (
            r#"redis.setresp(3) return tostring(redis.call("true"))"#,
            "$4\\r\\ntrue\\r\\n",
        ),
    ] {
        check(body, expected);
    }
}

#[test]
fn nothing_of_a_script_survives() {
    let mut vm = machine();
    let looks = r#"return {tostring(KEYS[9]), tostring(KEYS.x), #KEYS, #ARGV, tostring(getmetatable(KEYS)),
        tostring(rawget(_G, "x")), ("abc"):upper(), tostring({}), collectgarbage("count"), type(redis.call("null"))}"#;
    let before = eval(&mut vm, looks, &mut 0);
    for body in [
        "KEYS.x = 1 KEYS[9] = 2 setmetatable(KEYS, {__index = function() return 3 end})",
        "ARGV[1] = nil ARGV[10] = 5",
        "redis.setresp(3) tostring({}) tostring({})",
        "pcall(function() x = 1 end) pcall(rawset, _G, 'x', 1)",
        "pcall(function() getmetatable('').__index = {upper = function() return 'evil' end} end)",
        "pcall(function() string.upper = nil end)",
        "collectgarbage('stop')",
        "local co = coroutine.wrap(function() coroutine.yield() end) co()",
        "error('x')",
        "redis.call('nosuch')",
        "local t = {} for i = 1, 100000 do t[i] = {} end",
    ] {
        eval(&mut vm, body, &mut 0);
        assert_eq!(eval(&mut vm, looks, &mut 0), before, "after {body}");
    }
}

#[test]
fn every_table_in_reach_is_locked() {
    check(
        r#"local seen, open = {}, {}
        local function walk(t, path)
          if seen[t] or t == KEYS or t == ARGV then return end
          seen[t] = true
          if pcall(rawset, t, "x", 1) then open[#open + 1] = path end
          if pcall(function() t.x = 1 end) then open[#open + 1] = path end
          if pcall(setmetatable, t, {}) then open[#open + 1] = path end
          for k, v in pairs(t) do if type(v) == "table" then walk(v, path .. "." .. tostring(k)) end end
          local meta = getmetatable(t)
          if meta then walk(meta, path .. "!") end
        end
        walk(_G, "_G") walk(getmetatable(""), "string!")
        return open"#,
        "*0\\r\\n",
    );
}

#[test]
#[should_panic(expected = "a bug in the host")]
fn a_panic_of_the_host_is_no_error_of_the_script() {
    struct Broken;
    impl Host for Broken {
        fn call(&mut self, _: Request<'_>) -> Reply {
            panic!("a bug in the host")
        }
        fn tick(&mut self, _: u64) -> Tick {
            Tick::Continue
        }
    }
    let mut vm = Vm::new(OPTIONS).expect("a machine");
    let function = vm
        .define(SHA, b"return pcall(redis.call, 'x')")
        .expect("it compiles");
    let request = OwnedRequest::new([&b"EVAL"[..]]);
    vm.run(
        function,
        request.as_request().expect("not empty"),
        1,
        0,
        Broken,
    );
}

#[test]
fn without_a_state_of_the_host_random_numbers_begin_anew() {
    struct Plain;
    impl Host for Plain {
        fn call(&mut self, _: Request<'_>) -> Reply {
            Reply::Nil
        }
        fn tick(&mut self, _: u64) -> Tick {
            Tick::Continue
        }
    }
    let mut vm = Vm::new(OPTIONS).expect("a machine");
    let function = vm
        .define(SHA, b"return math.random(1000)")
        .expect("it compiles");
    let request = OwnedRequest::new([&b"EVAL"[..]]);
    for _ in 0..2 {
        let (ended, _) = vm.run(
            function,
            request.as_request().expect("not empty"),
            1,
            0,
            Plain,
        );
        assert_eq!(ended, Ended::Reply(Reply::Int(397)));
    }
}

#[test]
fn a_stop_cannot_be_swallowed() {
    for body in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "coroutine.wrap(function() while true do end end)()",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do coroutine.wrap(function() for i = 1, 9000 do end end)() end",
        "local f f = function() return pcall(f) and f() end while true do f() end",
        "while true do string.gsub('aaa', 'a', function() pcall(function() while true do end end) end) end",
        "table.sort({1, 2, 3}, function() while true do end end)",
        "return setmetatable({}, {__index = function() while true do end end}).x",
        "return string.find(('a'):rep(40), ('a?'):rep(40) .. ('a'):rep(41))",
        "return load(function() return 'x' end)",
        "while true do local s = ('x'):rep(1e6):upper() end",
    ] {
        check(body, "stopped");
    }
}

#[test]
fn a_stop_tells_the_line_of_the_script() {
    for (body, expected) in [
        ("\n\nwhile true do end", 3),
        ("\nlocal f = load(function() return 'x' end)", 2),
        (
            "\n\nreturn string.find(('a'):rep(40), ('a?'):rep(40) .. ('a'):rep(41))",
            3,
        ),
        (
            "\nlocal f = function()\nwhile true do end\nend\npcall(f)",
            3,
        ),
    ] {
        let mut vm = machine();
        let function = vm.define(SHA, body.as_bytes()).expect("it compiles");
        let request = OwnedRequest::new([&b"EVAL"[..]]);
        let request = request.as_request().expect("not empty");
        let (ended, _) = vm.run(function, request, 1, 0, Node::new(0));
        assert_eq!(ended, Ended::Stopped { line: expected }, "{body}");
    }
}

#[test]
fn memory_is_bounded_and_the_machine_goes_on() {
    let mut vm = machine();
    for body in [
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = ('x'):rep(1e6) .. #t end",
        "return ('x'):rep(1e9)",
        "local s = ('x'):rep(1e6) local t = {} for i = 1, 1000 do t[i] = s end return table.concat(t)",
        "return (string.gsub(('x'):rep(1e6), 'x', ('y'):rep(1000)))",
        "local ok, e = pcall(string.rep, 'x', 1e9) error(e, 0)",
    ] {
        let answer = eval(&mut vm, body, &mut 0);
        assert!(answer.contains("not enough memory"), "{body}: {answer}");
        assert!(vm.is_usable(), "after {body}");
        assert_eq!(
            eval(&mut vm, "return ('x'):rep(5)", &mut 0),
            "$5\\r\\nxxxxx\\r\\n"
        );
    }
}
