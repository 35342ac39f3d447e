-- Sets the count of a latch, once; if it is zero, wakes all waiters. Follows now.lua, wake.lua and open.lua.
-- KEYS[1] the latch: fields `set` (the token that set it), `count`, and `done:token` per count that was taken off:
-- what it left   KEYS[2] its waiters
-- ARGV[1] the token   ARGV[2] the count   ARGV[3] for how many ms the latch is kept
-- Reply: 1 if this token has set it, now or before; 0 if another one has.
-- Redis 3.2 or later.
local set = redis.call('HGET', KEYS[1], 'set')
if set then
  return set == ARGV[1] and 1 or 0
end
-- It changes nothing yet, but fails here if this user may not set a time to live, and nothing is set.
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('HMSET', KEYS[1], 'set', ARGV[1], 'count', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
if ARGV[2] == '0' then
  open()
end
return 1
