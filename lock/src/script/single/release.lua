-- Releases a lock that this token holds, or lets it end after some time; or ends the wait for it.
-- Follows now.lua, wake.lua and pass_on.lua.
-- KEYS[1] the lock   KEYS[2] its waiters
-- ARGV[1] the token   ARGV[2] for how many ms more it stays taken   ARGV[3] the name of the waiter, empty if it never waited
-- Reply: 1 if the key held the token, which it does not any more or not for longer; 0 if it did not.
-- Redis 3.2 or later.
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  if ARGV[3] ~= '' then
    leave(KEYS[1], KEYS[2], holder)
  end
  return 0
end
if tonumber(ARGV[2]) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  -- The first waiter learns the new end.
  call_first(KEYS[2])
else
  pass_on(KEYS[1], KEYS[2])
end
return 1
