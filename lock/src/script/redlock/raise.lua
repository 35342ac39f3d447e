-- Stores the fencing token of a grant of several nodes on one of them.
-- KEYS[1] the lock   KEYS[3] the last fencing token
-- ARGV[1] the token   ARGV[2] the number   ARGV[5] for how many ms KEYS[3] is kept
-- Reply: 1 if this token holds the lock and KEYS[3] is at least the number; 0 if it does not hold the lock.
-- Redis 2.6.12 or later.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if tonumber(redis.call('GET', KEYS[3]) or 0) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[3], ARGV[2], 'PX', ARGV[5])
end
return 1
