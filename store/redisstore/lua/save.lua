-- save.lua. The time to live is that until the state is as if unused, rounded up to
-- the millisecond, and a margin. What is written has the mark and, if its limit wants
-- to know that later, its terms.
local ttl, text = format('%d', floor((reset + 999) / 1000) + TTL_MARGIN_MS), nil
PACK
if packed then
  text = packed
elseif kind == 1 then
  text = format('1 %d %d %s%d', a, b, mark, c)
elseif kind == 2 then
  text = format('2 %d %s%d', a, mark, b)
elseif kind == 3 then
  local counts = {}
  for i = 1, #wide do
    counts[i] = wide[i] == 0 and '0' or format('%d', wide[i])
  end
  text = format('3 %d %d ', a, b) .. table.concat(counts, ' ')
elseif kind == 4 then
  save_log(s, wide, ttl, terms)
elseif kind == 9 then
  text = wide
elseif kind == 10 then
  text = format('10 %d %d %d', a, b, c)
elseif kind == 0 then
  redis.call('DEL', KEYS[s])
else
  text = format('%d %d %d', kind, a, b)
end
if text then
  if terms then
    if terms.others then
      text, ttl = terms.head .. format('%d:', #text) .. text .. terms.tail, terms.ttl
    else
      text = format('11 %d %d %d ', terms[1], terms[2], terms[3]) .. text
    end
  end
  redis.call('SET', KEYS[s], text, 'PX', ttl)
end
