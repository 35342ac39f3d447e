-- Gives back a write lock that is still ours, and a place in front of the readers.
-- KEYS[1] the writer   KEYS[3] the writer who waits
-- ARGV[1] the token   ARGV[2] for how many ms the lock shall stay taken
-- Reply: 1 if the lock held the token; 0 if it did not.
-- Redis 2.6.0 or later.
local waited = redis.call('GET', KEYS[3]) == ARGV[1]
if waited then
  redis.call('DEL', KEYS[3])
end
local held = redis.call('GET', KEYS[1]) == ARGV[1]
if held and tonumber(ARGV[2]) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if held then
  redis.call('DEL', KEYS[1])
end
if held or waited then
  redis.pcall('PUBLISH', KEYS[1] .. ':released', 'all')
end
return held and 1 or 0
