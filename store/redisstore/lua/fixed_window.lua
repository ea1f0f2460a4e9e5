-- fixed_window.lua (fixed_window.go)
local start, finish, next_finish
if algorithm == CALENDAR then
  local edge = at + TAKE_BYTES
  while now >= instant(edge + 7) do
    edge = edge + 7
  end
  start, finish, next_finish = instant(edge), instant(edge + 7), instant(edge + 14)
  extra = 35
else
  start = now - now % period
  finish, next_finish = start + period, start + 2 * period
end
local count, moved = 0, false
if kind == 2 then
  local stored = a
  if stored > MAX_STORED or stored < 0 then
    stored = max(min(stored, MAX_STORED), 0)
  end
  if stored >= start then
    count = b
    if count > MAX_COUNT then
      count = MAX_COUNT
    end
  end
  if stored >= next_finish then
    moved = true
  elseif stored >= finish then
    start, finish = finish, next_finish
  end
end

if refund > 0 then
  kind, changed, again = 0, true, true
  if count > refund then
    kind, a, b = 2, start, count - refund
  end
else
  if debt then
    hits = max(min(hits, quota + debt - count), 0)
  end
  local allowed = count + hits <= quota
  if not allowed then
    verdict = NEVER
    if hits <= quota then
      verdict = -1 - max(finish - now, 0)
    end
  end
  local charge = hits > 0 and (allowed or denied == 1)
  if charge then
    count = count + hits
    if count > MAX_COUNT then
      count = MAX_COUNT
    end
  end
  if charge or (moved and hits > 0) then
    kind, a, b, changed = 2, start, count, true
  end
  remaining = quota - count
  if count > 0 then
    reset = finish - now
  end
end
