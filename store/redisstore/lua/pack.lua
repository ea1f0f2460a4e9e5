-- pack.lua (packed.go) sets packed to the text of a window counter that is an integer,
-- false where the state has none.
local packed = false
if packs and (kind == 1 or kind == 2) and not terms and byte(mark) == 48 then -- '0'
  local form = #mark % 4 + 1
  local length = form == 1 and 1000000 or form == 2 and 60000000 or form == 3 and 3600000000 or 86400000000
  local older, ahead = kind == 1 and c or 0, a / length - floor(now / length)
  form = kind == 1 and form or form + 4
  if form < 8 and b < PACKED_COUNTS and older < PACKED_COUNTS and a % length == 0 and ahead > -3 and ahead <= 60 then
    packed = format('%d', form * PACKED_FORM + a / length % 64 * PACKED_WINDOW + older * PACKED_COUNTS + b)
  end
end
