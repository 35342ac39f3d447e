-- The holders of permits: a sorted set, 'weight:token' -> deadline in ms of the server; and in the same key, so that it
-- is never lost alone, '' -> minus the number of permits that they have. Follows now.lua.
-- KEYS[1] the holders   ARGV[1] the token   ARGV[6] how many permits it wants or has
local me = ARGV[6] .. ':' .. ARGV[1]
-- Removes one holder.
local function leave(holder)
  redis.call('ZREM', KEYS[1], holder)
  redis.call('ZINCRBY', KEYS[1], string.match(holder, '^%d+'), '')
end
-- Removes the key if there is no holder.
local function clear()
  if redis.call('ZCARD', KEYS[1]) == 1 then
    redis.call('DEL', KEYS[1])
  end
end
-- Removes the holders whose time is over, each for itself. Returns the deadline of ARGV[1], if it holds permits.
local function sweep(now)
  local over = redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '(' .. text(now))
  for _, holder in ipairs(over) do
    leave(holder)
  end
  if over[1] then
    clear()
  end
  local mine = redis.call('ZSCORE', KEYS[1], me)
  return mine and tonumber(mine)
end
-- Returns how many permits are taken.
local function taken()
  return -tonumber(redis.call('ZSCORE', KEYS[1], '') or 0)
end
-- Sets the deadline of ARGV[1], which holds its permits from now on. The key lives as long as the last of its holders.
local function stay(now, deadline)
  if redis.call('ZADD', KEYS[1], text(deadline), me) == 1 then
    redis.call('ZINCRBY', KEYS[1], '-' .. ARGV[6], '')
  end
  if redis.call('PTTL', KEYS[1]) < deadline - now then
    redis.call('PEXPIREAT', KEYS[1], text(deadline))
  end
end
