-- Mints a fencing token: above the last one (KEYS[index], kept for keep_ms), and at least the server's time in
-- microseconds. Mints none if keep_ms is 0. A grant that stands already gets the token of then.
-- A script mints before it takes the lock: whatever can fail here leaves no lock behind.
local function mint(index, keep_ms, again)
  if keep_ms == 0 then
    return redis.status_reply('OK')
  end
  local last = redis.call('GET', KEYS[index])
  if again and last then
    return {redis.status_reply('OK'), tonumber(last)}
  end
  local time = redis.call('TIME')
  local fence = math.max(tonumber(last or 0) + 1, time[1] * 1000000 + time[2])
  redis.call('SET', KEYS[index], string.format('%.0f', fence), 'PX', keep_ms)
  return {redis.status_reply('OK'), fence}
end
