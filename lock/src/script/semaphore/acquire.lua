-- Takes permits that may already be ours. Follows now.lua and permits.lua.
-- KEYS[1] the holders
-- ARGV[1] the token   ARGV[2] the lease in ms   ARGV[3] how many permits there are   ARGV[4] how many are wanted
-- Reply: OK if the token has them now, for at least the lease; else in how many ms enough of them are left.
-- Redis 3.2 or later.
local now = now_ms()
local mine, sum, others = sweep(now)
local spare = tonumber(ARGV[3]) - sum - tonumber(ARGV[4])
if mine or spare >= 0 then
  stay(now, math.max(mine or 0, now + tonumber(ARGV[2])), ARGV[4])
  return redis.status_reply('OK')
end
table.sort(others, function(a, b) return a[1] < b[1] end)
for _, holder in ipairs(others) do
  spare = spare + holder[2]
  if spare >= 0 then
    return holder[1] - now
  end
end
return -1
