-- Turns a write lock that this token holds into a read lock, and wakes the readers that wait. No other writer can come between:
-- both happen in this script. Follows now.lua, wake.lua, call.lua and readers.lua.
-- KEYS[1] the writer   KEYS[2] the readers   KEYS[3] the writer that waits and goes first   KEYS[4] the waiters
-- ARGV[1] the token, of the writer and then of the reader   ARGV[2] the lease in ms
-- Reply: OK if the token is a reader now, for at least the lease and for the rest of the write lock;
--        -1 if it is neither the writer nor a reader.
-- Redis 3.2 or later.
local now = now_ms()
local mine = sweep(now)
local writes = redis.call('GET', KEYS[1]) == ARGV[1]
if not writes and not mine then
  return -1
end
local left = writes and redis.call('PTTL', KEYS[1]) or 0
stay(now, math.max(mine or 0, now + math.max(left, tonumber(ARGV[2]))))
if writes then
  redis.call('DEL', KEYS[1])
  -- A writer that waits and goes first keeps out the readers; and no writer can enter.
  if redis.call('EXISTS', KEYS[3]) == 0 then
    call_waiters('w')
  end
end
return redis.status_reply('OK')
