-- tat.go: token_bucket, leaky_bucket, leaky_queue, gcra. A span is two numbers,
-- whole us and the numerator over den.
local capacity, num = quota, period
local BYTES(den, 7), BYTES(tolerance, 7), BYTES(part, 7) = byte(data, at + TAKE_BYTES, at + TAKE_BYTES + 20)
local den, tolerance, tolerance_part = WHOLE(den, 7), WHOLE(tolerance, 7), WHOLE(part, 7)
extra = 21
local whole, part, moved = 0, 0, false
if kind == algorithm then
  local tat, tat_part = a, b
  if tat > MAX_STORED or tat < 0 then
    tat = max(min(tat, MAX_STORED), 0)
  end
  if tat_part >= den then
    tat, tat_part = tat + 1, 0
  end
  if tat >= now then
    whole, part = tat - now, tat_part
    if whole > tolerance or (whole == tolerance and part > tolerance_part) then
      whole, part, moved = tolerance, tolerance_part, true
    end
  end
end

if refund > 0 then
  kind, changed, again = 0, true, true
  if refund <= capacity then
    local less, less_part = muldivmod(refund, num, den)
    if whole > less or (whole == less and part > less_part) then
      whole, part = whole - less, part - less_part
      if part < 0 then
        whole, part = whole - 1, part + den
      end
      kind, a, b = algorithm, now + whole, part
    end
  end
else
  if hits > capacity then
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
  if hits > 0 and (verdict >= 0 or moved) then
    kind, a, b, changed = algorithm, now + whole, part, true
  end

  local free, free_part = tolerance - whole, tolerance_part - part
  if free_part < 0 then
    free, free_part = free - 1, free_part + den
  end
  local rest
  remaining, rest = muldivmod(free, den, num)
  if den > 1 and rest + free_part >= num then
    remaining = remaining + floor((rest + free_part) / num)
  end
  reset = whole
  if part > 0 then
    reset = whole + 1
  end
end
