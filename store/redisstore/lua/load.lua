-- load.lua reads the state in text, its mark, and its terms if it has such; kind is 0
-- until then. What has no known form is unused.
if #text == 16 and match(text, '^[1-9]%d*$') then
UNPACK
else
  if byte(text) == 49 and byte(text, 2) == 49 then -- '11'
    if byte(text, 4) == 42 then -- '*': the tallies of several limits, which carry.lua reads
      kind, wide = 12, text
    end
    local capacity, x, y, rest = match(text, '^11 (%d+) (%d+) (%d+) (.*)$')
    text = ''
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
    if #text > STAMP_BYTES then
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
end
if terms and (kind == 0 or kind > 8) then
  kind, terms = 0, false
end
