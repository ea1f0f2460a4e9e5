-- quick.lua decides a hit alone, or one of a group of hits, whose limit counts in integers
-- (packed.go), or is a bucket that drains (drained.go), and whose bucket holds one such
-- state or nothing. What it cannot decide, with its group, it leaves to what follows, and
-- has written nothing then. The answer to a take is one number, the state after it, below
-- 0 where it is denied: the caller makes the rest. Limits that charge denied hits are left to
-- what follows where they stand in a group.
if not unit then
  unit, unit_limit_at, unit_s, unit_filled, unit_held, queued = place, limit_at, s, filled, false, 0
end
local hits = op - 8
if op < 8 then
  place, hits = place + 1, byte(data, place + 1)
end
place, s, filled = place + 1, s + 1, filled + 1
-- What is written if all pass: a value and its time to live, or by how much it grows and
-- false; and what is answered then.
local value, left, passed
local known = op > 4 and hits > 0
if not known then
  -- Something else in a group.
elseif drain_form then
  local backlog, text = 0, redis.call('GET', KEYS[s])
  known = hits <= quota
  if known and text then
    local tat, part = match(text, drain_form)
    known = tat
    if tat and tat + 0 >= now then
      local ahead = tat - now
      part = part and part + 0 or 0
      backlog = ahead <= drain_reach and ahead * drain_den + part or drain_most + 1
      known = part < drain_den and backlog <= drain_most
    end
  end
  local after = backlog + hits * period
  if known and after > drain_most then
    reply[filled], unit_held = -MAX_INSTANT - backlog, true
  elseif known then
    local whole = floor(after / drain_den)
    local part = after - whole * drain_den
    value, left, passed = format(drain_text, now + whole, part), part > 0 and whole + 1 or whole, 1 + after
    reply[filled] = 1 + backlog
  end
elseif packs_base then
  local n, current, previous = packs_base, 0, 0
  local text = redis.call('GET', KEYS[s])
  if text then
    n = #text == 16 and match(text, '^[1-9]%d*$') and text + 0 or 0
    local counts = n - packs_base
    if counts >= 0 and counts < PACKED_WINDOW then
      current = counts % PACKED_COUNTS
      previous = (counts - current) / PACKED_COUNTS
      known = algorithm == 1 or previous == 0
    else
      -- One that is over. What is ahead is rare.
      local windows = floor(n / PACKED_WINDOW) - packs_base / PACKED_WINDOW
      windows = floor(n / PACKED_FORM) == packs_form and windows % 64 or 0
      known = windows > 60
      previous = windows == 63 and algorithm == 1 and n % PACKED_COUNTS or 0
    end
  end
  local used = current + hits
  known = known and used < PACKED_COUNTS and (counts_denied == 0 or op > 7)
  if known then
    if previous > 0 and used + previous > quota then
      local weight, rest = muldivmod(previous, packs_left, period)
      used = used + (rest > 0 and weight + 1 or weight)
    end
    local denied = used > quota
    if denied and counts_denied == 0 then
      reply[filled], unit_held = -n, true
    else
      if current > 0 then
        -- One that counts in its window already keeps its time to live.
        value, left, passed = hits == 1 and '1' or format('%d', hits), false, n + hits
      else
        passed = packs_base + previous * PACKED_COUNTS + hits
        value, left = format('%d', passed), packs_left + (algorithm == 1 and period or 0)
      end
      passed = denied and -passed or passed
      reply[filled] = n
    end
  end
else
  known = false
end
if not known then
  place, jump, tried, s, filled, unit = unit_limit_at, unit, unit, unit_s, unit_filled, nil
elseif op > 7 then
  unit = nil
  if value then
    reply[filled] = passed
    if not left then
      redis.call('INCRBY', KEYS[s], value)
    else
      local ttl = format('%d', floor((left + 999) / 1000) + TTL_MARGIN_MS)
      redis.call('SET', KEYS[s], value, 'PX', ttl)
    end
  end
else
  if value then
    queue = queue or {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} -- with room for three
    queue[queued + 1], queue[queued + 2], queue[queued + 3], queue[queued + 4] = s, value, left, passed
    queued = queued + 4
  end
  if op == 6 then
    for i = 1, unit_held and 0 or queued, 4 do
      local s, value, left = queue[i], queue[i + 1], queue[i + 2]
      reply[unit_filled + s - unit_s] = queue[i + 3]
      if not left then
        redis.call('INCRBY', KEYS[s], value)
      else
        local ttl = format('%d', floor((left + 999) / 1000) + TTL_MARGIN_MS)
        redis.call('SET', KEYS[s], value, 'PX', ttl)
      end
    end
    unit = nil
  end
end
