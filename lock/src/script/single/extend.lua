-- Extends the lease of a lock that this token holds. Never shortens it, never brings it back.
-- KEYS[1] the lock   ARGV[1] the token   ARGV[2] the lease in ms, from now on
-- Reply: 1 if the key holds the token, for at least the lease; 0 if it does not.
-- Redis 2.6.0 or later.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
