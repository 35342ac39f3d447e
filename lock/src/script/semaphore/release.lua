-- Gives back permits that are still ours, or lets them end after some time. Follows now.lua and permits.lua.
-- KEYS[1] the holders   ARGV[1] the token   ARGV[2] for how many ms more they stay taken   ARGV[4] how many they are
-- Reply: 1 if the token had them; 0 if it did not.
-- Redis 3.2 or later.
local now = now_ms()
if not sweep(now) then
  return 0
end
if tonumber(ARGV[2]) > 0 then
  stay(now, now + tonumber(ARGV[2]))
  return 1
end
leave(me)
clear()
redis.pcall('PUBLISH', KEYS[1] .. ':released', 'all')
return 1
