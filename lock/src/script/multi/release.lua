-- Gives back those of several locks that are still ours.
-- KEYS the locks   ARGV[1] the token   ARGV[2] for how many ms they shall stay taken
-- Reply: 1 if all keys held the token; 0 if one did not.
-- Redis 2.6.0 or later.
local all = 1
for _, key in ipairs(KEYS) do
  if redis.call('GET', key) ~= ARGV[1] then
    all = 0
  elseif tonumber(ARGV[2]) > 0 then
    redis.call('PEXPIRE', key, ARGV[2])
  else
    redis.call('DEL', key)
    redis.pcall('PUBLISH', key .. ':released', 'all')
  end
end
return all
