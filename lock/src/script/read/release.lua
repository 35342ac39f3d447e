-- Gives back a read lock that is still ours. Follows now.lua and readers.lua.
-- KEYS[1] the writer   KEYS[2] the readers   ARGV[1] the token   ARGV[2] for how many ms it shall stay taken
-- Reply: 1 if the token was a reader; 0 if it was not.
-- Redis 3.2 or later.
local now = now_ms()
local mine, last = sweep(now)
if not mine then
  return 0
end
if tonumber(ARGV[2]) > 0 then
  redis.call('HSET', KEYS[2], ARGV[1], text(now + tonumber(ARGV[2])))
  return 1
end
redis.call('HDEL', KEYS[2], ARGV[1])
if not last then
  redis.pcall('PUBLISH', KEYS[1] .. ':released', 'all')
end
return 1
