-- Takes a lock and mints its fencing token; or finds that it is ours already, with the token of then.
-- Follows now.lua and mint.lua.
-- KEYS[1] the lock   KEYS[2] the last fencing token
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] for how many ms KEYS[2] is kept after a grant
-- Reply: [OK, fencing token] if the lock holds the token now, for at least the lease;
--        else the remaining TTL in ms of its holder, -1 if it has none.
-- Redis 3.2 or later.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return redis.call('PTTL', KEYS[1])
end
local reply = mint(2, tonumber(ARGV[3]), holder)
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return reply
