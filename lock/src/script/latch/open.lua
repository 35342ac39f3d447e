-- Follows now.lua and wake.lua.
-- KEYS[2] the waiters of a latch, of each process one
-- Wakes all waiters.
local function open()
  for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    call(name)
  end
  redis.call('DEL', KEYS[2])
end
