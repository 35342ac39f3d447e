-- Releases a read lock that this token holds, or lets it end after some time; or ends the wait for it.
-- Follows now.lua, wake.lua, call.lua and readers.lua.
-- KEYS[1] the writer   KEYS[2] the readers   KEYS[3] the writer that waits and goes first   KEYS[4] the waiters
-- ARGV[1] the token   ARGV[2] for how many ms more it stays taken   ARGV[3] the name of the waiter, empty if it never waited
-- Reply: 1 if the token was a reader; 0 if it was not.
-- Redis 3.2 or later.
local now = now_ms()
local mine = sweep(now)
if mine and tonumber(ARGV[2]) > 0 then
  stay(now, now + tonumber(ARGV[2]))
  return 1
end
local called = false
if mine then
  redis.call('ZREM', KEYS[2], ARGV[1])
elseif ARGV[3] ~= '' then
  called = redis.call('ZREM', KEYS[4], ARGV[3]) == 0
end
if (mine or called) and redis.call('EXISTS', KEYS[1]) == 0 and redis.call('EXISTS', KEYS[2]) == 0 then
  call_waiters(redis.call('EXISTS', KEYS[3]) == 1 and 'r')
end
return mine and 1 or 0
