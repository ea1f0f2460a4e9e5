-- Decides a batch of takes on the buckets of one Redis, in one atomic step.
-- The arithmetic is that of the Go package limit, function by function under
-- the same names; its files explain the formulas. Recorded vectors and random
-- traces hold the two together.
--
-- KEYS[s]  the name of bucket s, s = 1, 2, ...; each bucket once, however many
--          takes it has. The script touches no other key.
-- ARGV[1]  the instant to decide at, in microseconds since 1970; empty means
--          Redis's own clock (tests give one).
-- ARGV[2]  the latest instant at which the answer is wanted, in microseconds of
--          Redis's clock; 0 means any.
-- ARGV[3]  the number of the call, 0 .. 2^32-1, which the answer repeats.
-- ARGV[4..] the takes, each as
--   s          the bucket, 1 .. #KEYS
--   mode       three letters: h hit, r refund, z reset;
--              - alone, g first of a group, j joins the group before;
--              s shadow, - not
--   hits       0 .. 2^50
--   algorithm  1 + its number in Go, which is also the kind of its states; 9 is
--              fixed_window with calendar windows
--   and the numbers of the limit, in this order (all whole; times in us):
--   1 sliding_window  quota <= 2^50, count_denied 0|1, period < 2^45
--   2 fixed_window    the same
--   3 sub_windows     quota <= 2^50, count_denied 0|1, part < 2^45, parts 2 .. 60,
--                     strict 0|1
--   4 sliding_log     quota <= 10000, period < 2^45
--   5 token_bucket, 6 leaky_bucket, 7 leaky_queue, 8 gcra
--                     capacity < 2^46, num < 2^45 and den <= 2^45 (one hit drains
--                     in num/den us), tolerance < 2^51: its whole us, and its
--                     numerator over den
--   9 fixed_window    quota <= 2^50, count_denied 0|1, and five edges of the
--                     calendar in a row; the script decides from the first up to
--                     the fourth, since deciding takes the end of the next window
--
-- Returns {status, now, number of the call} and for each take five integers:
--   flags (1 allowed, 2 never), remaining, reset_after, retry_after, delay
-- with times in us. Status 0: decided. 1: the deadline has passed. 2: now is
-- outside of the edges of a calendar. With 1 and 2 nothing was read or written.
--
-- Why the numbers fit a double, which holds integers up to 2^53: instants stop
-- at 2^52 (the year 2112), stored ones at 2^53; counters stop at 2^51, so that a
-- counter and the hits of a request stay below 2^53; longer products are taken
-- by muldivmod in parts.

local floor, max, min = math.floor, math.max, math.min
local format, match, byte, sub, rep = string.format, string.match, string.byte, string.sub, string.rep

local MAX_INSTANT = 4503599627370496 -- 2^52
local MAX_STORED = 9007199254740991  -- 2^53 - 1
local MAX_COUNT = 2251799813685248   -- 2^51
local MAX_PERIOD = 31622400000000    -- 366 days
local TTL_MARGIN_MS = 1000
-- A log is read whole up to this many stamps, beyond that by probing.
local LOG_HEAD = 64
local STAMP = 7 -- bytes

-- Where the numbers of a take begin after its first, and how many each
-- algorithm has.
local FIRST, FIXED = 4, 4
local NUMBERS = {3, 3, 5, 2, 5, 5, 5, 5, 7}

-------------------------------------------------------------------------------
-- The clock, the deadline, the calendars
-------------------------------------------------------------------------------

local now
if ARGV[1] == '' then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
else
  now = tonumber(ARGV[1])
end
now = min(max(now, 0), MAX_INSTANT)

local reply = {0, now, tonumber(ARGV[3])}
local last = #ARGV

local deadline = tonumber(ARGV[2])
if deadline > 0 and now > deadline then
  reply[1] = 1
  return reply
end

do
  local at = FIRST
  while at <= last do
    local algorithm = tonumber(ARGV[at + 3])
    if algorithm == 9 then
      if now < tonumber(ARGV[at + 6]) or now >= tonumber(ARGV[at + 9]) then
        reply[1] = 2
        return reply
      end
    end
    at = at + FIXED + NUMBERS[algorithm]
  end
