-- Several locks that are taken all or none. This token may already hold some or all, or they may be reserved for it.
-- Follows now.lua, ask.lua, wake.lua and pass_on.lua.
-- KEYS the locks, ARGV[5] of them, and then the waiters of each
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] and ARGV[4] as in ask.lua
local count = tonumber(ARGV[5])
-- Returns the longest remaining TTL in ms of those that others hold or that are reserved for a waiter, -1 if one has none; nothing
-- if all can be taken. Where there is an obstacle, waits for it, and passes on what is reserved for this token, for the rest of the
-- reservation, and what the token holds: an earlier request took it, and its reply was lost.
local function obstacle()
  local wait
  local mine = {}
  for i = 1, count do
    local holder = redis.call('GET', KEYS[i])
    if holder == ARGV[1] or holder == '?' .. ARGV[1] then
      mine[#mine + 1] = i
    elseif holder then
      local ttl = redis.call('PTTL', KEYS[i])
      wait = (ttl < 0 or wait == -1) and -1 or math.max(wait or 0, ttl)
      register(KEYS[count + i])
    end
  end
  if wait then
    for _, i in ipairs(mine) do
      if redis.call('GET', KEYS[i]) == ARGV[1] then
        pass_on(KEYS[i], KEYS[count + i])
      else
        reserve(KEYS[i], KEYS[count + i], redis.call('PTTL', KEYS[i]))
      end
    end
  end
  return wait
end
-- Takes all of them, after `obstacle` found none.
local function take()
  for i = 1, count do
    unregister(KEYS[count + i])
  end
  for i = 1, count do
    -- Written also if nothing changes: WAIT counts only what its connection wrote.
    if redis.call('GET', KEYS[i]) ~= ARGV[1] or redis.call('PTTL', KEYS[i]) <= tonumber(ARGV[2]) then
      redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
    end
  end
end
