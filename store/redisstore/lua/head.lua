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
--                     capacity <= 2^50, num < 2^45 and den <= 2^45 (one hit drains
--                     in num/den us), tolerance < 2^51: its whole us, and its
--                     numerator over den
--   9 fixed_window    quota <= 2^50, count_denied 0|1, and five edges of the
--                     calendar in a row; the script decides from the first up to
--                     the fourth, since deciding takes the end of the next window
--
-- Returns {status, now, number of the call} and for each take five integers:
--   flags (1 allowed, 2 never), remaining, reset_after, retry_after, delay
-- with times in us. Status 0: decided. 1: the deadline has passed. 2: now is
-- outside of the edges of a calendar. With 1 and 2 nothing was written.
--
-- Why the numbers fit a double, which holds integers up to 2^53: instants stop
-- at 2^52 (the year 2112), stored ones at 2^53; counters stop at 2^51, so that a
-- counter and the hits of a request stay below 2^53; longer products are taken
-- by muldivmod in parts.
--
-- Why it is built as it is: it runs from its first line in every call, and to
-- make a function or a table costs as much there as to call redis. So what only
-- some batches need is made only in those, and names in capitals are constants
-- whose values script.go puts in. ARGV[i] + 0 is a number.

local floor, max, min, tonumber, ARGV = math.floor, math.max, math.min, tonumber, ARGV

local now = ARGV[1]
if now == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
else
  now = tonumber(now)
end
if now > MAX_INSTANT then
  now = MAX_INSTANT
end

local reply = {0, now, ARGV[3] + 0, 0, 0, 0, 0, 0}

local deadline = ARGV[2] + 0
if deadline > 0 and now > deadline then
  return {1, now, reply[3]}
end

-- FOREIGN is a value that the command by which it was read cannot tell: not a
-- state, or a log read as text, or text read as a log. To all it is unused.
local FOREIGN = {0}

-- outside is set when now is outside of the edges of a calendar.
local outside = false

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
