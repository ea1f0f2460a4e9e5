-- kept_save.lua: writes a state; a counter may keep its time to live.
if kept then
PACK
  local text = packed or kind == 1 and format('1 %d %d %s%d', a, b, mark, c) or format('2 %d %s%d', a, mark, b)
  redis.call('SET', KEYS[s], text, 'KEEPTTL')
else
SAVE
end
