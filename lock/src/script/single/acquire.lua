-- Takes a lock that may already be ours, because an earlier request was executed but not answered.
-- KEYS[1] the lock   ARGV[1] the token   ARGV[2] the lease in ms
-- Reply: OK if the key holds the token now, for at least the lease;
--        else the remaining TTL in ms of whoever holds it, -1 if it has none.
-- Redis 2.6.12 or later.
local granted = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if granted then
  return granted
end
local ttl = redis.call('PTTL', KEYS[1])
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return ttl
end
if ttl < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return redis.status_reply('OK')
