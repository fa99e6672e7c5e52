-- Takes from a quota: the Generic Cell Rate Algorithm as a leaky bucket, by the server's clock.
-- KEYS[1]: the level. ARGV: requests a second, burst, cost, and how much more may be taken in advance.
-- The level is kept as "used at": millionths of a request, and microseconds. All numbers are whole and exact in a
-- Lua number. Gives what was granted (0, or cost and more), what is used now, and the time.
-- The level is written, with a time to live, whatever was there: a value of another kind, one beyond the
-- burst, a time that is yet to come and a key without a time to live mend themselves.

local micro = 1000000
local rate, burst, cost, extra = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * micro + clock[2]

local used, at = 0, now
local kept = redis.pcall('GET', KEYS[1])
if type(kept) == 'string' then
  local level, time = string.match(kept, '^(%d+) (%d+)$')
  if level then
    used, at = math.min(tonumber(level), burst * micro), math.min(tonumber(time), now)
  end
end
used = math.max(0, used - (now - at) * rate)

local granted = 0
local left = burst * micro - used - cost * micro
if left >= 0 then
  local spare = math.floor((left - burst * micro / 2) / micro)
  granted = cost + math.max(0, math.min(extra, spare))
  used = used + granted * micro
end
local lives = math.ceil(used / rate / 1000) + 1000
redis.call('SET', KEYS[1], string.format('%.0f %.0f', used, now), 'PX', string.format('%.0f', lives))
return {granted, used, now}
