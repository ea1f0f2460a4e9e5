-- swap.lua keeps small values, each of which changes only from what the caller says that
-- it is.
--
-- KEYS[i]  value i, i = 1, 2, ...: the instant until which it stands, in us, a space, and
--          the value. One may be there several times
-- ARGV[1]  the number of the call, which the answer repeats
-- ARGV[2]  the instant that it is, or 0 for Redis's own clock, in us (tests give
--          one)
-- ARGV[3]  the deadline: the latest instant at which the answer is wanted, 0 for any
-- and for each value three more
--   old    what has to stand there, '' for nothing
--   new    what is to stand there, '' for nothing
--   ttl    for how long, in us, >= 1
--
-- Returns {status + 4 * number of the call, now, ...}. Status 0: done. 1: the deadline
-- has passed; nothing was written. For each value follow
--   left   -1 where it was changed, -2 where Redis refused; else for how much longer what
--          was found stands, in us, 0 where nothing stands there
--   found  what stands there, or what Redis said; '' where it was changed
--
-- What Redis refuses of one value (no memory for it, of another type) is in its answer alone:
-- those beside it may be of other callers. What it refuses of all (it is a replica) ends the
-- script, and nothing was written.

local find, match, format, floor = string.find, string.match, string.format, math.floor
local number, now, deadline = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if deadline > 0 and now > deadline then
  return {4 * number + 1, now}
end

-- ask makes a command on one value. An error that it returns is about that value.
local function ask(...)
  local reply = redis.pcall(...)
  local said = type(reply) == 'table' and reply.err
  if said and not find(said, 'OOM', 1, true) and not find(said, 'WRONGTYPE', 1, true) then
    return redis.call(...) -- which says it in the words of the script's own error
  end
  return reply
end

-- swap makes one swap, and returns left and found.
local function swap(key, old, new, ttl)
  local text, found, left = ask('GET', key), '', 0
  if type(text) == 'table' then
    return -2, text.err
  elseif text then
    local ends, value = match(text, '^(%d+) (.+)$')
    if ends and ends + 0 > now then
      found, left = value, ends - now
    end
  end
  if found ~= old then
    return left, found
  end
  local done
  if new ~= '' then
    done = ask('SET', key, format('%d ', now + ttl) .. new, 'PX', format('%d', floor((ttl + 999) / 1000) + 1000))
  elseif text then
    done = ask('DEL', key)
  end
  if type(done) == 'table' and done.err then
    return -2, done.err
  end
  return -1, ''
end

local answer = {4 * number, now}
for i = 1, #KEYS do
  answer[2 * i + 1], answer[2 * i + 2] = swap(KEYS[i], ARGV[3 * i + 1], ARGV[3 * i + 2], ARGV[3 * i + 3] + 0)
end
return answer
