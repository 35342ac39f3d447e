-- Registration of a waiter: its name is in a sorted set, name -> the server's time in ms until which the waiter
-- counts as alive. Follows now.lua.
-- ARGV[3] the name of the waiter, empty if no message would reach it   ARGV[4] for how many ms it counts as alive
-- Adds the waiter to the set `waiters`, or keeps it there for longer. `now`: the server's time, if the script has read it.
local function register(waiters, now)
  if ARGV[3] ~= '' then
    redis.call('ZADD', waiters, text((now or now_ms()) + tonumber(ARGV[4])), ARGV[3])
    redis.call('PEXPIRE', waiters, ARGV[4])
  end
end
-- Removes the waiter from the set `waiters`.
local function unregister(waiters)
  if ARGV[3] ~= '' then
    redis.call('ZREM', waiters, ARGV[3])
  end
end
