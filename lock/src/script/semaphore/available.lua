-- Counts the permits that are free. Follows now.lua and permits.lua.
-- KEYS[1] the holders   ARGV[5] how many permits there are   ARGV[6] is not used
-- Reply: how many are free, those of holders whose time is over among them.
-- Redis 3.2 or later.
local dead = over(now_ms())
local free = tonumber(ARGV[5]) - taken
for _, holder in ipairs(dead) do
  free = free + string.match(holder, '^%d+')
end
return free
