-- Takes a lock and mints its fencing token; or finds that it is ours already, with the token of then.
-- KEYS[1] the lock   KEYS[2] the last fencing token
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] for how many ms KEYS[2] is kept after a grant
-- Reply: [OK, fencing token] if the lock holds the token now, for at least the lease;
--        else the remaining TTL in ms of whoever holds it, -1 if it has none.
-- The number is at least the server's time in microseconds, so it grows on even if KEYS[2] was lost.
-- Redis 3.2 or later.
if redis.replicate_commands then
  redis.replicate_commands()
end
local last = redis.call('GET', KEYS[2])
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local ttl = redis.call('PTTL', KEYS[1])
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return ttl
  end
  if ttl < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  if last then
    return {redis.status_reply('OK'), tonumber(last)}
  end
end
local time = redis.call('TIME')
local fence = math.max(tonumber(last or 0) + 1, time[1] * 1000000 + time[2])
redis.call('SET', KEYS[2], string.format('%.0f', fence), 'PX', ARGV[3])
return {redis.status_reply('OK'), fence}
