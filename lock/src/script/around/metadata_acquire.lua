-- Around the script that takes a lock: keeps what its holder says of itself beside it, for as long.
-- The last of KEYS: where; the last of ARGV: what. The script itself gets all but these.
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
