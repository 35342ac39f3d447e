-- Around the script that releases a lock: removes the metadata of the holder.
-- The last of KEYS: the key of the metadata; the last of ARGV: the metadata. The script itself gets all but these.
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
