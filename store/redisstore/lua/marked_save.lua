-- A counter whose time to live needs not be set, or will not have to be when it is
-- written next; take.lua explains the mark.
if mark then
  local text
  if kind == 1 then
    text = format('1 %d %d %s%d', a, b, mark, c)
  else
    text = format('2 %d %s%d', a, mark, b)
  end
  if kept then
    redis.call('SET', KEYS[s], text, 'KEEPTTL')
  else
    local ttl = format('%d', floor((reset + 999) / 1000) + TTL_MARGIN_MS)
    redis.call('SET', KEYS[s], text, 'PX', ttl)
  end
else
SAVE
end
