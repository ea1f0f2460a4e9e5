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
      local current = count % PACKED_COUNTS
      passes = count > each and count < range and current > each
      if passes then
        local previous = (count - current) / PACKED_COUNTS
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
        reply[filled + j] = LATER
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
