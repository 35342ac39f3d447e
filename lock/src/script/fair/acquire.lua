-- Takes a lock that may already be ours, or a place in its queue. Follows now.lua and mint.lua.
-- KEYS[1] the lock   KEYS[2] the queue: tokens in the order in which they first asked
-- KEYS[3] token -> until when it counts as alive, in ms of the server   KEYS[4] the last fencing token
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] for how many ms who asks counts as alive
-- ARGV[4] for how many ms KEYS[4] is kept after a grant, 0 for none
-- Reply: OK, or [OK, fencing token], if the lock holds the token now, for at least the lease;
--        else in how many ms whoever holds it or goes first may be gone, -1 if that has no end.
-- The grant goes to who asks, if nobody alive is in front of it: nobody is granted anything while it is away.
-- Redis 3.2 or later.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return grant(4, tonumber(ARGV[4]), true)
end
local now = now_ms()
local function leave(token)
  redis.call('LREM', KEYS[2], 0, token)
  redis.call('HDEL', KEYS[3], token)
end
local is_new = redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0
-- Who is new sees to those who died anywhere in the queue.
local waiters = is_new and redis.call('HGETALL', KEYS[3]) or {}
for i = 1, #waiters, 2 do
  if tonumber(waiters[i + 1]) < now then
    leave(waiters[i])
  end
end
local first
repeat
  first = redis.call('LINDEX', KEYS[2], 0)
  local alive = first and redis.call('HGET', KEYS[3], first)
  local dead = first and first ~= ARGV[1] and (not alive or tonumber(alive) < now)
  if dead then
    leave(first)
  end
until not dead
if not holder and (not first or first == ARGV[1]) then
  leave(ARGV[1])
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return grant(4, tonumber(ARGV[4]), false)
end
if is_new then
  redis.call('LREM', KEYS[2], 0, ARGV[1])
  redis.call('RPUSH', KEYS[2], ARGV[1])
end
redis.call('HSET', KEYS[3], ARGV[1], text(now + tonumber(ARGV[3])))
for i = 2, 3 do
  if redis.call('PTTL', KEYS[i]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[3])
  end
end
return holder and redis.call('PTTL', KEYS[1]) or tonumber(redis.call('HGET', KEYS[3], first)) - now
