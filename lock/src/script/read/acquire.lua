-- Takes a read lock that may already be ours. Follows now.lua and readers.lua.
-- KEYS[1] the writer   KEYS[2] the readers   KEYS[3] the writer who waits
-- ARGV[1] the token   ARGV[2] the lease in ms
-- Reply: OK if the token is a reader now, for at least the lease;
--        else in how many ms the writer is gone who holds it or goes first, -1 if that has no end.
-- Redis 3.2 or later.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('PTTL', KEYS[1])
end
local now = now_ms()
local mine = sweep(now)
if not mine and redis.call('EXISTS', KEYS[3]) == 1 then
  return redis.call('PTTL', KEYS[3])
end
stay(now, math.max(mine or 0, now + tonumber(ARGV[2])))
return redis.status_reply('OK')
