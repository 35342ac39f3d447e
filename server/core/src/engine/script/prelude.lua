-- The environment of a script: the globals that Redis 7.0 offers, read-only. Nothing that a script
-- does here outlives its run.
--
-- Runs once per virtual machine, with the native functions as its argument; scripts see neither. A
-- function that raises an error on behalf of the script does so with `fail`, which adds the
-- script's line.

local native = ...
local fail, caught, origin, charge = native.fail, native.caught, native.origin, native.charge

local raw_pcall, raw_xpcall, raw_error = pcall, xpcall, error
local raw_next, raw_pairs, raw_tostring, type, select = next, pairs, tostring, type, select
local raw_rawget, raw_rawset, rawequal = rawget, rawset, rawequal
local raw_getmetatable, raw_setmetatable, raw_setfenv = getmetatable, setmetatable, setfenv
local raw_unpack, raw_loadstring, raw_collectgarbage = unpack, loadstring, collectgarbage
local raw_insert, raw_sort, raw_concat = table.insert, table.sort, table.concat
local raw_create, raw_resume = coroutine.create, coroutine.resume
local floor, byte, sub = math.floor, string.byte, string.sub

-- `luaconf.h: LUAI_MAXCSTACK`
local STACK_MAX = 8000
local INT_MAX = 2147483647
-- Cost of creating a coroutine, which has an instruction counter of its own.
local COROUTINE_COST = 500
-- A C call with less work than this is not counted.
local WORK_MIN = 1000

local G = {}     -- the globals
local env = {}   -- the _G of scripts
-- The same environment for scripts that are known to assign only locals, and to use `redis` only to
-- read its fields. These scripts need no read-only tables.
local plain = {}
local locked = native.locked -- a read-only table as scripts see it -> the table behind it

local function lock(target)
  local front = raw_setmetatable({}, { __index = target, __newindex = native.deny })
  locked[front] = target
  return front
end

-- Returns the results of a C function, or raises its error with the script's line. `name` is used
-- if the function's name in the script is unknown. Never called in tail position: a tail call would
-- lose the frame, and with it the script's line.
local function settle(name, ok, ...)
  if ok then return ... end
  return fail((...), name)
end

-- A function that coroutines cannot yield across. The functions that call back are C functions in
-- the original, and Lua 5.1 cannot yield across those, nor across a metamethod. The function
-- returns one value.
local function barrier(body)
  local function pass(args)
    return (body(raw_unpack(args, 1, args.n)))
  end
  local meta = { __unm = pass }
  return function(...)
    local value = -raw_setmetatable({ n = select("#", ...), ... }, meta)
    return value
  end
end

------------------------------------------------------------------------------------------------
-- Errors. A native function raises a userdata in place of the error value. The catching function
-- gets the value from `caught`. After a stop, `caught` raises again at every level.

-- A protected call must not return many values. Lua 5.1 pushes one more without reserving a slot,
-- and the process aborts where the C code checks itself. So many values are returned in a table.
local MANY, VALUES_MAX = {}, 12

local function gather(...)
  local count = select("#", ...)
  if count <= VALUES_MAX then return ... end
  return MANY, count, { ... }
end

local function bounded(f, ...)
  return gather(f(...))
end

-- The values of a table that was made by `{ ... }`. The bounds would take their place on the stack of `unpack`, so they
-- are left out where the last value is not nil.
local function spread(values, count)
  if #values == count then return raw_unpack(values) end
  return raw_unpack(values, 1, count)
end

local function scatter(first, count, values, ...)
  if first ~= MANY then return true, first, count, values, ... end
  if count >= STACK_MAX then return fail("too many results to unpack") end
  return true, spread(values, count)
end

local function protect(ok, first, ...)
  if ok then
    if first == MANY then return scatter(first, ...) end
    return true, first, ...
  end
  local value = caught(first)
  if type(value) == "table" then
    local text = value.err
    if type(text) == "string" or type(text) == "number" then value = text end
  end
  return false, value
end

local function pcall(...)
  if select("#", ...) == 0 then return false, "attempt to call a boolean value" end -- the message of Redis
  return protect(raw_pcall(bounded, ...))
end

local function finish(ok, first, ...)
  if ok then
    if first == MANY then return scatter(first, ...) end
    return true, first, ...
  end
  return false, caught(first)
end

local function xpcall(...)
  if select("#", ...) < 2 then return fail("bad argument #2 to '?' (value expected)", "xpcall") end
  local f, handler = ...
  return finish(raw_xpcall(function()
    return gather(f())
  end, function(problem)
    return handler(caught(problem))
  end))
