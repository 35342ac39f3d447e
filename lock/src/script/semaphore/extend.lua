-- Extends permits that this token holds. Never shortens their lease, never brings them back. Follows now.lua and permits.lua.
-- KEYS[1] the holders   ARGV[1] the token   ARGV[2] the lease in ms, from now on   ARGV[6] how many permits they are
-- Reply: 1 if the token has them, for at least the lease; 0 if it does not.
-- Redis 3.2 or later.
local now = now_ms()
local mine = sweep(now)
if not mine then
  return 0
end
stay(now, mine, math.max(mine, now + tonumber(ARGV[2])))
return 1
