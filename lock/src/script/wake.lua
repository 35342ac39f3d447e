-- Wake-ups of waiters, from the sets that ask.lua fills. The name of a waiter is the process (16 digits), the token that it
-- asks with (32 digits), and whatever its kind adds. Follows now.lua.
-- Publishes the token of a waiter to its process.
-- Returns how many connections receive it; nothing if this user may not publish.
local function call(name)
  local heard = redis.pcall('PUBLISH', 'redouble-lock:' .. string.sub(name, 1, 16), string.sub(name, 17, 48))
  return type(heard) == 'number' and heard or nil
end
-- Wakes the first waiter of the set `waiters` that is alive and receives the message, and removes it from the set. Tries 8 waiters at
-- most, so that dead ones do not hold up the server. Returns its token; nothing if there is none.
-- The count of receivers is that of this node alone. In a cluster it may be zero for a waiter that receives the message: then
-- several are woken.
local function call_first(waiters)
  for _ = 1, 8 do
    local first = redis.call('ZRANGE', waiters, 0, 0, 'WITHSCORES')
    if not first[1] then
      return nil
    end
    local heard = 0
    if tonumber(first[2]) >= now_ms() then
      heard = call(first[1])
    end
    if not heard then
      return nil
    end
    redis.call('ZREM', waiters, first[1])
    if heard > 0 then
      return string.sub(first[1], 17, 48)
    end
  end
end
