-- The readers of a lock: a sorted set, token -> deadline in ms of the server. Follows now.lua.
-- Removes the readers whose time is over. Returns the deadline of ARGV[1], if it is a reader.
local function sweep(now)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. text(now))
  local mine = redis.call('ZSCORE', KEYS[2], ARGV[1])
  return mine and tonumber(mine)
end
-- Returns the last deadline of all readers but ARGV[1]; nothing if there is no other.
local function last_of_others()
  local last = redis.call('ZREVRANGE', KEYS[2], 0, 1, 'WITHSCORES')
  local other = last[1] == ARGV[1] and 4 or 2
  return last[other] and tonumber(last[other])
end
-- Enters ARGV[1] until `deadline`. The key lives as long as the last of its readers.
local function stay(now, deadline)
  redis.call('ZADD', KEYS[2], text(deadline), ARGV[1])
  if redis.call('PTTL', KEYS[2]) < deadline - now then
    redis.call('PEXPIREAT', KEYS[2], text(deadline))
  end
end
