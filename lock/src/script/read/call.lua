-- Wake-ups of the waiters of a read-write lock. What the name of one adds is 'r' for a reader, 'w' for a writer.
-- Follows now.lua and wake.lua.
-- KEYS[4] the waiters
-- Wakes the first waiter that is alive and receives the message. If that is a reader, wakes the readers behind it too, up to the
-- next writer; each process gets one message for 100 waiters. Passes over waiters of the kind `passed_over`. Looks at 1000 waiters
-- at most: the set has no more.
local function call_waiters(passed_over)
  local from, received = 0, 0
  for _ = 1, 10 do
    local waiting = redis.call('ZRANGE', KEYS[4], from, from + 99, 'WITHSCORES')
    local now = waiting[1] and now_ms()
    local processes, tokens, names, writer = {}, {}, {}, nil
    for i = 1, #waiting, 2 do
      local name, kind = waiting[i], string.sub(waiting[i], 49)
      if tonumber(waiting[i + 1]) < now then
        names[#names + 1] = name
      elseif kind == passed_over then
        from = from + 1
      elseif kind == 'w' then
        writer = name
        break
      else
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
      local receivers = publish(process, tokens[process])
      if not receivers then
        return
      end
      received = received + receivers
    end
    -- No reader in front of the writer received a message.
    if writer and received == 0 then
      received = call(writer)
      if not received then
        return
      end
      names[#names + 1] = writer
    end
    if names[1] then
      redis.call('ZREM', KEYS[4], unpack(names))
    end
    if received > 0 and writer or not writer and #waiting < 200 then
      return
    end
  end
end
