-- Gives back permits that are still ours. Follows now.lua and permits.lua.
-- KEYS[1] the holders   ARGV[1] the token   ARGV[2] for how many ms they shall stay taken   ARGV[4] how many they are
-- Reply: 1 if the token had them; 0 if it did not.
-- Redis 3.2 or later.
local now = now_ms()
if not sweep(now) then
  return 0
end
if tonumber(ARGV[2]) > 0 then
  redis.call('HSET', KEYS[1], ARGV[1], text(now + tonumber(ARGV[2])) .. ':' .. ARGV[4])
  return 1
end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.pcall('PUBLISH', KEYS[1] .. ':released', 'all')
return 1
