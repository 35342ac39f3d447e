-- Takes all of several locks or none. Some or all may already be ours.
-- KEYS the locks   ARGV[1] the token   ARGV[2] the lease in ms
-- Reply: OK if all of them hold the token now, for at least the lease;
--        else the longest remaining TTL in ms of those that others hold, -1 if one has none.
-- Redis 2.6.12 or later.
local wait
for _, key in ipairs(KEYS) do
  local holder = redis.call('GET', key)
  if holder and holder ~= ARGV[1] then
    local ttl = redis.call('PTTL', key)
    wait = (ttl < 0 or wait == -1) and -1 or math.max(wait or 0, ttl)
  end
end
if wait then
  return wait
end
for _, key in ipairs(KEYS) do
  if redis.call('PTTL', key) < tonumber(ARGV[2]) then
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
  end
end
return redis.status_reply('OK')
