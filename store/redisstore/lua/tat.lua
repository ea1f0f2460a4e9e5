-- tat.go: token_bucket, leaky_bucket, leaky_queue, gcra. A span is two numbers,
-- whole us and the numerator over den.
local function decide(p, state, hits, refund)
  local capacity, num, den = ARGV[p] + 0, ARGV[p + 1] + 0, ARGV[p + 2] + 0
  local tolerance, tolerance_part = ARGV[p + 3] + 0, ARGV[p + 4] + 0
  local whole, part, moved = 0, 0, false
  if state and state[1] == algorithm then
    local tat, tat_part = max(min(state[2], MAX_STORED), 0), state[3]
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
    state = false
    if refund <= capacity then
      local less, less_part = muldivmod(refund, num, den)
      if whole > less or (whole == less and part > less_part) then
        whole, part = whole - less, part - less_part
        if part < 0 then
          whole, part = whole - 1, part + den
        end
        state = {algorithm, now + whole, part}
      end
    end
    return decide(p, state, 0, 0)
  end

  local flags, retry, delay = 2, 0, 0
  if hits <= capacity then
    local more, more_part = muldivmod(hits, num, den)
    more, more_part = whole + more, part + more_part
    if more_part >= den then
      more, more_part = more + 1, more_part - den
    end
    if more > tolerance or (more == tolerance and more_part > tolerance_part) then
      flags, retry = 0, more - tolerance
      if more_part > tolerance_part then
        retry = retry + 1
      end
    else
      flags = 1
      if algorithm == 7 then
        delay = whole
        if part > 0 then
          delay = whole + 1
        end
      end
      whole, part = more, more_part
    end
  end
  if hits > 0 and (flags == 1 or moved) then
    state = {algorithm, now + whole, part}
  end

  local free, free_part = tolerance - whole, tolerance_part - part
  if free_part < 0 then
    free, free_part = free - 1, free_part + den
  end
  local remaining, rest = muldivmod(free, den, num)
  if den > 1 and rest + free_part >= num then
    remaining = remaining + floor((rest + free_part) / num)
  end
  if part > 0 then
    whole = whole + 1
  end
  return state, flags, remaining, whole, retry, delay
end
return decide
