-- sliding_window.lua (sliding_window.go)
local elapsed = now % period
local start, current, previous, moved = now - elapsed, 0, 0, false
if kind == 1 then
  local stored, newer, older = a, b, c
  if newer > MAX_COUNT or older > MAX_COUNT or stored > MAX_STORED or stored < 0 then
    stored = max(min(stored, MAX_STORED), 0)
    newer, older = min(newer, MAX_COUNT), min(older, MAX_COUNT)
  end
  if stored == start then
    current, previous = newer, older
  else
    local present, into = start, stored % period
    if into ~= 0 then
      newer, older = min(newer + older, MAX_COUNT), 0
    end
    if stored >= present + 2 * period then
      current, previous, moved = newer, older, true
    else
      if stored > now then
        start, elapsed = stored - into, into
      end
      if stored >= present then
        current, previous = newer, older
      elseif stored >= present - period then
        previous = newer
      end
    end
  end
end

seen = previous
if refund > 0 then
  local from_current = min(refund, current)
  current = current - from_current
  previous = previous - min(refund - from_current, previous)
  kind, changed, again = 0, true, true
  if current > 0 or previous > 0 then
    kind, a, b, c = 1, start, current, previous
  end
else
  local used = current
  if previous > 0 then
    local weight, rest = muldivmod(previous, period - elapsed, period)
    if rest > 0 then
      weight = weight + 1
    end
    used = weight + current
  end
  if debt then
    hits = max(min(hits, quota + debt - used), 0)
  end
  local allowed = used + hits <= quota
  local charge = hits > 0 and (allowed or denied == 1)
  if charge then
    current = current + hits
    if current > MAX_COUNT then
      current = MAX_COUNT
    end
    used = used + hits
  end
  if not allowed then
    if hits > quota then
      verdict = NEVER
    else
      local room = quota - hits - current
      if room >= 0 then
        verdict = start + period - (muldivmod(room, period, previous))
      else
        verdict = start + 2 * period - (muldivmod(quota - hits, period, current))
      end
      verdict = -1 - max(verdict - now, 0)
    end
  end
  if charge or (moved and hits > 0) then
    kind, a, b, c, changed = 1, start, current, previous, true
  end
  remaining = quota - used
  if current > 0 then
    reset = start + 2 * period - now
  elseif previous > 0 then
    reset = start + period - now
  end
end
