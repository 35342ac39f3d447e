-- Around a script that must be executed once although the request may arrive twice: keeps its reply, an integer, under the
-- name of the request, and answers the same request with it.
-- The last of KEYS: the key of the reply; the last of ARGV: its lifetime in ms. The script itself gets all but these.
-- Reply: that of the script.
-- Redis 2.6.12 or later, or what the script needs.
local function but_last(list)
  local rest = {}
  for i = 1, #list - 1 do
    rest[i] = list[i]
  end
  return rest
end
local before = redis.call('GET', KEYS[#KEYS])
if before then
  return tonumber(before)
end
local reply = inner(but_last(KEYS), but_last(ARGV))
redis.call('SET', KEYS[#KEYS], reply, 'PX', ARGV[#ARGV])
return reply
