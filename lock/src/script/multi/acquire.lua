-- Takes all of several locks or none. This token may already hold some or all. Follows now.lua, ask.lua, wake.lua, pass_on.lua and
-- take.lua.
-- KEYS and ARGV: as in take.lua
-- Reply: OK if all of them hold the token now, for at least the lease;
--        else the longest remaining TTL in ms of those that others hold or that are reserved for a waiter, -1 if one has none.
-- Redis 3.2 or later.
local wait = obstacle()
if wait then
  return wait
end
take()
return redis.status_reply('OK')
