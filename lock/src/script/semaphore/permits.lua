-- The holders of permits: a sorted set, 'weight:token' -> deadline in ms of the server; and in the same key, so that it
-- is never lost alone, '' -> minus the number of permits that they have. Follows now.lua.
-- KEYS[1] the holders   ARGV[1] the token   ARGV[6] how many permits it wants or has
local me, weight = ARGV[6] .. ':' .. ARGV[1], tonumber(ARGV[6])
-- How many permits are taken, as soon as `over` has read it.
local taken = 0
-- Returns the holders whose time is over, and reads how many permits are taken.
local function over(now)
  local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(' .. text(now), 'WITHSCORES')
  taken = -tonumber(found[2] or 0)
  local holders = {}
  for i = 3, #found, 2 do
    holders[#holders + 1] = found[i]
  end
  return holders
end
-- Removes holders, each for itself, and the key with the last of them.
local function leave(holders)
  for _, holder in ipairs(holders) do
    taken = taken - string.match(holder, '^%d+')
  end
  if taken == 0 then
    redis.call('DEL', KEYS[1])
    return
  end
  for _, holder in ipairs(holders) do
    redis.call('ZREM', KEYS[1], holder)
  end
  redis.call('ZADD', KEYS[1], text(-taken), '')
end
-- Removes the holders whose time is over. Returns the deadline of ARGV[1], if it holds permits.
local function sweep(now)
  local dead = over(now)
  if dead[1] then
    leave(dead)
  end
  local mine = taken > 0 and redis.call('ZSCORE', KEYS[1], me)
  return mine and tonumber(mine)
end
-- Sets the deadline of ARGV[1], which had the deadline `mine` or holds its permits from now on. The key lives as long as the last of
-- its holders.
local function stay(now, mine, deadline)
  local is_first = taken == 0
  if mine then
    redis.call('ZADD', KEYS[1], text(deadline), me)
  else
    taken = taken + weight
    redis.call('ZADD', KEYS[1], text(deadline), me, text(-taken), '')
  end
  if is_first or redis.call('PTTL', KEYS[1]) < deadline - now then
    redis.call('PEXPIREAT', KEYS[1], text(deadline))
  end
end
