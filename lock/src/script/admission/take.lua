-- Takes one from a stock.
-- KEYS[1] the stock
-- Reply: how many are left; a negative number if there was none.
-- Redis 2.6.0 or later.
return redis.call('DECR', KEYS[1])
