-- Extends a read lock that this token holds. Never shortens it, never brings it back. Follows now.lua and readers.lua.
-- KEYS[2] the readers   ARGV[1] the token   ARGV[2] the lease in ms, from now on
-- Reply: 1 if the token is a reader, for at least the lease; 0 if it is not.
-- Redis 3.2 or later.
local now = now_ms()
local mine = sweep(now)
if not mine then
  return 0
end
stay(now, math.max(mine, now + tonumber(ARGV[2])))
return 1
