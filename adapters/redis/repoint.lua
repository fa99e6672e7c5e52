-- Replaces the generation pointer if it still has the text that was read.
-- KEYS[1]: the pointer. ARGV: the text that was read, the new text. Gives 1, or 0 if it has another text.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
