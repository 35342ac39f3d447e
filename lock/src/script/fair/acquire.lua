-- Takes a lock that may already be ours, or a place in its queue. Follows now.lua and mint.lua.
-- KEYS[1] the lock   KEYS[2] the queue: token -> its place, by the order in which they first asked
-- KEYS[3] token -> until when it counts as alive, in ms of the server   KEYS[4] the last fencing token
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] for how many ms a waiter counts as alive after it has asked
-- ARGV[4] for how many ms KEYS[4] is kept after a grant, 0 for none
-- Reply: OK, or [OK, fencing token], if the lock holds the token now, for at least the lease;
--        else in how many ms its holder or the first of the queue may be gone, -1 if that has no end.
-- The lock goes to the waiter that asks, if no waiter that is alive is in front of it.
-- Redis 3.2 or later.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return mint(4, tonumber(ARGV[4]), true)
end
local now = now_ms()
local function leave(token)
  redis.call('ZREM', KEYS[2], token)
  redis.call('ZREM', KEYS[3], token)
end
local first, alive
repeat
  first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  alive = first and first ~= ARGV[1] and tonumber(redis.call('ZSCORE', KEYS[3], first) or 0)
  local dead = alive and alive < now
  if dead then
    leave(first)
  end
until not dead
if not holder and (not first or first == ARGV[1]) then
  local reply = mint(4, tonumber(ARGV[4]), false)
  if first then
    leave(first)
  end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return reply
end
-- What tells that it waits already is the queue itself, which may be lost alone.
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if redis.call('ZADD', KEYS[2], 'NX', text(tonumber(last[2] or 0) + 1), ARGV[1]) == 1 then
  -- A newcomer removes those who died anywhere in the queue.
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. text(now))) do
    if dead ~= ARGV[1] then
      leave(dead)
    end
  end
end
redis.call('ZADD', KEYS[3], text(now + tonumber(ARGV[3])), ARGV[1])
for i = 2, 3 do
  if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[3])
  end
end
return holder and redis.call('PTTL', KEYS[1]) or alive - now
