-- Returns the holder of a lock whose key holds the token of its holder.
-- KEYS[1] the lock   ARGV[1] what the names of keys with metadata begin with; the token follows
-- Reply: nil, also if the key is kept for a waiter; or the token, its remaining TTL in ms (-1 if it has none), and the metadata or nil.
-- Redis 2.6.0 or later.
local token = redis.call('GET', KEYS[1])
if not token or string.sub(token, 1, 1) == '?' then
  return false
end
return {token, redis.call('PTTL', KEYS[1]), redis.call('GET', ARGV[1] .. token)}
