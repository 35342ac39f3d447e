-- Takes a lock, which this token may already hold because an earlier request was executed without a reply; or waits for it.
-- Follows now.lua and ask.lua.
-- KEYS[1] the lock   KEYS[2] its waiters
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] and ARGV[4] as in ask.lua
-- Reply: OK if the key holds the token now, for at least the lease;
--        else the remaining TTL in ms of its holder, or of its reservation for a waiter; -1 if it has none.
-- Redis 3.2 or later.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  -- Written also if nothing changes: WAIT counts only what its connection wrote.
  if redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return redis.status_reply('OK')
end
if not holder or holder == '?' .. ARGV[1] then
  unregister(KEYS[2])
  return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
register(KEYS[2])
return redis.call('PTTL', KEYS[1])
