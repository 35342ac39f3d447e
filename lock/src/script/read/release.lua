-- Gives back a read lock that is still ours, or lets it end after some time. Follows now.lua and readers.lua.
-- KEYS[1] the writer   KEYS[2] the readers   ARGV[1] the token   ARGV[2] for how many ms more it stays taken
-- Reply: 1 if the token was a reader; 0 if it was not.
-- Redis 3.2 or later.
local now = now_ms()
if not sweep(now) then
  return 0
end
if tonumber(ARGV[2]) > 0 then
  stay(now, now + tonumber(ARGV[2]))
  return 1
end
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.pcall('PUBLISH', KEYS[1] .. ':released', 'all')
end
return 1
