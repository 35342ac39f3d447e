-- Around a script that takes or extends a lock: reads its keys at the end, so that the node tells a connection with tracking
-- of the next change by another client. NOLOOP keeps the node from telling it of its own writes. The script reads the keys first as well,
-- so that a user without the right to read fails before the script takes the lock.
-- The last of ARGV: how many of the first KEYS are tracked. The script itself gets all but this.
-- Reply: that of the script.
-- Redis 6.0 or later.
local function read()
  for i = 1, tonumber(ARGV[#ARGV]) do
    redis.call('EXISTS', KEYS[i])
  end
end
read()
local rest = {}
for i = 1, #ARGV - 1 do
  rest[i] = ARGV[i]
end
local reply = inner(KEYS, rest)
read()
return reply
