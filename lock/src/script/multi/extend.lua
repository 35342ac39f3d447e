-- Extends the lease of several locks if all of them are still ours; else gives back those that are. Never shortens it,
-- never brings one back.
-- KEYS the locks   ARGV[1] the token   ARGV[2] the lease in ms, from now on
-- Reply: 1 if all keys hold the token, for at least the lease; 0 if one did not, and none does now.
-- Redis 2.6.0 or later.
local mine = {}
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) == ARGV[1] then
    mine[#mine + 1] = key
  end
end
for _, key in ipairs(mine) do
  if #mine < #KEYS then
    redis.call('DEL', key)
    redis.pcall('PUBLISH', key .. ':released', 'all')
  elseif redis.call('PTTL', key) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', key, ARGV[2])
  end
end
return #mine == #KEYS and 1 or 0
