-- Takes all of several locks or none, and mints one fencing token for all of them. This token may already hold some or all;
-- the fencing token is a new one all the same, because no caller knows the earlier one. Follows now.lua, ask.lua, wake.lua,
-- pass_on.lua and take.lua.
-- KEYS as in take.lua, and then for each lock its last fencing token
-- ARGV as in take.lua   ARGV[6] for how many ms the last fencing tokens are kept after a grant
-- Reply: [OK, fencing token] if all of them hold the token now, for at least the lease;
--        else the longest remaining TTL in ms of those that others hold or that are reserved for a waiter, -1 if one has none.
-- The fencing token is above the last one of each key, and becomes the last one of all: so it is above that of every
-- earlier grant that had one of them. It is at least the server's time in microseconds, so it grows even if those were
-- lost. It is minted before the locks are taken: whatever can fail leaves no lock behind.
-- Redis 3.2 or later.
local wait = obstacle()
if wait then
  return wait
end
local highest = 0
for i = 2 * count + 1, 3 * count do
  highest = math.max(highest, tonumber(redis.call('GET', KEYS[i]) or 0))
end
local time = redis.call('TIME')
local fence = math.max(highest + 1, time[1] * 1000000 + time[2])
for i = 2 * count + 1, 3 * count do
  redis.call('SET', KEYS[i], text(fence), 'PX', ARGV[6])
end
take()
return {redis.status_reply('OK'), fence}
