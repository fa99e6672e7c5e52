-- Upserts entries, each only by a higher position than the kept one.
-- KEYS: the entries' keys. ARGV: for each key the text "position value" (the position alone: not there)
-- and the time to live in milliseconds.
-- Gives the number of entries that were not newer, and the indexes of those with the kept position but
-- another value. Positions are compared as text: a Lua number is exact to 2^53 only.

local function newer(offered, kept)
  return #offered > #kept or (#offered == #kept and offered > kept)
end

local kept = redis.call('MGET', unpack(KEYS))
local answer = {0}
for i, key in ipairs(KEYS) do
  local text = ARGV[2 * i - 1]
  local position = kept[i] and string.match(kept[i], '^%d+')
  local offered = string.match(text, '^%d+')
  if not position or newer(offered, position) then
    redis.call('SET', key, text, 'PX', ARGV[2 * i])
  else
    answer[1] = answer[1] + 1
    if offered == position and text ~= kept[i] then
      answer[#answer + 1] = i
    end
  end
end
return answer
