-- Counts the waiters of a lock. Follows now.lua.
-- KEYS[1] the waiters   KEYS[2] those of a fair lock that are alive: each a set, name -> until when a waiter counts as alive
-- Reply: how many count as alive.
-- Redis 3.2 or later.
local now = text(now_ms())
return redis.call('ZCOUNT', KEYS[1], now, '+inf') + redis.call('ZCOUNT', KEYS[2], now, '+inf')
