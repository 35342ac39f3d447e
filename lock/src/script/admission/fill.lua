-- Fills a stock that was not filled before. A client that took from an empty stock has left a negative number without a TTL.
-- KEYS[1] the stock   ARGV[1] how many   ARGV[2] for how many ms they are kept
-- Reply: 1 if it is filled now, 0 if it was before.
-- Redis 2.6.12 or later.
local left = redis.call('GET', KEYS[1])
if left and (left:sub(1, 1) ~= '-' or redis.call('PTTL', KEYS[1]) ~= -1) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
