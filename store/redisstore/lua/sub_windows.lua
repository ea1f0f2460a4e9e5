-- sub_windows.lua (sub_windows.go). A state is {start, width, wide}; wide[1] is
-- part 0, the newest.

local function carry(parts, state, stored, width)
  local wide = state[3]
  local length = min(#wide, MAX_PARTS)
  local gone = 0
  if stored < now then
    gone = min(floor((now - stored) / width), length)
  end
  for i = 1, length - gone do
    parts.carried = min(parts.carried + min(wide[i], MAX_COUNT), MAX_COUNT)
  end
  parts.total = parts.carried
  parts.moved = parts.total > 0
  return parts
end

local function parts_at(width, n, state)
  local elapsed = now % width
  local parts = {start = now - elapsed, elapsed = elapsed, shift = 0, counts = false, carried = 0, total = 0, moved = false}
  if not state or #state[3] == 0 or state[2] < 1 or state[2] > MAX_PERIOD then
    return parts
  end
  local stored, wide = max(min(state[1], MAX_STORED), 0), state[3]
  if state[2] ~= width or #wide ~= n + 1 or stored % width ~= 0 then
    return carry(parts, state, stored, state[2])
  end
  parts.counts = wide
  if stored >= parts.start + (n + 1) * width then
    parts.moved = true
  elseif stored > now then
    parts.start, parts.elapsed = stored, 0
  else
    parts.shift = min(floor((parts.start - stored) / width), n + 1)
  end
  for i = parts.shift, n do
    parts.total = parts.total + min(wide[i - parts.shift + 1], MAX_COUNT)
  end
  return parts
end

local function at(parts, i)
  if i < parts.shift or not parts.counts then
    return 0
  end
  return min(parts.counts[i - parts.shift + 1] or 0, MAX_COUNT)
end

local function used_of_parts(parts, width, n, strict)
  if strict or parts.elapsed == 0 then
    return parts.total
  end
  local oldest = at(parts, n)
  if oldest == 0 then
    return parts.total
  end
  local weight, rest = muldivmod(oldest, width - parts.elapsed, width)
  if rest > 0 then
    weight = weight + 1
  end
  return parts.total - oldest + weight
end

local function parts_pass_at(parts, width, n, strict, room)
  local whole = parts.total
  for j = 0, n do
    local oldest = at(parts, n - j)
    if j == n then
      oldest = oldest + parts.carried
    end
    if whole <= room then
      return parts.start + j * width
    end
    local others = whole - oldest
    if not strict and others <= room then
      return parts.start + (j + 1) * width - (muldivmod(room - others, width, oldest))
    end
    whole = others
  end
  return parts.start + (n + 1) * width
end

local function parts_unused_at(parts, width, n)
  if parts.total == 0 then
    return 0
  end
  if parts.carried > 0 then
    return parts.start + (n + 1) * width
  end
  for i = parts.shift, n do
    if at(parts, i) > 0 then
      return parts.start + (n + 1 - i) * width
    end
  end
  return 0
end

local function parts_state(parts, width, n)
  local wide = {}
  for i = 0, n do
    wide[i + 1] = at(parts, i)
  end
  wide[1] = wide[1] + parts.carried
  return {parts.start, width, wide}
end

local function decide(quota, count_denied, width, n, strict, state, hits, refund, debt)
  local parts = parts_at(width, n, state)

  if refund > 0 then
    state = false
    if parts.total > refund then
      state = parts_state(parts, width, n)
      local wide = state[3]
      for i = 1, n + 1 do
        local taken = min(refund, wide[i])
        wide[i] = wide[i] - taken
        refund = refund - taken
      end
    end
    return decide(quota, count_denied, width, n, strict, state, 0, 0)
  end

  local used = used_of_parts(parts, width, n, strict)
  if debt then
    hits = max(min(hits, quota + debt - used), 0)
  end
  local allowed = used + hits <= quota
  local charge = hits > 0 and (allowed or count_denied)
  if charge then
    local added = max(min(hits, MAX_COUNT - parts.total), 0)
    parts.carried = parts.carried + added
    parts.total = parts.total + added
    used = used + added
  end
  local reset = max(parts_unused_at(parts, width, n) - now, 0)
  local verdict = 0
  if not allowed then
    verdict = NEVER
    if hits <= quota then
      verdict = -1 - max(parts_pass_at(parts, width, n, strict, quota - hits) - now, 0)
    end
  end
  if charge or (parts.moved and hits > 0) then
    state = parts_state(parts, width, n)
  end
  return state, verdict, quota - used, reset
end
return decide
