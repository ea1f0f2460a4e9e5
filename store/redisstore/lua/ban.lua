-- ban.lua (ban.go). Hits with denied == 1 are denials that are counted.
local BYTES(length, 7) = byte(data, at + TAKE_BYTES, at + TAKE_BYTES + 6)
local last = now + WHOLE(length, 7)
extra = 7
local start, count, finish, moved = 0, 0, 0, false
if kind == 10 then
  if c > now then
    finish, moved = min(c, last), c > last
  elseif b > 0 and quota > 1 and min(a, now) + period > now then
    start, count, moved = min(a, now), min(b, quota - 1), a > now
  end
end

if refund > 0 then
  again = true
  if count > refund then
    kind, a, b, c, changed = 10, start, count - refund, 0, true
  elseif finish == 0 then
    kind, changed = 0, true
  end
else
  local write = moved and hits > 0
  if denied == 1 and hits > 0 then
    write = true
    if finish == 0 and count + hits >= quota then
      start, count, finish = 0, 0, last
    elseif finish == 0 then
      start, count = count > 0 and start or now, count + hits
    end
  elseif finish > 0 and hits > 0 then
    verdict = -1 - (finish - now)
  end
  if write then
    kind, a, b, c, changed = 10, start, count, finish, true
  end
  if finish > 0 then
    reset = finish - now
  else
    remaining = quota - count
    if count > 0 then
      reset = start + period - now
    end
  end
end
