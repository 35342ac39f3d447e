-- Registration of a waiter: its name is in a sorted set, name -> the server's time in ms until which the waiter
-- counts as alive. Follows now.lua.
-- ARGV[3] the name of the waiter, empty if it never had one
-- ARGV[4] for how many ms it counts as alive; 0 if no message would reach it: then the set does not keep the name
-- Removes the waiter from the set `waiters`.
local function unregister(waiters)
  if ARGV[3] ~= '' then
    redis.call('ZREM', waiters, ARGV[3])
  end
end
-- Adds the waiter to the set `waiters`, or keeps it there for longer. `now`: the server's time, if the script has read it. A server
-- without memory refuses the name. The set has room for 1000 names. A waiter without a name in the set asks from time to time.
local function register(waiters, now)
  if ARGV[3] == '' or ARGV[4] == '0' then
    return unregister(waiters)
  end
  now = now or now_ms()
  local added = redis.pcall('ZADD', waiters, text(now + tonumber(ARGV[4])), ARGV[3])
  if added == 1 and redis.call('ZCARD', waiters) > 1000 then
    redis.call('ZREMRANGEBYSCORE', waiters, '-inf', '(' .. text(now))
    redis.call('ZREMRANGEBYRANK', waiters, 1000, -1)
  end
  redis.call('PEXPIRE', waiters, ARGV[4])
end
