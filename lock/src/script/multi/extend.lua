-- Extends the lease of several locks if this token holds all of them; else releases those that it holds. Never shortens it,
-- never brings one back. Follows now.lua, wake.lua and pass_on.lua.
-- KEYS the locks, ARGV[5] of them, and then the waiters of each
-- ARGV[1] the token   ARGV[2] the lease in ms, from now on
-- Reply: 1 if all keys hold the token, for at least the lease; 0 if one did not, and none does now.
-- Redis 3.2 or later.
local count = tonumber(ARGV[5])
local mine = {}
for i = 1, count do
  if redis.call('GET', KEYS[i]) == ARGV[1] then
    mine[#mine + 1] = i
  end
end
local all = #mine == count
for _, i in ipairs(mine) do
  if not all then
    pass_on(KEYS[i], KEYS[count + i])
  elseif redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
end
return all and 1 or 0
