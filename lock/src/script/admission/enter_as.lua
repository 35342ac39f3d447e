-- Admits a client, once per name.
-- KEYS[1] the counter   KEYS[2] name -> place of the admitted clients
-- ARGV[1] its lifetime in ms, 0 for ever   ARGV[2] the name   ARGV[3] the number of places
-- Reply: the number of its place, from 1; 0 if all places are taken.
-- Redis 2.6.12 or later.
local place = redis.call('HGET', KEYS[2], ARGV[2])
if place then
  return tonumber(place)
end
if tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[3]) then
  return 0
end
if ARGV[1] ~= '0' then
  redis.call('SET', KEYS[1], 0, 'NX', 'PX', ARGV[1])
end
local ttl = redis.call('PTTL', KEYS[1])
if ttl > 0 then
  -- It changes nothing, but fails here if this user may not set a time to live, and no client is counted.
  redis.call('PEXPIRE', KEYS[2], ttl)
end
place = redis.call('INCR', KEYS[1])
redis.call('HSET', KEYS[2], ARGV[2], place)
if ttl > 0 then
  redis.call('PEXPIRE', KEYS[2], ttl)
end
return place
