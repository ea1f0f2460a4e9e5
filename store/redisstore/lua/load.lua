-- Reads the state in text, whose kind is 0 until then; and its mark, and the terms if
-- it has such. What has no known form is unused.
if byte(text) == 49 and byte(text, 2) == 49 then -- '11'
  local capacity, x, y, rest = match(text, '^11 (%d+) (%d+) (%d+) (.*)$')
  if byte(text, 4) == 42 then -- '*': the tallies of several limits
    local tallies, i = {}, 5
    repeat
      local capacity, x, y, ends, since, n, first = match(text, '^ (%-?%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+):()', i)
      i = first and first + n
      if i and i <= #text + 1 and max(capacity + 0, x + 0, y + 0, since + 0, -since) <= MAX_COUNT and ends + 0 <= 2 * MAX_STORED then
        tallies[#tallies + 1] = {
          capacity = max(capacity + 0, -1), x = x + 0, y = y + 0, ends = max(ends + 0, 1), since = since + 0, text = text:sub(first, i - 1),
        }
      else
        i = nil
      end
    until not i or #tallies == MAX_TALLIES
    text = ''
    if tallies[1] then
      local t = table.remove(tallies, 1)
      terms, text = {t.capacity, t.x, t.y, ends = t.ends, since = t.since, others = tallies}, t.text
    end
  else
    text = ''
  end
  if capacity and max(capacity + 0, x + 0, y + 0) <= MAX_COUNT then
    terms, text = {capacity + 0, x + 0, y + 0}, rest
  end
end
local head, first, second, third = match(text, '^([125-8]) (%-?%d+) (%d+) ?(%d*)$')
if byte(text) == 57 then -- '9'
  if #text > 1 and #text % SLOT_BYTES == 1 then
    kind, wide = 9, text
  end
elseif byte(text) == 52 then -- '4'
  if #text > STAMP_BYTES or terms and text == '4' then
    kind, wide = 4, text
  end
elseif head then
  kind, a, b = head + 0, first + 0, second + 0
  if third ~= '' then
    c = third + 0
  end
  if kind < 3 then
    stored_mark = match(third ~= '' and third or second, '^(0*)%d')
  end
else
  local rest
  first, second, rest = match(text, '^3 (%d+) (%d+) ([%d ]+)$')
  if first then
    kind, a, b, wide = 3, first + 0, second + 0, {}
    for count in string.gmatch(rest, '%d+') do
      wide[#wide + 1] = count + 0
    end
  else
    local mark, last
    first, mark, last = match(text, '^2 (%-?%d+) (%d*%a+)(%d+)$')
    if first then
      kind, a, b, stored_mark = 2, first + 0, last + 0, mark
    else
      first, second, mark, last = match(text, '^1 (%d+) (%d+) (%d*%a+)(%d+)$')
      if first then
        kind, a, b, c, stored_mark = 1, first + 0, second + 0, last + 0, mark
      else
        first, second, third = match(text, '^10 (%d+) (%d+) (%d+)$')
        if first then
          kind, a, b, c = 10, first + 0, second + 0, third + 0
        end
      end
    end
  end
end
if terms and (kind == 0 or kind > 8) then
  kind, terms = 0, false
end
