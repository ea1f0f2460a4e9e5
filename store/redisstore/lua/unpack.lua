-- unpack.lua (packed.go) reads the window counter that is the integer in text.
local n = text + 0
local form = floor(n / 1125899906842624)
if form > 0 and form < 8 and (form < 5 or floor(n / 4194304) % 4194304 == 0) then
  local unit = (form - 1) % 4
  local length = unit == 1 and 60000000 or unit == 2 and 3600000000 or unit == 0 and 1000000 or 86400000000
  local present = floor(now / length)
  kind, stored_mark = form < 5 and 1 or 2, unit == 1 and '0' or unit == 2 and '00' or unit == 0 and '0000' or '000'
  a = max(present + (floor(n / 17592186044416) % 64 - present + 3) % 64 - 3, 0) * length
  b, c = n % 4194304, floor(n / 4194304) % 4194304
end
