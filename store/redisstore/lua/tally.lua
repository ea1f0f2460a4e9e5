-- tally.lua (tally.go) reads and writes the tallies of several limits. It stands in
-- carry.lua, which has the words.
--
-- Their value is '11 *' and for each ' capacity x y ends since length:', in decimal, and
-- its state in the form of load.lua, of that length.

local function parse(text)
  local kind, a, b, c, wide, stored_mark, terms = 0, 0, 0, 0, false, '', false
  if text == '4' then
    return 4, 0, 0, 0, text, ''
  end
LOAD
  if terms then
    kind = 0
  end
  return kind, a, b, c, wide, stored_mark
end

-- Returns a tally with its state read.
local function opened(t)
  if not t.kind then
    t.kind, t.a, t.b, t.c, t.wide, t.mark = parse(t.text)
  end
  return t
end

-- Returns the tallies in a text.
local function tallies_of(text)
  local tallies, i = {}, 5
  repeat
    local capacity, x, y, ends, since, n, first = match(text, '^ (%-?%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+):()', i)
    i = first and first + n
    if i and i <= #text + 1 and max(capacity + 0, x + 0, y + 0, since + 0, -since) <= MAX_COUNT and ends + 0 <= 2 * MAX_STORED then
      tallies[#tallies + 1] = opened({
        capacity = max(capacity + 0, -1), x = x + 0, y = y + 0, ends = max(ends + 0, 1), since = since + 0, text = text:sub(first, i - 1),
      })
      if tallies[#tallies].kind == 0 or tallies[#tallies].kind > 8 then
        tallies[#tallies], i = nil, nil
      end
    else
      i = nil
    end
  until not i or #tallies == MAX_TALLIES
  return tallies
end

local function text_of(s, t)
  if t.text then
    return t.text
  elseif t.kind == 1 then
    return format('1 %d %d %s%d', t.a, t.b, t.mark, t.c)
  elseif t.kind == 2 then
    return format('2 %d %s%d', t.a, t.mark, t.b)
  elseif t.kind == 3 then
    local counts = {}
    for i = 1, #t.wide do
      counts[i] = format('%d', t.wide[i])
    end
    return format('3 %d %d ', t.a, t.b) .. table.concat(counts, ' ')
  elseif t.kind == 4 then
    return type(t.wide) == 'string' and t.wide or log_text(s, t.wide)
  end
  return format('%d %d %d', t.kind, t.a, t.b)
end

-- Returns how long a limit looks back.
local function memory_of(own, algorithm, period)
  if own > 4 then
    local BYTES(tolerance_, 7) = byte(data, at + TAKE_BYTES + 7, at + TAKE_BYTES + 13)
    return WHOLE(tolerance_, 7) + 1
  elseif algorithm == CALENDAR then
    return days[period] * 86400000000 + 7200000000
  elseif own == 3 then
    return period * byte(data, at + TAKE_BYTES)
  end
  return period
end

local function kept_until(t, kept, own)
  kept = t.mark ~= '' and period_of(t.mark) or kept
  if t.kind == 3 and t.b > 0 then
    kept = min(t.b, MAX_PERIOD) * (min(#t.wide, MAX_PARTS) - 1)
  elseif t.kind == 4 and own ~= 4 then
    kept = max(kept, LOG_KEPT)
  elseif t.kind > 4 then
    kept = max(kept, min(backlog_of(t.a, t.b, now), MAX_PERIOD))
  end
  return now + kept + 1
end

-- reach of tally.go
local function reach_of(t)
  if t.capacity < 0 then
    return MAX_INSTANT, MAX_COUNT
  elseif t.kind > 4 and t.y > 0 then
    if (t.capacity + 0.0) * t.x / t.y >= MAX_INSTANT then
      return MAX_INSTANT, t.capacity
    end
    return (muldivmod(t.capacity, t.x, t.y)), t.capacity
  elseif t.kind == 4 then
    return t.x, t.capacity
  elseif t.kind == 2 and t.y == 1 then
    return period_of(calendars[t.x] or '') or 0, MAX_COUNT
  end
  return t.x, MAX_COUNT
end

local function covered(tallies, i)
  local back, held = reach_of(tallies[i])
  for j = 1, #tallies do
    local b, h = reach_of(tallies[j])
    if j ~= i and b >= back and h >= held then
      return true
    end
  end
  return false
end

-- spare of tally.go
local function spare(tallies)
  local least = 1
  for i = 1, #tallies do
    local back, held = reach_of(tallies[i])
    local b, h = reach_of(tallies[least])
    local less = back < b or back == b and held <= h
    local c, before = covered(tallies, i), covered(tallies, least)
    if c == before and less or c and not before then
      least = i
    end
  end
  return least
end

-- write of tally.go, but for the state; kind == 0 is a tally that has counted nothing.
local function note(list, s, hits, reset, kind, a, b, c, wide, own, algorithm, period, mark)
  if kind == 0 then
    kind, a, b, c, wide = own, 0, 0, 0, false
    if own == 3 then
      wide = {0} -- there is no text without one
    elseif own == 4 then
      wide = log_of(s, '4')
    end
  end
  local memory = memory_of(own, algorithm, period)
  local before = list.others
  if list.plain then -- a bucket that tat.lua has left beside
    local plain = {capacity = -1, x = 0, y = 0, since = 0, kind = list.plain[1], a = list.plain[2], b = list.plain[3], mark = ''}
    plain.ends = kept_until(plain, memory, own)
    before = {plain}
  end
  local terms = {list[1], list[2], list[3], others = {}, since = 0}
  terms.ends = kept_until({kind = kind, a = a, b = b, wide = wide, mark = mark}, memory, own) + (list.later or 0)
  local last, texts = max(now + reset, terms.ends), {}
  if #before == MAX_TALLIES then
    table.remove(before, spare(before))
  end
  for i = 1, #before do
    local t = before[i]
    local text = text_of(s, t)
    local since = max(min(t.since + hits, MAX_COUNT), -MAX_COUNT)
    terms.others[i] = {capacity = t.capacity, x = t.x, y = t.y, ends = t.ends, since = since, text = text}
    texts[i] = format(' %d %d %d %d %d %d:', t.capacity, t.x, t.y, t.ends, since, #text) .. text
    last = max(last, t.ends)
  end
  terms.head = format('11 * %d %d %d %d 0 ', terms[1], terms[2], terms[3], terms.ends)
  terms.tail = table.concat(texts)
  terms.ttl = format('%d', floor((last - now + 999) / 1000) + TTL_MARGIN_MS)
  return terms, kind, a, b, c, wide
end
