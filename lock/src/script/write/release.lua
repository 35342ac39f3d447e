-- Releases a write lock that this token holds, or lets it end after some time; or ends the wait for it, and gives up the place
-- in front of the readers. Follows now.lua, wake.lua and call.lua.
-- KEYS[1] the writer   KEYS[2] the readers   KEYS[3] the writer that waits and goes first   KEYS[4] the waiters
-- ARGV[1] the token   ARGV[2] for how many ms more it stays taken   ARGV[3] the name of the waiter, empty if it never waited
-- Reply: 1 if the lock held the token; 0 if it did not.
-- Redis 3.2 or later.
local first = redis.call('GET', KEYS[3])
local waited = first == ARGV[1]
if waited then
  redis.call('DEL', KEYS[3])
end
local called = ARGV[3] ~= '' and redis.call('ZREM', KEYS[4], ARGV[3]) == 0
local holder = redis.call('GET', KEYS[1])
local held = holder == ARGV[1]
if held and tonumber(ARGV[2]) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  -- The first waiter learns the new end.
  call_first(KEYS[4])
  return 1
end
if held then
  redis.call('DEL', KEYS[1])
end
-- Readers that this writer kept out can enter although other readers are inside.
if held or not holder and (waited or called) then
  call_waiters(first and not waited and 'r')
end
return held and 1 or 0
