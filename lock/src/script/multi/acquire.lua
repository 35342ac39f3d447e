-- Takes all of several locks or none. Some or all may already be ours. Follows take.lua.
-- KEYS the locks, ARGV[3] of them   ARGV[1] the token   ARGV[2] the lease in ms
-- Reply: OK if all of them hold the token now, for at least the lease;
--        else the longest remaining TTL in ms of those that others hold, -1 if one has none.
-- Redis 2.6.12 or later.
local wait = obstacle()
if wait then
  return wait
end
take()
return redis.status_reply('OK')
