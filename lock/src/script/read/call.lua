-- Wake-ups of the waiters of a read-write lock. What the name of one adds is 'r' for a reader, 'w' for a writer.
-- Follows now.lua and wake.lua.
-- KEYS[4] the waiters
-- Wakes the first waiter that is alive. If that is a reader, wakes the readers behind it too, up to the next writer; each process
-- gets one message. Passes over waiters of the kind `passed_over`. Looks at 100 waiters at most.
local function call_waiters(passed_over)
  local waiting = redis.call('ZRANGE', KEYS[4], 0, 99, 'WITHSCORES')
  local now = waiting[1] and now_ms()
  local processes, tokens, names = {}, {}, {}
  for i = 1, #waiting, 2 do
    local name, kind = waiting[i], string.sub(waiting[i], 49)
    if tonumber(waiting[i + 1]) < now then
      redis.call('ZREM', KEYS[4], name)
    elseif kind == 'w' and kind ~= passed_over then
      if #names == 0 then
        local heard = call(name)
        if not heard then
          return
        end
        redis.call('ZREM', KEYS[4], name)
        if heard > 0 then
          return
        end
      else
        break
      end
    elseif kind ~= passed_over then
      local process = string.sub(name, 1, 16)
      if not tokens[process] then
        processes[#processes + 1] = process
        tokens[process] = ''
      end
      tokens[process] = tokens[process] .. string.sub(name, 17, 48)
      names[#names + 1] = name
    end
  end
  for _, process in ipairs(processes) do
    if type(redis.pcall('PUBLISH', 'redouble-lock:' .. process, tokens[process])) ~= 'number' then
      return
    end
  end
  for _, name in ipairs(names) do
    redis.call('ZREM', KEYS[4], name)
  end
end
