-- Around the script that takes a lock: stores the metadata of the holder beside the lock, with the same time to live.
-- The last of KEYS: the key of the metadata; the last of ARGV: the metadata. The script itself gets all but these.
-- Reply: that of the script.
-- Redis 2.6.12 or later, or what the script needs.
local function but_last(list)
  local rest = {}
  for i = 1, #list - 1 do
    rest[i] = list[i]
  end
  return rest
end
local reply = inner(but_last(KEYS), but_last(ARGV))
if type(reply) == 'table' and (reply.ok or type(reply[1]) == 'table') then
  redis.call('SET', KEYS[#KEYS], ARGV[#ARGV], 'PX', ARGV[2])
end
return reply
