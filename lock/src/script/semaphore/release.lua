-- Releases permits that this token holds, or lets them end after some time; or ends the wait for them.
-- Follows now.lua, wake.lua, permits.lua and call.lua.
-- KEYS[1] the holders   KEYS[2] the waiters
-- ARGV[1] the token   ARGV[2] for how many ms more they stay taken   ARGV[3] the name of the waiter, empty if it never waited
-- ARGV[5] how many permits there are   ARGV[6] how many are given back
-- Reply: 1 if the token had them; 0 if it did not.
-- Redis 3.2 or later.
local now = now_ms()
local mine = sweep(now)
if mine and tonumber(ARGV[2]) > 0 then
  stay(now, mine, now + tonumber(ARGV[2]))
  return 1
end
if mine then
  leave({me})
end
if mine or ARGV[3] ~= '' and redis.call('ZREM', KEYS[2], ARGV[3]) == 0 then
  call_waiters(now)
end
return mine and 1 or 0
