-- Gives back a lock that is still ours, or lets it end after some time; or gives back a place in its queue.
-- KEYS[1] the lock   KEYS[2] the queue   KEYS[3] the waiters that are alive
-- ARGV[1] the token   ARGV[2] for how many ms more the lock stays taken
-- Reply: 1 if the lock held the token; 0 if it did not.
-- Redis 2.6.0 or later.
local waited = redis.call('ZREM', KEYS[3], ARGV[1]) == 1
redis.call('ZREM', KEYS[2], ARGV[1])
local held = redis.call('GET', KEYS[1]) == ARGV[1]
if held and tonumber(ARGV[2]) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if held then
  redis.call('DEL', KEYS[1])
end
if held or waited and redis.call('EXISTS', KEYS[1]) == 0 then
  -- To the waiter whose turn it is, alone.
  redis.pcall('PUBLISH', KEYS[1] .. ':released', redis.call('ZRANGE', KEYS[2], 0, 0)[1] or '')
end
return held and 1 or 0
