-- Stores the fencing token of a grant of several nodes on one of them.
-- KEYS[1] the lock   KEYS[2] the last fencing token
-- ARGV[1] the token   ARGV[2] the number   ARGV[3] for how many ms KEYS[2] is kept
-- Reply: 1 if the lock is still ours and KEYS[2] is the number; 0 if the lock is not ours.
-- While it is ours nobody else mints: the number is above what this node has minted for us, and so above all before.
-- Redis 2.6.12 or later.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 1
