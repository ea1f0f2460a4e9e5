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
-- import.lua puts totals of elsewhere into buckets (store.Importer). It stands between
-- head.lua and take.lua: for each total there is a charge among the takes, and here it
-- is written into it how many hits are new.
--
-- KEYS     first the names of the buckets, then for each total that of what was heard of its
--          column: three numbers of seven bytes, hits, back and resets, which live for keep and a margin
-- ARGV[2]  for each total 56, in numbers of seven bytes
--   place    in ARGV[1] of the record of its charge, the first is 1
--   hits, back, resets   the count
--   hits, back, resets   what of it need not be told
--   keep     0 .. 2^50 us

-- Redis takes back nothing of a script that fails halfway: notes would say that hits were heard
-- which are in no bucket, and the totals beside a bucket of another program would be lost. So whether
-- all buckets can be read is found out before anything is written. A note of another program is
-- written over.

local totals, sub, char = ARGV[2], string.sub, string.char
local heard_at = #KEYS - #totals / 56

for i = 1, heard_at do
  local length = redis.pcall('STRLEN', KEYS[i])
  if type(length) == 'table' then
    return length
  end
end

-- news returns what of a count is new, and the count that is known from now on.
local function news(count, told, known)
  local from = max(told, known)
  return max(count - from, 0), max(count, from)
end

