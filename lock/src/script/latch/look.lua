-- Reads the count of a latch; and waits for its end, if it is not zero. Follows now.lua and ask.lua.
-- KEYS[1] the latch   KEYS[2] its waiters
-- ARGV[1] the token   ARGV[2] is not used   ARGV[3] and ARGV[4] as in ask.lua
-- Reply: the count, nil if the latch is not set.
-- Redis 3.2 or later.
local count = redis.call('HGET', KEYS[1], 'count')
if count ~= '0' then
  register(KEYS[2])
end
return count
