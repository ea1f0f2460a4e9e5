-- head.lua begins every script that decides: what it is told before the takes, and
-- the arithmetic of the Go package limit, function by function under the same names;
-- its files explain the formulas. Vectors and random traces hold the two together.
--
-- KEYS[s]  the name of bucket s, s = 1, 2, ...; each bucket once, however many
--          takes it has. A script touches no other key.
-- ARGV[1]  all else, in bytes. Numbers have seven bytes where nothing else is
--          said, the high one first, and are whole; times are in microseconds.
--   now       the instant to decide at, since 1970; 0 means Redis's own clock
--             (tests give one)
--   deadline  the latest instant at which the answer is wanted, of Redis's
--             clock; 0 means any
--   number    of the call, in four bytes, which the answer repeats
--   flags     one byte: 1 if the next two are there, 2 if the caller wants to
--             know the previous count of sliding windows, 4 for a dry run: all is
--             decided, and nothing written, and 8 if all nodes read window counters
--             that are one integer, so that they may be written
--   from, to  what all calendars know: now must be in [from, to). Instants of a
--             calendar may be before 1970 and have 2^48 added
-- and what the scripts say themselves. All describe a limit so:
--   algorithm one byte: 1 + its number in Go, which is also the kind of its
--             states; 100 is fixed_window with calendar windows
--   denied    one byte: 1 if denied hits count, and the bits of terms.lua
--   quota     or the capacity of a bucket, <= 2^50
--   period    < 2^45: of 3 that of a part, of 5 to 8 num (one hit drains in
--             num/den us), of 100 its unit: 1 day, 2 week, 3 month, 4 year
--   and for some algorithms
--   3 sub_windows     parts 2 .. 60 and strict 0|1, one byte each
--   5 token_bucket, 6 leaky_bucket, 7 leaky_queue, 8 gcra
--                     den <= 2^45, tolerance < 2^51: its whole us, and its
--                     numerator over den; the period of the limit
--   10 ban            how long it lasts, < 2^45
--   100          five edges of the calendar in a row; the script decides
--                     from the first up to the fourth, since deciding takes the
--                     end of the next window
--   and last max_debt, if the bits of denied say so
-- and where each take has its own limit, it is 30 and what some algorithms
-- have beyond that:
--   op, group, shadow, shared   one byte each; see take.lua
--   s         three bytes: the bucket
--   algorithm, denied, hits (0 .. 2^50), quota, period
--
-- Returns {status + 4 * number of the call, now} and what the script says. Status
-- 0: decided. 1: the deadline has passed. 2: now is outside of the edges of a
-- calendar. With 1 and 2 nothing was written, and nothing more is said.
--
-- Why the numbers fit a double, which holds integers up to 2^53: instants stop
-- at 2^52 (the year 2112), stored ones at 2^53; counters stop at 2^51, so that a
-- counter and the hits of a request stay below 2^53, and so does a hold; longer
-- products are taken
-- by muldivmod in parts.
--
-- Why it is built as it is: each call runs it from its first line, where a function
-- or a table costs as much as a command of Redis; so does an argument, or text of a
-- number but by %d. So what only some batches need is made only in those, and the
-- algorithms are blocks, not functions. script.go puts in names in capitals.

local floor, max, min = math.floor, math.max, math.min
local byte, match, format, data = string.byte, string.match, string.format, ARGV[1]

local now1, now2, now3, now4, now5, now6, now7, deadline1, deadline2, deadline3, deadline4, deadline5, deadline6, deadline7, number1, number2, number3, number4, flags = byte(data, 1, 19)
local now, deadline, number = ((((((now1) * 256 + now2) * 256 + now3) * 256 + now4) * 256 + now5) * 256 + now6) * 256 + now7, ((((((deadline1) * 256 + deadline2) * 256 + deadline3) * 256 + deadline4) * 256 + deadline5) * 256 + deadline6) * 256 + deadline7, (((number1) * 256 + number2) * 256 + number3) * 256 + number4
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if now > 4503599627370496 then
  now = 4503599627370496
end
if deadline > 0 and now > deadline then
  return {4 * number + 1, now}
end

local tells, dry, packs = floor(flags / 2) % 2 == 1, floor(flags / 4) % 2 == 1, flags > 7
local at, instant = 20, nil
local seen = 0 -- the previous count of the last sliding window
if flags % 2 == 1 then
  -- instant reads the one of a calendar at place i.
  instant = function(i)
    local n1, n2, n3, n4, n5, n6, n7 = byte(data, i, i + 6)
    return ((((((n1) * 256 + n2) * 256 + n3) * 256 + n4) * 256 + n5) * 256 + n6) * 256 + n7 - 281474976710656
  end
  if now < instant(20) or now >= instant(27) then
    return {4 * number + 2, now}
  end
  at = 34
end

-- muldivmod (rounding.go) returns floor(a*b/c) and the remainder, for
-- 0 <= a, b < 2^53 and 0 < c <= 2^51, if the quotient is below 2^53. A product
-- below 2^53 is exact (and so is the floor of its quotient, which is further
-- from the next integer than a double errs). A longer one is divided digit by
-- digit of b, in a base so small that no step exceeds 2^53.
local function muldivmod(a, b, c)
  -- Where integers are a type of their own and wrap around, the sums make
  -- floating-point products, and floor makes integers again.
  local product = (a + 0.0) * b
  if product < 9007199254740991 then
    local quotient = floor(product / c)
    return quotient, a * b - quotient * c
  end
  local whole = floor(a / c)
  a = a - whole * c
  local base = floor(4503599627370496 / c) + 0.0
  local power = 1
  while power * base <= b do
    power = power * base
  end
  local rest, quotient, remainder = b, 0, 0
  while power >= 1 do
    local digit = floor(rest / power)
    rest = rest - digit * power
    remainder = remainder * base + digit * a
    local step = floor(remainder / c)
    remainder = remainder - step * c
    quotient = quotient * base + step
    power = floor(power / base)
  end
  return floor(whole * b + quotient), floor(remainder)
end
-- lease.lua answers requests for leases on the buckets of one slot, each in one step: an
-- earlier lease ends and hits of it are given back, then hits are granted. The rules are
-- those of store.Leaser, the arithmetic that of limit.Return and limit.Lease. This
-- stands after head.lua, which reads the head of ARGV[1].
--
-- KEYS     first the names of the buckets, then in the same order those of their
--          registers
-- ARGV[1]  the head, and for each request a take without op and group, in the
--          words of head.lua: hits is how many are wanted. Its algorithms are 1, 2,
--          3, 5, 6, 8 and that with calendar windows; others are not leased
-- ARGV[2]  for each request 37 more bytes
--   id       of the new lease, eight bytes
--   return   the lease that ends, eight bytes; all zero is none
--   give     how many hits of it, 0 .. 2^50, in seven bytes as the others
--   share    1 .. 2^50
--   ttl      0 .. 2^50 us
--
-- Returns {status + 4 * number of the call, now} and for each request
--   granted, lasts, returned (0 or 1)
--   verdict, remaining, reset_after   as of a peek, or of one hit if none remains
-- with status and times as in head.lua.
--
-- A register is bytes: the latest end of any lease since it was empty, the sum of
-- their hits (which stops at 2^52) and when one was last granted or returned, seven
-- bytes each, then the leases in the order of their grants, 22 each: id, hits,
-- end. It lives as long as its last lease, and a margin.

local find, sub, char, fields = string.find, string.sub, string.char, ARGV[2]
local no_lease = string.rep('\0', 8)

-- seven writes a number of seven bytes.
local function seven(n)
  return char(floor(n / 281474976710656) % 256, floor(n / 1099511627776) % 256, floor(n / 4294967296) % 256, floor(n / 16777216) % 256, floor(n / 65536) % 256, floor(n / 256) % 256, n % 256)
end

