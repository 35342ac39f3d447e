-- Takes a lock, which this token may already hold, or a place in its queue. Follows now.lua and mint.lua.
-- KEYS[1] the lock   KEYS[2] the queue: name of a waiter -> its place, by the order in which they first asked
-- KEYS[3] name -> until when the waiter counts as alive, in ms of the server   KEYS[4] the last fencing token
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] the name of the waiter
-- ARGV[4] for how many ms a waiter counts as alive after it has asked
-- ARGV[5] for how many ms KEYS[4] is kept after a grant, 0 for none
-- Reply: OK, or [OK, fencing token], if the lock holds the token now, for at least the lease;
--        else the remaining time in ms of its holder, or of the first waiter of the queue; -1 if that has no end.
-- The lock goes to the waiter that asks, if no waiter that is alive is in front of it.
-- Redis 3.2 or later.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  -- Written also if nothing changes: WAIT counts only what its connection wrote.
  if redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return mint(4, tonumber(ARGV[5]), true)
end
local function leave(name)
  redis.call('ZREM', KEYS[2], name)
  redis.call('ZREM', KEYS[3], name)
end
local now, first, alive
repeat
  first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  local dead = false
  if first and first ~= ARGV[3] then
    now = now or now_ms()
    alive = tonumber(redis.call('ZSCORE', KEYS[3], first) or 0)
    dead = alive < now
  end
  if dead then
    leave(first)
  end
until not dead
if not holder and (not first or first == ARGV[3]) then
  local reply = mint(4, tonumber(ARGV[5]), false)
  if first then
    leave(first)
  end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return reply
end
now = now or now_ms()
-- What tells that it waits already is the queue itself, which may be lost alone. A server without memory refuses the place; the waiter
-- then asks from time to time.
local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if redis.pcall('ZADD', KEYS[2], 'NX', text(tonumber(last[2] or 0) + 1), ARGV[3]) == 1 then
  -- A newcomer removes the dead waiters of the whole queue.
  for _, dead in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. text(now))) do
    if dead ~= ARGV[3] then
      leave(dead)
    end
  end
end
redis.pcall('ZADD', KEYS[3], text(now + tonumber(ARGV[4])), ARGV[3])
-- The keys outlive each waiter: one that counts as alive for less time must not end the place of another.
local kept = math.max(600000, tonumber(ARGV[4]))
redis.call('PEXPIRE', KEYS[2], text(kept))
redis.call('PEXPIRE', KEYS[3], text(kept))
return holder and redis.call('PTTL', KEYS[1]) or alive - now
