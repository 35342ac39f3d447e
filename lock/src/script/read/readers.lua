-- Removes the readers whose time is over, each for itself. Returns the deadline of ARGV[1], if it is a reader,
-- and the last deadline of all others, if there are any.
local function sweep(now)
  local mine, last
  local entries = redis.call('HGETALL', KEYS[2])
  for i = 1, #entries, 2 do
    local deadline = tonumber(entries[i + 1])
    if deadline < now then
      redis.call('HDEL', KEYS[2], entries[i])
    elseif entries[i] == ARGV[1] then
      mine = deadline
    else
      last = math.max(last or 0, deadline)
    end
  end
  return mine, last
end
-- Enters ARGV[1] until `deadline`. The key lives as long as the last of its readers.
local function stay(deadline)
  local now = now_ms()
  redis.call('HSET', KEYS[2], ARGV[1], text(deadline))
  if redis.call('PTTL', KEYS[2]) < deadline - now then
    redis.call('PEXPIREAT', KEYS[2], text(deadline))
  end
end
