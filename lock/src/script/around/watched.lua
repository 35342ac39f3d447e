-- Around a script that takes or extends a lock: reads its keys at the end, so that a connection with tracking
-- is told of the next change that another one makes. What is written here is not told to it (NOLOOP).
-- KEYS and ARGV: as for the script. Reply: that of the script.
-- Redis 6.0 or later.
local reply = inner(KEYS, ARGV)
for _, key in ipairs(KEYS) do
  redis.call('EXISTS', key)
end
return reply
