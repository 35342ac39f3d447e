-- Gives back a lock that is still ours, or lets it end after some time.
-- KEYS[1] the lock   ARGV[1] the token   ARGV[2] for how many ms more it stays taken
-- Reply: 1 if the key held the token and is removed, which is published; 0 if it did not.
-- Redis 2.6.0 or later.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if tonumber(ARGV[2]) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('DEL', KEYS[1])
end
-- The lock is free or has a new end, whether or not this user may publish.
redis.pcall('PUBLISH', KEYS[1] .. ':released', '')
return 1
