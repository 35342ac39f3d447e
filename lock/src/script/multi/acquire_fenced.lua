-- Takes all of several locks or none, and mints one number for all of them. Some or all may already be ours; the number is
-- a new one all the same, as nobody was told the one of then. Follows now.lua and take.lua.
-- KEYS the locks, ARGV[3] of them, and then for each of them its last number
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[4] for how many ms the last numbers are kept after a grant
-- Reply: [OK, number] if all of them hold the token now, for at least the lease;
--        else the longest remaining TTL in ms of those that others hold, -1 if one has none.
-- The number is above the last one of each key, and becomes the last one of all: so it is above that of every grant
-- before that had one of them. It is at least the server's time in microseconds, so it grows on where they were lost.
-- Redis 3.2 or later.
local wait = take()
if wait then
  return wait
end
local count = tonumber(ARGV[3])
local highest = 0
for i = count + 1, 2 * count do
  highest = math.max(highest, tonumber(redis.call('GET', KEYS[i]) or 0))
end
local time = redis.call('TIME')
local fence = math.max(highest + 1, time[1] * 1000000 + time[2])
for i = count + 1, 2 * count do
  redis.call('SET', KEYS[i], text(fence), 'PX', ARGV[4])
end
return {redis.status_reply('OK'), fence}
