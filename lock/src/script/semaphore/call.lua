-- Wake-ups of waiters for permits. What the name of one adds is the number of permits that it wants.
-- Follows now.lua, wake.lua and permits.lua.
-- KEYS[2] the waiters   ARGV[5] how many permits there are
-- Wakes the waiters that the free permits are enough for, in their order. Looks at 32 of them at most.
local function call_waiters(now)
  local waiting = redis.call('ZRANGE', KEYS[2], 0, 31, 'WITHSCORES')
  local free = waiting[1] and tonumber(ARGV[5]) - taken
  for i = 1, #waiting, 2 do
    local name, wanted = waiting[i], tonumber(string.sub(waiting[i], 49))
    local alive = tonumber(waiting[i + 1]) >= now
    if free < 1 then
      return
    end
    if not alive then
      redis.call('ZREM', KEYS[2], name)
    elseif wanted <= free then
      local receivers = call(name)
      if not receivers then
        return
      end
      redis.call('ZREM', KEYS[2], name)
      if receivers > 0 then
        free = free - wanted
      end
    end
  end
end