end

local tostring

-- `script.c: __redis__err__handler`.
local function on_error(problem)
  local ok, value = raw_pcall(native.pending, problem)
  if not ok then return value end -- a panic of the host; it is resumed after the run
  problem = value
  local source, line = origin()
  if type(problem) ~= "table" then
    problem = { err = "ERR " .. tostring(problem) }
  elseif locked[problem] then
    problem = { err = "ERR Attempt to modify a readonly table" }
  end
  if source then
    raw_rawset(problem, "source", source)
    raw_rawset(problem, "line", line)
  end
  return problem
end

------------------------------------------------------------------------------------------------
-- Tables and values.

local weak = { __mode = "k" }
local names, names_count = raw_setmetatable({}, weak), 0 -- tables, functions and threads get numbers instead of addresses

tostring = function(...)
  local value = ...
  local kind = type(value)
  if kind == "string" or kind == "number" or kind == "boolean" or kind == "userdata" then return raw_tostring(value) end
  if kind == "nil" then
    if select("#", ...) == 0 then return fail("bad argument #1 to '?' (value expected)", "tostring") end
    return "nil"
  end
  if kind == "table" then
    local meta = not locked[value] and native.metatable(value)
    if meta and raw_rawget(meta, "__tostring") ~= nil then
      local convert = raw_rawget(meta, "__tostring")
      if type(convert) ~= "function" then return (settle("tostring", raw_pcall(raw_tostring, value))) end
      return convert(value)
    end
  end
  local name = names[value]
  if not name then
    names_count = names_count + 1
    name = kind .. ": " .. native.address(names_count)
    names[value] = name
  end
  return name
end

local function next(...)
  local t, key = ...
  if t == nil then settle("next", raw_pcall(raw_next, ...)) end
  local target = locked[t]
  if not target and type(t) == "table" and key == nil then return raw_next(t) end
  local following, value = settle("next", raw_pcall(raw_next, target or t, key))
  return following, value
end

local function pairs(...)
  local t = ...
  if type(t) ~= "table" then settle("pairs", raw_pcall(raw_pairs, ...)) end
  if locked[t] then return next, t, nil end
  return raw_next, t, nil
end

local function rawget(...)
  local t, key = ...
  if type(t) == "table" and select("#", ...) > 1 then return raw_rawget(locked[t] or t, key) end
  return (settle("rawget", raw_pcall(raw_rawget, ...)))
end

local function rawset(...)
  if locked[...] and select("#", ...) > 2 then return fail("Attempt to modify a readonly table", false) end
  return (settle("rawset", raw_pcall(raw_rawset, ...)))
end

local meta_of_globals, meta_of_strings

local function getmetatable(...)
  local value = ...
  if value == nil then
    if select("#", ...) == 0 then return fail("bad argument #1 to '?' (value expected)", "getmetatable") end
    return nil
  end
  if locked[value] then return rawequal(value, env) and meta_of_globals or nil end
  if type(value) == "string" then return meta_of_strings end
  return raw_getmetatable(value)
end

local function setmetatable(...)
  local t, meta = ...
  if locked[t] then return fail("Attempt to modify a readonly table", false) end
  if select("#", ...) < 2 then
    return (settle("setmetatable", raw_pcall(raw_setmetatable, ...)))
  end
  return (settle("setmetatable", raw_pcall(raw_setmetatable, t, meta)))
end

-- A number as C reads it into an `int`: the fraction is cut off, and the low 32 bits count.
local function c_int(number)
  if number ~= number or number >= 2 ^ 63 or number < -2 ^ 63 then return 0 end
  number = (number < 0 and -floor(-number) or floor(number)) % 2 ^ 32
  return number > INT_MAX and number - 2 ^ 32 or number
end

