-- Reads the state in text, whose kind is 0 until then. What has no known form is
-- unused; a log has a form of its own (sliding_log.lua).
local head, first, second, third = match(text, '^([125-8]) (%-?%d+) (%d+) ?(%d*)$')
if byte(text) == 57 then -- '9'
  if #text > 1 and #text % SLOT_BYTES == 1 then
    kind, wide = 9, text
  end
elseif head then
  kind, a, b = head + 0, first + 0, second + 0
  if third ~= '' then
    c = third + 0
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
    first, second, third = match(text, '^10 (%d+) (%d+) (%d+)$')
    if first then
      kind, a, b, c = 10, first + 0, second + 0, third + 0
    end
  end
end
