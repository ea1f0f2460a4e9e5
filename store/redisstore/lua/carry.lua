-- carry.go. The function returns what a state is to a limit, and whether it was
-- stored in another form. mark and terms are those of the state, own the kind of the
-- limit's states, own_mark and own_terms (false for those that carry what was used)
-- its own; resets says that it begins anew.
local list, counted = {}, {} -- the uses: instants, the latest first, and hits

local function use(t, hits)
  hits = min(hits, MAX_COUNT)
  if hits > 0 then
    list[#list + 1], counted[#counted + 1] = max(min(t, now), 0), hits
  end
end

local units = {us = 1, ms = 1000, s = 1000000, m = 60000000, h = 3600000000, d = 86400000000}
local zeros = {60000000, 3600000000, 86400000000, 1000000}
local days = {day = 1, week = 7, month = 31, year = 366}

-- Returns the period that a mark says, or nil.
local function period_of(mark)
  local n, unit = match(mark, '^(%d*)(%a*)$')
  if unit == '' then
    return zeros[#mark]
  elseif days[unit] then
    return days[unit] * 86400000000 + 7200000000
  end
  return n ~= '' and units[unit] and n * units[unit]
end

-- Returns how far ahead of now a TAT is, rounded up.
local function backlog_of(a, b)
  return max(min(max(a, -a), MAX_STORED) + (b > 0 and 1 or 0) - now, 0)
end

local function ceil_div(x, y, z)
  local quotient, rest = muldivmod(x, y, z)
  return rest > 0 and quotient + 1 or quotient
end

return function(s, kind, a, b, c, wide, mark, terms, own, algorithm, quota, period, own_mark, own_terms, resets)
  if kind > 8 or own > 8 then
    if kind == own then
      return kind, a, b, c, wide, false
    end
    return 0, 0, 0, 0, false, false
  end
  local foreign = not terms == not not own_terms
  local known = mark ~= '' and period_of(mark)
  local share = terms and own_terms
  if share then
    if kind == own and terms[1] == own_terms[1] and terms[2] == own_terms[2] and terms[3] == own_terms[3] then
      return kind, a, b, c, wide, false
    elseif resets or terms[1] == 0 or kind > 4 and (terms[2] == 0 or terms[3] == 0) then
      return 0, 0, 0, 0, false, false
    end
  elseif kind == own and (mark == own_mark or not known) then
    return kind, a, b, c, wide, foreign
  elseif kind > 4 and own > 4 then
    return own, a, b, 0, false, true
  end

  -- The cells of the limit: those from an instant on, of a width, or one.
  local start, from, width, parts, length = 0, 0, 0, 0, period
  local den, tolerance, tolerance_part = 1, 0, 0
  if own == 1 then
    start, width = now - now % period, period
    from = start - period
  elseif own == 3 then
    parts = byte(data, at + TAKE_BYTES)
    start, width, length = now - now % period, period, period * parts
    from = start - parts * period
  elseif own == 4 then
    from, width = now - period + 1, 1
  elseif own > 4 then
    local BYTES(den_, 7), BYTES(tolerance_, 7), BYTES(part, 7) = byte(data, at + TAKE_BYTES, at + TAKE_BYTES + 20)
    den, tolerance, tolerance_part = WHOLE(den_, 7), WHOLE(tolerance_, 7), WHOLE(part, 7)
    from, length = now - tolerance, tolerance + 1
  elseif algorithm == CALENDAR then
    local edge = at + TAKE_BYTES
    while now >= instant(edge + 7) do
      edge = edge + 7
    end
    start, length = instant(edge), instant(edge + 7) - instant(edge)
    from = start
  else
    start = now - now % period
    from = start
  end

  list, counted = {}, {}
  local stored = max(min(a, MAX_STORED), 0)
  if kind < 3 then
    use(stored + (known or length) - 1, b)
    if kind == 1 then
      use(stored - 1, c)
    end
  elseif kind == 3 then
    if b > 0 and b <= MAX_PERIOD then
      for i = 1, min(#wide, MAX_PARTS) do
        use(stored - (i - 2) * b - 1, wide[i])
      end
    end
  elseif kind == 4 then
    local log = type(wide) == 'string' and log_of(s, wide) or wide
    local i = log.n
    while i > 0 do
      local t = min(log_stamp(log, i - 1), now)
      if t < from then
        break
      end
      local first = min(log_after(log, (width > 0 and t - t % width or from) - 1), i - 1)
      use(t, i - first)
      i = first
    end
  elseif share then
    local backlog, hits = backlog_of(a, b), terms[1]
    if (hits + 0.0) * terms[2] / terms[3] >= MAX_INSTANT or backlog < (muldivmod(hits, terms[2], terms[3])) then
      hits = min(hits, ceil_div(backlog, terms[3], terms[2]))
    end
    use(now, hits)
  else
    local backlog = backlog_of(a, b)
    use(now, backlog >= length and quota or ceil_div(backlog, quota, length))
  end
  if share then
    local sum, scaled = 0, 0
    for i = 1, #counted do
      sum = min(sum + counted[i], terms[1])
      local total = ceil_div(sum, quota, terms[1])
      counted[i], scaled = total - scaled, total
    end
  end

  local current, previous = 0, 0
  if own < 3 then
    for i = 1, #list do
      if list[i] >= start then
        current = min(current + counted[i], MAX_COUNT)
      elseif own == 1 and list[i] >= from then
        previous = min(previous + counted[i], MAX_COUNT)
      end
    end
    if current > 0 or previous > 0 then
      return own, start, current, previous, false, true
    end
  elseif own == 3 then
    local counts, total = {}, 0
    for i = 1, parts + 1 do
      counts[i] = 0
    end
    for i = 1, #list do
      local part = (start - (list[i] - list[i] % period)) / period + 1
      if part <= parts + 1 then
        local added = min(counted[i], MAX_COUNT - total)
        counts[part], total = counts[part] + added, total + added
      end
    end
    if total > 0 then
      return 3, start, period, 0, counts, true
    end
  elseif own == 4 then
    local log = log_of(s, '4')
    local left = quota
    for i = 1, #list do
      local added = min(counted[i], left)
      if list[i] > now - period and added > 0 then
        log_before(log, list[i], added)
        left = left - added
      end
    end
    if log.n > 0 then
      return 4, 0, 0, 0, log, true
    end
  else
    local whole, part, last = 0, 0, 0
    local function drain(time)
      whole = whole - time
      if whole < 0 then
        whole, part = 0, 0
      end
    end
    for i = #list, 1, -1 do
      drain(list[i] - last)
      local more, more_part = muldivmod(min(counted[i], quota + 1), period, den)
      whole, part, last = whole + more, part + more_part, list[i]
      if part >= den then
        whole, part = whole + 1, part - den
      end
      if whole > tolerance or whole == tolerance and part > tolerance_part then
        whole, part = tolerance, tolerance_part
      end
    end
    drain(now - last)
    if whole > 0 or part > 0 then
      return own, now + whole, part, 0, false, true
    end
  end
  return 0, 0, 0, 0, false, true
end
