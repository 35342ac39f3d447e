-- Releases a lock that this token holds, or lets it end after some time; or leaves its queue.
-- Follows now.lua and wake.lua.
-- KEYS[1] the lock   KEYS[2] the queue   KEYS[3] the waiters that are alive
-- ARGV[1] the token   ARGV[2] for how many ms more the lock stays taken   ARGV[3] the name of the waiter
-- Reply: 1 if the lock held the token; 0 if it did not.
-- Redis 3.2 or later.
local holder = redis.call('GET', KEYS[1])
local held = holder == ARGV[1]
local waited = false
if not held then
  redis.call('ZREM', KEYS[2], ARGV[3])
  waited = redis.call('ZREM', KEYS[3], ARGV[3]) == 1
elseif tonumber(ARGV[2]) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  -- The first waiter learns the new end.
else
  redis.call('DEL', KEYS[1])
end
if held or waited and not holder then
  -- The first waiter that receives the message: the ones in front of it may be dead, which it finds out when it asks.
  for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, 7)) do
    if call(name) ~= 0 then
      break
    end
  end
end
return held and 1 or 0
