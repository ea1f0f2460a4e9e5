-- carry.lua (carry.go, tally.go). A tally is a table of capacity, x and y, its terms;
-- ends, until when it is kept; since; and its state, as text or in kind, a, b, c, wide
-- and mark. carry returns what a state is to a limit, whether that is to be stored, the
-- list of tallies beside it, if any, and whether the limit had one. mark and terms are those
-- of the state, own the kind of the limit's states, own_mark and own_terms (false for
-- those that carry what was used) its own; resets says that it begins anew. A list has
-- the terms of the limit in 1, 2 and 3, and others. note makes of it the terms with
-- which the state is written.
local list, counted = {}, {} -- the uses: instants, the latest first, and hits
local touched = now -- when any tally was touched last: no hit is later

local function use(t, hits)
  hits = min(hits, MAX_COUNT)
  if hits > 0 then
    list[#list + 1], counted[#counted + 1] = max(min(t, touched), 0), hits
  end
end

local units = {us = 1, ms = 1000, s = 1000000, m = 60000000, h = 3600000000, d = 86400000000}
local zeros = {60000000, 3600000000, 86400000000, 1000000}
local days = {day = 1, week = 7, month = 31, year = 366, 1, 7, 31, 366}
local calendars = {'day', 'week', 'month', 'year'}

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

-- Returns how far ahead of an instant a TAT is, rounded up.
local function backlog_of(a, b, at)
  return max(min(max(a, -a), MAX_STORED) + (b > 0 and 1 or 0) - at, 0)
end

local function ceil_div(x, y, z)
  local quotient, rest = muldivmod(x, y, z)
  return rest > 0 and quotient + 1 or quotient
end

TALLY

local function carry(s, kind, a, b, c, wide, mark, terms, own, algorithm, quota, period, own_mark, own_terms, resets, max_debt)
  if own > 8 or kind > 8 and kind < 12 then
    if kind == own then
      return kind, a, b, c, wide, false
    end
    return 0, 0, 0, 0, false, false
  end

  -- The cells of the limit: those from an instant on, of a width, or one.
  local start, from, width, parts, length = 0, 0, 0, 0, period
  local den, tolerance, tolerance_part, cycle = 1, 0, 0, 0
  local x, y = period, 0 -- its terms
  if own == 1 then
    start, width = now - now % period, period
    from = start - period
  elseif own == 3 then
    parts = byte(data, at + TAKE_BYTES)
    start, width, length = now - now % period, period, period * parts
    from, x = start - parts * period, length
  elseif own == 4 then
    from, width = now - period + 1, 1
  elseif own > 4 then
    local BYTES(den_, 7), BYTES(tolerance_, 7), BYTES(part, 7) = byte(data, at + TAKE_BYTES, at + TAKE_BYTES + 20)
    local BYTES(cycle_, 7) = byte(data, at + TAKE_BYTES + 21, at + TAKE_BYTES + 27)
    den, tolerance, tolerance_part, cycle = WHOLE(den_, 7), WHOLE(tolerance_, 7), WHOLE(part, 7), WHOLE(cycle_, 7)
    from, length, y = now - tolerance, tolerance + 1, den
  elseif algorithm == CALENDAR then
    local edge = at + TAKE_BYTES
    while now >= instant(edge + 7) do
      edge = edge + 7
    end
    start, length = instant(edge), instant(edge + 7) - instant(edge)
    from, y = start, 1
  else
    start = now - now % period
    from = start
  end

  local function uses_of(t)
    local stored = max(min(t.a, MAX_STORED), 0)
    if t.kind < 3 then
      use(stored + (t.mark ~= '' and period_of(t.mark) or length) - 1, t.b)
      if t.kind == 1 then
        use(stored - 1, t.c)
      end
    elseif t.kind == 3 then
      if t.b > 0 and t.b <= MAX_PERIOD then
        for i = 1, min(#t.wide, MAX_PARTS) do
          use(stored - (i - 2) * t.b - 1, t.wide[i])
        end
      end
    elseif t.kind == 4 then
      local log = type(t.wide) == 'string' and log_of(s, t.wide) or t.wide
      local i = log.n
      while i > 0 do
        local at = min(log_stamp(log, i - 1), touched)
        if at < from then
          break
        end
        local first = min(log_after(log, (width > 0 and at - at % width or from) - 1), i - 1)
        use(at, i - first)
        i = first
      end
    else
      local backlog = backlog_of(t.a, t.b, touched)
      use(touched, backlog >= length and quota or ceil_div(backlog, quota, length))
    end
  end

  -- Begins the uses with what was charged since, of those of a tally.
  local function begin(since)
    list, counted = {}, {}
    use(touched, since)
  end

  -- Takes back what was given back since.
  local function take_back(since)
    for i = 1, #counted do
      local taken = min(max(-since, 0), counted[i])
      counted[i], since = counted[i] - taken, since + taken
    end
  end

  -- Returns the state in which only the uses have been counted.
  local function count()
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
        return own, start, current, previous, false
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
        return 3, start, period, 0, counts
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
        return 4, 0, 0, 0, log
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
        return own, now + whole, part, 0, false
      end
    end
    return 0, 0, 0, 0, false
  end

  local function same(t)
    return t.kind == own and t.capacity == quota and t.x == x and t.y == y
  end

  local function is_none(t)
    return t.a == 0 and t.b == 0 and t.c == 0 and (t.kind ~= 4 or t.wide == '4' or t.wide.n == 0)
  end

  local function owns(t)
    local known = t.capacity >= 0
    if own > 4 and t.kind > 4 then
      return not known or t.capacity == quota and t.x == x and t.y == y and (not own_terms or t.kind == own)
    elseif t.kind ~= own or known and (own_terms or own == 4) and not same(t) then
      return false
    elseif own == 3 and not is_none(t) then
      return t.b == period and #t.wide == parts + 1 and max(min(t.a, MAX_STORED), 0) % period == 0
    end
    local per = t.mark ~= '' and period_of(t.mark)
    if known and not per then
      return t.x == x and t.y == y
    end
    return t.mark == own_mark or not per
  end

  -- claim of tally.go, of a bucket: returns it up to date, whether that is another
  -- state, and whether the tally stays beside, as its terms are not known.
  local function claim_bucket(t)
    local whole, part, stale, splits = 0, 0, t.kind ~= own or t.since ~= 0, t.capacity < 0 and t.ends > 0
    local owed, owed_part = tolerance + min(DEBT_BURSTS * tolerance + DEBT_US, MAX_DRAIN), tolerance_part
    if max_debt then
      local most, most_part = muldivmod(max_debt, period, den)
      owed, owed_part = tolerance + most, tolerance_part + most_part
      if owed_part >= den then
        owed, owed_part = owed + 1, owed_part - den
      end
    end
    local most, most_part = tolerance, tolerance_part
    if t.a < 0 then
      most, most_part = owed, owed_part
    end
    local tat, tat_part = min(max(t.a, -t.a), MAX_STORED), t.b
    if tat_part >= den then
      tat, tat_part = tat + 1, 0
    end
    local moved = false
    if tat >= now then
      whole, part = tat - now, tat_part
      moved = whole > most or whole == most and part > most_part
    end
    if not moved and t.since == 0 then
      return own, t.a, t.b, stale, splits
    elseif moved then
      whole, part, stale = most, most_part, true
      splits = splits or t.capacity < 0 and t.a > 0
    end
    local from = now
    if t.since ~= 0 then
      from = touched
      if not moved then
        whole, part = 0, 0
        if tat >= from then
          whole, part = tat - from, tat_part
        end
        if whole > most or whole == most and part > most_part then
          whole, part = most, most_part
        end
      end
    end
    if t.since < 0 then
      local less, less_part = MAX_INSTANT, 0
      if (-t.since + 0.0) * period / den < MAX_INSTANT then
        less, less_part = muldivmod(-t.since, period, den)
      end
      if whole > less or whole == less and part > less_part then
        whole, part = whole - less, part - less_part
        if part < 0 then
          whole, part = whole - 1, part + den
        end
      else
        whole, part = 0, 0
      end
    elseif t.since > 0 then
      most, most_part = tolerance + cycle, tolerance_part
      if most > owed or most == owed and most_part > owed_part then
        most, most_part = owed, owed_part
      end
      if whole > most or whole == most and part > most_part then
        most, most_part = whole, part
      end
      local more, more_part = MAX_INSTANT, 0
      if (t.since + 0.0) * period / den < MAX_INSTANT then
        more, more_part = muldivmod(t.since, period, den)
        more, more_part = whole + more, part + more_part
        if more_part >= den then
          more, more_part = more + 1, more_part - den
        end
      end
      if more > most or more == most and more_part > most_part then
        more, more_part = most, most_part
      end
      whole, part = more, more_part
    end
    if whole == 0 and part == 0 and t.since ~= 0 then
      return 0, 0, 0, stale, splits
    end
    if whole > tolerance or whole == tolerance and part > tolerance_part then
      return own, -(from + whole), part, stale, splits
    end
    return own, from + whole, part, stale, splits
  end

  -- converted of tally.go
  local function convert(t, most)
    local known = t.capacity >= 0
    local share = false
    if known and own_terms and not same(t) then
      if resets or t.capacity == 0 or t.kind > 4 and (t.x < 1 or t.y < 1) then
        return 0, 0, 0, 0, false
      end
      share = true
    end
    begin(t.since)
    if known and t.kind > 4 then
      local backlog, hits = backlog_of(t.a, t.b, touched), 0
      if t.x > 0 and t.y > 0 then
        hits = (backlog + 0.0) * t.y / t.x >= MAX_STORED and MAX_COUNT or ceil_div(backlog, t.y, t.x)
      end
      if share then
        local all = t.capacity
        if (all + 0.0) * t.x / t.y < MAX_INSTANT and backlog >= (muldivmod(all, t.x, t.y)) then
          hits = all
        end
        hits = min(all, hits)
      end
      use(touched, hits)
    else
      uses_of(t)
    end
    take_back(t.since)
    if share then
      local sum, scaled = 0, 0
      for i = 1, #counted do
        sum = min(sum + counted[i], t.capacity)
        local total = ceil_div(sum, quota, t.capacity)
        counted[i], scaled = total - scaled, total
      end
    else
      for i = 1, #counted do
        counted[i] = min(counted[i], most)
        most = most - counted[i]
      end
    end
    return count()
  end

  -- weightOf of tally.go
  local function weight_of(kind, a, b, c, wide)
    if kind == 1 then
      return b + ceil_div(c, period - now % period, period), 0
    elseif kind == 2 then
      return b, 0
    elseif kind == 3 then
      local sum = 0
      for i = 1, #wide do
        sum = sum + wide[i]
      end
      return sum, 0
    elseif kind == 4 then
      return wide.n, 0
    elseif kind > 4 then
      return a - now, b
    end
    return 0, 0
  end

  local all = kind == 12 and tallies_of(wide) or {{
    capacity = terms and terms[1] or -1, x = terms and terms[2] or 0, y = terms and terms[3] or 0,
    ends = terms and terms.ends or 0, since = terms and terms.since or 0,
    kind = kind, a = a, b = b, c = c, wide = wide, mark = mark,
  }}
  if terms and terms.others then
    for i = 1, #terms.others do
      all[i + 1] = opened(terms.others[i])
    end
  end
  touched = -1
  for i = 1, #all do
    if all[i].capacity >= 0 and all[i].ends > 0 then
      touched = max(touched, all[i].ends - reach_of(all[i]) - 1)
    end
  end
  if touched < 0 or touched > now then
    touched = now
  end
  local mine
  for i = #all, 1, -1 do
    if owns(all[i]) and (all[i].capacity >= 0 or not mine or all[mine].capacity < 0) then
      mine = i
    end
  end
  local was = kind
  local found, foreign, splits, most = false, true, false, MAX_COUNT
  local t = mine and all[mine]
  if t then
    local ends = t.ends
    if own == 4 and t.capacity < 0 and ends > 0 then
      ends = ends + period - LOG_KEPT -- it did not say how far it looks back
    end
    if t.since <= 0 or ends == 0 or ends > now or own > 4 then
      found, foreign, splits = true, t.since ~= 0, own >= 4 and t.capacity < 0 and t.ends > 0
      kind, a, b, c, wide = own, t.a, t.b, t.c, t.wide
      if t.since == 0 and is_none(t) then
        kind, wide = 0, false
      elseif own > 4 then
        kind, a, b, foreign, splits = claim_bucket(t)
        c, wide = 0, false
      elseif foreign then
        begin(t.since)
        uses_of(t)
        take_back(t.since)
        kind, a, b, c, wide = count()
      end
    end
    most = t.since
  end
  local longest = reach_of({kind = own, capacity = quota, x = x, y = y})
  for i = 1, #all do
    local t = all[i]
    if (i ~= mine or splits) and (t.ends == 0 or t.ends > now) then
      longest = max(longest, (reach_of(t)))
    end
  end
  local others = {}
  for i = 1, #all do
    local t = all[i]
    if (i ~= mine or splits) and (t.ends == 0 or t.ends > now or longest > reach_of(t) and t.ends + longest > now) then
      if t.ends == 0 then
        t.ends = kept_until(t, memory_of(own, algorithm, period), own)
      end
      others[#others + 1] = t
    end
  end
  if not found then
    kind, a, b, c, wide = 0, 0, 0, 0, false
    local weight, weight_part = -1, 0
    for i = 1, #others do
      if others[i].ends > now and (weight < 0 or not own_terms) then
        local kind_, a_, b_, c_, wide_ = convert(others[i], most)
        local w, part = weight_of(kind_, a_, b_, c_, wide_)
        if w > weight or w == weight and part > weight_part then
          kind, a, b, c, wide, weight, weight_part = kind_, a_, b_, c_, wide_, w, part
        end
      end
    end
  end
  if #others == 0 then
    return kind, a, b, c, wide, foreign or not terms == not not own_terms or terms and terms.others ~= nil or was == 12, nil, found
  end
  return kind, a, b, c, wide, foreign, {quota, x, y, others = others}, found
end

return carry, note
