-- import.lua puts totals of elsewhere into buckets (store.Importer). It stands between
-- head.lua and take.lua: for each total there is a charge among the takes, and here it
-- is written into it how many hits are new.
--
-- KEYS     first the names of the buckets, then for each total that of what was heard of its
--          column: three numbers of seven bytes, hits, back and resets, which live for keep and a margin
-- ARGV[2]  for each total TOTAL_BYTES, in numbers of seven bytes
--   place    in ARGV[1] of the record of its charge, the first is 1
--   hits, back, resets   the count
--   hits, back, resets   what of it need not be told
--   keep     0 .. 2^50 us

-- Redis takes back nothing of a script that fails halfway: notes would say that hits were heard
-- which are in no bucket, and the totals beside a bucket of another program would be lost. So whether
-- all buckets can be read is found out before anything is written. A note of another program is
-- written over.

local totals, sub, char = ARGV[2], string.sub, string.char
local heard_at = #KEYS - #totals / TOTAL_BYTES

for i = 1, heard_at do
  local length = redis.pcall('STRLEN', KEYS[i])
  if type(length) == 'table' then
    return length
  end
end

-- news returns what of a count is new, and the count that is known from now on.
local function news(count, told, known)
  local from = max(told, known)
  return max(count - from, 0), max(count, from)
end

local pieces, done = {}, 0
for i = 1, #totals, TOTAL_BYTES do
  local BYTES(place, 7), BYTES(hits, 7), BYTES(back, 7), BYTES(resets, 7) = byte(totals, i, i + 27)
  local place, hits, back, resets = WHOLE(place, 7), WHOLE(hits, 7), WHOLE(back, 7), WHOLE(resets, 7)
  local BYTES(told_hits, 7), BYTES(told_back, 7), BYTES(told_resets, 7), BYTES(keep, 7) = byte(totals, i + 28, i + 55)
  local told_hits, told_back, told_resets, keep = WHOLE(told_hits, 7), WHOLE(told_back, 7), WHOLE(told_resets, 7), WHOLE(keep, 7)
  heard_at = heard_at + 1
  local known_hits, known_back, known_resets = 0, 0, 0
  local known = redis.pcall('GET', KEYS[heard_at])
  if type(known) == 'string' and #known == 21 then
    local BYTES(x, 7), BYTES(y, 7), BYTES(z, 7) = byte(known, 1, 21)
    known_hits, known_back, known_resets = WHOLE(x, 7), WHOLE(y, 7), WHOLE(z, 7)
  end
  hits, known_hits = news(hits, told_hits, known_hits)
  back, known_back = news(back, told_back, known_back)
  resets, known_resets = news(resets, told_resets, known_resets)
  redis.call('SET', KEYS[heard_at], char(CHARS(known_hits, 7), CHARS(known_back, 7), CHARS(known_resets, 7)), 'PX',
    format('%d', floor((keep + 999) / 1000) + TTL_MARGIN_MS))
  if resets > 0 then
    local BYTES(s, 3) = byte(data, place + 4, place + 6)
    redis.call('DEL', KEYS[WHOLE(s, 3)])
  end
  local op, n = 3, hits - back
  if n < 0 then
    op, n = 1, -n
  end
  n = min(n, MAX_QUOTA)
  pieces[#pieces + 1] = sub(data, done + 1, place - 1)
  pieces[#pieces + 1] = char(op)
  pieces[#pieces + 1] = sub(data, place + 1, place + 6)
  pieces[#pieces + 1] = char(CHARS(n, 7))
  done = place + 13
end
pieces[#pieces + 1] = sub(data, done + 1)
data = table.concat(pieces)
