-- The time to live is the time in which the state becomes as if unused, rounded
-- up to the millisecond, and a margin.
local ttl = format('%d', floor((reset + 999) / 1000) + TTL_MARGIN_MS)
if kind == 1 then
  redis.call('SET', KEYS[s], format('1 %d %d %d', a, b, c), 'PX', ttl)
elseif kind == 0 then
  redis.call('DEL', KEYS[s])
elseif kind == 3 then
  local counts = {}
  for i = 1, #wide do
    counts[i] = wide[i] == 0 and '0' or format('%d', wide[i])
  end
  redis.call('SET', KEYS[s], format('3 %d %d ', a, b) .. table.concat(counts, ' '), 'PX', ttl)
elseif kind == 4 then
  save_log(s, wide, ttl)
elseif kind == 9 then
  redis.call('SET', KEYS[s], wide, 'PX', ttl)
elseif kind == 10 then
  redis.call('SET', KEYS[s], format('10 %d %d %d', a, b, c), 'PX', ttl)
else
  redis.call('SET', KEYS[s], format('%d %d %d', kind, a, b), 'PX', ttl)
end
