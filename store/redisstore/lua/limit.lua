-- limit.lua reads the record of a limit, and moves place on: to what follows it, or to
-- jump where that is set. It is no function, because one with as many variables costs
-- more than a take.
local BYTES(quota_, 7), BYTES(period_, 7)
algorithm, counts_denied, BYTES(quota_, 7), BYTES(period_, 7) = byte(data, place + 1, place + 16)
quota, period = WHOLE(quota_, 7), WHOLE(period_, 7)
limit_at, at = place, place + 17 - TAKE_BYTES
own_form, rare, packs_base, drain_form = nil, nil, nil, nil
MARK
if algorithm < 3 or algorithm == CALENDAR then
  if byte(limit_mark) == 48 or limit_mark == '' then -- '0'
    own_form = algorithm == 1 and '^1 (%d+) (%d+) (0*)(%d+)$' or '^2 (%d+) (0*)(%d+)$'
  else
    own_form = (algorithm == 1 and '^1 (%d+) (%d+) (' or '^2 (%d+) (') .. limit_mark .. ')(%d+)$'
  end
elseif algorithm == 8 then
  own_form = '^8 (%-?%d+) (%d+)$'
elseif algorithm == 5 then
  own_form = '^5 (%-?%d+) (%d+)$'
elseif algorithm == 6 then
  own_form = '^6 (%-?%d+) (%d+)$'
elseif algorithm == 10 then
  own_form = '^10 (%d+) (%d+) (0*)(%d+)$'
end
if packs and not dry and algorithm < 3 and counts_denied < 2 and byte(limit_mark) == 48 then
  packs_form = #limit_mark % 4 + (algorithm == 1 and 1 or 5)
  if packs_form < 8 then
    packs_base = packs_form * PACKED_FORM + floor(now / period) % 64 * PACKED_WINDOW
    packs_left = period - now % period
  end
elseif (algorithm == 8 or algorithm == 5 or algorithm == 6) and not dry and counts_denied % 8 == 0 then
  local BYTES(den, 7), BYTES(whole, 7), BYTES(part, 7) = byte(data, at + TAKE_BYTES, at + TAKE_BYTES + 20)
  drain_den, drain_reach = WHOLE(den, 7), WHOLE(whole, 7)
  if (drain_reach + 0.0) * drain_den < MAX_INSTANT - drain_den then
    drain_most = drain_reach * drain_den + WHOLE(part, 7)
    if drain_den > 1 then
      drain_form = algorithm == 8 and '^8 (%d+) (%d+)$' or algorithm == 5 and '^5 (%d+) (%d+)$' or '^6 (%d+) (%d+)$'
      drain_text = algorithm == 8 and '8 %d %d' or algorithm == 5 and '5 %d %d' or '6 %d %d'
    else
      drain_form = algorithm == 8 and '^8 (%d+) 0$' or algorithm == 5 and '^5 (%d+) 0$' or '^6 (%d+) 0$'
      drain_text = algorithm == 8 and '8 %d 0' or algorithm == 5 and '5 %d 0' or '6 %d 0'
    end
  end
end
if jump then
  place, jump = jump, nil
else
  if place > limits_until then -- for the first time
    limits_until, limits_said = place, limits_said + 1
    limits[limits_said] = packs_base and {
      packs_base, quota, algorithm == 1 and PACKED_WINDOW or PACKED_COUNTS, packs_left, period,
      limit_at, at, algorithm, packs_form, limit_mark, own_form, counts_denied,
    } or {false, limit_at}
  end
  place = place + 17
  if algorithm == CALENDAR then
    place = place + 35
  elseif algorithm == 10 then
    place = place + 7
  elseif algorithm > 4 and algorithm < 9 then
    place = place + 28
  elseif algorithm == 3 then
    place = place + 2
  end
  if counts_denied > 7 then -- with a bound of its debts
    place = place + 7
  end
end
if counts_denied > 1 then
  local limit_terms, resets, max_debt
TERMS
  rare = {limit_terms, resets, max_debt}
end
if algorithm == 3 and not sub_windows then
  sub_windows = (function()
SUB_WINDOWS
  end)()
elseif algorithm == 4 and not sliding_log then
  sliding_log, load_log, save_log, log_of, log_stamp, log_after, log_before, log_text = (function()
SLIDING_LOG
  end)()
elseif algorithm == 9 and not concurrency then
  concurrency = (function()
CONCURRENCY
  end)()
end
