-- Takes one off the count of a latch, once per token, and never below zero; at zero, wakes all waiters.
-- Follows now.lua, wake.lua and open.lua.
-- KEYS[1] the latch   KEYS[2] its waiters, of each process one   ARGV[1] the token
-- Reply: the count that this token has left, -1 if the latch is not set, -2 if the count was zero before.
-- Redis 3.2 or later.
local left = redis.call('HGET', KEYS[1], 'done:' .. ARGV[1])
if left then
  return tonumber(left)
end
local count = redis.call('HGET', KEYS[1], 'count')
if not count then
  return -1
end
if count == '0' then
  return -2
end
left = redis.call('HINCRBY', KEYS[1], 'count', -1)
redis.call('HSET', KEYS[1], 'done:' .. ARGV[1], left)
if left == 0 then
  open()
end
return left
