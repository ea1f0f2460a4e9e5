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
--             states; CALENDAR is fixed_window with calendar windows
--   denied    one byte: 1 if denied hits count, and the bits of terms.lua
--   quota     or the capacity of a bucket, <= 2^50
--   period    < 2^45: of 3 that of a part, of 5 to 8 num (one hit drains in
--             num/den us), of CALENDAR its unit: 1 day, 2 week, 3 month, 4 year
--   and for some algorithms
--   3 sub_windows     parts 2 .. 60 and strict 0|1, one byte each
--   5 token_bucket, 6 leaky_bucket, 7 leaky_queue, 8 gcra
--                     den <= 2^45, tolerance < 2^51: its whole us, and its
--                     numerator over den; the period of the limit
--   10 ban            how long it lasts, < 2^45
--   CALENDAR          five edges of the calendar in a row; the script decides
--                     from the first up to the fourth, since deciding takes the
--                     end of the next window
--   and last max_debt, if the bits of denied say so
-- and where each take has its own limit, it is TAKE_BYTES and what some algorithms
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

local BYTES(now, 7), BYTES(deadline, 7), BYTES(number, 4), flags = byte(data, 1, 19)
local now, deadline, number = WHOLE(now, 7), WHOLE(deadline, 7), WHOLE(number, 4)
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if now > MAX_INSTANT then
  now = MAX_INSTANT
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
    local BYTES(n, 7) = byte(data, i, i + 6)
    return WHOLE(n, 7) - CALENDAR_ZERO
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
  if product < MAX_STORED then
    local quotient = floor(product / c)
    return quotient, a * b - quotient * c
  end
  local whole = floor(a / c)
  a = a - whole * c
  local base = floor(MAX_INSTANT / c) + 0.0
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
