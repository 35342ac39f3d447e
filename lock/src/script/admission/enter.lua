-- Admits one more client, for ever or, if ARGV[1] is not 0, until that many ms after the first one.
-- KEYS[1] the counter   ARGV[1] its lifetime in ms
-- Reply: the number of its place, from 1.
-- Redis 2.6.12 or later.
if ARGV[1] ~= '0' then
  redis.call('SET', KEYS[1], 0, 'NX', 'PX', ARGV[1])
end
return redis.call('INCR', KEYS[1])
