-- Gives back those of several locks that are still ours.
-- KEYS the locks, ARGV[3] of them   ARGV[1] the token   ARGV[2] for how many ms they shall stay taken
-- Reply: 1 if all keys held the token; 0 if one did not.
-- Redis 2.6.0 or later.
local all = 1
for i = 1, tonumber(ARGV[3]) do
  if redis.call('GET', KEYS[i]) ~= ARGV[1] then
    all = 0
  elseif tonumber(ARGV[2]) > 0 then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  else
    redis.call('DEL', KEYS[i])
    redis.pcall('PUBLISH', KEYS[i] .. ':released', 'all')
  end
end
return all
