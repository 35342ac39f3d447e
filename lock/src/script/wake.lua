-- Wake-ups of waiters, from the sets that ask.lua fills. The name of a waiter is the process (16 characters), the token that it
-- asks with (32 digits), and what its kind adds. The name of a process in a cluster begins with 'C'. Follows now.lua.
-- Publishes tokens of waiters to their process. Returns how many connections receive them; nothing if this user may not publish.
-- A node of a cluster counts only its own connections, so a process in a cluster counts as one that receives.
local function publish(process, tokens)
  local receivers = redis.pcall('PUBLISH', 'redouble-lock:' .. process, tokens)
  if type(receivers) ~= 'number' then
    return nil
  end
  return string.sub(process, 1, 1) == 'C' and 1 or receivers
end
-- Wakes one waiter. Returns what `publish` returns.
local function call(name)
  return publish(string.sub(name, 1, 16), string.sub(name, 17, 48))
end
-- Wakes the first waiter of the set `waiters` that is alive and receives the message, and removes it from the set. Tries 8 waiters at
-- most, so that dead ones do not hold up the server. Returns its token; nothing if there is none.
local function call_first(waiters)
  for _ = 1, 8 do
    local first = redis.call('ZRANGE', waiters, 0, 0, 'WITHSCORES')
    if not first[1] then
      return nil
    end
    local receivers = 0
    if tonumber(first[2]) >= now_ms() then
      receivers = call(first[1])
    end
    if not receivers then
      return nil
    end
    redis.call('ZREM', waiters, first[1])
    if receivers > 0 then
      return string.sub(first[1], 17, 48)
    end
  end
end