end

-------------------------------------------------------------------------------
-- rounding.go
-------------------------------------------------------------------------------

-- muldivmod returns floor(a*b/c) and the remainder, for 0 <= a, b < 2^53 and
-- 0 < c <= 2^51, if the quotient is below 2^53. A product below 2^53 is exact
-- (and so is the floor of its quotient, which is further from the next integer
-- than a double errs). A longer one is divided digit by digit of b, in a base
-- so small that no step exceeds 2^53.
local function muldivmod(a, b, c)
  -- The sum makes it a floating-point product where integers are another type.
  local product = (a + 0.0) * b
  if product < MAX_STORED then
    local quotient = floor(product / c)
    return quotient, product - quotient * c
  end
  local whole = floor(a / c)
  a = a - whole * c
  local base = floor(MAX_INSTANT / c)
  local power = 1
  while power * base <= b do
    power = power * base
  end
  local rest_of_b, quotient, remainder = b, 0, 0
  while power >= 1 do
    local digit = floor(rest_of_b / power)
    rest_of_b = rest_of_b - digit * power
    remainder = remainder * base + digit * a
    local step = floor(remainder / c)
    remainder = remainder - step * c
    quotient = quotient * base + step
    power = floor(power / base)
  end
  return whole * b + quotient, remainder
end

local function muldiv_ceil(a, b, c)
  local quotient, remainder = muldivmod(a, b, c)
  if remainder > 0 then
    quotient = quotient + 1
  end
  return quotient
end

local function clamp_stored(t)
  return max(min(t, MAX_STORED), 0)
end

local function clamp_count(n)
  return min(n, MAX_COUNT)
end

local function add_count(n, hits)
  return min(n + hits, MAX_COUNT)
end

-------------------------------------------------------------------------------
-- The buckets. A state is a table {kind, a, b, c, wide}, never changed once it
-- is made; false is an absent key. The log has fields of its own.
-------------------------------------------------------------------------------

local states = {}   -- by bucket; nil means not read yet
local changed = {}  -- by bucket: true is written at the end
local lifetime = {} -- by bucket: us after now, of those changed
local as_log = {}   -- by bucket: whether it was read as a log
local FOREIGN = {0} -- a value that the command by which it was read cannot tell

-- load_text reads a state of any kind but the log.
local function load_text(s)
  local text = redis.call('GET', KEYS[s])
  if not text then
    return false
  end
  local kind, a, b, c = match(text, '^([125-8]) (%-?%d+) (%d+) ?(%d*)$')
  if kind then
    return {tonumber(kind), tonumber(a), tonumber(b), tonumber(c) or 0}
  end
  local start, part, rest = match(text, '^3 (%d+) (%d+) ([%d ]+)$')
  if not start then
    return FOREIGN
  end
  local wide, n = {}, 0
  for count in string.gmatch(rest, '%d+') do
    n = n + 1
    wide[n] = tonumber(count)
  end
  return {3, tonumber(start), tonumber(part), 0, wide}
end

-- load_log reads the head of a log; see there.
local function load_log(s)
  local whole = 1 + LOG_HEAD * STAMP
  local head = redis.call('GETRANGE', KEYS[s], 0, whole)
  if head == '' then
    return false
  elseif byte(head, 1) ~= 52 then -- '4'
    return FOREIGN
  end
  local length = #head
  if length > whole then
    length = redis.call('STRLEN', KEYS[s])
    head = nil
  end
  local n = floor((length - 1) / STAMP)
  if n == 0 then
    return FOREIGN
  end
  return {4, bucket = s, head = head, from = 0, kept = n, had = n, tail = '', n = n}
end

local function load(s, algorithm)
  local state, is_log = states[s], algorithm == 4
  if state == nil or (state == FOREIGN and as_log[s] ~= is_log) then
    if is_log then
      state = load_log(s)
    else
      state = load_text(s)
    end
    states[s], as_log[s] = state, is_log
  end
  return state
end

