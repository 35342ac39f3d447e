-- Takes permits, which this token may already hold, or waits for them. Follows now.lua, ask.lua and permits.lua.
-- KEYS[1] the holders   KEYS[2] the waiters
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] and ARGV[4] as in ask.lua
-- ARGV[5] how many permits there are   ARGV[6] how many are wanted
-- Reply: OK if the token has them now, for at least the lease; else in how many ms enough of them are left.
-- Redis 3.2 or later.
local now = now_ms()
local mine = sweep(now)
local spare = mine and 0 or tonumber(ARGV[5]) - taken - weight
if spare >= 0 then
  unregister(KEYS[2])
  if mine then
    -- So that the script writes also if nothing changes: WAIT counts only what its connection wrote.
    redis.call('ZREM', KEYS[1], me)
  end
  stay(now, mine, math.max(mine or 0, now + tonumber(ARGV[2])))
  return redis.status_reply('OK')
end
register(KEYS[2], now)
-- Each holder has at least one permit, so that many of them are enough.
local first = redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf', 'WITHSCORES', 'LIMIT', 0, -spare)
for i = 1, #first, 2 do
  spare = spare + string.match(first[i], '^%d+')
  if spare >= 0 then
    return tonumber(first[i + 1]) - now
  end
end
return -1
