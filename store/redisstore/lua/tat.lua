-- tat.lua (tat.go): token_bucket, leaky_bucket, leaky_queue, gcra. A span is two
-- numbers, whole us and the numerator over den. With denied == 1, which no limit of
-- these has, all hits are charged.
local capacity, num = quota, period
local BYTES(den, 7), BYTES(tolerance, 7), BYTES(part, 7) = byte(data, at + TAKE_BYTES, at + TAKE_BYTES + 20)
local den, tolerance, tolerance_part = WHOLE(den, 7), WHOLE(tolerance, 7), WHOLE(part, 7)
extra = 28
local whole, part, moved = 0, 0, false
local owed, owed_part = tolerance, tolerance_part -- what it may owe, where that matters
if (denied == 1 and hits > 0) or (kind == algorithm and a < 0) then
  if max_debt then
    local most, most_part = muldivmod(max_debt, num, den)
    owed, owed_part = owed + most, owed_part + most_part
    if owed_part >= den then
      owed, owed_part = owed + 1, owed_part - den
    end
  else
    owed = tolerance + min(DEBT_BURSTS * tolerance + DEBT_US, MAX_DRAIN)
  end
end
if kind == algorithm then
  local tat, tat_part, most, most_part = a, b, tolerance, tolerance_part
  if tat < 0 then
    tat, most, most_part = -tat, owed, owed_part
  end
  if tat > MAX_STORED then
    tat = MAX_STORED
  end
  if tat_part >= den then
    tat, tat_part = tat + 1, 0
  end
  if tat >= now then
    whole, part = tat - now, tat_part
    if whole > most or (whole == most and part > most_part) then
      whole, part, moved = most, most_part, true
      if a > 0 then
        -- What another limit, or another clock, has written stays beside.
        list = {quota, period, den, plain = {kind, a, b}}
      end
    end
  end
end

if refund > 0 then
  kind, changed, again = 0, true, true
  if (refund + 0.0) * num / den < MAX_INSTANT then
    local less, less_part = muldivmod(refund, num, den)
    if whole > less or (whole == less and part > less_part) then
      whole, part = whole - less, part - less_part
      if part < 0 then
        whole, part = whole - 1, part + den
      end
      kind, a, b = algorithm, now + whole, part
      if whole > tolerance or (whole == tolerance and part > tolerance_part) then
        a = -a
      end
    end
  end
else
  local charge = denied == 1 and hits > 0
  if charge then
    local more, more_part = MAX_INSTANT, 0
    if (hits + 0.0) * num / den < MAX_INSTANT then
      more, more_part = muldivmod(hits, num, den)
      more, more_part = whole + more, part + more_part
      if more_part >= den then
        more, more_part = more + 1, more_part - den
      end
    end
    if more > owed or (more == owed and more_part > owed_part) then
      more, more_part = owed, owed_part
    end
    whole, part = more, more_part
  elseif hits > capacity then
    verdict = NEVER
  else
    local more, more_part = muldivmod(hits, num, den)
    more, more_part = whole + more, part + more_part
    if more_part >= den then
      more, more_part = more + 1, more_part - den
    end
    if more > tolerance or (more == tolerance and more_part > tolerance_part) then
      verdict = -1 - (more - tolerance)
      if more_part > tolerance_part then
        verdict = verdict - 1
      end
    else
      if algorithm == 7 then
        verdict = whole
        if part > 0 then
          verdict = whole + 1
        end
      end
      whole, part = more, more_part
    end
  end
  local owes = whole > tolerance or (whole == tolerance and part > tolerance_part)
  if hits > 0 and (verdict >= 0 or moved) then
    kind, a, b, changed = algorithm, now + whole, part, true
    if owes then
      a = -a
    end
  end

  if not owes then
    local free, free_part = tolerance - whole, tolerance_part - part
    if free_part < 0 then
      free, free_part = free - 1, free_part + den
    end
    local rest
    remaining, rest = muldivmod(free, den, num)
    if den > 1 and rest + free_part >= num then
      remaining = remaining + floor((rest + free_part) / num)
    end
  end
  reset = whole
  if part > 0 then
    reset = whole + 1
  end
end
