//! Scripts that would take the process with them, in a child process.

use super::{eval, machine};

/// Scripts that must end, by a reply or by being stopped, without crashing the process.
const ATTACKS: &[&str] = &[
    r"while true do end",
    r"while true do pcall(function() while true do end end) end",
    r"local function f() while true do end end while true do pcall(f) end",
    r"coroutine.wrap(function() while true do end end)()",
    r"while true do coroutine.wrap(function() while true do end end)() end",
    r"while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    r"xpcall(function() while true do end end, function() while true do end end)",
    r"while true do xpcall(function() while true do end end, function() while true do end end) end",
    r"local function f() local ok = pcall(f) return f() end f()",
    r"local function f() return xpcall(f, f) end f()",
    r"while true do coroutine.wrap(function() for i=1,9000 do end end)() end",
    r"local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
    r#"return string.find(("a"):rep(300000), ("a?"):rep(300000))"#,
    r#"return string.find(("a"):rep(30), ("a?"):rep(30)..("a"):rep(31))"#,
    r#"return string.find(("a"):rep(5000), (".*"):rep(20).."b")"#,
    r#"return string.match(("a"):rep(300000), (".-"):rep(300000).."b")"#,
    r#"return string.find(("a"):rep(100000), ".-.-.-.-b")"#,
    r#"return string.gsub(("a"):rep(100000), ".-.-.-.-b", "")"#,
    r#"return string.gsub(("a"):rep(100000), ".-.-.-.-b", function() end)"#,
    r#"for k in string.gmatch(("a"):rep(100000), ".-.-.-.-b") do end"#,
    r#"return string.find(("("):rep(1000000), "%b()")"#,
    r"return unpack({0},-2147483648,2147483647)",
    r"return unpack({0},-2147483647,2147483647)",
    r"return unpack({0}, 0, 2147483647)",
    r"return unpack({0}, 2147483647, 2147483647)",
    r"return unpack({0}, -1/0, 1/0)",
    r"return unpack({0}, 0/0, 0/0)",
    r"return {unpack({}, -5, -1)}",
    r##"return select("#", unpack({}, 1, 6999))"##,
    r##"local function f(...) return select("#", ...) end return f(unpack({}, 1, 6900), unpack({}, 1, 6900))"##,
    r#"local s = "x" while true do s = s .. s end"#,
    r##"local t = {} while true do t[#t+1] = ("x"):rep(1e6) .. #t end"##,
    r#"return ("x"):rep(1e9)"#,
    r#"return ("x"):rep(2^31)"#,
    r#"return ("x"):rep(2^53)"#,
    r#"return (""):rep(2^31-1)"#,
    r##"return #(("x"):rep(1e7))"##,
    r#"return string.format("%99999d", 1)"#,
    r#"return string.format("%.99999f", 1)"#,
    r##"return string.format("%0-+ #%d", 1)"##,
    r#"return string.format("%99.99f", 1e308)"#,
    r##"return string.format("%-+ #0-+ #0d", 1)"##,
    r#"return string.format("%q", ("\0"):rep(1e6)):len()"#,
    r#"return string.format(("%s"):rep(200), unpack({}, 1, 200))"#,
    r#"return string.format(("%s"):rep(20), string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6),string.rep("x",4e6))"#,
    r##"local t = {} for i=1,1000 do t[i] = ("x"):rep(1e6) end return #table.concat(t)"##,
    r##"local s = ("x"):rep(1e6) local t = {} for i=1,1000 do t[i] = s end return #table.concat(t)"##,
    r#"return table.concat({}, "x", 1, 2147483647)"#,
    r#"return table.concat({}, "x", -2147483648, -1)"#,
    r"table.insert({}, -2147483648, 1)",
    r"table.insert({}, 2147483647, 1)",
    r"table.insert({}, 0/0, 1)",
    r"local t = {} for i=1,2000 do t[i]=i end table.insert(t, -2147483648, 1) return #t",
    r"return table.remove({}, -2147483648)",
    r"return table.maxn({[1e308]=1})",
    r"local t = {} for i=1,200000 do t[i] = i % 7 end table.sort(t, function(a,b) return true end)",
    r"local t = {} for i=1,100000 do t[i] = i % 7 end table.sort(t, function(a,b) return nil end) return #t",
    r"local t = {3,1,2} table.sort(t, function(a,b) t[1] = nil t[2] = nil return true end)",
    r"local t = {3,1,2,5,4} table.sort(t, function(a,b) coroutine.yield() end)",
    r"local t = {} for i=1,50 do t[i] = {} end table.sort(t, function(a, b) for i = 1, 100 do t[i] = nil end return a ~= nil end)",
    r"return loadstring(string.dump(function() end))",
    r#"return loadstring("\27Lua")"#,
    r#"return loadstring("\27LuaQ\0\1\4\8\4\8\0")"#,
    r#"return load(function() return "\27" end)"#,
    r#"local n = 0 return load(function() n = n + 1 if n == 1 then return "\27Lua" end end)"#,
    r#"local a, b = loadstring(("("):rep(100000) .. "1" .. (")"):rep(100000)) return b"#,
    r#"local a, b = loadstring("return " .. ("{"):rep(100000) .. ("}"):rep(100000)) return b"#,
    r#"local a, b = loadstring(("do "):rep(100000) .. ("end "):rep(100000)) return b"#,
    r#"local a, b = loadstring("return " .. ("function() return "):rep(10000) .. ("end "):rep(10000)) return b"#,
    r#"local a, b = loadstring("return " .. ("not "):rep(100000) .. "1") return b"#,
    r#"local a, b = loadstring("return " .. ("-"):rep(100) .. "1") return b"#,
    r#"local a, b = loadstring("return " .. ("1^"):rep(100000) .. "1") return b"#,
    r#"local a, b = loadstring("return " .. ("'a'.."):rep(100000) .. "1") return b"#,
    r#"local a, b = loadstring("return " .. ("a."):rep(100000) .. "a") return b"#,
    r#"local a, b = loadstring("return a" .. ("()"):rep(100000)) return b"#,
    r#"local a, b = loadstring("return a" .. ("[1"):rep(100000) .. ("]"):rep(100000)) return b"#,
    r#"local s = {} for i = 1, 250 do s[i] = "local a" .. i end local a, b = loadstring(table.concat(s, "\n")) return b"#,
    r#"local s = {} for i = 1, 300 do s[i] = "a" .. i end local a, b = loadstring("return function(" .. table.concat(s, ",") .. ") end") return b"#,
    r#"local s = {} for i = 1, 200 do s[i] = "a" .. i end local f = loadstring("return function(" .. table.concat(s, ",") .. ", ...) return a200 end")() local r = f() return tostring(r)"#,
    r#"local a = "local x = 0 " .. ("x = x + 1 "):rep(100000) .. "return x" local f, e = loadstring(a) return f and f() or e"#,
    r#"for i = 1, 200 do loadstring(("local a%d = %d "):format(i, i):rep(100), ("n"):rep(1000) .. i) end return 1"#,
    r#"for i = 1, 500 do local f, e = loadstring("x" .. ("y"):rep(i * 50) .. " (", ("chunk" .. i):rep(100)) end return 1"#,
    r"local function f() return coroutine.wrap(f)() end f()",
    r"local function f(n) local co = coroutine.create(f) return coroutine.resume(co, n + 1) end return f(0)",
    r"local function f(n) if n > 150 then return coroutine.wrap(function() return f(0) end)() end local t = setmetatable({}, {__index = function() return f(n + 1) end}) return t.x end return f(0)",
    r#"local function f(n) if n > 55 then return coroutine.wrap(function() return f(0) end)() end return (string.gsub("a", "a", function() return f(n + 1) end)) end return f(0)"#,
    r"local function f(n) if n > 180 then return coroutine.wrap(function() return f(0) end)() end return pcall(function() return f(n + 1) end) end return f(0)",
    r"local function f(n) if n > 90 then return coroutine.wrap(function() return f(0) end)() end local t = {2,1} table.foreach(t, function() f(n + 1) end) end return f(0)",
    r"local co co = coroutine.wrap(function() co() end) co()",
    r"local function f() return f() + 1 end return f()",
    r"local function f() return pcall(f) end return f()",
    r"local function f() error(setmetatable({}, {__tostring = f})) end f()",
    r"local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
    r"local t = setmetatable({}, {}) getmetatable(t).__newindex = t t.x = 1",
    r"local t = setmetatable({}, {}) getmetatable(t).__call = t t()",
    r"local t = setmetatable({}, {__tostring = function() return nil end}) return tostring(t)",
    r"local t = setmetatable({}, {__tostring = 5}) return tostring(t)",
    r"local t = setmetatable({}, {__concat = function(a, b) return a .. b end}) return t .. t",
    r"local t = setmetatable({}, {__eq = function(a, b) return a == b end}) return t == setmetatable({}, getmetatable(t))",
    r"local t = setmetatable({}, {__lt = function(a, b) return a < b end}) return t < t",
    r"local t = {} t[1] = t return t",
    r"local t = {} t.map = {a = t} return t",
    r"local t = {} t.set = {[t] = 1} return t",
    r"local t = {} for i = 1, 100000 do t = {t} end return t",
    r"local t = {} local l = t for i = 1, 30 do l[1] = {} l[2] = l[1] l = l[1] end return 1",
    r#"for i = 1, 20000 do pcall(redis.call, "nosuch") end return 1"#,
    r"for i = 1, 20000 do pcall(error, {}) end return 1",
    r##"local t = {} for i = 1, 20000 do t[i] = redis.pcall("nosuch") end return #t"##,
    r"local t = {} for i = 1, 20000 do t[i] = coroutine.create(function() end) end return #t",
    r#"for i = 1, 20000 do pcall(string.find, "a", "[") end return 1"#,
    r"return redis.call(unpack({}, 1, 5000))",
    r#"local t = {"echo"} for i = 2, 6000 do t[i] = "x" end return redis.call(unpack(t))"#,
    r#"return string.byte(("x"):rep(100000), 1, -1)"#,
    r"return string.char(unpack({}, 1, 5000))",
    r"return #string.char(256)",
    r"return math.random(0, 2^53)",
    r"return math.floor(0/0)",
    r#"return string.sub("abc", -2^53, 2^53)"#,
    r#"return string.sub("abc", 0/0, 1/0)"#,
    r#"return ("x"):find("x", 2^53)"#,
    r#"return ("x"):find("x", -2^53)"#,
    r#"return ("x"):byte(-2^53, 2^53)"#,
    r"return tostring(2^1023 * 2)",
    r#"return tonumber(("9"):rep(100000))"#,
    r#"return tonumber("1", 1)"#,
    r#"return tonumber("1", 37)"#,
    r#"return tonumber(("z"):rep(100000), 36)"#,
    r#"return collectgarbage("setpause", -2147483648)"#,
    r#"return collectgarbage("step", 2147483647)"#,
    r"setmetatable(_G, nil)",
    r"getmetatable(_G).__index = nil",
    r"getmetatable(_G).__newindex = nil",
    r#"rawset(_G, "x", 1)"#,
    r#"rawset(string, "x", 1)"#,
    r#"rawset(getmetatable(""), "__index", nil)"#,
    r#"getmetatable("").__index = function() return 1 end"#,
    r#"getmetatable("").__add = function() return 1 end"#,
    r"string.format = nil",
    r"redis.call = nil",
    r"table.insert(string, 1)",
    r#"setmetatable(getmetatable(""), {})"#,
    r#"for k, v in pairs(_G) do if type(v) == "table" and v ~= KEYS and v ~= ARGV then local ok = pcall(function() v.zzz = 1 end) if ok then return k end end end return "locked""#,
    r##"local seen, bad = {}, {} local function walk(t, path) if seen[t] then return end seen[t] = true for k, v in pairs(t) do if type(v) == "table" then if v ~= KEYS and v ~= ARGV and pcall(rawset, v, "zzz", 1) then bad[#bad+1] = path .. tostring(k) end walk(v, path .. tostring(k) .. ".") end end local m = getmetatable(t) if m then walk(m, path .. "mt.") end end walk(_G, "") walk(getmetatable(""), "smt.") return bad"##,
    r#"KEYS.x = 1 setmetatable(KEYS, {__index = function() return "evil" end}) return KEYS[9]"#,
    r"return {KEYS[9], KEYS.x, #KEYS}",
    r"ARGV[1] = nil ARGV[10] = 5 return 1",
    r"return {ARGV[1], ARGV[10]}",
];