local pieces, done = {}, 0
for i = 1, #totals, 56 do
  local place1, place2, place3, place4, place5, place6, place7, hits1, hits2, hits3, hits4, hits5, hits6, hits7, back1, back2, back3, back4, back5, back6, back7, resets1, resets2, resets3, resets4, resets5, resets6, resets7 = byte(totals, i, i + 27)
  local place, hits, back, resets = ((((((place1) * 256 + place2) * 256 + place3) * 256 + place4) * 256 + place5) * 256 + place6) * 256 + place7, ((((((hits1) * 256 + hits2) * 256 + hits3) * 256 + hits4) * 256 + hits5) * 256 + hits6) * 256 + hits7, ((((((back1) * 256 + back2) * 256 + back3) * 256 + back4) * 256 + back5) * 256 + back6) * 256 + back7, ((((((resets1) * 256 + resets2) * 256 + resets3) * 256 + resets4) * 256 + resets5) * 256 + resets6) * 256 + resets7
  local told_hits1, told_hits2, told_hits3, told_hits4, told_hits5, told_hits6, told_hits7, told_back1, told_back2, told_back3, told_back4, told_back5, told_back6, told_back7, told_resets1, told_resets2, told_resets3, told_resets4, told_resets5, told_resets6, told_resets7, keep1, keep2, keep3, keep4, keep5, keep6, keep7 = byte(totals, i + 28, i + 55)
  local told_hits, told_back, told_resets, keep = ((((((told_hits1) * 256 + told_hits2) * 256 + told_hits3) * 256 + told_hits4) * 256 + told_hits5) * 256 + told_hits6) * 256 + told_hits7, ((((((told_back1) * 256 + told_back2) * 256 + told_back3) * 256 + told_back4) * 256 + told_back5) * 256 + told_back6) * 256 + told_back7, ((((((told_resets1) * 256 + told_resets2) * 256 + told_resets3) * 256 + told_resets4) * 256 + told_resets5) * 256 + told_resets6) * 256 + told_resets7, ((((((keep1) * 256 + keep2) * 256 + keep3) * 256 + keep4) * 256 + keep5) * 256 + keep6) * 256 + keep7
  heard_at = heard_at + 1
  local known_hits, known_back, known_resets = 0, 0, 0
  local known = redis.pcall('GET', KEYS[heard_at])
  if type(known) == 'string' and #known == 21 then
    local x1, x2, x3, x4, x5, x6, x7, y1, y2, y3, y4, y5, y6, y7, z1, z2, z3, z4, z5, z6, z7 = byte(known, 1, 21)
    known_hits, known_back, known_resets = ((((((x1) * 256 + x2) * 256 + x3) * 256 + x4) * 256 + x5) * 256 + x6) * 256 + x7, ((((((y1) * 256 + y2) * 256 + y3) * 256 + y4) * 256 + y5) * 256 + y6) * 256 + y7, ((((((z1) * 256 + z2) * 256 + z3) * 256 + z4) * 256 + z5) * 256 + z6) * 256 + z7
  end
  hits, known_hits = news(hits, told_hits, known_hits)
  back, known_back = news(back, told_back, known_back)
  resets, known_resets = news(resets, told_resets, known_resets)
  redis.call('SET', KEYS[heard_at], char(floor(known_hits / 281474976710656) % 256, floor(known_hits / 1099511627776) % 256, floor(known_hits / 4294967296) % 256, floor(known_hits / 16777216) % 256, floor(known_hits / 65536) % 256, floor(known_hits / 256) % 256, known_hits % 256, floor(known_back / 281474976710656) % 256, floor(known_back / 1099511627776) % 256, floor(known_back / 4294967296) % 256, floor(known_back / 16777216) % 256, floor(known_back / 65536) % 256, floor(known_back / 256) % 256, known_back % 256, floor(known_resets / 281474976710656) % 256, floor(known_resets / 1099511627776) % 256, floor(known_resets / 4294967296) % 256, floor(known_resets / 16777216) % 256, floor(known_resets / 65536) % 256, floor(known_resets / 256) % 256, known_resets % 256), 'PX',
    format('%d', floor((keep + 999) / 1000) + 1000))
  if resets > 0 then
    local s1, s2, s3 = byte(data, place + 4, place + 6)
    redis.call('DEL', KEYS[((s1) * 256 + s2) * 256 + s3])
  end
  local op, n = 3, hits - back
  if n < 0 then
    op, n = 1, -n
  end
  n = min(n, 1125899906842624)
  pieces[#pieces + 1] = sub(data, done + 1, place - 1)
  pieces[#pieces + 1] = char(op)
  pieces[#pieces + 1] = sub(data, place + 1, place + 6)
  pieces[#pieces + 1] = char(floor(n / 281474976710656) % 256, floor(n / 1099511627776) % 256, floor(n / 4294967296) % 256, floor(n / 16777216) % 256, floor(n / 65536) % 256, floor(n / 256) % 256, n % 256)
  done = place + 13
end
pieces[#pieces + 1] = sub(data, done + 1)
data = table.concat(pieces)
-- take.lua decides a batch of takes in one atomic step. This stands after head.lua, which
-- reads the head of ARGV[1]; here follow records. The first byte says what a
-- record is:
--   0 .. 3   a take: 0 hit, 1 refund, 2 reset, 3 charge (hits that have passed
--            already). Then
--     group  one byte: 0 alone, 1 in a group, 2 the last of a group; 3 and 4
--            likewise of a group that comes several times
--     shadow one byte, 0 or 1
--     shared one byte: 0 if the bucket has no other take, 1 if it has, 2 if it has
--            none but this is one of a group
--     s      three bytes: the bucket
--     hits   0 .. 2^50, in seven bytes; of concurrency 0, or the hold that asks for
--            a slot, gives it back (a refund) or keeps it (a charge), or 2^53 if
--            nobody asks for one
--     times  three bytes: so many takes (groups) that all say the same, one after
--            the other; more than 1 only for hits > 0 alone, and for groups of
--            hits that are no shadows, each on another bucket; and never for
--            sub_windows, sliding_log and concurrency
--   4        a limit, as head.lua describes it: all takes up to the next one are
--            decided by it
--   5, 6     a hit in a group, on the bucket after that of the last take, which has
--            no other; 6 is the last of the group. Then the hits, one byte
--   7        hits that are likely to pass, or a limit once more; see likely.lua
--   8 ..     a hit alone, on the bucket after that of the last take, which has no
--            other: as many hits as the byte is above 8
--
-- Returns what head.lua says, and for each take
--   verdict    the delay of an allowed one, >= 0; -1 - retry_after of a denied
--              one; -9007199254740992 for what never passes
--   remaining, reset_after
--   previous   the count of the previous window; of sliding_window only, and if
--              the flags say so
-- or one number, which can be no verdict, where quick.lua has decided it (packed.go,
-- drained.go), or -562949953421312, for a take of which the answer stands behind all others; or for one that comes several times, kind, a, b and c of the state before: from
-- that the caller tells the answers apart, since it knows the arithmetic too.
--
-- A state is five variables: kind, a, b, c and wide. Kind 0 is unused. wide is a
-- table, never changed once it is made: of 3 its parts, of 4 the log. Of 9 it is the
-- value.
--
-- Beside it, a state has a mark, the period of a window counter, or '', and terms, a
-- table or false. Where these and the kind are not those that the limit writes, the
-- state is read by carry.lua.
--
-- To set a time to live anew costs a fifth of a take. A counter of the present window
-- does not need it if it had hits in this window before, under the same period: then it
-- was set until the same instant.
--
-- The bucket of a take alone is read, decided and written on the spot; that of one
-- in a group is written when the group has passed. A bucket with several takes is
-- read once, kept in known, and written in the end. A dry run writes none of them.
local known -- by bucket: {kind, a, b, c, wide, exists, mark, changed, reset, terms}
local undo  -- by bucket: what known held before the group
local pending, pended = {}, 0 -- what the group writes: ten values for each
local group_at, group_limit_at, group_s, group_filled, held, peek
local fits  -- how often a group passes that comes several times
local dealt -- it is being charged
local limit_mark, own_form -- of window counters: the mark, and the form of a state
local rare -- of a limit that has such: {limit_terms, resets, max_debt}
local sub_windows, sliding_log, concurrency, carry, note -- made when needed
local load_log, save_log, log_of, log_stamp, log_after, log_before, log_text
-- Of a limit that counts in integers: that of the present window without hits, its form,
-- and how much is left of the window.
local packs_base, packs_form, packs_left
-- Of one that is a bucket which drains: den and the tolerance, in whole us and in steps of
-- 1/den us, and the forms of its states, to read and to write.
local drain_den, drain_reach, drain_most, drain_form, drain_text
-- The limits so far, in their order: what likely.lua needs of one that counts in integers, and
-- of others false and the place of the record; how many, and the place of the last.
local limits, limits_said, limits_until = {}, 0, 0
-- What quick.lua is at: where its take or group began, with its limit, bucket and answer,
-- whether that is held, what it is to write in queue, and the place of what it left undone.
local unit, unit_limit_at, unit_s, unit_filled, unit_held, queue, queued, tried

local algorithm, counts_denied, quota, period = 0, 0, 0, 0
-- at is so that what only some algorithms have begins 30 after it, as where
-- each take has its own limit.
local s, place, limit_at, extra, jump = 0, at, 0, 0, nil

local reply, filled, last = {4 * number, now, 0, 0, 0}, 2, #data -- with room for one answer
while place <= last do
  local op
  repeat
    op = byte(data, place)
    local done = op == 4
    if done then
-- limit.lua reads the record of a limit, and moves place on: to what follows it, or to
-- jump where that is set. It is no function, because one with as many variables costs
-- more than a take.
local quota_1, quota_2, quota_3, quota_4, quota_5, quota_6, quota_7, period_1, period_2, period_3, period_4, period_5, period_6, period_7
algorithm, counts_denied, quota_1, quota_2, quota_3, quota_4, quota_5, quota_6, quota_7, period_1, period_2, period_3, period_4, period_5, period_6, period_7 = byte(data, place + 1, place + 16)
quota, period = ((((((quota_1) * 256 + quota_2) * 256 + quota_3) * 256 + quota_4) * 256 + quota_5) * 256 + quota_6) * 256 + quota_7, ((((((period_1) * 256 + period_2) * 256 + period_3) * 256 + period_4) * 256 + period_5) * 256 + period_6) * 256 + period_7
limit_at, at = place, place + 17 - 30
own_form, rare, packs_base, drain_form = nil, nil, nil, nil
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
if algorithm < 3 or algorithm == 100 then
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
    packs_base = packs_form * 1125899906842624 + floor(now / period) % 64 * 17592186044416
    packs_left = period - now % period
  end
elseif (algorithm == 8 or algorithm == 5 or algorithm == 6) and not dry and counts_denied % 8 == 0 then
  local den1, den2, den3, den4, den5, den6, den7, whole1, whole2, whole3, whole4, whole5, whole6, whole7, part1, part2, part3, part4, part5, part6, part7 = byte(data, at + 30, at + 30 + 20)
  drain_den, drain_reach = ((((((den1) * 256 + den2) * 256 + den3) * 256 + den4) * 256 + den5) * 256 + den6) * 256 + den7, ((((((whole1) * 256 + whole2) * 256 + whole3) * 256 + whole4) * 256 + whole5) * 256 + whole6) * 256 + whole7
  if (drain_reach + 0.0) * drain_den < 4503599627370496 - drain_den then
    drain_most = drain_reach * drain_den + ((((((part1) * 256 + part2) * 256 + part3) * 256 + part4) * 256 + part5) * 256 + part6) * 256 + part7
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
      packs_base, quota, algorithm == 1 and 17592186044416 or 4194304, packs_left, period,
      limit_at, at, algorithm, packs_form, limit_mark, own_form, counts_denied,
    } or {false, limit_at}
  end
  place = place + 17
  if algorithm == 100 then
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
  rare = {limit_terms, resets, max_debt}
end
if algorithm == 3 and not sub_windows then
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
elseif algorithm == 4 and not sliding_log then
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
elseif algorithm == 9 and not concurrency then
  concurrency = (function()
-- concurrency.lua (concurrency.go). The value is '9' and 14 for each slot: when
-- it ends and its hold, seven bytes each, the high one first. The slot that ends
-- first stands first. A state is the value, or false.
--
-- To make a text costs up to a nanosecond and a half for each byte, so that little
-- is cut and joined. Numbers are read to be compared: < would compare text in the
-- way of the server's language.
local find, sub, char = string.find, string.sub, string.char

-- Returns the end of the slot at place i.
local function ends(slots, i)
  local t1, t2, t3, t4, t5, t6, t7 = byte(slots, i, i + 6)
  return ((((((t1) * 256 + t2) * 256 + t3) * 256 + t4) * 256 + t5) * 256 + t6) * 256 + t7
end

-- Returns how many slots end at t or before; the others follow them.
local function ended(slots, t)
  local low, high = 0, floor(#slots / 14)
  if high > 0 and ends(slots, 2) > t then
    return 0
  end
  while low < high do
    local middle = floor((low + high) / 2)
    if ends(slots, 2 + middle * 14) > t then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- Returns the place of the slot of a hold, or nil. The bytes may by chance be there
-- across two numbers.
local function place_of(slots, hold)
  local p = find(slots, hold, 9, true)
  while p and p % 14 ~= 9 do
    p = find(slots, hold, p + 1, true)
  end
  return p and p - 7
end

-- Returns the slots without one that ends later than last.
local function settle(slots, last)
  local kept = 1 + ended(slots, last) * 14
  local finish = string.gsub(char(floor(last / 281474976710656) % 256, floor(last / 1099511627776) % 256, floor(last / 4294967296) % 256, floor(last / 16777216) % 256, floor(last / 65536) % 256, floor(last / 256) % 256, last % 256), '%%', '%%%%')
  return sub(slots, 1, kept) .. string.gsub(sub(slots, kept + 1), '.......(.......)', finish .. '%1')
end

-- hits is the hold that asks for a slot, or with charged keeps its own, and refund
-- the one that releases it. Holds above 9007199254740991 are nobody.
return function(quota, period, state, hits, refund, charged)
  local slots, last = state or '9', now + period
  local gone = ended(slots, now)
  if gone > 0 then
    slots = '9' .. sub(slots, 2 + gone * 14)
  end
  local who, hold, at = max(hits, refund), nil, nil
  if who > 0 and who <= 9007199254740991 then
    hold = char(floor(who / 281474976710656) % 256, floor(who / 1099511627776) % 256, floor(who / 4294967296) % 256, floor(who / 16777216) % 256, floor(who / 65536) % 256, floor(who / 256) % 256, who % 256)
    at = place_of(slots, hold)
  end
  local used = floor(#slots / 14)
  local newest = #slots - 14 + 1
  local write, verdict = at, 0
  if refund > 0 then
    hold = nil
  elseif hold and not at then
    write = used < (charged and 8192 or quota)
  end
  if hits > 0 and not charged and not write and used >= quota then
    verdict, hold = -9007199254740992, nil
    if quota > 0 then
      verdict = -1 - max(min(ends(slots, 2 + (used - quota) * 14), last) - now, 1)
    end
    write = used > 0 and ends(slots, newest) > last
  end

  if write then
    local added = hold and char(floor(last / 281474976710656) % 256, floor(last / 1099511627776) % 256, floor(last / 4294967296) % 256, floor(last / 16777216) % 256, floor(last / 65536) % 256, floor(last / 256) % 256, last % 256) .. hold or ''
    if used > 0 and ends(slots, newest) > last then
      slots = settle(slots, last)
    end
    if at then
      slots = sub(slots, 1, at - 1) .. sub(slots, at + 14) .. added
    elseif hold then
      slots = slots .. added
    end
    state = slots ~= '9' and slots
    used = floor(#slots / 14)
  end
  local reset = 0
  if used > 0 then
    reset = max(min(ends(slots, #slots - 14 + 1), last) - now, 1)
  end
  return state, verdict, quota - used, reset
end
  end)()
end
    elseif op == 7 then
      done = true
-- likely.lua decides hits by limits that count in integers (packed.go) and are likely to pass,
-- on buckets that are likely to have counted in this window. They are added first: where what
-- comes of it is a state of this window that has room, the take has passed, by one command.
-- Elsewhere, and that is rare, all that the take or its group has added is taken back, and the
-- take is decided at the end, as if nobody had guessed. Nobody else sees what is taken back,
-- but for the replicas and the append-only file. The record is
--   7, n     n takes in each group, or 1: they stand alone
--   hits     of each take, 1 .. 247
--   groups   how many there are
--   limits   n numbers: the limits of the takes of a group. They count from 1 in the order of
--            their records, and count in integers; what charges denied hits stands alone, and
--            is decided by the same command when it is denied
-- all in one byte each. The takes are on the buckets after that of the last take, which have
-- no other. Or it is
--   7, 0     the limit of the takes that follow is one that was there before
--   i        its number
--   s        the bucket before that of the next take, in three bytes
local size, each, groups = byte(data, place + 1, place + 3)
if size == 0 then
  local s_2, s_3 = byte(data, place + 4, place + 5)
  s = (groups * 256 + s_2) * 256 + s_3
  local l = limits[each]
  if l[1] then
    packs_base, quota, packs_left, period, limit_at, at = l[1], l[2], l[4], l[5], l[6], l[7]
    algorithm, packs_form, limit_mark, own_form = l[8], l[9], l[10], l[11]
    counts_denied, rare, drain_form = l[12], nil, nil
    place = place + 6
  else
    place, jump = l[2], place + 6
  end
else
  local adds = each == 1 and '1' or format('%d', each)
  local l, several = limits[byte(data, place + 4)], false
  local base, most, range = l[1], l[2], l[3]
  if size > 1 then
    several = {l}
    for j = 2, size do
      several[j] = limits[byte(data, place + 3 + j)]
    end
  end
  for i = 1, groups do
    local began, passes = s, true
    for j = 1, size do
      if several then
        l = several[j]
        base, most, range = l[1], l[2], l[3]
      end
      s = s + 1
      local n = redis.pcall('INCRBY', KEYS[s], adds) -- which fails on text
      local count = type(n) == 'number' and n - base or 0
      local current = count % 4194304
      passes = count > each and count < range and current > each
      if passes then
        local previous = (count - current) / 4194304
        if current + previous > most then
          local weight, rest = muldivmod(previous, l[4], l[5])
          if current + weight + (rest > 0 and 1 or 0) > most then
            if l[12] == 1 then
              n = -n -- denied, and charged
            else
              passes = false
            end
          end
        end
      end
      reply[filled + j] = n
      if not passes then
        for s = began + 1, s do
          local n = reply[filled + s - began]
          if n == each then
            redis.call('DEL', KEYS[s]) -- it was not there, and would live for ever
          elseif type(n) == 'number' then
            redis.call('INCRBY', KEYS[s], format('%d', -each))
          end
        end
        break
      end
    end
    if not passes then
      for j = 1, size do
        reply[filled + j] = -562949953421312
        local before = began + j - 1
        local again = string.char(7, 0, byte(data, place + 3 + j), floor(before / 65536), floor(before / 256) % 256, before % 256)
        if size == 1 then
          data = data .. again .. string.char(8 + each)
        else
          data = data .. again .. string.char(j < size and 5 or 6, each)
        end
      end
      s, last = began + size, #data
    end
    filled = filled + size
  end
  place = place + 4 + size
end
    elseif op and (unit or op > 4 and (packs_base or drain_form) and not group_at and place ~= tried) then
      done = true
-- quick.lua decides a hit alone, or one of a group of hits, whose limit counts in integers
-- (packed.go), or is a bucket that drains (drained.go), and whose bucket holds one such
-- state or nothing. What it cannot decide, with its group, it leaves to what follows, and
-- has written nothing then. The answer to a take is one number, the state after it, below
-- 0 where it is denied: the caller makes the rest. Limits that charge denied hits are left to
-- what follows where they stand in a group.
if not unit then
  unit, unit_limit_at, unit_s, unit_filled, unit_held, queued = place, limit_at, s, filled, false, 0
end
local hits = op - 8
if op < 8 then
  place, hits = place + 1, byte(data, place + 1)
end
place, s, filled = place + 1, s + 1, filled + 1
-- What is written if all pass: a value and its time to live, or by how much it grows and
-- false; and what is answered then.
local value, left, passed
local known = op > 4 and hits > 0
if not known then
  -- Something else in a group.
elseif drain_form then
  local backlog, text = 0, redis.call('GET', KEYS[s])
  known = hits <= quota
  if known and text then
    local tat, part = match(text, drain_form)
    known = tat
    if tat and tat + 0 >= now then
      local ahead = tat - now
      part = part and part + 0 or 0
      backlog = ahead <= drain_reach and ahead * drain_den + part or drain_most + 1
      known = part < drain_den and backlog <= drain_most
    end
  end
  local after = backlog + hits * period
  if known and after > drain_most then
    reply[filled], unit_held = -4503599627370496 - backlog, true
  elseif known then
    local whole = floor(after / drain_den)
    local part = after - whole * drain_den
    value, left, passed = format(drain_text, now + whole, part), part > 0 and whole + 1 or whole, 1 + after
    reply[filled] = 1 + backlog
  end
elseif packs_base then
  local n, current, previous = packs_base, 0, 0
  local text = redis.call('GET', KEYS[s])
  if text then
    n = #text == 16 and match(text, '^[1-9]%d*$') and text + 0 or 0
    local counts = n - packs_base
    if counts >= 0 and counts < 17592186044416 then
      current = counts % 4194304
      previous = (counts - current) / 4194304
      known = algorithm == 1 or previous == 0
    else
      -- One that is over. What is ahead is rare.
      local windows = floor(n / 17592186044416) - packs_base / 17592186044416
      windows = floor(n / 1125899906842624) == packs_form and windows % 64 or 0
      known = windows > 60
      previous = windows == 63 and algorithm == 1 and n % 4194304 or 0
    end
  end
  local used = current + hits
  known = known and used < 4194304 and (counts_denied == 0 or op > 7)
  if known then
    if previous > 0 and used + previous > quota then
      local weight, rest = muldivmod(previous, packs_left, period)
      used = used + (rest > 0 and weight + 1 or weight)
    end
    local denied = used > quota
    if denied and counts_denied == 0 then
      reply[filled], unit_held = -n, true
    else
      if current > 0 then
        -- One that counts in its window already keeps its time to live.
        value, left, passed = hits == 1 and '1' or format('%d', hits), false, n + hits
      else
        passed = packs_base + previous * 4194304 + hits
        value, left = format('%d', passed), packs_left + (algorithm == 1 and period or 0)
      end
      passed = denied and -passed or passed
      reply[filled] = n
    end
  end
else
  known = false
end
if not known then
  place, jump, tried, s, filled, unit = unit_limit_at, unit, unit, unit_s, unit_filled, nil
elseif op > 7 then
  unit = nil
  if value then
    reply[filled] = passed
    if not left then
      redis.call('INCRBY', KEYS[s], value)
    else
      local ttl = format('%d', floor((left + 999) / 1000) + 1000)
      redis.call('SET', KEYS[s], value, 'PX', ttl)
    end
  end
else
  if value then
    queue = queue or {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} -- with room for three
    queue[queued + 1], queue[queued + 2], queue[queued + 3], queue[queued + 4] = s, value, left, passed
    queued = queued + 4
  end
  if op == 6 then
    for i = 1, unit_held and 0 or queued, 4 do
      local s, value, left = queue[i], queue[i + 1], queue[i + 2]
      reply[unit_filled + s - unit_s] = queue[i + 3]
      if not left then
        redis.call('INCRBY', KEYS[s], value)
      else
        local ttl = format('%d', floor((left + 999) / 1000) + 1000)
        redis.call('SET', KEYS[s], value, 'PX', ttl)
      end
    end
    unit = nil
  end
end
    end
  until not done
  if not op then
    break
  end
  local group, shadow, shared, hits, times = 0, 0, 0, 0, 1
  local here, s_before = place, s
  if op >= 8 then
    s, op, hits = s + 1, 0, op - 8
    place = place + 1
  elseif op >= 5 then
    s, group, shared, op, hits = s + 1, op - 4, 2, 0, byte(data, place + 1)
    place = place + 2
  else
    local s_1, s_2, s_3, hits_1, hits_2, hits_3, hits_4, hits_5, hits_6, hits_7, times_1, times_2, times_3
    group, shadow, shared, s_1, s_2, s_3, hits_1, hits_2, hits_3, hits_4, hits_5, hits_6, hits_7, times_1, times_2, times_3 = byte(data, place + 1, place + 16)
    s, hits, times = ((s_1) * 256 + s_2) * 256 + s_3, ((((((hits_1) * 256 + hits_2) * 256 + hits_3) * 256 + hits_4) * 256 + hits_5) * 256 + hits_6) * 256 + hits_7, ((times_1) * 256 + times_2) * 256 + times_3
    place = place + 17
  end
  local kind, a, b, c, wide, exists, changed = 0, 0, 0, 0, false, false, false
  local stored_mark, terms, foreign, touched = '', false, false, false
  local refund, verdict, remaining, reset = 0, 0, 0, 0
  local denied, debt = counts_denied, false
  local own = algorithm == 100 and 2 or algorithm
  local limit_terms, resets, max_debt, list
  if rare then
    limit_terms, resets, max_debt = rare[1], rare[2], rare[3]
  end

  local entry = known and known[s]
  if entry then
    kind, a, b, c, wide, exists = entry[1], entry[2], entry[3], entry[4], entry[5], entry[6]
    stored_mark, terms = entry[7], entry[10]
  else
    local text
    if algorithm == 4 then
      wide, exists = load_log(s)
    end
    if wide then
      kind = 4
    elseif algorithm ~= 4 or exists then
      text = redis.call('GET', KEYS[s])
    end
    if text then
      exists = true
      local first, second, third, fourth
      if own_form then
        first, second, third, fourth = match(text, own_form)
      end
      if fourth then
        kind, a, b, stored_mark, c = algorithm, first + 0, second + 0, third, fourth + 0
      elseif third then
        kind, a, stored_mark, b = 2, first + 0, second, third + 0
      elseif first then
        kind, a, b = algorithm, first + 0, second + 0
      end
      if kind == 0 then
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
    end
  end
  if shared == 1 then
    known = known or {}
    if not entry then
      entry = {kind, a, b, c, wide, exists, stored_mark, false, 0, terms}
      known[s] = entry
    end
    if group > 0 then
      undo = undo or {}
      undo[s] = undo[s] or entry
    end
  end
  if group > 0 and not group_at then
    group_at, group_limit_at, group_s, group_filled, held, fits = here, limit_at, s_before, filled, false, times
  end

  local stored_at, stored_count = a, b
  if kind ~= 0 and (kind ~= own or stored_mark ~= limit_mark or terms or limit_terms
    or kind == 3 and (b ~= period or #wide ~= byte(data, at + 30) + 1 or a % period ~= 0)) then
    if (kind == 4 or kind == 12 or terms and terms.others) and not sliding_log then
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
    kind, a, b, c, wide, foreign, list = carry(s, kind, a, b, c, wide, stored_mark, terms, own, algorithm, quota, period, limit_mark, limit_terms, resets, max_debt)
    foreign = foreign or list and op == 3 -- what this limit forgives is noted for the others
  end
  if kind == 4 and type(wide) == 'string' then
    wide = log_of(s, wide)
  end

  local each, deal = hits, 0
  if op == 1 then
    if exists and not peek then
      refund = hits
    end
    hits = 0
  elseif op == 2 then
    if not peek then
      kind, changed, exists, list = 0, exists, false, nil
    end
    hits = 0
  elseif peek then
    hits = 0
  elseif op == 3 then
    denied, debt = 1, max_debt
  elseif dealt then
    hits = hits * fits
  elseif times > 1 then
    -- The first run looks how many fit.
    deal, hits = times, 0
    reply[filled + 1], reply[filled + 2], reply[filled + 3], reply[filled + 4] =
      kind, max(min(a, 9007199254740991), -9007199254740991), min(b, 9007199254740991), min(c, 9007199254740991)
  end

  repeat
    local again = false
    if foreign and hits > 0 then
      touched = true
    end
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
    elseif algorithm == 3 then
      local parts, strict = byte(data, at + 30, at + 30 + 1)
      local before = kind == 3 and {a, b, wide}
      local after
      after, verdict, remaining, reset = sub_windows(quota, denied == 1, period, parts, strict == 1, before, hits, refund, debt)
      if refund > 0 or after ~= before then
        kind, changed = 0, true
        if after then
          kind, a, b, wide = 3, after[1], after[2], after[3]
        end
      end
    elseif algorithm == 4 then
      local before = kind == 4 and wide
      local after
      after, verdict, remaining, reset = sliding_log(s, quota, period, before, hits, refund, op == 3)
      if refund > 0 or after ~= before then
        kind, wide, changed = 0, after, true
        if after then
          kind = 4
        end
      end
    elseif algorithm == 9 then
      local before = kind == 9 and wide
      local after
      after, verdict, remaining, reset = concurrency(quota, period, before, hits, refund, op == 3)
      if after ~= before then
        kind, wide, changed = 0, after, true
        if after then
          kind = 9
        end
      end
    elseif algorithm == 10 then
-- ban.lua (ban.go). Hits with denied == 1 are denials that are counted.
local length1, length2, length3, length4, length5, length6, length7 = byte(data, at + 30, at + 30 + 6)
local last = now + ((((((length1) * 256 + length2) * 256 + length3) * 256 + length4) * 256 + length5) * 256 + length6) * 256 + length7
extra = 7
local start, count, finish, moved = 0, 0, 0, false
if kind == 10 then
  if c > now then
    finish, moved = min(c, last), c > last
  elseif b > 0 and quota > 1 and min(a, now) + period > now then
    start, count, moved = min(a, now), min(b, quota - 1), a > now
  end
end

if refund > 0 then
  again = true
  if count > refund then
    kind, a, b, c, changed = 10, start, count - refund, 0, true
  elseif finish == 0 then
    kind, changed = 0, true
  end
else
  local write = moved and hits > 0
  if denied == 1 and hits > 0 then
    write = true
    if finish == 0 and count + hits >= quota then
      start, count, finish = 0, 0, last
    elseif finish == 0 then
      start, count = count > 0 and start or now, count + hits
    end
  elseif finish > 0 and hits > 0 then
    verdict = -1 - (finish - now)
  end
  if write then
    kind, a, b, c, changed = 10, start, count, finish, true
  end
  if finish > 0 then
    reset = finish - now
  else
    remaining = quota - count
    if count > 0 then
      reset = start + period - now
    end
  end
end
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
    end
    if touched and kind ~= 0 then
      changed = true
    end
    refund = again and 0 or refund
    if op == 3 and hits > 0 then
      hits, denied, verdict, again = 0, 0, 0, true
      remaining, reset = 0, 0
    elseif deal > 0 then
      local passing = deal
      if verdict < 0 then
        passing = 0
      elseif each > 0 and algorithm == 10 then
        passing = remaining > 0 and deal or 0
      elseif each > 0 then
        passing = floor(remaining / each)
      end
      if group > 0 then
        fits = min(fits, passing)
      else
        -- Denied hits may count too; and a denial may have to put a state in order.
        hits = each * (counts_denied == 1 and deal or max(min(deal, passing), 1))
        verdict, remaining, reset, again = 0, 0, 0, true
      end
      deal = 0
    end
  until not again
  if remaining < 0 then
    remaining = 0
  end
  if reset < 0 then
    reset = 0
  end

  if times > 1 then
    if not dealt then
      filled = filled + 4
    end
  else
    if not (peek and op == 0 and reply[filled + 1] < 0) then
      reply[filled + 1], reply[filled + 2], reply[filled + 3] = verdict, remaining, reset
    end
    filled = filled + 3
    if algorithm == 1 and tells and not dry then
      filled = filled + 1
      reply[filled] = seen
    end
  end
  if changed then
    local mark, terms = limit_mark, limit_terms
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
      local charged = 0 -- or, below 0, given back
      if op == 1 or op == 3 then
        charged = op == 3 and each or -each
      elseif verdict >= 0 or counts_denied == 1 then
        charged = hits
      end
      terms, kind, a, b, c, wide = note(list, s, charged, reset, kind, a, b, c, wide, own, algorithm, period, mark)
    end
    local kept = mark ~= '' and stored_mark == mark and stored_at == a and stored_count > 0 and b > 0
      and kind == algorithm and not foreign and not terms and a == now - now % period
    if shared == 1 then
      known[s] = {kind, a, b, c, wide, kind ~= 0, kind == 0 and '' or mark, true, reset, kind ~= 0 and terms}
    elseif shared == 2 then
      pending[pended + 1], pending[pended + 2], pending[pended + 3], pending[pended + 4] = s, kind, a, b
      pending[pended + 5], pending[pended + 6], pending[pended + 7] = c, wide, reset
      pending[pended + 8], pending[pended + 9], pending[pended + 10] = mark, kept, terms
      pended = pended + 10
    elseif not dry then
-- kept_save.lua: writes a state; a counter may keep its time to live.
if kept then
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
  local text = packed or kind == 1 and format('1 %d %d %s%d', a, b, mark, c) or format('2 %d %s%d', a, mark, b)
  redis.call('SET', KEYS[s], text, 'KEEPTTL')
else
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
    end
  end

  -- A group: each take is charged as if it stood alone; when one that is no
  -- shadow is denied, all of that is forgotten, and the group is gone through
  -- once more, where those that would have passed answer as a peek does. One that
  -- comes several times is only looked at, and then, if it passes at all, gone
  -- through once more and charged.
  if group > 0 then
    if op == 0 and verdict < 0 and shadow == 0 then
      held = true
    end
    if group == 4 and fits > 0 and not dealt then
      dealt, place, jump, s = true, group_limit_at, group_at, group_s
    elseif group == 2 and held and not peek then
      if undo then
        for bucket, before in pairs(undo) do
          known[bucket] = before
        end
      end
      pended, filled, peek, place, jump, s = 0, group_filled, true, group_limit_at, group_at, group_s
    elseif group % 2 == 0 then
      for i = 1, dry and 0 or pended, 10 do
        local s, kind, a, b, c, wide, reset = pending[i], pending[i + 1], pending[i + 2], pending[i + 3], pending[i + 4], pending[i + 5], pending[i + 6]
        local mark, kept, terms = pending[i + 7], pending[i + 8], pending[i + 9]
-- kept_save.lua: writes a state; a counter may keep its time to live.
if kept then
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
  local text = packed or kind == 1 and format('1 %d %d %s%d', a, b, mark, c) or format('2 %d %s%d', a, mark, b)
  redis.call('SET', KEYS[s], text, 'KEEPTTL')
else
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
      end
      pended, peek, dealt, group_at, undo = 0, false, false, nil, nil
    end
  end
end

if known and not dry then
  for s, entry in pairs(known) do
    if entry[8] then
      local kind, a, b, c, wide, reset = entry[1], entry[2], entry[3], entry[4], entry[5], entry[9]
      local mark, terms = entry[7], entry[10]
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
  end
end

for i = filled + 1, 5 do
  reply[i] = nil
end
return reply
