-- Takes a read lock, which this token may already hold, or waits for it. Follows now.lua, ask.lua and readers.lua.
-- KEYS[1] the writer   KEYS[2] the readers   KEYS[3] the writer that waits and goes first   KEYS[4] the waiters
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] and ARGV[4] as in ask.lua
-- Reply: OK if the token is a reader now, for at least the lease;
--        else the remaining time in ms of the writer that holds it or goes first, -1 if that has no end.
-- Redis 3.2 or later.
if redis.call('EXISTS', KEYS[1]) == 1 then
  register(KEYS[4])
  return redis.call('PTTL', KEYS[1])
end
local now = now_ms()
local mine = sweep(now)
if not mine and redis.call('EXISTS', KEYS[3]) == 1 then
  register(KEYS[4], now)
  return redis.call('PTTL', KEYS[3])
end
unregister(KEYS[4])
if mine then
  -- So that the script writes also if nothing changes: WAIT counts only what its connection wrote.
  redis.call('ZREM', KEYS[2], ARGV[1])
end
stay(now, math.max(mine or 0, now + tonumber(ARGV[2])))
return redis.status_reply('OK')
