-- sliding_log.lua (sliding_log.go). The value is '4' and seven bytes for each stamp,
-- the high one first. A state is the stamps from .. from+kept-1 of the stored value
-- (which has had of them) and those of tail: n in all. So a hit is appended, and a
-- long log is probed, not read. head is a short value.
-- A log is read whole up to LOG_HEAD stamps, beyond that by probing.
-- Returns the log, or false, and whether Redis holds anything.
local function load(s)
  local whole = 1 + LOG_HEAD * STAMP_BYTES
  local head = redis.call('GETRANGE', KEYS[s], 0, whole)
  if head == '' then
    return false, false
  elseif head:byte(1) ~= 52 or #head == 16 then -- '4', but not of an integer
    return false, true
  end
  local length = #head
  if length > whole then
    length = redis.call('STRLEN', KEYS[s])
    head = nil
  end
  local n = floor((length - 1) / STAMP_BYTES)
  if n == 0 then
    return false, true
  end
  return {bucket = s, head = head, from = 0, kept = n, had = n, tail = '', n = n}, true
end

-- Returns the log in text, of which Redis may hold another form.
local function of(s, text)
  local n = floor((#text - 1) / STAMP_BYTES)
  return {bucket = s, head = text, from = 0, kept = n, had = -1, tail = '', n = n}
end

-- Returns the whole value.
local function text_of(s, state)
  local kept, first = '', 1 + state.from * STAMP_BYTES
  if state.head then
    kept = state.head:sub(first + 1, first + state.kept * STAMP_BYTES)
  elseif state.kept > 0 then
    kept = redis.call('GETRANGE', KEYS[s], first, first + state.kept * STAMP_BYTES - 1)
  end
  return '4' .. kept .. state.tail
end

local function save(s, state, ttl, terms)
  if not terms and state.from == 0 and state.kept == state.had then
    redis.call('APPEND', KEYS[s], state.tail)
    redis.call('PEXPIRE', KEYS[s], ttl)
    return
  end
  local text = text_of(s, state)
  if terms and terms.others then
    text, ttl = terms.head .. format('%d:', #text) .. text .. terms.tail, terms.ttl
  elseif terms then
    text = format('11 %d %d %d ', terms[1], terms[2], terms[3]) .. text
  end
  redis.call('SET', KEYS[s], text, 'PX', ttl)
end

local function encode(t)
  local bytes = {}
  for i = STAMP_BYTES, 1, -1 do
    bytes[i] = string.char(t % 256)
    t = floor(t / 256)
  end
  return table.concat(bytes)
end

local function decode(text, i)
  local a, b, c, d, e, f, g = text:byte(i, i + 6)
  return (((a * 256 + b) * 256 + c) * 256 + d) * 16777216 + (e * 256 + f) * 256 + g
end

-- Puts hits at an instant before all others of a log that of has made.
local function add_before(log, t, hits)
  log.tail, log.n = encode(t):rep(hits) .. log.tail, log.n + hits
end

-- Returns the stamp at index i, from 0.
local function stamp(log, i)
  if i >= log.kept then
    return decode(log.tail, (i - log.kept) * STAMP_BYTES + 1)
  end
  local offset = 1 + (log.from + i) * STAMP_BYTES
  if log.head then
    return decode(log.head, offset + 1)
  end
  return decode(redis.call('GETRANGE', KEYS[log.bucket], offset, offset + STAMP_BYTES - 1), 1)
end

local function first_after(log, t)
  local low, high = 0, log.n
  if high > 0 and stamp(log, 0) > t then
    return 0
  end
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
  return {bucket = log.bucket, head = log.head, had = log.had, from = from, kept = kept, tail = tail, n = kept + floor(#tail / STAMP_BYTES)}
end

local function drop_first(log, count)
  if count <= log.kept then
    return slice(log, log.from + count, log.kept - count, log.tail)
  end
  return slice(log, log.from, 0, log.tail:sub((count - log.kept) * STAMP_BYTES + 1))
end

local function keep_first(log, count)
  if count <= log.kept then
    return slice(log, log.from, count, '')
  end
  return slice(log, log.from, log.kept, log.tail:sub(1, (count - log.kept) * STAMP_BYTES))
end

-- Returns the index of the first stamp that counts, the log's now, moved.
local function hit_log_at(period, log)
  local at, moved = now, false
  if log.n == 0 then
    return 0, at, moved
  end
  local newest = stamp(log, log.n - 1)
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
  return slice(log, log.from, log.kept, log.tail .. encode(at):rep(bogus))
end

-- Returns the log with so many hits at an instant, and without the first stamps
-- when these are half of all.
local function append(log, first, at, hits)
  if 2 * first >= log.n then
    log = drop_first(log, first)
  end
  return slice(log, log.from, log.kept, log.tail .. encode(at):rep(hits))
end

local function open(s, state)
  if state then
    return state
  end
  return {bucket = s, head = false, had = -1, from = 0, kept = 0, tail = '', n = 0}
end

-- With charged the hits are added whether they fit or not.
local function decide(s, quota, period, state, hits, refund, charged)
  local log = open(s, state)
  local first, at, moved = hit_log_at(period, log)
  local used = log.n - first

  if refund > 0 then
    state = false
    if used > refund then
      if moved then
        log = settle(log, at)
      end
      log = drop_first(log, first)
      state = keep_first(log, log.n - refund)
    end
    return decide(s, quota, period, state, 0, 0)
  end

  if charged and hits > 0 then
    local added = min(hits, quota)
    if added > 0 then
      if moved then
        log = settle(log, at)
      end
      first = max(first, log.n + added - quota)
      state = append(log, first, at, added)
    end
    return decide(s, quota, period, state, 0, 0)
  end

  local allowed = used + hits <= quota
  local verdict = 0
  if not allowed then
    verdict = NEVER
    if hits <= quota then
      local over = used + hits - quota
      verdict = -1 - max(min(stamp(log, first + over - 1), at) + period - now, 1)
    end
  end
  if hits > 0 and (allowed or moved) then
    if moved then
      log = settle(log, at)
    end
    if allowed then
      log = append(log, first, at, hits)
      used = used + hits
    end
    state = log
  end
  local reset = 0
  if used > 0 then
    reset = max(min(stamp(log, log.n - 1), at) + period - now, 0)
  end
  return state, verdict, quota - used, reset
end

return decide, load, save, of, stamp, first_after, add_before, text_of
