-- The environment of libraries of functions. Their texts run once, with little more than
-- `redis.register_function`; the functions that they register run with the globals of Redis 7.0.
-- Upvalues are all that outlives a call.
--
-- Runs once per virtual machine for libraries, after the prelude and under its name.

local native, prelude = ...
local G, env, lock, on_error, forget_names = prelude.globals, prelude.env, prelude.lock, prelude.on_error, prelude.forget_names
local raw_pcall, raw_xpcall, raw_setfenv, raw_setmetatable = pcall, xpcall, setfenv, setmetatable
local compile, callbacks, missing = prelude.compile, native.callbacks, native.missing

-- These belong to scripts alone.
G.KEYS, G.ARGV, G.__redis__err__handler = nil, nil, nil
native.redis.breakpoint, native.redis.debug, native.redis.replicate_commands = nil, nil, nil

-- The table `redis` while a library is loaded.
local limited = { register_function = native.register_function }
for _, name in ipairs({ "log", "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM" }) do
  limited[name] = native.redis[name]
end
raw_setmetatable(limited, { __index = missing })
local loading = raw_setmetatable({ redis = lock(limited) }, { __index = missing })

-- The globals of all libraries. What they see changes when a library has been loaded.
local meta = { __index = G, __newindex = native.deny }
local globals = raw_setmetatable({}, meta)

local chunk

-- A protected call must not return many values (see the prelude).
local function run()
  chunk()
end

-- The kind of the error and the error, or nothing.
local function load(text)
  local problem
  chunk, problem = compile(text, "@user_function")
  if not chunk then return "compile", problem end
  raw_setfenv(chunk, globals)
  forget_names()
  meta.__index = loading
  local ok
  ok, problem = raw_pcall(run)
  meta.__index, chunk = G, nil
  if ok then return nil end
  return "run", native.pending(problem)
end

local callback, keys, argv

local function main()
  local value = callback(keys, argv)
  return value
end

-- For functions that are C functions in the original, where no Lua function is on the stack.
local function on_error_in_c(problem)
  problem = native.pending(problem)
  if type(problem) ~= "table" then problem = { err = "ERR " .. prelude.tostring(problem) } end
  return problem
end

local function enter(number, k, a)
  callback, keys, argv = callbacks[number], k, a
  forget_names()
  local ok, value = raw_xpcall(main, native.is_ours(callback) and on_error_in_c or on_error)
  callback, keys, argv = nil, nil, nil
  return ok, value
end

return {
  load = load,
  run0 = function(number, ...)
    local ok, value = enter(number, {}, { ... })
    return ok, value
  end,
  run1 = function(number, key, ...)
    local ok, value = enter(number, { key }, { ... })
    return ok, value
  end,
  run2 = function(number, key1, key2, ...)
    local ok, value = enter(number, { key1, key2 }, { ... })
    return ok, value
  end,
  run = function(number, k, a)
    local ok, value = enter(number, k, a)
    return ok, value
  end,
}
