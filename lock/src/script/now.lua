-- The server's clock in ms; and writes are replicated by their effects, as scripts with a clock need it before
-- Redis 5.
if redis.replicate_commands then
  redis.replicate_commands()
end
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function text(number)
  return string.format('%.0f', number)
end
