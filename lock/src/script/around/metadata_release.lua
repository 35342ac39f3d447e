-- Around the script that gives a lock back: removes what its holder says of itself.
-- The last of KEYS: where that is; the last of ARGV: what it is. The script itself gets all but these.
-- Reply: that of the script.
-- Redis 2.6.0 or later, or what the script needs.
local function but_last(list)
  local rest = {}
  for i = 1, #list - 1 do
    rest[i] = list[i]
  end
  return rest
end
-- First the script itself: it may ask for the replication of effects, which Redis before 5 refuses after a write.
local reply = inner(but_last(KEYS), but_last(ARGV))
redis.call('DEL', KEYS[#KEYS])
return reply
