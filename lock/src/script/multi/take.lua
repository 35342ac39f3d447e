-- Several locks that are taken all or none. Some or all may already be ours.
-- KEYS the locks, ARGV[3] of them   ARGV[1] the token   ARGV[2] the lease in ms
-- Returns the longest remaining TTL in ms of those that others hold, -1 if one has none; nothing if all can be taken.
local function obstacle()
  local wait
  for i = 1, tonumber(ARGV[3]) do
    local holder = redis.call('GET', KEYS[i])
    if holder and holder ~= ARGV[1] then
      local ttl = redis.call('PTTL', KEYS[i])
      if ttl < 0 then
        return -1
      end
      wait = math.max(wait or 0, ttl)
    end
  end
  return wait
end
-- Takes all of them, after `obstacle` found none.
local function take()
  for i = 1, tonumber(ARGV[3]) do
    if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
      redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
    end
  end
end
