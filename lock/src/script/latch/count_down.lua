-- Takes one off the count of a latch, once per token, and never below zero.
-- KEYS[1] the latch   ARGV[1] the token
-- Reply: the count that is left, -1 if the latch is not set.
-- Redis 2.6.0 or later.
local count = tonumber(redis.call('HGET', KEYS[1], 'count') or -1)
if count > 0 and redis.call('HSETNX', KEYS[1], 'done:' .. ARGV[1], 1) == 1 then
  count = redis.call('HINCRBY', KEYS[1], 'count', -1)
  if count == 0 then
    redis.pcall('PUBLISH', KEYS[1] .. ':released', 'all')
  end
end
return count
