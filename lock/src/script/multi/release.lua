-- Releases those of several locks that this token holds, or lets them end after some time; or ends the wait for them.
-- Follows now.lua, wake.lua and pass_on.lua.
-- KEYS the locks, ARGV[5] of them, and then the waiters of each
-- ARGV[1] the token   ARGV[2] for how many ms they shall stay taken   ARGV[3] the name of the waiter, empty if it never waited
-- Reply: 1 if all keys held the token; 0 if one did not.
-- Redis 3.2 or later.
local count = tonumber(ARGV[5])
local all = 1
for i = 1, count do
  local holder = redis.call('GET', KEYS[i])
  if holder ~= ARGV[1] then
    all = 0
    if ARGV[3] ~= '' then
      leave(KEYS[i], KEYS[count + i], holder)
    end
  elseif tonumber(ARGV[2]) > 0 then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
    call_first(KEYS[count + i])
  else
    pass_on(KEYS[i], KEYS[count + i])
  end
end
return all