local function unpack(...)
  local t, i, j = ...
  if type(t) == "table" and (i == nil or type(i) == "number") and (j == nil or type(j) == "number") then
    local first, last = i or 1, j or #t
    -- The results and the arguments are on the stack of the C function.
    local room = STACK_MAX - select("#", ...)
    if last - first < room and first > -2147483648 and first < 2147483647 and last < 2147483647 then
      if j == nil then
        if i == nil then return raw_unpack(t) end
        return raw_unpack(t, first)
      end
      return raw_unpack(t, first, last)
    end
    first, last = c_int(first), c_int(last)
    if first > last then return end
    if last - first >= room then return fail("too many results to unpack") end
    if last < INT_MAX then return raw_unpack(t, first, last) end
    -- The C code would count past the greatest index.
    local values = {}
    for index = first, last do values[index - first + 1] = raw_rawget(t, index) end
    return raw_unpack(values, 1, last - first + 1)
  end
  if type(t) ~= "table" then settle("unpack", raw_pcall(raw_unpack, ...)) end
  if i ~= nil and not tonumber(i) then settle("unpack", raw_pcall(raw_unpack, t, i)) end
  if j ~= nil and not tonumber(j) then settle("unpack", raw_pcall(raw_unpack, t, 1, j)) end
  return unpack(t, i ~= nil and tonumber(i) or nil, j ~= nil and tonumber(j) or nil)
end

local function insert(...)
  local count = select("#", ...)
  local t, at, value = ...
  if type(t) == "table" and not locked[t] then
    if count == 2 then
      raw_insert(t, at)
      return
    end
    if count == 3 and type(at) == "number" then
      local moved = #t - at
      if moved >= WORK_MIN then
        -- The C code would visit every slot down to a negative position.
        if at < -WORK_MIN then return fail("bad argument #2 to '?' (position out of bounds)", "insert") end
        charge(moved / 8)
      end
      raw_insert(t, at, value)
      return
    end
  end
  if locked[t] then return fail("Attempt to modify a readonly table", false) end
  return (settle("insert", raw_pcall(raw_insert, ...)))
end

local raw_remove = table.remove

local function count_of(...)
  return select("#", ...), ...
end

local function remove(...)
  local t = ...
  if type(t) == "table" and select("#", ...) > 1 and #t >= WORK_MIN then charge(#t / 8) end
  local count, value = count_of(settle("remove", raw_pcall(raw_remove, ...)))
  if count == 0 then return end -- no result, which differs from nil
  return value
end

local function default_less(a, b)
  local kind = type(a)
  if kind == type(b) and (kind == "number" or kind == "string") then return a < b end
  if a == nil or b == nil then
    local other = a == nil and type(b) or kind
    return fail("attempt to compare " .. (other == "nil" and "two nil values" or kind .. " with " .. type(b)), false)
  end
  -- The C function raises the error without a line, as the original does. It compares (second,
  -- first).
  local pair = { b, a }
  local ok, problem = raw_pcall(raw_sort, pair)
  if not ok then return raw_error(caught(problem), 0) end
  return not rawequal(pair[1], b)
end

-- `ltablib.c: auxsort`, in Lua, so that each comparison counts as work.
local function sort_range(t, l, u, less)
  while l < u do
    local low, high = raw_rawget(t, l), raw_rawget(t, u)
    if less(high, low) then
      raw_rawset(t, l, high)
      raw_rawset(t, u, low)
    end
    if u - l == 1 then break end
    local middle = floor((l + u) / 2)
    local pivot, first = raw_rawget(t, middle), raw_rawget(t, l)
    if less(pivot, first) then
      raw_rawset(t, middle, first)
      raw_rawset(t, l, pivot)
    else
      local last = raw_rawget(t, u)
      if less(last, pivot) then
        raw_rawset(t, middle, last)
        raw_rawset(t, u, pivot)
      end
    end
    if u - l == 2 then break end
    pivot = raw_rawget(t, middle)
    raw_rawset(t, middle, raw_rawget(t, u - 1))
    raw_rawset(t, u - 1, pivot)
    local i, j = l, u - 1
    while true do
      i = i + 1
      local left = raw_rawget(t, i)
      while less(left, pivot) do
        if i > u then return fail("invalid order function for sorting") end
        i = i + 1
        left = raw_rawget(t, i)
      end
      j = j - 1
      local right = raw_rawget(t, j)
      while less(pivot, right) do
        if j < l then return fail("invalid order function for sorting") end
        j = j - 1
        right = raw_rawget(t, j)
      end
      if j < i then break end
      raw_rawset(t, i, right)
      raw_rawset(t, j, left)
    end
    local swapped = raw_rawget(t, u - 1)
    raw_rawset(t, u - 1, raw_rawget(t, i))
    raw_rawset(t, i, swapped)
    if i - l < u - i then
      sort_range(t, l, i - 1, less)
      l = i + 1
    else
      sort_range(t, i + 1, u, less)
      u = i - 1
    end
  end
end