local function save_log(s, state, ttl)
  if state.from == 0 and state.kept == state.had then
    redis.call('APPEND', KEYS[s], state.tail)
    redis.call('PEXPIRE', KEYS[s], ttl)
    return
  end
  local kept = ''
  if state.kept > 0 then
    local first = 1 + state.from * STAMP
    kept = redis.call('GETRANGE', KEYS[s], first, first + state.kept * STAMP - 1)
  end
  redis.call('SET', KEYS[s], '4' .. kept .. state.tail, 'PX', ttl)
end

-- save writes the state of a bucket with its time to live, which is the time in
-- which it becomes as if unused, rounded up to the millisecond, and a margin.
local function save(s)
  local state = states[s]
  if not state then
    redis.call('DEL', KEYS[s])
    return
  end
  local ttl = format('%.0f', floor((lifetime[s] + 999) / 1000) + TTL_MARGIN_MS)
  local kind = state[1]
  local text
  if kind == 4 then
    save_log(s, state, ttl)
    return
  elseif kind == 1 then
    text = format('1 %.0f %.0f %.0f', state[2], state[3], state[4])
  elseif kind == 3 then
    local wide, counts = state[5], {}
    for i = 1, #wide do
      counts[i] = format('%.0f', wide[i])
    end
    text = format('3 %.0f %.0f ', state[2], state[3]) .. table.concat(counts, ' ')
  else
    text = format('%d %.0f %.0f', kind, state[2], state[3])
  end
  redis.call('SET', KEYS[s], text, 'PX', ttl)
end

-------------------------------------------------------------------------------
-- The algorithms. section returns their two functions, with p the place of the
-- limit's numbers in ARGV:
--   decide(p, state, hits, s) -> state, flags, remaining, reset, retry, delay;
--     the state is another table when it is to be written
--   refund(p, state, hits, s) -> state
-- It is made once in a run for each algorithm that the batch has: making a
-- function costs as much as calling it.
-------------------------------------------------------------------------------

