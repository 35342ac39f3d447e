-- The hand-over of a mutex from its holder to a waiter. Follows now.lua and wake.lua.
-- Frees `lock`: reserves it for the first waiter of the set `waiters`, until that has asked, or deletes it. The reservation lasts for
-- 50 ms at most, and for a 24th of the time that the lock had left, or 4 ms if its lease was over: so if the woken waiter is paused, the
-- others find the lock free in time, with a short lease too. A waiter that asks meanwhile learns when the reservation ends.
-- While the lock is reserved, its value is '?' and the token of that waiter.
local function pass_on(lock, waiters)
  local token = call_first(waiters)
  if token then
    local left = redis.call('PTTL', lock)
    redis.call('SET', lock, '?' .. token, 'PX', left < 0 and 4 or math.max(1, math.min(50, math.floor(left / 24))))
  else
    redis.call('DEL', lock)
  end
end
-- Ends the wait of ARGV[3] for `lock`, whose value is `holder`. If the waiter was woken already, the next one is woken.
local function leave(lock, waiters, holder)
  local called = redis.call('ZREM', waiters, ARGV[3]) == 0
  if holder == '?' .. ARGV[1] or called and not holder then
    pass_on(lock, waiters)
  end
end
