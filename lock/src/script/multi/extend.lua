-- Extends the lease of several locks if all of them are still ours; else gives back those that are. Never shortens it,
-- never brings one back.
-- KEYS the locks, ARGV[3] of them   ARGV[1] the token   ARGV[2] the lease in ms, from now on
-- Reply: 1 if all keys hold the token, for at least the lease; 0 if one did not, and none does now.
-- Redis 2.6.0 or later.
local mine = {}
for i = 1, tonumber(ARGV[3]) do
  if redis.call('GET', KEYS[i]) == ARGV[1] then
    mine[#mine + 1] = KEYS[i]
  end
end
local all = #mine == tonumber(ARGV[3])
for _, key in ipairs(mine) do
  if not all then
    redis.call('DEL', key)
    redis.pcall('PUBLISH', key .. ':released', 'all')
  elseif redis.call('PTTL', key) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', key, ARGV[2])
  end
end
return all and 1 or 0