local function section(algorithm)
  -----------------------------------------------------------------------------
  -- sliding_window.go
  -----------------------------------------------------------------------------
  if algorithm == 1 then
    -- Returns start, elapsed, current, previous, moved.
    local function sliding_window_at(period, state)
      local into = now % period
      local start, elapsed = now - into, into
      if not state or state[1] ~= 1 then
        return start, elapsed, 0, 0, false
      end
      local stored, current, previous = clamp_stored(state[2]), clamp_count(state[3]), clamp_count(state[4])
      if stored == start then
        return start, elapsed, current, previous, false
      end
      into = stored % period
      if into ~= 0 then
        current, previous = add_count(current, previous), 0
      end
      if stored >= start + 2 * period then
        return start, elapsed, current, previous, true
      end
      local present = start
      if stored > now then
        start, elapsed = stored - into, into
      end
      if stored >= present then
        return start, elapsed, current, previous, false
      elseif stored >= present - period then
        return start, elapsed, 0, current, false
      end
      return start, elapsed, 0, 0, false
    end

    local function passes_at(period, quota, hits, start, current, previous)
      local room = quota - hits - current
      if room >= 0 then
        return start + period - (muldivmod(room, period, previous))
      end
      return start + 2 * period - (muldivmod(quota - hits, period, current))
    end

    local function decide(p, state, hits)
      local quota, count_denied, period = tonumber(ARGV[p]), ARGV[p + 1] == '1', tonumber(ARGV[p + 2])
      local start, elapsed, current, previous, moved = sliding_window_at(period, state)
      local used = current
      if previous > 0 then
        used = muldiv_ceil(previous, period - elapsed, period) + current
      end
      local allowed = used + hits <= quota
      local charge = hits > 0 and (allowed or count_denied)
      if charge then
        current = add_count(current, hits)
        used = used + hits
      end
      local reset = 0
      if current > 0 then
        reset = max(start + 2 * period - now, 0)
      elseif previous > 0 then
        reset = max(start + period - now, 0)
      end
      local flags, retry = 1, 0
      if not allowed then
        if hits > quota then
          flags = 2
        else
          flags, retry = 0, max(passes_at(period, quota, hits, start, current, previous) - now, 0)
        end
      end
      if charge or (moved and hits > 0) then
        state = {1, start, current, previous}
      end
      return state, flags, max(quota - used, 0), reset, retry, 0
    end

    local function refund(p, state, hits)
      local start, _, current, previous = sliding_window_at(tonumber(ARGV[p + 2]), state)
      local from_current = min(hits, current)
      current = current - from_current
      previous = previous - min(hits - from_current, previous)
      if current == 0 and previous == 0 then
        return false
      end
      return {1, start, current, previous}
    end

    return decide, refund
  end

  -----------------------------------------------------------------------------
  -- fixed_window.go
  -----------------------------------------------------------------------------
  if algorithm == 2 or algorithm == 9 then
    -- Returns start, finish, count, moved.
    local function fixed_window_at(p, state)
      local start, finish, next_finish
      if algorithm == 9 then
        local e = p + 2
        while now >= tonumber(ARGV[e + 1]) do
          e = e + 1
        end
        start, finish, next_finish = tonumber(ARGV[e]), tonumber(ARGV[e + 1]), tonumber(ARGV[e + 2])
      else
        local period = tonumber(ARGV[p + 2])
        start = now - now % period
        finish, next_finish = start + period, start + 2 * period
      end
      if not state or state[1] ~= 2 then
        return start, finish, 0, false
      end
      local stored, count = clamp_stored(state[2]), clamp_count(state[3])
      if stored >= next_finish then
        return start, finish, count, true
      elseif stored >= finish then
        return finish, next_finish, count, false
      elseif stored >= start then
        return start, finish, count, false
      end
      return start, finish, 0, false
    end

    local function decide(p, state, hits)
      local quota, count_denied = tonumber(ARGV[p]), ARGV[p + 1] == '1'
      local start, finish, count, moved = fixed_window_at(p, state)
      local allowed = count + hits <= quota
      local charge = hits > 0 and (allowed or count_denied)
      if charge then
        count = add_count(count, hits)
      end
      local reset = 0
      if count > 0 then
        reset = max(finish - now, 0)
      end
      local flags, retry = 1, 0
      if not allowed then
        if hits > quota then
          flags = 2
        else
          flags, retry = 0, max(finish - now, 0)
        end
      end
      if charge or (moved and hits > 0) then
        state = {2, start, count}
      end
      return state, flags, max(quota - count, 0), reset, retry, 0
    end

    local function refund(p, state, hits)
      local start, _, count = fixed_window_at(p, state)
      if count <= hits then
        return false
      end
      return {2, start, count - hits}
    end

    return decide, refund
  end

  -----------------------------------------------------------------------------
  -- sub_windows.go. Parts are numbered from 0, the newest; wide[1] is part 0.
  -----------------------------------------------------------------------------
  if algorithm == 3 then
    local MAX_PARTS = 61

    local function carry(parts, state, stored, width)
      local wide = state[5]
      local length = min(#wide, MAX_PARTS)
      local gone = 0
      if stored < now then
        gone = min(floor((now - stored) / width), length)
      end
      for i = 1, length - gone do
        parts.carried = add_count(parts.carried, clamp_count(wide[i]))
      end
      parts.total = parts.carried
      parts.moved = parts.total > 0
      return parts
    end

    local function parts_at(width, n, state)
      local elapsed = now % width
      local parts = {start = now - elapsed, elapsed = elapsed, shift = 0, counts = false, carried = 0, total = 0, moved = false}
      if not state or state[1] ~= 3 or #state[5] == 0 or state[3] < 1 or state[3] > MAX_PERIOD then
        return parts
      end
      local stored, wide = clamp_stored(state[2]), state[5]
      if state[3] ~= width or #wide ~= n + 1 or stored % width ~= 0 then
        return carry(parts, state, stored, state[3])
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
        parts.total = parts.total + clamp_count(wide[i - parts.shift + 1])
      end
      return parts
    end

    local function at(parts, i)
      if i < parts.shift or not parts.counts then
        return 0
      end
      return clamp_count(parts.counts[i - parts.shift + 1] or 0)
    end

    local function used_of_parts(parts, width, n, strict)
      if strict or parts.elapsed == 0 then
        return parts.total
      end
      local oldest = at(parts, n)
      if oldest == 0 then
        return parts.total
      end
      return parts.total - oldest + muldiv_ceil(oldest, width - parts.elapsed, width)
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
      return {3, parts.start, width, 0, wide}
    end

    local function decide(p, state, hits)
      local quota, count_denied, width = tonumber(ARGV[p]), ARGV[p + 1] == '1', tonumber(ARGV[p + 2])
      local n, strict = tonumber(ARGV[p + 3]), ARGV[p + 4] == '1'
      local parts = parts_at(width, n, state)
      local used = used_of_parts(parts, width, n, strict)
      local allowed = used + hits <= quota
      local charge = hits > 0 and (allowed or count_denied)
      if charge then
        local added = max(min(hits, MAX_COUNT - parts.total), 0)
        parts.carried = parts.carried + added
        parts.total = parts.total + added
        used = used + added
      end
      local reset = max(parts_unused_at(parts, width, n) - now, 0)
      local flags, retry = 1, 0
      if not allowed then
        if hits > quota then
          flags = 2
        else
          flags, retry = 0, max(parts_pass_at(parts, width, n, strict, quota - hits) - now, 0)
        end
      end
      if charge or (parts.moved and hits > 0) then
        state = parts_state(parts, width, n)
      end
      return state, flags, max(quota - used, 0), reset, retry, 0
    end

    local function refund(p, state, hits)
      local width, n = tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3])
      local parts = parts_at(width, n, state)
      if parts.total <= hits then
        return false
      end
      state = parts_state(parts, width, n)
      local wide = state[5]
      for i = 1, n + 1 do
        local taken = min(hits, wide[i])
        wide[i] = wide[i] - taken
        hits = hits - taken
      end
      return state
    end

    return decide, refund
  end

  -----------------------------------------------------------------------------
  -- sliding_log.go. The value is '4' and seven bytes for each stamp, the high
  -- one first. A state is the stamps from .. from+kept-1 of the stored value
  -- (which has had of them) and those of tail: n in all. So a hit is appended, and
  -- a long log is probed, not read. head is the value when that is short.
  -----------------------------------------------------------------------------
  if algorithm == 4 then
    local function encode(t)
      local bytes = {}
      for i = STAMP, 1, -1 do
        bytes[i] = string.char(t % 256)
        t = floor(t / 256)
      end
      return table.concat(bytes)
    end

    local function decode(text, i)
      local a, b, c, d, e, f, g = byte(text, i, i + 6)
      return (((a * 256 + b) * 256 + c) * 256 + d) * 16777216 + (e * 256 + f) * 256 + g
    end

    -- Returns the stamp at index i, from 0.
    local function stamp(log, i)
      if i >= log.kept then
        return decode(log.tail, (i - log.kept) * STAMP + 1)
      end
      local offset = 1 + (log.from + i) * STAMP
      if log.head then
        return decode(log.head, offset + 1)
      end
      return decode(redis.call('GETRANGE', KEYS[log.bucket], offset, offset + STAMP - 1), 1)
    end

    local function first_after(log, t)
      local low, high = 0, log.n
      while low < high do
        local middle = floor((low + high) / 2)
        if stamp(log, middle) > t then
          high = middle
        else
          low = middle + 1
        end
      end
      return low
    end

    local function slice(log, from, kept, tail)
      return {4, bucket = log.bucket, head = log.head, had = log.had, from = from, kept = kept, tail = tail, n = kept + #tail / STAMP}
    end

    local function drop_first(log, count)
      if count <= log.kept then
        return slice(log, log.from + count, log.kept - count, log.tail)
      end
      return slice(log, log.from, 0, sub(log.tail, (count - log.kept) * STAMP + 1))
    end

    local function keep_first(log, count)
      if count <= log.kept then
        return slice(log, log.from, count, '')
      end
      return slice(log, log.from, log.kept, sub(log.tail, 1, (count - log.kept) * STAMP))
    end

    -- Returns the index of the first stamp that counts, the log's now, moved.
    local function hit_log_at(period, log)
      local at, moved = now, false
      if log.n == 0 then
        return 0, at, moved
      end
      local newest = clamp_stored(stamp(log, log.n - 1))
      if newest > now then
        if newest - now <= period then
          at = newest
        else
          moved = true
        end
      end
      return first_after(log, at - period), at, moved
    end

    local function settle(log, at)
      local good = first_after(log, at)
      if good == log.n then
        return log
      end
      local bogus = log.n - good
      log = keep_first(log, good)
      return slice(log, log.from, log.kept, log.tail .. rep(encode(at), bogus))
    end

    local function open(s, state)
      if state and state[1] == 4 then
        return state
      end
      return {4, bucket = s, head = false, had = -1, from = 0, kept = 0, tail = '', n = 0}
    end

    local function decide(p, state, hits, s)
      local quota, period = tonumber(ARGV[p]), tonumber(ARGV[p + 1])
      local log = open(s, state)
      local first, at, moved = hit_log_at(period, log)
      local used = log.n - first
      local allowed = used + hits <= quota
      local flags, retry = 1, 0
      if not allowed then
        if hits > quota then
          flags = 2
        else
          local over = used + hits - quota
          flags, retry = 0, max(min(clamp_stored(stamp(log, first + over - 1)), at) + period - now, 1)
        end
      end
      if hits > 0 and (allowed or moved) then
        log = settle(log, at)
        if allowed then
          if 2 * first >= log.n then
            log = drop_first(log, first)
          end
          log = slice(log, log.from, log.kept, log.tail .. rep(encode(at), hits))
          used = used + hits
        end
        state = log
      end
      local reset = 0
      if used > 0 then
        reset = max(min(clamp_stored(stamp(log, log.n - 1)), at) + period - now, 0)
      end
      return state, flags, max(quota - used, 0), reset, retry, 0
    end

    local function refund(p, state, hits, s)
      local log = open(s, state)
      local first, at = hit_log_at(tonumber(ARGV[p + 1]), log)
      if log.n - first <= hits then
        return false
      end
      log = settle(log, at)
      return keep_first(log, log.n - hits)
    end

    return decide, refund
  end

  -----------------------------------------------------------------------------
  -- tat.go: token_bucket, leaky_bucket, leaky_queue, gcra. A span is two
  -- numbers, whole us and the numerator over den.
  -----------------------------------------------------------------------------
  local function exceeds(a_whole, a_part, b_whole, b_part)
    return a_whole > b_whole or (a_whole == b_whole and a_part > b_part)
  end

  local function up(whole, part)
    if part > 0 then
      return whole + 1
    end
    return whole
  end

  -- Returns whole, part, moved.
  local function backlog_at(p, state)
    if not state or state[1] ~= algorithm then
      return 0, 0, false
    end
    local den, tolerance, tolerance_part = tonumber(ARGV[p + 2]), tonumber(ARGV[p + 3]), tonumber(ARGV[p + 4])
    local whole, part = clamp_stored(state[2]), state[3]
    if part >= den then
      whole, part = whole + 1, 0
    end
    if whole < now then
      return 0, 0, false
    end
    whole = whole - now
    if exceeds(whole, part, tolerance, tolerance_part) then
      return tolerance, tolerance_part, true
    end
    return whole, part, false
  end

  local function hits_in(whole, part, num, den)
    local hits, rest = muldivmod(whole, den, num)
    rest = rest + part
    if den > 1 and rest >= num then
      hits = hits + floor(rest / num)
    end
    return hits
  end

  local function decide(p, state, hits)
    local capacity, num, den = tonumber(ARGV[p]), tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2])
    local tolerance, tolerance_part = tonumber(ARGV[p + 3]), tonumber(ARGV[p + 4])
    local whole, part, moved = backlog_at(p, state)
    local flags, retry, delay = 2, 0, 0
    if hits <= capacity then
      local more, more_part = muldivmod(hits, num, den)
      more, more_part = whole + more, part + more_part
      if more_part >= den then
        more, more_part = more + 1, more_part - den
      end
      if exceeds(more, more_part, tolerance, tolerance_part) then
        flags = 0
        retry = up(more - tolerance, more_part - tolerance_part)
      else
        flags = 1
        if algorithm == 7 then
          delay = up(whole, part)
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
    return state, flags, hits_in(free, free_part, num, den), up(whole, part), retry, delay
  end

  local function refund(p, state, hits)
    local capacity, num, den = tonumber(ARGV[p]), tonumber(ARGV[p + 1]), tonumber(ARGV[p + 2])
    local whole, part = backlog_at(p, state)
    if hits > capacity then
      return false
    end
    local less, less_part = muldivmod(hits, num, den)
    if not exceeds(whole, part, less, less_part) then
      return false
    end
    whole, part = whole - less, part - less_part
    if part < 0 then
      whole, part = whole - 1, part + den
    end
    return {algorithm, now + whole, part}
  end

  return decide, refund