const CHILD: &str = "REDOUBLE_ATTACKS";

/// Runs in a child process, with the stack of an ordinary thread.
#[test]
fn attacks() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        for body in ATTACKS {
            eprintln!("attack: {body}");
            let mut vm = machine();
            eval(&mut vm, body, &mut 0);
            if vm.is_usable() {
                let answer = eval(
                    &mut vm,
                    "return {KEYS[1], ('x'):rep(3), #string.format('%5d', 1)}",
                    &mut 0,
                );
                assert_eq!(
                    answer, "*3\\r\\n$2\\r\\nk1\\r\\n$3\\r\\nxxx\\r\\n:5\\r\\n",
                    "after {body}"
                );
            }
        }
    });
    thread.expect("a thread").join().expect("no panic");
}

#[test]
fn attacks_leave_the_process_alive() {
    let name = format!(
        "{}::attacks",
        module_path!().split_once("::").expect("a crate").1
    );
    let child = std::process::Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", &name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("the child runs");
    let errors = String::from_utf8_lossy(&child.stderr);
    let last = errors.lines().rev().take(5).collect::<Vec<_>>().join("\n");
    assert!(child.status.success(), "{} at:\n{last}", child.status);
    let begun = errors
        .lines()
        .filter(|line| line.starts_with("attack: "))
        .count();
    assert_eq!(begun, ATTACKS.len(), "{last}");
}
