-- Gives back a lock that is still ours.
-- KEYS[1] the lock   ARGV[1] the token
-- Reply: 1 if the key held the token and is removed, which is published; 0 if it did not.
-- Redis 2.6.0 or later.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
-- The lock is free, whether or not this user may publish.
redis.pcall('PUBLISH', KEYS[1] .. ':released', '')
return 1