end

local sections = {}

-- take decides the take at ARGV[at] as if it stood alone, keeps what it changes
-- for the end, and returns flags, remaining, reset, retry, delay. peek makes it
-- a peek.
local function take(at, peek)
  local s, op, hits, algorithm = tonumber(ARGV[at]), byte(ARGV[at + 1], 1), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local functions = sections[algorithm]
  if not functions then
    functions = {section(algorithm)}
    sections[algorithm] = functions
  end
  local decide, p = functions[1], at + FIXED
  local before = load(s, algorithm)
  local state = before
  if peek then
    hits = 0
  elseif op == 114 then -- r
    if before and hits > 0 then
      state = functions[2](p, before, hits, s)
    end
    hits = 0
  elseif op == 122 then -- z
    state, hits = false, 0
  end
  local after, flags, remaining, reset, retry, delay = decide(p, state, hits, s)
  if after ~= before then
    states[s], changed[s], lifetime[s] = after, true, reset
  end
  return flags, remaining, reset, retry, delay
end

local filled = 3
local function answer(flags, remaining, reset, retry, delay)
  reply[filled + 1], reply[filled + 2], reply[filled + 3] = flags, remaining, reset
  reply[filled + 4], reply[filled + 5] = retry, delay
  filled = filled + 5
end