local sorted = barrier(function(t, less)
  return sort_range(t, 1, #t, less)
end)

local function sort(...)
  local t, less = ...
  if locked[t] then return end
  if type(t) ~= "table" or (less ~= nil and type(less) ~= "function") then
    settle("sort", raw_pcall(raw_sort, ...))
  end
  local _ = sorted(t, less or default_less)
end

------------------------------------------------------------------------------------------------
-- Loading code. Bytecode is refused, because Lua 5.1 does not verify it. The garbage collector is
-- stopped while parsing: the parser does not anchor the chunk's name (CVE-2025-49844).

local function compile(text, name, is_plain)
  local refusal = native.refuse(text)
  if refusal then return nil, refusal end
  raw_collectgarbage("stop")
  local ok, chunk, problem = raw_pcall(raw_loadstring, text, name)
  raw_collectgarbage("restart")
  charge(#text)
  if not ok then return nil, native.describe(chunk) end
  if chunk then return raw_setfenv(chunk, is_plain and plain or env) end
  return nil, problem
end

local function loadstring(...)
  local text, name = ...
  if type(text) == "number" then text = raw_tostring(text) end
  if type(text) ~= "string" or (name ~= nil and type(name) ~= "string" and type(name) ~= "number") then
    return (settle("loadstring", raw_pcall(raw_loadstring, ...)))
  end
  return compile(text, name)
end

local raw_load = load
local function load(...)
  local reader, name = ...
  if type(reader) ~= "function" or (name ~= nil and type(name) ~= "string" and type(name) ~= "number") then
    settle("load", raw_pcall(raw_load, ...))
  end
  local pieces, count = {}, 0
  while true do
    local ok, piece = raw_pcall(reader)
    if not ok then return nil, caught(piece) end
    if piece == nil or piece == "" then break end
    if type(piece) == "number" then piece = raw_tostring(piece) end
    if type(piece) ~= "string" then return nil, "reader function must return a string" end
    count = count + 1
    pieces[count] = piece
  end
  return compile(raw_concat(pieces), name or "=(load)")
end

------------------------------------------------------------------------------------------------
-- Coroutines. A stop ends all of them.

local function resumed(ok, first, ...)
  if ok then return true, first, ... end
  return false, caught(first)
end

local function packed(ok, ...)
  return ok, select("#", ...), { ... }
end

local function resume(thread, ...)
  if type(thread) ~= "thread" then
    return fail("bad argument #1 to '?' (coroutine expected)", "resume")
  end
  return resumed(raw_resume(thread, ...))
end

-- A function that is C in the original must not be visible as a Lua function either.
local function thread_of(name, ...)
  charge(COROUTINE_COST)
  local f = ...
  if native.is_ours(f) then return fail("bad argument #1 to '?' (Lua function expected)", name) end
  local thread = settle(name, raw_pcall(raw_create, f))
  return thread
end

local function create(...)
  local thread = thread_of("create", ...)
  return thread
end

local function wrap(...)
  local thread = thread_of("wrap", ...)
  return function(...)
    -- Not a tail call: it would lose the line of an error.
    local ok, count, values = packed(resumed(raw_resume(thread, ...)))
    if ok then return spread(values, count) end
    local value = values[1]
    if type(value) == "string" or type(value) == "number" then fail(value) end
    raw_error(value, 0)
  end
end

------------------------------------------------------------------------------------------------
-- Strings. Matching is native. Callbacks are made here, so that their errors and values stay intact.

local text_find_from, text_replace, check_text = native.find_from, native.replace, native.check_text

local function call_first(f, _, _, ...)
  return f(...)
end

local function index_first(t, _, _, first)
  return t[first]
end

local substitute = barrier(function(s, p, replacement, apply, limit)
  local out, size, count, at = {}, 0, 0, 1
  local anchored = sub(p, 1, 1) == "^"
  local length = #s
  local function step(from, to, ...)
    if not from then return nil end
    return from, to, apply(replacement, from, to, ...)
  end
  while count < limit do
    local from, to, value = step(text_find_from(s, p, at, true))
    if not from then break end
    count = count + 1
    size = size + 1
    out[size] = sub(s, at, from - 1)
    size = size + 1
    if not value then
      out[size] = sub(s, from, to)
    elseif type(value) == "string" or type(value) == "number" then
      out[size] = value
    else
      return fail("invalid replacement value (a " .. type(value) .. ")")
    end
    if to >= from then
      at = to + 1
    elseif from <= length then
      size = size + 1
      out[size] = sub(s, from, from)
      at = from + 1
    else
      at = from
      break
    end
    if anchored then break end
  end
  out[size + 1] = sub(s, at)
  return { raw_concat(out), count }
end)

local function gsub(...)
  local s, p, replacement, limit = ...
  local kind = type(replacement)
  if kind ~= "function" and kind ~= "table" then return text_replace(...) end
  if type(s) ~= "string" then s = check_text("gsub", 1, ...) end
  if type(p) ~= "string" then p = check_text("gsub", 2, ...) end
  if limit == nil then
    limit = #s + 1
  else
    local number = tonumber(limit)
    if not number then return text_replace(s, p, "", limit) end
    limit = number < 0 and -floor(-number) or floor(number)
  end
  local done = substitute(s, p, replacement, kind == "function" and call_first or index_first, limit)
  return done[1], done[2]
end

local function gmatch(...)
  local s, p = ...
  if type(s) ~= "string" then s = check_text("gmatch", 1, ...) end
  if type(p) ~= "string" then p = check_text("gmatch", 2, ...) end
  local at = 1
  local function advance(from, to, ...)
    if not from then return nil end
    at = to >= from and to + 1 or to + 2
    return ...
  end
  return function()
    return advance(text_find_from(s, p, at, false))
  end
end

local function counted(name, f)
  return function(...)
    local s = ...
    if type(s) == "string" then
      if #s >= WORK_MIN then charge(#s / 16) end
      return f(s)
    end
    return (settle(name, raw_pcall(f, ...)))
  end
end

------------------------------------------------------------------------------------------------
-- Memory figures are constant: a script returns the same on a fresh and on a used virtual machine.

local MEMORY_KIB = 64
local collector = { collect = 0, stop = 0, restart = 0, step = true, setpause = 200, setstepmul = 200, count = MEMORY_KIB }

local function collectgarbage(option)
  if option == nil then option = "collect" end
  if type(option) == "number" then option = raw_tostring(option) end
  if type(option) ~= "string" then
    return fail("bad argument #1 to '?' (string expected, got " .. type(option) .. ")", "collectgarbage")
  end
  local answer = raw_rawget(collector, option)
  if answer == nil then return fail("bad argument #1 to '?' (invalid option '" .. option .. "')", "collectgarbage") end
  return answer
end

------------------------------------------------------------------------------------------------
-- The globals of Redis 7.0.

local function copy(from, list)
  local to = {}
  for name in string.gmatch(list, "%S+") do to[name] = from[name] end
  return to
end

local strings = string
for _, name in raw_pairs({ "find", "match", "rep" }) do strings[name] = native[name] end
strings.gsub, strings.gmatch, strings.gfind = gsub, gmatch, gmatch
strings.dump = native.dump
for _, name in raw_pairs({ "upper", "lower", "reverse" }) do strings[name] = counted(name, strings[name]) end

local maths = copy(math, "abs acos asin atan2 atan ceil cos cosh deg exp floor fmod frexp huge ldexp log10 log max min mod modf pi pow rad sin sinh sqrt tan tanh")
maths.random, maths.randomseed = native.random, native.randomseed

local tables = copy(table, "concat foreach foreachi getn maxn setn")
tables.insert, tables.remove, tables.sort = insert, remove, sort

local coroutines = copy(coroutine, "running status yield")
coroutines.create, coroutines.resume, coroutines.wrap = create, resume, wrap

G._VERSION = _VERSION
G.assert, G.error, G.ipairs, G.rawequal, G.select, G.tonumber, G.type = assert, native.error, ipairs, rawequal, select, tonumber, type
G.collectgarbage, G.gcinfo = collectgarbage, function() return MEMORY_KIB end
G.getmetatable, G.setmetatable, G.rawget, G.rawset = getmetatable, setmetatable, rawget, rawset
G.load, G.loadstring, G.next, G.pairs, G.unpack = load, loadstring, next, pairs, unpack
G.pcall, G.xpcall, G.tostring = pcall, xpcall, tostring
G.__redis__err__handler = on_error
G.string, G.math, G.table, G.coroutine = lock(strings), lock(maths), lock(tables), lock(coroutines)
G.redis = lock(native.redis)
for name, library in raw_pairs(native.libraries) do G[name] = lock(library) end
G._G = env
G.KEYS, G.ARGV = {}, {}

raw_setmetatable(G, { __index = native.missing })
raw_setmetatable(env, { __index = G, __newindex = native.deny })
raw_setmetatable(plain, { __index = G })
plain.redis = native.redis
plain.__CALL, plain.__PCALL, plain.__CALL_WITH, plain.__PCALL_WITH = native.call, native.pcall, native.call_with, native.pcall_with
locked[env] = G
meta_of_globals = lock({ __index = native.missing })
meta_of_strings = lock({ __index = G.string })
-- Method calls on strings use the table behind `string` directly.
raw_getmetatable("").__index = strings

------------------------------------------------------------------------------------------------
-- The entry points: one for each common number of keys, so that no loop is needed.

local script

-- Redis uses only the first value that a script returns.
local function main()
  local value = script()
  return value
end

-- The script that ran last by an entry point that reuses its tables. As long as it is the same,
-- everything is in place.
local last, last_argv

local function place(f, keys, argv)
  G.KEYS, G.ARGV, plain.KEYS, plain.ARGV, script = keys, argv, keys, argv, f
end

local function enter(f, keys, argv)
  place(f, keys, argv)
  last, last_argv = nil, nil
  if names_count ~= 0 then names, names_count = raw_setmetatable({}, weak), 0 end
  return raw_xpcall(main, on_error)
end

-- Entry point for scripts that only read their arguments. It reuses two tables, as far as they have
-- room.
local function again(keys, argv)
  return function(f, key1, key2, a, b, c, d)
    if key1 then
      keys[1] = key1
      if key2 then keys[2] = key2 end
    end
    if a then
      argv[1] = a
      if b then
        argv[2] = b
        if c then
          argv[3] = c
          if d then argv[4] = d end
        end
      end
    end
    if last ~= f or last_argv ~= argv then
      place(f, keys, argv)
      last, last_argv = f, argv
    end
    if names_count ~= 0 then names, names_count = raw_setmetatable({}, weak), 0 end
    local ok, value = raw_xpcall(main, on_error)
    return ok, value
  end
end

-- Sets ARGV for a small script: one that calls nothing but commands, names KEYS only in its calls' templates, and returns
-- one value.
local function place_argv(argv)
  plain.ARGV, last, last_argv = argv, nil, argv
end

-- Entry point for small scripts with `count` elements of ARGV. It needs neither KEYS nor `main`.
local function small(count)
  local argv = {}
  for index = 1, count do argv[index] = "" end
  if count == 0 then
    return function(f)
      if last_argv ~= argv then place_argv(argv) end
      local ok, value = raw_xpcall(f, on_error)
      return ok, value
    end
  elseif count == 1 then
    return function(f, a)
      argv[1] = a
      if last_argv ~= argv then place_argv(argv) end
      local ok, value = raw_xpcall(f, on_error)
      return ok, value
    end
  end
  return function(f, a, b, c, d)
    argv[1], argv[2] = a, b
    if count > 2 then
      argv[3] = c
      if count > 3 then argv[4] = d end
    end
    if last_argv ~= argv then place_argv(argv) end
    local ok, value = raw_xpcall(f, on_error)
    return ok, value
  end
end

-- No tail calls: the outermost frame is always one of these.
return {
  env = env,
  run0 = function(f, ...)
    local ok, value = enter(f, {}, { ... })
    return ok, value
  end,
  run1 = function(f, key, ...)
    local ok, value = enter(f, { key }, { ... })
    return ok, value
  end,
  run2 = function(f, key1, key2, ...)
    local ok, value = enter(f, { key1, key2 }, { ... })
    return ok, value
  end,
  run = function(f, keys, argv)
    local ok, value = enter(f, keys, argv)
    return ok, value
  end,
  compile = compile,
  -- For libraries of functions.
  globals = G,
  lock = lock,
  on_error = on_error,
  tostring = tostring,
  forget_names = function()
    if names_count ~= 0 then names, names_count = raw_setmetatable({}, weak), 0 end
  end,
  small = { small(0), small(1), small(2), small(3), small(4) },
  -- By the number of keys, then by the number of other arguments.
  again = {
    again({}, {}), again({}, { "" }), again({}, { "", "" }), again({}, { "", "", "" }), again({}, { "", "", "", "" }),
    again({ "" }, {}), again({ "" }, { "" }), again({ "" }, { "", "" }), again({ "" }, { "", "", "" }), again({ "" }, { "", "", "", "" }),
    again({ "", "" }, {}), again({ "", "" }, { "" }), again({ "", "" }, { "", "" }), again({ "", "" }, { "", "", "" }), again({ "", "" }, { "", "", "", "" }),
  },
}
