-- Replaces entries whose texts are still what was read, whatever their positions.
-- KEYS: the entries' keys. ARGV: for each key what was read and what it shall be, "=" and the text or "-"
-- for none, and the time to live in milliseconds. Gives the indexes of those that have another text.

local kept = redis.call('MGET', unpack(KEYS))
local moved = {}
for i, key in ipairs(KEYS) do
  local was, shall = ARGV[3 * i - 2], ARGV[3 * i - 1]
  if (kept[i] and '=' .. kept[i] or '-') ~= was then
    moved[#moved + 1] = i
  elseif shall == '-' then
    redis.call('UNLINK', key)
  else
    redis.call('SET', key, string.sub(shall, 2), 'PX', ARGV[3 * i])
  end
end
return moved