-- group decides the takes of a group, from ARGV[at] on, and returns the place
-- after the last. Each is charged as if it stood alone; when one that is no
-- shadow is denied, all of that is forgotten, and those that would have passed
-- answer as a peek does.
local function group(at)
  local places, answers, before = {}, {}, {}
  local n, held = 0, false
  repeat
    local s = tonumber(ARGV[at])
    if not before[s] then
      load(s, tonumber(ARGV[at + 3]))
      before[s] = {states[s], changed[s], lifetime[s]}
    end
    n = n + 1
    places[n] = at
    answers[n] = {take(at)}
    local op, _, shadow = byte(ARGV[at + 1], 1, 3)
    if op == 104 and answers[n][1] ~= 1 and shadow ~= 115 then -- h, s
      held = true
    end
    at = at + FIXED + NUMBERS[tonumber(ARGV[at + 3])]
  until at > last or byte(ARGV[at + 1], 2) ~= 106 -- j
  if held then
    for s, was in pairs(before) do
      states[s], changed[s], lifetime[s] = was[1], was[2], was[3]
    end
  end
  for i = 1, n do
    local a = answers[i]
    if held and (a[1] == 1 or byte(ARGV[places[i] + 1], 1) ~= 104) then
      answer(take(places[i], true))
    else
      answer(a[1], a[2], a[3], a[4], a[5])
    end
  end
  return at
end

local at = FIRST
while at <= last do
  if byte(ARGV[at + 1], 2) == 45 then -- '-'
    answer(take(at))
    at = at + FIXED + NUMBERS[tonumber(ARGV[at + 3])]
  else
    at = group(at)
  end
end

for s = 1, #KEYS do
  if changed[s] then
    save(s)
  end
end

return reply
