-- seed.lua brings back what a failover has lost: it merges states that a node knows
-- into the buckets, as limit.Merge does. A bucket so holds at least what it held
-- and what the node saw. Doing it again changes nothing.
--
-- KEYS[s]  the name of bucket s
-- ARGV[1]  the number of the call, ARGV[2] the deadline, as in head.lua; and
--          for each bucket
--   kind, a, b, c  the state
--   period         of a sliding window or of a ban, in us
--   ttl            how long it lasts, in ms
--
-- Returns {status + 4 * number of the call, now}. Status 0: merged. 1: the
-- deadline has passed, and nothing was written.

local number, deadline = ARGV[1] + 0, ARGV[2] + 0
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if deadline > 0 and now > deadline then
  return {4 * number + 1, now}
end

for s = 1, #KEYS do
  local at = 6 * s - 3
  local kind, a, b, c = ARGV[at], ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
  local period, ttl = ARGV[at + 4] + 0, ARGV[at + 5] + 0
  local text = redis.call('GET', KEYS[s])
  local stored, first, second, third
  -- Of the tallies of several limits (carry.lua) that counts which is of this kind, and
  -- was touched last; before and after are the others. What others noted for it stays
  -- noted, though it may be in what is brought back: some may have come after it.
  local before, after, i = '', '', text and string.sub(text, 1, 4) == '11 *' and 5
  while i do
    local at, n, from = string.match(text, '^ %-?%d+ %d+ %d+ %d+ %-?%d+ ()(%d+):()', i)
    i = from and from + n
    if i and string.sub(text, from, from + #kind) == kind .. ' ' then
      before, after = string.sub(text, 1, at - 1), string.sub(text, i)
      text, i = string.sub(text, from, i - 1), nil
    end
  end
  if text then
    stored, first, second, third = string.match(text, '^([125-8]) (%-?%d+) (%d+) ?(%d*)$')
    if not stored then
      stored, first, second, third = string.match(text, '^(10) (%d+) (%d+) (%d+)$')
    end
    if not stored then -- a window counter with the mark of its period
      stored, first, second = string.match(text, '^(2) (%-?%d+) %d*%a+(%d+)$')
      third = ''
    end
    if not stored then
      stored, first, second, third = string.match(text, '^(1) (%d+) (%d+) %d*%a+(%d+)$')
    end
    if #text == 16 and string.match(text, '^[1-9]%d*$') then
      local floor, max = math.floor, math.max
      local kind, a, b, c, stored_mark
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
      if kind then
        stored, first, second, third = string.format('%d', kind), a, b, kind == 1 and c or ''
      end
    end
  end
  local write = not text
  if stored == kind then
    local x, y, z = first + 0, second + 0, 0
    if third ~= '' then
      z = third + 0
    end
    local held_x, held_y, held_z = x, y, z
    if kind == '1' then
      if x < a then
        x, y, z, a, b, c = a, b, c, x, y, z
      end
      if x == a then
        y, z = math.max(y, b), math.max(z, c)
      elseif x - a == period then
        z = math.max(z, b)
      end
    elseif kind == '2' then
      if x < a or (x == a and y < b) then
        x, y = a, b
      end
    elseif kind == '10' then
      local mine, theirs = math.max(a, c), math.max(x, z)
      if theirs < mine or (theirs == mine and x < a) then
        x, y, z, a, b, c = a, b, c, x, y, z
      end
      if z == 0 and c == 0 and x - a < period then
        y = math.max(y, b)
      end
    else
      local mine, theirs = math.abs(a), math.abs(x)
      if theirs < mine or (theirs == mine and (y < b or (y == b and a < x))) then
        x, y = a, b
      end
    end
    write = x ~= held_x or y ~= held_y or z ~= held_z
    a, b, c = x, y, z
    ttl = math.max(ttl, redis.call('PTTL', KEYS[s]))
  end
  if write then
    local format = '%s %d %d'
    if kind == '1' or kind == '10' then
      format = '%s %d %d %d'
    end
    local value = string.format(format, kind, a, b, c)
    if before ~= '' then
      value = before .. string.format('%d:', #value) .. value .. after
    end
    redis.call('SET', KEYS[s], value, 'PX', string.format('%d', ttl))
  end
end
return {4 * number, now}
