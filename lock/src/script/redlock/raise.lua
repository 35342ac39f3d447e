-- Stores the fencing token of a grant of several nodes on one of them.
-- KEYS[1] the lock   KEYS[2] the last fencing token
-- ARGV[1] the token   ARGV[2] the number   ARGV[3] for how many ms KEYS[2] is kept
-- Reply: 1 if the lock is still ours and KEYS[2] is at least the number; 0 if the lock is not ours.
-- Redis 2.6.12 or later.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if tonumber(redis.call('GET', KEYS[2]) or 0) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
return 1