-- two reads two such numbers.
local function two(text, i)
  local x1, x2, x3, x4, x5, x6, x7, y1, y2, y3, y4, y5, y6, y7 = byte(text, i, i + 13)
  return ((((((x1) * 256 + x2) * 256 + x3) * 256 + x4) * 256 + x5) * 256 + x6) * 256 + x7, ((((((y1) * 256 + y2) * 256 + y3) * 256 + y4) * 256 + y5) * 256 + y6) * 256 + y7
end

-- place returns where the lease with an id begins in leases.
local function place(leases, id)
  local p = find(leases, id, 1, true)
  while p and (p - 1) % 22 ~= 0 do
    p = find(leases, id, p + 1, true)
  end
  return p
end

local sub_windows, sliding_log, carry, note
local load_log, save_log, log_of, log_stamp, log_after, log_before, log_text
local reply, filled, last, field, buckets = {4 * number, now, 0, 0, 0, 0, 0, 0}, 2, #data, 1, #KEYS / 2
while at <= last do
  local op, group, shadow, shared, s1, s2, s3, algorithm, denied, want1, want2, want3, want4, want5, want6, want7, quota1, quota2, quota3, quota4, quota5, quota6, quota7, period1, period2, period3, period4, period5, period6, period7 = byte(data, at, at + 30 - 1)
  local s, want, quota, period = ((s1) * 256 + s2) * 256 + s3, ((((((want1) * 256 + want2) * 256 + want3) * 256 + want4) * 256 + want5) * 256 + want6) * 256 + want7, ((((((quota1) * 256 + quota2) * 256 + quota3) * 256 + quota4) * 256 + quota5) * 256 + quota6) * 256 + quota7, ((((((period1) * 256 + period2) * 256 + period3) * 256 + period4) * 256 + period5) * 256 + period6) * 256 + period7
  local id, back = sub(fields, field, field + 7), sub(fields, field + 8, field + 15)
  local give1, give2, give3, give4, give5, give6, give7, share1, share2, share3, share4, share5, share6, share7, ttl1, ttl2, ttl3, ttl4, ttl5, ttl6, ttl7 = byte(fields, field + 16, field + 36)
  local give, share, lasts = ((((((give1) * 256 + give2) * 256 + give3) * 256 + give4) * 256 + give5) * 256 + give6) * 256 + give7, ((((((share1) * 256 + share2) * 256 + share3) * 256 + share4) * 256 + share5) * 256 + share6) * 256 + share7, ((((((ttl1) * 256 + ttl2) * 256 + ttl3) * 256 + ttl4) * 256 + ttl5) * 256 + ttl6) * 256 + ttl7
  local own, is_bucket, limit_mark = algorithm, algorithm > 4 and algorithm < 9, ''
  if algorithm == 100 then
    own = 2
  elseif algorithm == 3 and not sub_windows then
    sub_windows = (function()
-- sub_windows.lua (sub_windows.go). A state is {start, width, wide}; wide[1] is
-- part 0, the newest.

local function carry(parts, state, stored, width)
  local wide = state[3]
  local length = min(#wide, 61)
  local gone = 0
  if stored < now then
    gone = min(floor((now - stored) / width), length)
  end
  for i = 1, length - gone do
    parts.carried = min(parts.carried + min(wide[i], 2251799813685248), 2251799813685248)
  end
  parts.total = parts.carried
  parts.moved = parts.total > 0
  return parts
end

local function parts_at(width, n, state)
  local elapsed = now % width
  local parts = {start = now - elapsed, elapsed = elapsed, shift = 0, counts = false, carried = 0, total = 0, moved = false}
  if not state or #state[3] == 0 or state[2] < 1 or state[2] > 31622400000000 then
    return parts
  end
  local stored, wide = max(min(state[1], 9007199254740991), 0), state[3]
  if state[2] ~= width or #wide ~= n + 1 or stored % width ~= 0 then
    return carry(parts, state, stored, state[2])
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
    parts.total = parts.total + min(wide[i - parts.shift + 1], 2251799813685248)
  end
  return parts
end

local function at(parts, i)
  if i < parts.shift or not parts.counts then
    return 0
  end
  return min(parts.counts[i - parts.shift + 1] or 0, 2251799813685248)
end

local function used_of_parts(parts, width, n, strict)
  if strict or parts.elapsed == 0 then
    return parts.total
  end
  local oldest = at(parts, n)
  if oldest == 0 then
    return parts.total
  end
  local weight, rest = muldivmod(oldest, width - parts.elapsed, width)
  if rest > 0 then
    weight = weight + 1
  end
  return parts.total - oldest + weight
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
  return {parts.start, width, wide}
end

local function decide(quota, count_denied, width, n, strict, state, hits, refund, debt)
  local parts = parts_at(width, n, state)

  if refund > 0 then
    state = false
    if parts.total > refund then
      state = parts_state(parts, width, n)
      local wide = state[3]
      for i = 1, n + 1 do
        local taken = min(refund, wide[i])
        wide[i] = wide[i] - taken
        refund = refund - taken
      end
    end
    return decide(quota, count_denied, width, n, strict, state, 0, 0)
  end

  local used = used_of_parts(parts, width, n, strict)
  if debt then
    hits = max(min(hits, quota + debt - used), 0)
  end
  local allowed = used + hits <= quota
  local charge = hits > 0 and (allowed or count_denied)
  if charge then
    local added = max(min(hits, 2251799813685248 - parts.total), 0)
    parts.carried = parts.carried + added
    parts.total = parts.total + added
    used = used + added
  end
  local reset = max(parts_unused_at(parts, width, n) - now, 0)
  local verdict = 0
  if not allowed then
    verdict = -9007199254740992
    if hits <= quota then
      verdict = -1 - max(parts_pass_at(parts, width, n, strict, quota - hits) - now, 0)
    end
  end
  if charge or (parts.moved and hits > 0) then
    state = parts_state(parts, width, n)
  end
  return state, verdict, quota - used, reset
end
return decide
    end)()
  end
  local counts_denied, limit_terms, resets, max_debt = denied, nil, nil, nil
  if counts_denied > 1 then
-- terms.lua reads what the bits of counts_denied say of a limit: 2 that it carries
-- over the share that was used, 4 that it begins anew, 8 that it has max_debt, which
-- stands behind all else.
local behind = at + 30
if algorithm == 100 then
  behind = behind + 35
elseif algorithm > 4 and algorithm < 9 then
  behind = behind + 28
elseif algorithm == 3 then
  behind = behind + 2
end
if counts_denied >= 8 then
  local n1, n2, n3, n4, n5, n6, n7 = byte(data, behind, behind + 6)
  max_debt, counts_denied = ((((((n1) * 256 + n2) * 256 + n3) * 256 + n4) * 256 + n5) * 256 + n6) * 256 + n7, counts_denied - 8
end
if counts_denied > 1 then
  resets = counts_denied > 3
  limit_terms = {quota, period, 0}
  if algorithm == 100 then
    limit_terms[3] = 1
  elseif algorithm == 3 then
    limit_terms[2] = period * byte(data, at + 30)
  elseif algorithm > 4 then
    local den1, den2, den3, den4, den5, den6, den7 = byte(data, at + 30, at + 30 + 6)
    limit_terms[3] = ((((((den1) * 256 + den2) * 256 + den3) * 256 + den4) * 256 + den5) * 256 + den6) * 256 + den7
  end
end
counts_denied = counts_denied % 2
  end
-- mark.lua sets limit_mark to the mark of this limit's window counters: its period
-- in a word (per.go), but zeros for those that are most used.
if algorithm == 100 then
  limit_mark = period == 1 and 'day' or period == 2 and 'week' or period == 3 and 'month' or 'year'
elseif algorithm > 2 then
  limit_mark = ''
elseif period == 60000000 then
  limit_mark = '0'
elseif period == 3600000000 then
  limit_mark = '00'
elseif period == 86400000000 then
  limit_mark = '000'
elseif period == 1000000 then
  limit_mark = '0000'
else
  local n, unit = period, 'us'
  if period % 86400000000 == 0 then
    n, unit = period / 86400000000, 'd'
  elseif period % 3600000000 == 0 then
    n, unit = period / 3600000000, 'h'
  elseif period % 60000000 == 0 then
    n, unit = period / 60000000, 'm'
  elseif period % 1000000 == 0 then
    n, unit = period / 1000000, 's'
  elseif period % 1000 == 0 then
    n, unit = period / 1000, 'ms'
  end
  limit_mark = n < 4096 and string.format('%d', n) .. unit or ''
end
  denied = 0 -- nothing here is charged that does not pass
  local debt = false

  local kind, a, b, c, wide = 0, 0, 0, 0, false
  local stored_mark, terms = '', false
  local text = redis.call('GET', KEYS[s])
  if text then
-- load.lua reads the state in text, its mark, and its terms if it has such; kind is 0
-- until then. What has no known form is unused.
if #text == 16 and match(text, '^[1-9]%d*$') then
-- unpack.lua (packed.go) reads the window counter that is the integer in text.
local n = text + 0
local form = floor(n / 1125899906842624)
if form > 0 and form < 8 and (form < 5 or floor(n / 4194304) % 4194304 == 0) then
  local unit = (form - 1) % 4
  local length = unit == 1 and 60000000 or unit == 2 and 3600000000 or unit == 0 and 1000000 or 86400000000
  local present = floor(now / length)
  kind, stored_mark = form < 5 and 1 or 2, unit == 1 and '0' or unit == 2 and '00' or unit == 0 and '0000' or '000'
  a = max(present + (floor(n / 17592186044416) % 64 - present + 3) % 64 - 3, 0) * length
  b, c = n % 4194304, floor(n / 4194304) % 4194304
end
else
  if byte(text) == 49 and byte(text, 2) == 49 then -- '11'
    if byte(text, 4) == 42 then -- '*': the tallies of several limits, which carry.lua reads
      kind, wide = 12, text
    end
    local capacity, x, y, rest = match(text, '^11 (%d+) (%d+) (%d+) (.*)$')
    text = ''
    if capacity and max(capacity + 0, x + 0, y + 0) <= 2251799813685248 then
      terms, text = {capacity + 0, x + 0, y + 0}, rest
    end
  end
  local head, first, second, third = match(text, '^([125-8]) (%-?%d+) (%d+) ?(%d*)$')
  if byte(text) == 57 then -- '9'
    if #text > 1 and #text % 14 == 1 then
      kind, wide = 9, text
    end
  elseif byte(text) == 52 then -- '4'
    if #text > 7 then
      kind, wide = 4, text
    end
  elseif head then
    kind, a, b = head + 0, first + 0, second + 0
    if third ~= '' then
      c = third + 0
    end
    if kind < 3 then
      stored_mark = match(third ~= '' and third or second, '^(0*)%d')
    end
  else
    local rest
    first, second, rest = match(text, '^3 (%d+) (%d+) ([%d ]+)$')
    if first then
      kind, a, b, wide = 3, first + 0, second + 0, {}
      for count in string.gmatch(rest, '%d+') do
        wide[#wide + 1] = count + 0
      end
    else
      local mark, last
      first, mark, last = match(text, '^2 (%-?%d+) (%d*%a+)(%d+)$')
      if first then
        kind, a, b, stored_mark = 2, first + 0, last + 0, mark
      else
        first, second, mark, last = match(text, '^1 (%d+) (%d+) (%d*%a+)(%d+)$')
        if first then
          kind, a, b, c, stored_mark = 1, first + 0, second + 0, last + 0, mark
        else
          first, second, third = match(text, '^10 (%d+) (%d+) (%d+)$')
          if first then
            kind, a, b, c = 10, first + 0, second + 0, third + 0
          end
        end
      end
    end
  end
end
if terms and (kind == 0 or kind > 8) then
  kind, terms = 0, false
end
  end
  -- A lease may be of its hits.
  local held, list, foreign = kind == own and not terms, nil, false
  if kind ~= 0 and (kind ~= own or stored_mark ~= limit_mark or terms
    or kind == 3 and (b ~= period or #wide ~= byte(data, at + 30) + 1 or a % period ~= 0)) then
    local found
    if (kind == 4 or kind == 12) and not sliding_log then
      sliding_log, load_log, save_log, log_of, log_stamp, log_after, log_before, log_text = (function()
-- sliding_log.lua (sliding_log.go). The value is '4' and seven bytes for each stamp,
-- the high one first. A state is the stamps from .. from+kept-1 of the stored value
-- (which has had of them) and those of tail: n in all. So a hit is appended, and a
-- long log is probed, not read. head is a short value.
-- A log is read whole up to 64 stamps, beyond that by probing.
-- Returns the log, or false, and whether Redis holds anything.
local function load(s)
  local whole = 1 + 64 * 7
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
  local n = floor((length - 1) / 7)
  if n == 0 then
    return false, true
  end
  return {bucket = s, head = head, from = 0, kept = n, had = n, tail = '', n = n}, true
end

-- Returns the log in text, of which Redis may hold another form.
local function of(s, text)
  local n = floor((#text - 1) / 7)
  return {bucket = s, head = text, from = 0, kept = n, had = -1, tail = '', n = n}
end

-- Returns the whole value.
local function text_of(s, state)
  local kept, first = '', 1 + state.from * 7
  if state.head then
    kept = state.head:sub(first + 1, first + state.kept * 7)
  elseif state.kept > 0 then
    kept = redis.call('GETRANGE', KEYS[s], first, first + state.kept * 7 - 1)
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
  for i = 7, 1, -1 do
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
    return decode(log.tail, (i - log.kept) * 7 + 1)
  end
  local offset = 1 + (log.from + i) * 7
  if log.head then
    return decode(log.head, offset + 1)
  end
  return decode(redis.call('GETRANGE', KEYS[log.bucket], offset, offset + 7 - 1), 1)
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
  return {bucket = log.bucket, head = log.head, had = log.had, from = from, kept = kept, tail = tail, n = kept + floor(#tail / 7)}
end

local function drop_first(log, count)
  if count <= log.kept then
    return slice(log, log.from + count, log.kept - count, log.tail)
  end
  return slice(log, log.from, 0, log.tail:sub((count - log.kept) * 7 + 1))
end

local function keep_first(log, count)
  if count <= log.kept then
    return slice(log, log.from, count, '')
  end
  return slice(log, log.from, log.kept, log.tail:sub(1, (count - log.kept) * 7))
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
    verdict = -9007199254740992
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
      end)()
    end
    if not carry then
      carry, note = (function()
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
  hits = min(hits, 2251799813685248)
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
  return max(min(max(a, -a), 9007199254740991) + (b > 0 and 1 or 0) - at, 0)
end

local function ceil_div(x, y, z)
  local quotient, rest = muldivmod(x, y, z)
  return rest > 0 and quotient + 1 or quotient
end

-- tally.lua (tally.go) reads and writes the tallies of several limits. It stands in
-- carry.lua, which has the words.
--
-- Their value is '11 *' and for each ' capacity x y ends since length:', in decimal, and
-- its state in the form of load.lua, of that length.

local function parse(text)
  local kind, a, b, c, wide, stored_mark, terms = 0, 0, 0, 0, false, '', false
  if text == '4' then
    return 4, 0, 0, 0, text, ''
  end
-- load.lua reads the state in text, its mark, and its terms if it has such; kind is 0
-- until then. What has no known form is unused.
if #text == 16 and match(text, '^[1-9]%d*$') then
-- unpack.lua (packed.go) reads the window counter that is the integer in text.
local n = text + 0
local form = floor(n / 1125899906842624)
if form > 0 and form < 8 and (form < 5 or floor(n / 4194304) % 4194304 == 0) then
  local unit = (form - 1) % 4
  local length = unit == 1 and 60000000 or unit == 2 and 3600000000 or unit == 0 and 1000000 or 86400000000
  local present = floor(now / length)
  kind, stored_mark = form < 5 and 1 or 2, unit == 1 and '0' or unit == 2 and '00' or unit == 0 and '0000' or '000'
  a = max(present + (floor(n / 17592186044416) % 64 - present + 3) % 64 - 3, 0) * length
  b, c = n % 4194304, floor(n / 4194304) % 4194304
end
else
  if byte(text) == 49 and byte(text, 2) == 49 then -- '11'
    if byte(text, 4) == 42 then -- '*': the tallies of several limits, which carry.lua reads
      kind, wide = 12, text
    end
    local capacity, x, y, rest = match(text, '^11 (%d+) (%d+) (%d+) (.*)$')
    text = ''
    if capacity and max(capacity + 0, x + 0, y + 0) <= 2251799813685248 then
      terms, text = {capacity + 0, x + 0, y + 0}, rest
    end
  end
  local head, first, second, third = match(text, '^([125-8]) (%-?%d+) (%d+) ?(%d*)$')
  if byte(text) == 57 then -- '9'
    if #text > 1 and #text % 14 == 1 then
      kind, wide = 9, text
    end
  elseif byte(text) == 52 then -- '4'
    if #text > 7 then
      kind, wide = 4, text
    end
  elseif head then
    kind, a, b = head + 0, first + 0, second + 0
    if third ~= '' then
      c = third + 0
    end
    if kind < 3 then
      stored_mark = match(third ~= '' and third or second, '^(0*)%d')
    end
  else
    local rest
    first, second, rest = match(text, '^3 (%d+) (%d+) ([%d ]+)$')
    if first then
      kind, a, b, wide = 3, first + 0, second + 0, {}
      for count in string.gmatch(rest, '%d+') do
        wide[#wide + 1] = count + 0
      end
    else
      local mark, last
      first, mark, last = match(text, '^2 (%-?%d+) (%d*%a+)(%d+)$')
      if first then
        kind, a, b, stored_mark = 2, first + 0, last + 0, mark
      else
        first, second, mark, last = match(text, '^1 (%d+) (%d+) (%d*%a+)(%d+)$')
        if first then
          kind, a, b, c, stored_mark = 1, first + 0, second + 0, last + 0, mark
        else
          first, second, third = match(text, '^10 (%d+) (%d+) (%d+)$')
          if first then
            kind, a, b, c = 10, first + 0, second + 0, third + 0
          end
        end
      end
    end
  end
end
if terms and (kind == 0 or kind > 8) then
  kind, terms = 0, false
end
  if terms then
    kind = 0
  end
  return kind, a, b, c, wide, stored_mark
end

-- Returns a tally with its state read.
local function opened(t)
  if not t.kind then
    t.kind, t.a, t.b, t.c, t.wide, t.mark = parse(t.text)
  end
  return t
end

-- Returns the tallies in a text.
local function tallies_of(text)
  local tallies, i = {}, 5
  repeat
    local capacity, x, y, ends, since, n, first = match(text, '^ (%-?%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+):()', i)
    i = first and first + n
    if i and i <= #text + 1 and max(capacity + 0, x + 0, y + 0, since + 0, -since) <= 2251799813685248 and ends + 0 <= 2 * 9007199254740991 then
      tallies[#tallies + 1] = opened({
        capacity = max(capacity + 0, -1), x = x + 0, y = y + 0, ends = max(ends + 0, 1), since = since + 0, text = text:sub(first, i - 1),
      })
      if tallies[#tallies].kind == 0 or tallies[#tallies].kind > 8 then
        tallies[#tallies], i = nil, nil
      end
    else
      i = nil
    end
  until not i or #tallies == 8
  return tallies
end

local function text_of(s, t)
  if t.text then
    return t.text
  elseif t.kind == 1 then
    return format('1 %d %d %s%d', t.a, t.b, t.mark, t.c)
  elseif t.kind == 2 then
    return format('2 %d %s%d', t.a, t.mark, t.b)
  elseif t.kind == 3 then
    local counts = {}
    for i = 1, #t.wide do
      counts[i] = format('%d', t.wide[i])
    end
    return format('3 %d %d ', t.a, t.b) .. table.concat(counts, ' ')
  elseif t.kind == 4 then
    return type(t.wide) == 'string' and t.wide or log_text(s, t.wide)
  end
  return format('%d %d %d', t.kind, t.a, t.b)
end

-- Returns how long a limit looks back.
local function memory_of(own, algorithm, period)
  if own > 4 then
    local tolerance_1, tolerance_2, tolerance_3, tolerance_4, tolerance_5, tolerance_6, tolerance_7 = byte(data, at + 30 + 7, at + 30 + 13)
    return ((((((tolerance_1) * 256 + tolerance_2) * 256 + tolerance_3) * 256 + tolerance_4) * 256 + tolerance_5) * 256 + tolerance_6) * 256 + tolerance_7 + 1
  elseif algorithm == 100 then
    return days[period] * 86400000000 + 7200000000
  elseif own == 3 then
    return period * byte(data, at + 30)
  end
  return period
end

local function kept_until(t, kept, own)
  kept = t.mark ~= '' and period_of(t.mark) or kept
  if t.kind == 3 and t.b > 0 then
    kept = min(t.b, 31622400000000) * (min(#t.wide, 61) - 1)
  elseif t.kind == 4 and own ~= 4 then
    kept = max(kept, 3600000000)
  elseif t.kind > 4 then
    kept = max(kept, min(backlog_of(t.a, t.b, now), 31622400000000))
  end
  return now + kept + 1
end

-- reach of tally.go
local function reach_of(t)
  if t.capacity < 0 then
    return 4503599627370496, 2251799813685248
  elseif t.kind > 4 and t.y > 0 then
    if (t.capacity + 0.0) * t.x / t.y >= 4503599627370496 then
      return 4503599627370496, t.capacity
    end
    return (muldivmod(t.capacity, t.x, t.y)), t.capacity
  elseif t.kind == 4 then
    return t.x, t.capacity
  elseif t.kind == 2 and t.y == 1 then
    return period_of(calendars[t.x] or '') or 0, 2251799813685248
  end
  return t.x, 2251799813685248
end

local function covered(tallies, i)
  local back, held = reach_of(tallies[i])
  for j = 1, #tallies do
    local b, h = reach_of(tallies[j])
    if j ~= i and b >= back and h >= held then
      return true
    end
  end
  return false
end

-- spare of tally.go
local function spare(tallies)
  local least = 1
  for i = 1, #tallies do
    local back, held = reach_of(tallies[i])
    local b, h = reach_of(tallies[least])
    local less = back < b or back == b and held <= h
    local c, before = covered(tallies, i), covered(tallies, least)
    if c == before and less or c and not before then
      least = i
    end
  end
  return least
end

-- write of tally.go, but for the state; kind == 0 is a tally that has counted nothing.
local function note(list, s, hits, reset, kind, a, b, c, wide, own, algorithm, period, mark)
  if kind == 0 then
    kind, a, b, c, wide = own, 0, 0, 0, false
    if own == 3 then
      wide = {0} -- there is no text without one
    elseif own == 4 then
      wide = log_of(s, '4')
    end
  end
  local memory = memory_of(own, algorithm, period)
  local before = list.others
  if list.plain then -- a bucket that tat.lua has left beside
    local plain = {capacity = -1, x = 0, y = 0, since = 0, kind = list.plain[1], a = list.plain[2], b = list.plain[3], mark = ''}
    plain.ends = kept_until(plain, memory, own)
    before = {plain}
  end
  local terms = {list[1], list[2], list[3], others = {}, since = 0}
  terms.ends = kept_until({kind = kind, a = a, b = b, wide = wide, mark = mark}, memory, own) + (list.later or 0)
  local last, texts = max(now + reset, terms.ends), {}
  if #before == 8 then
    table.remove(before, spare(before))
  end
  for i = 1, #before do
    local t = before[i]
    local text = text_of(s, t)
    local since = max(min(t.since + hits, 2251799813685248), -2251799813685248)
    terms.others[i] = {capacity = t.capacity, x = t.x, y = t.y, ends = t.ends, since = since, text = text}
    texts[i] = format(' %d %d %d %d %d %d:', t.capacity, t.x, t.y, t.ends, since, #text) .. text
    last = max(last, t.ends)
  end
  terms.head = format('11 * %d %d %d %d 0 ', terms[1], terms[2], terms[3], terms.ends)
  terms.tail = table.concat(texts)
  terms.ttl = format('%d', floor((last - now + 999) / 1000) + 1000)
  return terms, kind, a, b, c, wide
end

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
    parts = byte(data, at + 30)
    start, width, length = now - now % period, period, period * parts
    from, x = start - parts * period, length
  elseif own == 4 then
    from, width = now - period + 1, 1
  elseif own > 4 then
    local den_1, den_2, den_3, den_4, den_5, den_6, den_7, tolerance_1, tolerance_2, tolerance_3, tolerance_4, tolerance_5, tolerance_6, tolerance_7, part1, part2, part3, part4, part5, part6, part7 = byte(data, at + 30, at + 30 + 20)
    local cycle_1, cycle_2, cycle_3, cycle_4, cycle_5, cycle_6, cycle_7 = byte(data, at + 30 + 21, at + 30 + 27)
    den, tolerance, tolerance_part, cycle = ((((((den_1) * 256 + den_2) * 256 + den_3) * 256 + den_4) * 256 + den_5) * 256 + den_6) * 256 + den_7, ((((((tolerance_1) * 256 + tolerance_2) * 256 + tolerance_3) * 256 + tolerance_4) * 256 + tolerance_5) * 256 + tolerance_6) * 256 + tolerance_7, ((((((part1) * 256 + part2) * 256 + part3) * 256 + part4) * 256 + part5) * 256 + part6) * 256 + part7, ((((((cycle_1) * 256 + cycle_2) * 256 + cycle_3) * 256 + cycle_4) * 256 + cycle_5) * 256 + cycle_6) * 256 + cycle_7
    from, length, y = now - tolerance, tolerance + 1, den
  elseif algorithm == 100 then
    local edge = at + 30
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
    local stored = max(min(t.a, 9007199254740991), 0)
    if t.kind < 3 then
      use(stored + (t.mark ~= '' and period_of(t.mark) or length) - 1, t.b)
      if t.kind == 1 then
        use(stored - 1, t.c)
      end
    elseif t.kind == 3 then
      if t.b > 0 and t.b <= 31622400000000 then
        for i = 1, min(#t.wide, 61) do
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
          current = min(current + counted[i], 2251799813685248)
        elseif own == 1 and list[i] >= from then
          previous = min(previous + counted[i], 2251799813685248)
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
          local added = min(counted[i], 2251799813685248 - total)
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
      return t.b == period and #t.wide == parts + 1 and max(min(t.a, 9007199254740991), 0) % period == 0
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
    local owed, owed_part = tolerance + min(64 * tolerance + 3600000000, 1125899906842624), tolerance_part
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
    local tat, tat_part = min(max(t.a, -t.a), 9007199254740991), t.b
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
      local less, less_part = 4503599627370496, 0
      if (-t.since + 0.0) * period / den < 4503599627370496 then
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
      local more, more_part = 4503599627370496, 0
      if (t.since + 0.0) * period / den < 4503599627370496 then
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
        hits = (backlog + 0.0) * t.y / t.x >= 9007199254740991 and 2251799813685248 or ceil_div(backlog, t.y, t.x)
      end
      if share then
        local all = t.capacity
        if (all + 0.0) * t.x / t.y < 4503599627370496 and backlog >= (muldivmod(all, t.x, t.y)) then
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
  local found, foreign, splits, most = false, true, false, 2251799813685248
  local t = mine and all[mine]
  if t then
    local ends = t.ends
    if own == 4 and t.capacity < 0 and ends > 0 then
      ends = ends + period - 3600000000 -- it did not say how far it looks back
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
      end)()
    end
    held = held or kind == 12
    kind, a, b, c, wide, foreign, list, found = carry(s, kind, a, b, c, wide, stored_mark, terms, own, algorithm, quota, period, limit_mark, false, false, max_debt)
    held = held and found
  end
  local mark = limit_mark
  terms = false

  -- step runs the algorithm on the state, and reports whether it changed; ends is the
  -- end of the window, ahead and ahead_part how far ahead of now the TAT is, and most
  -- and most_part how far it may be.
  local extra, verdict, remaining, reset, ends = 0, 0, 0, 0, 0
  local ahead, ahead_part, most, most_part, one_num, one_den = 0, 0, 0, 0, 0, 1
  local function step(hits, refund)
    local changed = false
    verdict, remaining, reset = 0, 0, 0
    repeat
      local again = false
      if algorithm == 1 then
-- sliding_window.lua (sliding_window.go)
local elapsed = now % period
local start, current, previous, moved = now - elapsed, 0, 0, false
if kind == 1 then
  local stored, newer, older = a, b, c
  if newer > 2251799813685248 or older > 2251799813685248 or stored > 9007199254740991 or stored < 0 then
    stored = max(min(stored, 9007199254740991), 0)
    newer, older = min(newer, 2251799813685248), min(older, 2251799813685248)
  end
  if stored == start then
    current, previous = newer, older
  else
    local present, into = start, stored % period
    if into ~= 0 then
      newer, older = min(newer + older, 2251799813685248), 0
    end
    if stored >= present + 2 * period then
      current, previous, moved = newer, older, true
    else
      if stored > now then
        start, elapsed = stored - into, into
      end
      if stored >= present then
        current, previous = newer, older
      elseif stored >= present - period then
        previous = newer
      end
    end
  end
end

seen = previous
if refund > 0 then
  local from_current = min(refund, current)
  current = current - from_current
  previous = previous - min(refund - from_current, previous)
  kind, changed, again = 0, true, true
  if current > 0 or previous > 0 then
    kind, a, b, c = 1, start, current, previous
  end
else
  local used = current
  if previous > 0 then
    local weight, rest = muldivmod(previous, period - elapsed, period)
    if rest > 0 then
      weight = weight + 1
    end
    used = weight + current
  end
  if debt then
    hits = max(min(hits, quota + debt - used), 0)
  end
  local allowed = used + hits <= quota
  local charge = hits > 0 and (allowed or denied == 1)
  if charge then
    current = current + hits
    if current > 2251799813685248 then
      current = 2251799813685248
    end
    used = used + hits
  end
  if not allowed then
    if hits > quota then
      verdict = -9007199254740992
    else
      local room = quota - hits - current
      if room >= 0 then
        verdict = start + period - (muldivmod(room, period, previous))
      else
        verdict = start + 2 * period - (muldivmod(quota - hits, period, current))
      end
      verdict = -1 - max(verdict - now, 0)
    end
  end
  if charge or (moved and hits > 0) then
    kind, a, b, c, changed = 1, start, current, previous, true
  end
  remaining = quota - used
  if current > 0 then
    reset = start + 2 * period - now
  elseif previous > 0 then
    reset = start + period - now
  end
end
        ends = start + period
      elseif algorithm == 2 or algorithm == 100 then
-- fixed_window.lua (fixed_window.go)
local start, finish, next_finish
if algorithm == 100 then
  local edge = at + 30
  while now >= instant(edge + 7) do
    edge = edge + 7
  end
  start, finish, next_finish = instant(edge), instant(edge + 7), instant(edge + 14)
  extra = 35
else
  start = now - now % period
  finish, next_finish = start + period, start + 2 * period
end
local count, moved = 0, false
if kind == 2 then
  local stored = a
  if stored > 9007199254740991 or stored < 0 then
    stored = max(min(stored, 9007199254740991), 0)
  end
  if stored >= start then
    count = b
    if count > 2251799813685248 then
      count = 2251799813685248
    end
  end
  if stored >= next_finish then
    moved = true
  elseif stored >= finish then
    start, finish = finish, next_finish
  end
end

if refund > 0 then
  kind, changed, again = 0, true, true
  if count > refund then
    kind, a, b = 2, start, count - refund
  end
else
  if debt then
    hits = max(min(hits, quota + debt - count), 0)
  end
  local allowed = count + hits <= quota
  if not allowed then
    verdict = -9007199254740992
    if hits <= quota then
      verdict = -1 - max(finish - now, 0)
    end
  end
  local charge = hits > 0 and (allowed or denied == 1)
  if charge then
    count = count + hits
    if count > 2251799813685248 then
      count = 2251799813685248
    end
  end
  if charge or (moved and hits > 0) then
    kind, a, b, changed = 2, start, count, true
  end
  remaining = quota - count
  if count > 0 then
    reset = finish - now
  end
end
        ends = finish
      elseif algorithm == 3 then
        local parts, strict = byte(data, at + 30, at + 30 + 1)
        extra = 2
        local before = kind == 3 and {a, b, wide}
        local after
        after, verdict, remaining, reset = sub_windows(quota, false, period, parts, strict == 1, before, hits, refund)
        if refund > 0 or after ~= before then
          kind, changed = 0, true
          if after then
            kind, a, b, wide = 3, after[1], after[2], after[3]
          end
        end
        ends = now - now % period
        if kind == 3 and b == period and #wide == parts + 1 and a % period == 0 and a > now and a < ends + (parts + 1) * period then
          ends = a -- time stands still there
        end
        ends = ends + period
      else
-- tat.lua (tat.go): token_bucket, leaky_bucket, leaky_queue, gcra. A span is two
-- numbers, whole us and the numerator over den. With denied == 1, which no limit of
-- these has, all hits are charged.
local capacity, num = quota, period
local den1, den2, den3, den4, den5, den6, den7, tolerance1, tolerance2, tolerance3, tolerance4, tolerance5, tolerance6, tolerance7, part1, part2, part3, part4, part5, part6, part7 = byte(data, at + 30, at + 30 + 20)
local den, tolerance, tolerance_part = ((((((den1) * 256 + den2) * 256 + den3) * 256 + den4) * 256 + den5) * 256 + den6) * 256 + den7, ((((((tolerance1) * 256 + tolerance2) * 256 + tolerance3) * 256 + tolerance4) * 256 + tolerance5) * 256 + tolerance6) * 256 + tolerance7, ((((((part1) * 256 + part2) * 256 + part3) * 256 + part4) * 256 + part5) * 256 + part6) * 256 + part7
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
    owed = tolerance + min(64 * tolerance + 3600000000, 1125899906842624)
  end
end
if kind == algorithm then
  local tat, tat_part, most, most_part = a, b, tolerance, tolerance_part
  if tat < 0 then
    tat, most, most_part = -tat, owed, owed_part
  end
  if tat > 9007199254740991 then
    tat = 9007199254740991
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
  if (refund + 0.0) * num / den < 4503599627370496 then
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
    local more, more_part = 4503599627370496, 0
    if (hits + 0.0) * num / den < 4503599627370496 then
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
    verdict = -9007199254740992
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
        ahead, ahead_part, most, most_part, one_num, one_den = whole, part, tolerance, tolerance_part, num, den
      end
      refund = again and 0 or refund
    until not again
    if remaining < 0 then
      remaining = 0
    end
    if reset < 0 then
      reset = 0
    end
    return changed
  end
  step(0, 0)

  local latest, total, noted_at, leases, old = 0, 0, now, '', redis.call('GET', KEYS[buckets + s])
  local write, noted = false, false
  if old and #old % 22 == 21 then
    latest, total = two(old, 1)
    total, noted_at = two(old, 8)
    local first, length = 21 + 1, #old
    if noted_at > now then
      -- The clock has stepped back by as much at least, and the ends do with it.
      local behind, moved = noted_at - now, {sub(old, 1, 21)}
      for i = first, length, 22 do
        local hits, ended = two(old, i + 8)
        moved[#moved + 1] = sub(old, i, i + 14) .. seven(max(ended - behind, 0))
      end
      old, latest, noted_at, noted = table.concat(moved), max(latest - behind, 0), now, true
    end
    while first < length do
      local hits, ended = two(old, first + 8)
      if ended > now then
        break
      end
      total, first = max(total - hits, 0), first + 22
    end
    leases = sub(old, first)
  end
  noted = noted or old and #leases + 21 ~= #old
  local granted, length, returned, charged = 0, 0, 0, 0

  local p = back ~= no_lease and place(leases, back)
  if p then
    local hits, ended = two(leases, p + 8)
    if ended > now then
      returned, noted, noted_at = 1, true, now
      give = min(give, hits)
      leases, total = sub(leases, 1, p - 1) .. sub(leases, p + 22), max(total - hits, 0)
      if leases == '' then
        latest, total = 0, 0
      end
      if held and give > 0 then
        write, charged = true, -give
        local before, before_part = ahead, ahead_part
        step(0, give)
        if is_bucket and total > 0 then
          -- Not below what the others need, but not above what was there.
          local least, least_part = before + 1, 0
          if (total + 0.0) * one_num / one_den < 4503599627370496 then
            least, least_part = muldivmod(total, one_num, one_den)
            least = least + max(latest - now, 0)
          end
          if least > before or (least == before and least_part > before_part) then
            kind, a, b = own, now + before, before_part
            if before == 0 and before_part == 0 then
              kind, a = 0, 0
            elseif before > most or (before == most and before_part > most_part) then
              a = -a
            end
          elseif least > ahead or (least == ahead and least_part > ahead_part) then
            kind, a, b = own, now + least, least_part
            if least > most or (least == most and least_part > most_part) then
              a = -a
            end
          end
          step(0, 0)
        end
      end
    end
  end
  if leases == '' then
    latest, total = 0, 0
  end

  if want > 0 and #leases < 256 * 22 and not place(leases, id) then
    length = ends - now
    if is_bucket then
      length = floor(most / 4)
    end
    length = min(length, lasts)
    local kind_before, a_before, b_before = kind, a, b
    if length > 0 then
      if is_bucket and length > ahead then
        kind, a, b = own, now + length, 0
        step(0, 0)
      end
      granted = floor(remaining / share)
    end
    if granted < 2 then
      granted, length = 0, 0
      if kind ~= kind_before or a ~= a_before or b ~= b_before then
        kind, a, b = kind_before, a_before, b_before
        step(0, 0)
      end
      -- What a denial puts in order; see Lease in lease.go.
      if remaining < 1125899906842624 and (step(remaining + 1, 0) or foreign and kind ~= 0) then
        write = true
      end
      step(0, 0)
    else
      granted, write, noted, noted_at = min(granted, want), true, true, now
      charged = charged + granted
      step(granted, 0)
      leases = leases .. id .. seven(granted) .. seven(now + length)
      latest, total = max(latest, now + length), min(total + granted, 4503599627370496)
    end
  end

  if write then
    local kind, a, b, c, wide = kind, a, b, c, wide
    if list then
      if not note then
        carry, note = (function()
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
  hits = min(hits, 2251799813685248)
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
  return max(min(max(a, -a), 9007199254740991) + (b > 0 and 1 or 0) - at, 0)
end

local function ceil_div(x, y, z)
  local quotient, rest = muldivmod(x, y, z)
  return rest > 0 and quotient + 1 or quotient
end

-- tally.lua (tally.go) reads and writes the tallies of several limits. It stands in
-- carry.lua, which has the words.
--
-- Their value is '11 *' and for each ' capacity x y ends since length:', in decimal, and
-- its state in the form of load.lua, of that length.

local function parse(text)
  local kind, a, b, c, wide, stored_mark, terms = 0, 0, 0, 0, false, '', false
  if text == '4' then
    return 4, 0, 0, 0, text, ''
  end
-- load.lua reads the state in text, its mark, and its terms if it has such; kind is 0
-- until then. What has no known form is unused.
if #text == 16 and match(text, '^[1-9]%d*$') then
-- unpack.lua (packed.go) reads the window counter that is the integer in text.
local n = text + 0
local form = floor(n / 1125899906842624)
if form > 0 and form < 8 and (form < 5 or floor(n / 4194304) % 4194304 == 0) then
  local unit = (form - 1) % 4
  local length = unit == 1 and 60000000 or unit == 2 and 3600000000 or unit == 0 and 1000000 or 86400000000
  local present = floor(now / length)
  kind, stored_mark = form < 5 and 1 or 2, unit == 1 and '0' or unit == 2 and '00' or unit == 0 and '0000' or '000'
  a = max(present + (floor(n / 17592186044416) % 64 - present + 3) % 64 - 3, 0) * length
  b, c = n % 4194304, floor(n / 4194304) % 4194304
end
else
  if byte(text) == 49 and byte(text, 2) == 49 then -- '11'
    if byte(text, 4) == 42 then -- '*': the tallies of several limits, which carry.lua reads
      kind, wide = 12, text
    end
    local capacity, x, y, rest = match(text, '^11 (%d+) (%d+) (%d+) (.*)$')
    text = ''
    if capacity and max(capacity + 0, x + 0, y + 0) <= 2251799813685248 then
      terms, text = {capacity + 0, x + 0, y + 0}, rest
    end
  end
  local head, first, second, third = match(text, '^([125-8]) (%-?%d+) (%d+) ?(%d*)$')
  if byte(text) == 57 then -- '9'
    if #text > 1 and #text % 14 == 1 then
      kind, wide = 9, text
    end
  elseif byte(text) == 52 then -- '4'
    if #text > 7 then
      kind, wide = 4, text
    end
  elseif head then
    kind, a, b = head + 0, first + 0, second + 0
    if third ~= '' then
      c = third + 0
    end
    if kind < 3 then
      stored_mark = match(third ~= '' and third or second, '^(0*)%d')
    end
  else
    local rest
    first, second, rest = match(text, '^3 (%d+) (%d+) ([%d ]+)$')
    if first then
      kind, a, b, wide = 3, first + 0, second + 0, {}
      for count in string.gmatch(rest, '%d+') do
        wide[#wide + 1] = count + 0
      end
    else
      local mark, last
      first, mark, last = match(text, '^2 (%-?%d+) (%d*%a+)(%d+)$')
      if first then
        kind, a, b, stored_mark = 2, first + 0, last + 0, mark
      else
        first, second, mark, last = match(text, '^1 (%d+) (%d+) (%d*%a+)(%d+)$')
        if first then
          kind, a, b, c, stored_mark = 1, first + 0, second + 0, last + 0, mark
        else
          first, second, third = match(text, '^10 (%d+) (%d+) (%d+)$')
          if first then
            kind, a, b, c = 10, first + 0, second + 0, third + 0
          end
        end
      end
    end
  end
end
if terms and (kind == 0 or kind > 8) then
  kind, terms = 0, false
end
  if terms then
    kind = 0
  end
  return kind, a, b, c, wide, stored_mark
end

-- Returns a tally with its state read.
local function opened(t)
  if not t.kind then
    t.kind, t.a, t.b, t.c, t.wide, t.mark = parse(t.text)
  end
  return t
end

-- Returns the tallies in a text.
local function tallies_of(text)
  local tallies, i = {}, 5
  repeat
    local capacity, x, y, ends, since, n, first = match(text, '^ (%-?%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+):()', i)
    i = first and first + n
    if i and i <= #text + 1 and max(capacity + 0, x + 0, y + 0, since + 0, -since) <= 2251799813685248 and ends + 0 <= 2 * 9007199254740991 then
      tallies[#tallies + 1] = opened({
        capacity = max(capacity + 0, -1), x = x + 0, y = y + 0, ends = max(ends + 0, 1), since = since + 0, text = text:sub(first, i - 1),
      })
      if tallies[#tallies].kind == 0 or tallies[#tallies].kind > 8 then
        tallies[#tallies], i = nil, nil
      end
    else
      i = nil
    end
  until not i or #tallies == 8
  return tallies
end

local function text_of(s, t)
  if t.text then
    return t.text
  elseif t.kind == 1 then
    return format('1 %d %d %s%d', t.a, t.b, t.mark, t.c)
  elseif t.kind == 2 then
    return format('2 %d %s%d', t.a, t.mark, t.b)
  elseif t.kind == 3 then
    local counts = {}
    for i = 1, #t.wide do
      counts[i] = format('%d', t.wide[i])
    end
    return format('3 %d %d ', t.a, t.b) .. table.concat(counts, ' ')
  elseif t.kind == 4 then
    return type(t.wide) == 'string' and t.wide or log_text(s, t.wide)
  end
  return format('%d %d %d', t.kind, t.a, t.b)
end

-- Returns how long a limit looks back.
local function memory_of(own, algorithm, period)
  if own > 4 then
    local tolerance_1, tolerance_2, tolerance_3, tolerance_4, tolerance_5, tolerance_6, tolerance_7 = byte(data, at + 30 + 7, at + 30 + 13)
    return ((((((tolerance_1) * 256 + tolerance_2) * 256 + tolerance_3) * 256 + tolerance_4) * 256 + tolerance_5) * 256 + tolerance_6) * 256 + tolerance_7 + 1
  elseif algorithm == 100 then
    return days[period] * 86400000000 + 7200000000
  elseif own == 3 then
    return period * byte(data, at + 30)
  end
  return period
end

local function kept_until(t, kept, own)
  kept = t.mark ~= '' and period_of(t.mark) or kept
  if t.kind == 3 and t.b > 0 then
    kept = min(t.b, 31622400000000) * (min(#t.wide, 61) - 1)
  elseif t.kind == 4 and own ~= 4 then
    kept = max(kept, 3600000000)
  elseif t.kind > 4 then
    kept = max(kept, min(backlog_of(t.a, t.b, now), 31622400000000))
  end
  return now + kept + 1
end

-- reach of tally.go
local function reach_of(t)
  if t.capacity < 0 then
    return 4503599627370496, 2251799813685248
  elseif t.kind > 4 and t.y > 0 then
    if (t.capacity + 0.0) * t.x / t.y >= 4503599627370496 then
      return 4503599627370496, t.capacity
    end
    return (muldivmod(t.capacity, t.x, t.y)), t.capacity
  elseif t.kind == 4 then
    return t.x, t.capacity
  elseif t.kind == 2 and t.y == 1 then
    return period_of(calendars[t.x] or '') or 0, 2251799813685248
  end
  return t.x, 2251799813685248
end

local function covered(tallies, i)
  local back, held = reach_of(tallies[i])
  for j = 1, #tallies do
    local b, h = reach_of(tallies[j])
    if j ~= i and b >= back and h >= held then
      return true
    end
  end
  return false
end

-- spare of tally.go
local function spare(tallies)
  local least = 1
  for i = 1, #tallies do
    local back, held = reach_of(tallies[i])
    local b, h = reach_of(tallies[least])
    local less = back < b or back == b and held <= h
    local c, before = covered(tallies, i), covered(tallies, least)
    if c == before and less or c and not before then
      least = i
    end
  end
  return least
end

-- write of tally.go, but for the state; kind == 0 is a tally that has counted nothing.
local function note(list, s, hits, reset, kind, a, b, c, wide, own, algorithm, period, mark)
  if kind == 0 then
    kind, a, b, c, wide = own, 0, 0, 0, false
    if own == 3 then
      wide = {0} -- there is no text without one
    elseif own == 4 then
      wide = log_of(s, '4')
    end
  end
  local memory = memory_of(own, algorithm, period)
  local before = list.others
  if list.plain then -- a bucket that tat.lua has left beside
    local plain = {capacity = -1, x = 0, y = 0, since = 0, kind = list.plain[1], a = list.plain[2], b = list.plain[3], mark = ''}
    plain.ends = kept_until(plain, memory, own)
    before = {plain}
  end
  local terms = {list[1], list[2], list[3], others = {}, since = 0}
  terms.ends = kept_until({kind = kind, a = a, b = b, wide = wide, mark = mark}, memory, own) + (list.later or 0)
  local last, texts = max(now + reset, terms.ends), {}
  if #before == 8 then
    table.remove(before, spare(before))
  end
  for i = 1, #before do
    local t = before[i]
    local text = text_of(s, t)
    local since = max(min(t.since + hits, 2251799813685248), -2251799813685248)
    terms.others[i] = {capacity = t.capacity, x = t.x, y = t.y, ends = t.ends, since = since, text = text}
    texts[i] = format(' %d %d %d %d %d %d:', t.capacity, t.x, t.y, t.ends, since, #text) .. text
    last = max(last, t.ends)
  end
  terms.head = format('11 * %d %d %d %d 0 ', terms[1], terms[2], terms[3], terms.ends)
  terms.tail = table.concat(texts)
  terms.ttl = format('%d', floor((last - now + 999) / 1000) + 1000)
  return terms, kind, a, b, c, wide
end

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
    parts = byte(data, at + 30)
    start, width, length = now - now % period, period, period * parts
    from, x = start - parts * period, length
  elseif own == 4 then
    from, width = now - period + 1, 1
  elseif own > 4 then
    local den_1, den_2, den_3, den_4, den_5, den_6, den_7, tolerance_1, tolerance_2, tolerance_3, tolerance_4, tolerance_5, tolerance_6, tolerance_7, part1, part2, part3, part4, part5, part6, part7 = byte(data, at + 30, at + 30 + 20)
    local cycle_1, cycle_2, cycle_3, cycle_4, cycle_5, cycle_6, cycle_7 = byte(data, at + 30 + 21, at + 30 + 27)
    den, tolerance, tolerance_part, cycle = ((((((den_1) * 256 + den_2) * 256 + den_3) * 256 + den_4) * 256 + den_5) * 256 + den_6) * 256 + den_7, ((((((tolerance_1) * 256 + tolerance_2) * 256 + tolerance_3) * 256 + tolerance_4) * 256 + tolerance_5) * 256 + tolerance_6) * 256 + tolerance_7, ((((((part1) * 256 + part2) * 256 + part3) * 256 + part4) * 256 + part5) * 256 + part6) * 256 + part7, ((((((cycle_1) * 256 + cycle_2) * 256 + cycle_3) * 256 + cycle_4) * 256 + cycle_5) * 256 + cycle_6) * 256 + cycle_7
    from, length, y = now - tolerance, tolerance + 1, den
  elseif algorithm == 100 then
    local edge = at + 30
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
    local stored = max(min(t.a, 9007199254740991), 0)
    if t.kind < 3 then
      use(stored + (t.mark ~= '' and period_of(t.mark) or length) - 1, t.b)
      if t.kind == 1 then
        use(stored - 1, t.c)
      end
    elseif t.kind == 3 then
      if t.b > 0 and t.b <= 31622400000000 then
        for i = 1, min(#t.wide, 61) do
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
          current = min(current + counted[i], 2251799813685248)
        elseif own == 1 and list[i] >= from then
          previous = min(previous + counted[i], 2251799813685248)
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
          local added = min(counted[i], 2251799813685248 - total)
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
      return t.b == period and #t.wide == parts + 1 and max(min(t.a, 9007199254740991), 0) % period == 0
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
    local owed, owed_part = tolerance + min(64 * tolerance + 3600000000, 1125899906842624), tolerance_part
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
    local tat, tat_part = min(max(t.a, -t.a), 9007199254740991), t.b
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
      local less, less_part = 4503599627370496, 0
      if (-t.since + 0.0) * period / den < 4503599627370496 then
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
      local more, more_part = 4503599627370496, 0
      if (t.since + 0.0) * period / den < 4503599627370496 then
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
        hits = (backlog + 0.0) * t.y / t.x >= 9007199254740991 and 2251799813685248 or ceil_div(backlog, t.y, t.x)
      end
      if share then
        local all = t.capacity
        if (all + 0.0) * t.x / t.y < 4503599627370496 and backlog >= (muldivmod(all, t.x, t.y)) then
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
  local found, foreign, splits, most = false, true, false, 2251799813685248
  local t = mine and all[mine]
  if t then
    local ends = t.ends
    if own == 4 and t.capacity < 0 and ends > 0 then
      ends = ends + period - 3600000000 -- it did not say how far it looks back
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
        end)()
      end
      list.later = length
      terms, kind, a, b, c, wide = note(list, s, charged, reset, kind, a, b, c, wide, own, algorithm, period, mark)
    end
-- save.lua. The time to live is that until the state is as if unused, rounded up to
-- the millisecond, and a margin. What is written has the mark and, if its limit wants
-- to know that later, its terms.
local ttl, text = format('%d', floor((reset + 999) / 1000) + 1000), nil
-- pack.lua (packed.go) sets packed to the text of a window counter that is an integer,
-- false where the state has none.
local packed = false
if packs and (kind == 1 or kind == 2) and not terms and byte(mark) == 48 then -- '0'
  local form = #mark % 4 + 1
  local length = form == 1 and 1000000 or form == 2 and 60000000 or form == 3 and 3600000000 or 86400000000
  local older, ahead = kind == 1 and c or 0, a / length - floor(now / length)
  form = kind == 1 and form or form + 4
  if form < 8 and b < 4194304 and older < 4194304 and a % length == 0 and ahead > -3 and ahead <= 60 then
    packed = format('%d', form * 1125899906842624 + a / length % 64 * 17592186044416 + older * 4194304 + b)
  end
end
if packed then
  text = packed
elseif kind == 1 then
  text = format('1 %d %d %s%d', a, b, mark, c)
elseif kind == 2 then
  text = format('2 %d %s%d', a, mark, b)
elseif kind == 3 then
  local counts = {}
  for i = 1, #wide do
    counts[i] = wide[i] == 0 and '0' or format('%d', wide[i])
  end
  text = format('3 %d %d ', a, b) .. table.concat(counts, ' ')
elseif kind == 4 then
  save_log(s, wide, ttl, terms)
elseif kind == 9 then
  text = wide
elseif kind == 10 then
  text = format('10 %d %d %d', a, b, c)
elseif kind == 0 then
  redis.call('DEL', KEYS[s])
else
  text = format('%d %d %d', kind, a, b)
end
if text then
  if terms then
    if terms.others then
      text, ttl = terms.head .. format('%d:', #text) .. text .. terms.tail, terms.ttl
    else
      text = format('11 %d %d %d ', terms[1], terms[2], terms[3]) .. text
    end
  end
  redis.call('SET', KEYS[s], text, 'PX', ttl)
end
  end
  if noted then
    if leases == '' then
      redis.call('DEL', KEYS[buckets + s])
    else
      redis.call('SET', KEYS[buckets + s], seven(latest) .. seven(total) .. seven(noted_at) .. leases, 'PX',
        format('%d', floor((latest - now + 999) / 1000) + 1000))
    end
  end
  if remaining == 0 then
    step(1, 0)
  end
  reply[filled + 1], reply[filled + 2], reply[filled + 3] = granted, length, returned
  reply[filled + 4], reply[filled + 5], reply[filled + 6] = verdict, remaining, reset
  filled, field, at = filled + 6, field + 37, at + 30 + extra + (max_debt and 7 or 0)
end
return reply
