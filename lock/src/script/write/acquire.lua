-- Takes a write lock, which this token may already hold, or waits for it. Follows now.lua, ask.lua, mint.lua and readers.lua.
-- KEYS[1] the writer   KEYS[2] the readers   KEYS[3] the writer that waits and goes first   KEYS[4] the waiters
-- KEYS[5] the last fencing token
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] and ARGV[4] as in ask.lua
-- ARGV[5] for how many ms a writer that waits keeps new readers out, 0 if it does not
-- ARGV[6] for how many ms KEYS[5] is kept after a grant, 0 for none
-- Reply: OK, or [OK, fencing token], if the lock holds the token now, for at least the lease;
--        else the longest remaining time in ms of its holders, -1 if that has no end.
-- Redis 3.2 or later.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  -- Written also if nothing changes: WAIT counts only what its connection wrote.
  if redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return mint(5, tonumber(ARGV[6]), true)
end
local now = now_ms()
sweep(now)
local last = last_of_others()
local waits = redis.call('GET', KEYS[3])
if holder or last then
  if tonumber(ARGV[5]) > 0 and (not waits or waits == ARGV[1]) then
    redis.pcall('SET', KEYS[3], ARGV[1], 'PX', ARGV[5])
  end
  register(KEYS[4], now)
  return holder and redis.call('PTTL', KEYS[1]) or last - now
end
local reply = mint(5, tonumber(ARGV[6]), false)
unregister(KEYS[4])
if waits == ARGV[1] then
  redis.call('DEL', KEYS[3])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return reply
