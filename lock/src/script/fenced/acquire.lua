-- Takes a lock and mints its fencing token; or returns that of a grant that this token already has; or waits for the lock.
-- Follows now.lua, ask.lua and mint.lua.
-- KEYS[1] the lock   KEYS[2] its waiters   KEYS[3] the last fencing token
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] and ARGV[4] as in ask.lua
-- ARGV[5] for how many ms KEYS[3] is kept after a grant
-- Reply: [OK, fencing token] if the lock holds the token now, for at least the lease;
--        else the remaining TTL in ms of its holder, or of its reservation for a waiter; -1 if it has none.
-- Redis 3.2 or later.
local holder = redis.call('GET', KEYS[1])
local ours = holder == ARGV[1]
if holder and not ours and holder ~= '?' .. ARGV[1] then
  register(KEYS[2])
  return redis.call('PTTL', KEYS[1])
end
local reply = mint(3, tonumber(ARGV[5]), ours)
if not ours then
  unregister(KEYS[2])
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[2]) then
  -- Written also if nothing changes: WAIT counts only what its connection wrote.
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return reply
