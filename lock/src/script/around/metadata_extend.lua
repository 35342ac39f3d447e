-- Around the script that extends a lock: extends the metadata of the holder too, and removes it if the lock is lost.
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
if reply == 1 and redis.call('PTTL', KEYS[#KEYS]) < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[#KEYS], ARGV[#ARGV], 'PX', ARGV[2])
elseif reply == 0 then
  redis.call('DEL', KEYS[#KEYS])
end
return reply
