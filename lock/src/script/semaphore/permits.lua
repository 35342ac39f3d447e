-- Removes the permits whose time is over, each holder for itself. Returns what is left: the deadline of ARGV[1], if it
-- holds some, the sum of all others, and those as a list of {deadline, weight}.
-- KEYS[1] token -> "deadline in ms of the server:weight"
local function sweep(now)
  local mine, others, sum = nil, {}, 0
  local entries = redis.call('HGETALL', KEYS[1])
  for i = 1, #entries, 2 do
    local deadline, weight = string.match(entries[i + 1], '^(%d+):(%d+)$')
    deadline, weight = tonumber(deadline), tonumber(weight)
    if deadline < now then
      redis.call('HDEL', KEYS[1], entries[i])
    elseif entries[i] == ARGV[1] then
      mine = deadline
    else
      sum = sum + weight
      others[#others + 1] = {deadline, weight}
    end
  end
  return mine, sum, others
end
-- Gives ARGV[1] its permits until `deadline`. The key lives as long as the last of its holders.
local function stay(now, deadline, weight)
  redis.call('HSET', KEYS[1], ARGV[1], text(deadline) .. ':' .. weight)
  if redis.call('PTTL', KEYS[1]) < deadline - now then
    redis.call('PEXPIREAT', KEYS[1], text(deadline))
  end
end
