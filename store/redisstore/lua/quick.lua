-- quick.lua decides a hit alone, or one of a group of hits, whose limit counts in integers
-- (packed.go) and whose bucket holds one or nothing. What it cannot decide, with its group,
-- it leaves to what follows, and has written nothing then. The answer to a take is one
-- number, the state after it, below 0 where it is denied: the caller makes the rest.
if not unit then
  unit, unit_limit_at, unit_s, unit_filled, unit_held, queued = place, limit_at, s, filled, false, 0
end
local hits = op - 8
if op < 8 then
  place, hits = place + 1, byte(data, place + 1)
end
place, s, filled = place + 1, s + 1, filled + 1
local n, current, previous, known = packs_base, 0, 0, packs_base and op > 4 and hits > 0
local text = known and redis.call('GET', KEYS[s])
if text then
  n = #text == 16 and match(text, '^[1-9]%d*$') and text + 0 or 0
  local windows = floor(n / PACKED_WINDOW) - packs_base / PACKED_WINDOW
  if windows == 0 then
    current, previous = n % PACKED_COUNTS, floor(n / PACKED_COUNTS) % PACKED_COUNTS
    known = algorithm == 1 or previous == 0
  else
    -- One that is over. What is ahead is rare.
    windows = floor(n / PACKED_FORM) == packs_form and windows % 64 or 0
    known = windows > 60
    previous = windows == 63 and algorithm == 1 and n % PACKED_COUNTS or 0
  end
end
if known and current + hits < PACKED_COUNTS then
  local used = current + hits
  if previous > 0 then
    local weight, rest = muldivmod(previous, packs_left, period)
    used = used + (rest > 0 and weight + 1 or weight)
  end
  if used > quota then
    reply[filled], unit_held = -n, true
  else
    -- One that counts in its window already keeps its time to live.
    queue = queue or {}
    queue[queued + 1], queue[queued + 2], queue[queued + 3] = s, current > 0 and hits, current > 0 and n + hits
    if current == 0 then
      queue[queued + 3] = packs_base + previous * PACKED_COUNTS + hits
      queue[queued + 4] = packs_left + (algorithm == 1 and period or 0)
    end
    queued, reply[filled] = queued + 4, n
  end
  if op ~= 5 then
    for i = 1, unit_held and 0 or queued, 4 do
      local s, hits, n = queue[i], queue[i + 1], queue[i + 2]
      reply[unit_filled + s - unit_s] = n
      if hits then
        redis.call('INCRBY', KEYS[s], hits == 1 and '1' or format('%d', hits))
      else
        local ttl = format('%d', floor((queue[i + 3] + 999) / 1000) + TTL_MARGIN_MS)
        redis.call('SET', KEYS[s], format('%d', n), 'PX', ttl)
      end
    end
    unit = nil
  end
else
  place, jump, tried, s, filled, unit = unit_limit_at, unit, unit, unit_s, unit_filled, nil
end
