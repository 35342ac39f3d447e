-- The hand-over of a mutex from its holder to a waiter. Follows now.lua and wake.lua.
-- A lock that is reserved has the value '?' and the token of the waiter that it is reserved for. Other waiters that ask meanwhile
-- learn when the reservation ends: so if the woken waiter is paused, they find the lock free in time.
-- Frees `lock`: reserves it for `ms` for the first waiter of the set `waiters`, until that has asked, or deletes it.
local function reserve(lock, waiters, ms)
  local token = call_first(waiters)
  if token then
    redis.call('SET', lock, '?' .. token, 'PX', math.max(1, ms))
  else
    redis.call('DEL', lock)
  end
end
-- Frees `lock`, which this token holds. A reservation lasts for 50 ms at most, and for a 24th of the time that the lease had left.
local function pass_on(lock, waiters)
  local left = redis.call('PTTL', lock)
  reserve(lock, waiters, left < 0 and 50 or math.min(50, math.floor(left / 24)))
end
-- Ends the wait of ARGV[3] for `lock`, whose value is `holder`. If the waiter was woken already, the next one is woken.
local function leave(lock, waiters, holder)
  local called = redis.call('ZREM', waiters, ARGV[3]) == 0
  if holder == '?' .. ARGV[1] then
    -- For the rest of the reservation.
    reserve(lock, waiters, redis.call('PTTL', lock))
  elseif called and not holder then
    call_first(waiters)
  end
end
